"""The changes and the use of the cluster over time: bounded, in memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from pumice.answers.visibility import Sight
from pumice.model.intents import Evict
from pumice.model.resources import Resources
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState

EVERY: Final = 5.0
"""Seconds between two looks, at least."""
MOST_SAMPLES: Final = 720
MOST_CHANGES: Final = 5000

What = Literal["submitted", "started", "ended", "evicted", "node joined", "node left", "conf"]


class ClusterChange(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened."""

    at: float
    what: What
    name: str
    """The job, the node, or the digest of the conf."""
    namespace: str = ""
    """The namespace of the job; empty for objects of the cluster."""
    queue: str = ""
    pods: int = 0
    beneficiary: str = ""
    """For whose good it was evicted."""
    action: str = ""


class UseSample(msgspec.Struct, frozen=True, kw_only=True):
    """How the cluster was used at one instant."""

    at: float
    used: dict[str, float]
    """Resource -> the part that is held."""
    shares: dict[str, float]
    """Queue -> its largest part of any resource."""
    waiting: dict[str, int]
    fairness: float | None
    """Jain's index of shares by weight, over queues with pending jobs; None: fewer than two."""


class Chronicle:
    """Looks at a state now and then, and remembers. One thread fills it, any may read."""

    def __init__(self, every: float = EVERY) -> None:
        self.samples: list[UseSample] = []
        self.changes: deque[ClusterChange] = deque(maxlen=MOST_CHANGES)
        self.number = 0
        """How often it looked."""
        self._every = every
        self._due = float("-inf")
        self._ready: dict[str, tuple[int, str, str]] | None = None
        self._evictions: dict[str, tuple[str, str, str, str]] = {}
        """Evictions that were sent, by the pods' UIDs: job, queue, beneficiary, action."""
        self._nodes: frozenset[str] = frozenset()
        self._conf = ""

    def after(self, state: ClusterState, report: CycleReport) -> None:
        """The decisions of a cycle, and the state of the cluster; cheap until the next look is due."""
        for intent in report.intents:
            if isinstance(intent, Evict):
                job = intent.job or (
                    state.task_by_key[intent.pod].job_key if intent.pod in state.task_by_key else intent.pod
                )
                queue = state.jobs[job].queue if job in state.jobs else ""
                self._evictions[intent.uid] = (job, queue, intent.beneficiary, intent.action)
        evicted: Counter[tuple[str, str, str, str]] = Counter()
        for uid in list(self._evictions):
            task = state.tasks.get(uid)
            if task is None or task.pod.metadata.deletion_timestamp is not None:
                evicted[self._evictions.pop(uid)] += 1
            elif uid not in state.assumed:  # it was refused
                del self._evictions[uid]
        for (job, queue, beneficiary, action), pods in evicted.items():
            self._add("evicted", state.now, job, queue, pods, beneficiary, action)
        self.look(state, report.conf_digest)

    def look(self, state: ClusterState, conf: str) -> None:
        """Compare the state with what was there before, if it is time."""
        now = state.now
        if now < self._due:
            return
        self._due = now + self._every
        first, before = self._ready is None, self._ready or {}
        ready = {uid: (job.ready_count, job.queue, job.namespace) for uid, job in state.jobs.items()}
        for uid, (count, queue, _) in ready.items():
            had = before.get(uid)
            if had is None and not first:
                self._add("submitted", now, uid, queue, len(state.jobs[uid].tasks))
            if count and (had is None or not had[0]) and not first:
                self._add("started", now, uid, queue, count)
        for uid, (_, queue, _) in before.items():
            if uid not in ready:
                self._add("ended", now, uid, queue, 0)
        nodes = frozenset(state.nodes)
        if not first:
            for name in sorted(nodes - self._nodes):
                self.changes.append(ClusterChange(at=now, what="node joined", name=name))
            for name in sorted(self._nodes - nodes):
                self.changes.append(ClusterChange(at=now, what="node left", name=name))
            if conf != self._conf:
                self.changes.append(ClusterChange(at=now, what="conf", name=conf))
        self._ready, self._nodes, self._conf = ready, nodes, conf
        self.samples = [*self.samples, self._sample(state)]
        if len(self.samples) > MOST_SAMPLES:
            self.samples = self.samples[::2]
            self._every *= 2
        self.number += 1

    def _add(
        self, what: What, at: float, job: str, queue: str, pods: int, beneficiary: str = "", action: str = ""
    ) -> None:
        namespace = job.partition("/")[0] if "/" in job else ""
        self.changes.append(
            ClusterChange(
                at=at,
                what=what,
                name=job,
                namespace=namespace,
                queue=queue,
                pods=pods,
                beneficiary=beneficiary,
                action=action,
            )
        )

    def _sample(self, state: ClusterState) -> UseSample:
        total = {name: v for name, v in state.total_resources().as_written().items() if v and name != "pods"}
        held: dict[str, float] = {}
        shares, waiting, fair = {}, {}, []
        parents = {queue.parent for queue in state.queues.values()}
        for name, queue in sorted(state.queues.items()):
            if name in parents:
                continue
            amounts = _amounts(queue.allocated)
            share = max((amounts.get(resource, 0) / all_ for resource, all_ in total.items()), default=0.0)
            if queue.jobs or share:
                shares[name] = round(share, 4)
                waiting[name] = sum(1 for job in queue.jobs.values() if job.is_pending or not job.ready_count)
                if waiting[name]:
                    fair.append(share / max(queue.weight, 1))
                for resource, amount in amounts.items():
                    held[resource] = held.get(resource, 0) + amount
        return UseSample(
            at=state.now,
            used={name: round(held.get(name, 0) / all_, 4) for name, all_ in total.items()},
            shares=shares,
            waiting=waiting,
            fairness=round(_jain(fair), 4) if len(fair) > 1 and any(fair) else None,
        )


def changes_for(changes: Iterable[ClusterChange], sight: Sight) -> list[ClusterChange]:
    """The changes that somebody may see, the newest first; names of others' beneficiaries are left out."""
    found = []
    for change in reversed(list(changes)):
        if change.namespace:
            if sight.namespaces is not None and change.namespace not in sight.namespaces:
                continue
            other = change.beneficiary.partition("/")[0]
            if other and sight.namespaces is not None and other not in sight.namespaces:
                change = msgspec.structs.replace(change, beneficiary="(another namespace)")
        elif change.what != "conf" and not sight.nodes:
            continue
        found.append(change)
    return found


def _amounts(resources: Resources) -> dict[str, float]:
    return {name: value for name, value in resources.as_written().items() if value and name != "pods"}


def _jain(values: list[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values))
