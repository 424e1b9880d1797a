"""The use of ResourceQuotas of the embedded cluster, as a quota controller writes it.

A pod counts while it is not over, from when its job was let in: here pods are there as soon as their job is submitted,
while a job controller makes them only then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from msgspec.structs import replace

from pumice.model import quantity
from pumice.model.api import BudgetSpec, Container, Pod, PodDisruptionBudget, PodSpec, ResourceQuota
from pumice.model.request import asked_by
from pumice.model.resources import PODS, dim_name, unit
from pumice.model.selectors import label_selector_matches

_OVER: Final = ("Succeeded", "Failed")


class FollowedPod(Protocol):
    """One life of a pod."""

    uid: str
    object: Pod
    started: float | None
    terminating: bool


class DisruptionController:
    """Follows the pods under budgets."""

    def __init__(self) -> None:
        self._budgets: dict[str, PodDisruptionBudget] = {}
        self._members: dict[str, dict[str, FollowedPod]] = {}
        """Budget -> its pods that are not over."""
        self._of: dict[str, list[str]] = {}
        self._changed: set[str] = set()

    def put(self, budget: PodDisruptionBudget, pods: Iterable[FollowedPod]) -> None:
        """A budget is there, new or changed; *pods*: all that are there, for those that it selects."""
        self.remove(budget.key)
        self._budgets[budget.key], self._members[budget.key] = budget, {}
        self._changed.add(budget.key)
        for pod in pods:
            if pod.object.status.phase not in _OVER and _selects(budget, pod):
                self._follow(budget.key, pod)

    def remove(self, key: str) -> None:
        """A budget is gone, if it was there."""
        self._budgets.pop(key, None)
        self._changed.discard(key)
        for uid in self._members.pop(key, ()):
            self._of[uid].remove(key)

    def made(self, pod: FollowedPod) -> None:
        """A pod is there, and waits."""
        for key, budget in self._budgets.items():
            if _selects(budget, pod):
                self._follow(key, pod)
        self.changed(pod)

    def _follow(self, key: str, pod: FollowedPod) -> None:
        self._members[key][pod.uid] = pod
        self._of.setdefault(pod.uid, []).append(key)

    def changed(self, pod: FollowedPod) -> None:
        """A pod has started, or is being evicted."""
        self._changed.update(self._of.get(pod.uid, ()))

    def over(self, pod: FollowedPod) -> None:
        """A pod has ended, or is gone."""
        for key in self._of.pop(pod.uid, ()):
            del self._members[key][pod.uid]
            self._changed.add(key)

    def changes(self) -> Iterator[PodDisruptionBudget]:
        """The budgets that allow something else than when this was asked last."""
        changed, self._changed = self._changed, set()
        for key in sorted(changed):
            budget, pods = self._budgets[key], self._members[key]
            healthy = sum(pod.started is not None and not pod.terminating for pod in pods.values())
            desired = desired_healthy(budget.spec, len(pods))
            now = replace(
                budget.status,
                disruptions_allowed=max(healthy - desired, 0),
                current_healthy=healthy,
                desired_healthy=desired,
                disrupted_pods=None,
            )
            if now != budget.status:
                self._budgets[key] = fresh = replace(budget, status=now)
                yield fresh


def _selects(budget: PodDisruptionBudget, pod: FollowedPod) -> bool:
    meta = pod.object.metadata
    return budget.metadata.namespace == meta.namespace and label_selector_matches(
        budget.spec.selector, meta.labels or {}
    )


def desired_healthy(spec: BudgetSpec, pods: int) -> int:
    """How many of so many pods must be healthy; all of them where that cannot be read."""
    if spec.max_unavailable is not None:
        most = _scaled(spec.max_unavailable, pods)
        return pods if most is None else max(pods - most, 0)
    least = _scaled(spec.min_available if spec.min_available is not None else 0, pods)
    return pods if least is None else least


def _scaled(amount: int | str, pods: int) -> int | None:
    """A number, or a part of so many pods, rounded up."""
    if isinstance(amount, int):
        return amount
    number = amount.removesuffix("%")
    if number == amount or not (number.isascii() and number.isdigit()) or len(number) > 9:
        return None
    return -(-pods * int(number) // 100)


class QuotaController:
    """Follows pods of namespaces with quotas."""

    def __init__(self) -> None:
        self._quotas: dict[str, ResourceQuota] = {}
        self._others: dict[str, dict[str, int]] = {}
        """Used of a quota by what is no pod here, in thousandths; known once the pods that are there were counted."""
        self._used: dict[str, Counter[str]] = {}
        """Namespace -> used by pods, in thousandths."""
        self._counted: dict[str, tuple[str, Mapping[str, int]]] = {}
        self._waiting: dict[str, dict[str, tuple[str, PodSpec]]] = {}
        """Group -> its pods that do not count yet."""
        self._kinds: dict[int, tuple[PodSpec, dict[str, int]]] = {}
        self._changed: set[str] = set()

    def put(self, quota: ResourceQuota) -> None:
        """A quota is there; what is written to be used of it counts beside what pods use from now on."""
        namespace = quota.metadata.namespace
        self._quotas[quota.key] = quota
        self._used.setdefault(namespace, Counter())
        self._changed.add(namespace)

    def made(self, uid: str, group: str, namespace: str, spec: PodSpec) -> None:
        """A pod was made, and counts when its group is let in, or it has a place."""
        if namespace in self._used:
            self._waiting.setdefault(group, {})[uid] = namespace, spec

    def let_in(self, group: str) -> None:
        """The pods of a group count from now on."""
        for uid, (namespace, spec) in self._waiting.pop(group, {}).items():
            self._count(uid, namespace, spec)

    def placed(self, uid: str, group: str) -> None:
        """A pod has a place, and counts whatever its group says."""
        waiting = self._waiting.get(group, {})
        if uid in waiting:
            self._count(uid, *waiting.pop(uid))

    def _count(self, uid: str, namespace: str, spec: PodSpec) -> None:
        amounts = self._amounts(spec)
        self._counted[uid] = namespace, amounts
        self._used[namespace].update(amounts)
        self._changed.add(namespace)

    def forget(self, uid: str, group: str) -> None:
        """A pod is over, or gone."""
        self._waiting.get(group, {}).pop(uid, None)
        namespace, amounts = self._counted.pop(uid, ("", {}))
        if amounts:
            self._used[namespace].subtract(amounts)
            self._changed.add(namespace)

    def changes(self) -> Iterator[ResourceQuota]:
        """The quotas of which more or less is used than when this was asked last."""
        changed, self._changed = self._changed, set()
        for key, quota in self._quotas.items():
            namespace = quota.metadata.namespace
            if namespace not in changed:
                continue
            used = self._used[namespace]
            if key not in self._others:
                written = {name: quantity.milli(v) for name, v in (quota.status.used or {}).items()}
                self._others[key] = {name: max(v - used[name], 0) for name, v in written.items()}
            others, hard = self._others[key], quota.status.hard or {}
            now = {name: quantity.milli_text(others.get(name, 0) + used[name]) for name in hard}
            if now != quota.status.used:
                self._quotas[key] = fresh = replace(quota, status=replace(quota.status, used=now))
                yield fresh

    def _amounts(self, spec: PodSpec) -> dict[str, int]:
        """The amounts that a pod takes of quotas, by their names, in thousandths."""
        known = self._kinds.get(id(spec))
        if known is None:
            found = {"pods": 1000, "count/pods": 1000}
            for prefixes, asking in ((("", "requests."), spec), (("limits.",), _limited(spec))):
                for d, v in asked_by(asking).requests.items():
                    if d != PODS:
                        found |= {f"{prefix}{dim_name(d)}": round(v * 1000 / unit(d)) for prefix in prefixes}
            known = self._kinds[id(spec)] = spec, found
        return known[1]


def _limited(spec: PodSpec) -> PodSpec:
    """A spec that asks for its limits."""
    return replace(spec, containers=_all(spec.containers), init_containers=_all(spec.init_containers))


def _all(containers: tuple[Container, ...] | None) -> tuple[Container, ...]:
    return tuple(
        replace(c, resources=replace(c.resources, requests=c.resources.limits)) if c.resources is not None else c
        for c in containers or ()
    )
