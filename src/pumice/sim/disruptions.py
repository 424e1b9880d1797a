"""The allowed disruptions of PodDisruptionBudgets of the embedded cluster, as a disruption controller writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from msgspec.structs import replace

from pumice.model.api import BudgetSpec, Pod, PodDisruptionBudget
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
