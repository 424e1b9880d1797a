"""Device claims counted against queues: how many devices of a class, and how much of what they offer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pumice.errors import InvalidInput
from pumice.framework.session.session import Session
from pumice.model import quantity
from pumice.model.api import ResourceList
from pumice.model.job import Job
from pumice.model.status import IS_HELD, TaskStatus
from pumice.model.task import Task
from pumice.plugins.capacity.tree import Branch, QueueTree

Amounts: TypeAlias = dict[tuple[str, str], int]
"""(device class, dimension) -> amount; the dimension of a plain count is empty. Dimensions in thousandths."""

_COUNT = "deviceclass/"
_PART = ".deviceclass/"


class Claims:
    """The devices that queues with device limits hold, and whether one more claim fits.

    A claim that several tasks of a queue share counts once.
    """

    def __init__(self, ssn: Session, tree: QueueTree, limits: Mapping[str, Amounts], *, capacity: bool) -> None:
        self._ssn, self._tree, self._limits, self._capacity = ssn, tree, limits, capacity
        self._holders: dict[str, dict[str, int]] = {}
        """Per limited branch: claim -> how many of its tasks hold it."""
        self._held_tasks: set[str] = set()
        self._inqueue: dict[str, Amounts] = {}
        self._of_claim: dict[str, Amounts] = {}
        self._count()

    def _count(self) -> None:
        for branch in self._tree.branches.values():
            if branch.queue is None or not any(b.name in self._limits for b in branch.path()):
                continue
            for job in branch.queue.jobs.values():
                for status in TaskStatus:
                    if IS_HELD[status]:
                        self.changed(list(job.with_status(status).values()))

    def concerns(self, task: Task) -> bool:
        """Report whether the task asks for devices."""
        return bool(task.pod.spec.resource_claims)

    def changed(self, tasks: Sequence[Task]) -> None:
        """Tasks took or gave back their claims."""
        for task in tasks:
            if not self.concerns(task) or task.job is None:
                continue
            holds = IS_HELD[task.status]
            if holds == (task.uid in self._held_tasks):
                continue
            (self._held_tasks.add if holds else self._held_tasks.discard)(task.uid)
            branch = self._tree.branches.get(task.job.queue)
            for above in branch.path() if branch is not None else ():
                if above.name in self._limits:
                    holders = self._holders.setdefault(above.name, {})
                    for claim in self._claims_of(task):
                        holders[claim] = holders.get(claim, 0) + (1 if holds else -1)

    def allocatable(self, branch: Branch, task: Task) -> bool:
        """Report whether the task's claims that the branch does not hold yet fit."""
        limits = self._limits.get(branch.name)
        if limits is None or not self.concerns(task):
            return True
        holders = self._holders.get(branch.name, {})
        fresh = [c for c in self._claims_of(task) if not holders.get(c)]
        return self._fits(limits, self._held(branch), self._sum(fresh))

    def wanted(self, job: Job) -> bool:
        """Report whether tasks of the job ask for devices."""
        return any(self.concerns(t) for t in job.tasks.values())

    def enqueueable(self, branch: Branch, job: Job) -> bool:
        """Report whether the claims of the job's minimum fit beside held and admitted ones."""
        limits = self._limits.get(branch.name)
        if limits is None:
            return True
        used = dict(self._held(branch))
        _add(used, self._inqueue.get(branch.name, {}))
        return self._fits(limits, used, self._minimum(job))

    def enqueued(self, branch: Branch, job: Job) -> None:
        """The job was let in: its minimum counts."""
        wanted = self._minimum(job)
        for above in branch.path():
            if above.name in self._limits:
                _add(self._inqueue.setdefault(above.name, {}), wanted)

    def _minimum(self, job: Job) -> Amounts:
        """The claims of as many tasks as the job needs, in order of name."""
        tasks = sorted(job.tasks.values(), key=lambda t: t.key)[: max(job.min_available, 1)]
        return self._sum({c for t in tasks for c in self._claims_of(t)})

    def _held(self, branch: Branch) -> Amounts:
        return self._sum(c for c, n in self._holders.get(branch.name, {}).items() if n > 0)

    def _fits(self, limits: Mapping[tuple[str, str], int], used: Amounts, more: Amounts) -> bool:
        classes = {c for c, _ in limits}
        for (device_class, part), amount in more.items():
            if device_class not in classes or (part and not self._capacity):
                continue
            limit = limits.get((device_class, part), 0)
            if not part and limit <= 0:
                continue
            if used.get((device_class, part), 0) + amount > limit:
                return False
        return True

    def _sum(self, claims: Iterable[str]) -> Amounts:
        out: Amounts = {}
        for claim in claims:
            _add(out, self._of_claim.get(claim, {}))
        return out

    def _claims_of(self, task: Task) -> list[str]:
        """The keys of the task's claims; what each asks for is remembered on the way."""
        pod = task.pod
        named = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses or ()}
        keys = []
        for wanted in pod.spec.resource_claims or ():
            name = wanted.resource_claim_name or named.get(wanted.name)
            key = f"{task.namespace}/{name}" if name else f"{task.key}/{wanted.name}"
            if key not in self._of_claim:
                spec: dict[str, Any] = {}
                if name:
                    found = self._ssn.state.kind("ResourceClaim").get(key)
                    spec = getattr(found, "spec", {}) or {}
                elif wanted.resource_claim_template_name:
                    template = f"{task.namespace}/{wanted.resource_claim_template_name}"
                    found = self._ssn.state.kind("ResourceClaimTemplate").get(template)
                    spec = (getattr(found, "spec", {}) or {}).get("spec") or {}
                self._of_claim[key] = _asked(spec)
            keys.append(key)
        return keys


def device_limits(tree: QueueTree) -> dict[str, Amounts]:
    """The queues with limits on devices, and these limits."""
    found = {b.name: _limits(b.queue.object.spec.capability) for b in tree.branches.values() if b.queue is not None}
    return {name: limits for name, limits in found.items() if limits}


def _limits(written: ResourceList | None) -> Amounts:
    """The device limits among a queue's capability."""
    out: Amounts = {}
    for name, amount in (written or {}).items():
        part, found, device_class = name.partition(_PART)
        try:
            if found and part and device_class:
                out[device_class, part] = quantity.milli(amount)
                out.setdefault((device_class, ""), 0)
            elif name.startswith(_COUNT) and len(name) > len(_COUNT):
                out[name[len(_COUNT) :], ""] = quantity.value(amount)
        except InvalidInput:
            continue
    return out


def _asked(spec: Mapping[str, Any]) -> Amounts:
    """The requests of a claim."""
    out: Amounts = {}
    for request in (spec.get("devices") or {}).get("requests") or ():
        exact = request.get("exactly") or request
        device_class = exact.get("deviceClassName")
        if not device_class:
            continue
        count = int(exact.get("count") or 1)
        out[device_class, ""] = out.get((device_class, ""), 0) + count
        for part, amount in ((exact.get("capacity") or {}).get("requests") or {}).items():
            out[device_class, part] = out.get((device_class, part), 0) + count * quantity.milli(amount)
    return out


def _add(into: Amounts, what: Mapping[tuple[str, str], int]) -> None:
    for key, amount in what.items():
        into[key] = into.get(key, 0) + amount
