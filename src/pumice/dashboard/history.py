"""The changes and the use of the cluster over time: bounded, in memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from pumice.answers.visibility import Visibility
from pumice.history.lines import (
    Begins,
    Conf,
    Evicting,
    JobLine,
    Line,
    NodeGone,
    NodeLine,
    Over,
    PodsLeft,
    PodsPlaced,
)
from pumice.model.intents import Intent
from pumice.model.resources import Resources
from pumice.ports import Observer
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


class RecentHistory(Observer):
    """The last changes and how the cluster was used, of one state. One thread fills it, any may read.

    It takes the lines of the history recorder; as an observer of the loop it looks at the state now and then.
    """

    wants_another = False

    def __init__(self, state: ClusterState, every: float = EVERY) -> None:
        self.samples: list[UseSample] = []
        self.changes: deque[ClusterChange] = deque(maxlen=MOST_CHANGES)
        self.number = 0
        """How often it looked."""
        self._state, self._every = state, every
        self._due = float("-inf")
        self._queues: dict[str, str] = {}
        """Job -> its queue."""
        self._placed: dict[str, set[str]] = {}
        """Job -> its pods that have a node."""
        self._evicting: dict[str, dict[str, tuple[str, str]]] = {}
        """Job -> its evicted pod -> the beneficiary, and the action."""
        self._nodes: set[str] = set()
        self._conf = ""

    # -- the lines of the recorder ------------------------------------------------------------------------------------
    def another(self) -> None:
        """The recorder begins anew: it lists what is there."""

    def close_file(self) -> None:
        """The recorder rests."""

    def close(self) -> None:
        """The recorder ended."""

    def write(self, lines: Iterable[Line]) -> None:
        """Keep what changed; what is listed at the beginning is no change."""
        listed = False
        for line in lines:
            match line:
                case Begins():
                    listed = True
                    self._queues, self._placed, self._nodes = {}, {}, set()
                case JobLine(job=job, queue=queue, pods=pods):
                    if job not in self._queues and not listed:
                        self._add(line, "submitted", job, queue, sum(alike.count for alike in pods))
                    self._queues[job] = queue
                case PodsPlaced(job=job, pods=placed):
                    known = self._placed.setdefault(job, set())
                    if not known and not listed:
                        self._add(line, "started", job, pods=len(placed))
                    known.update(placed)
                case Evicting(job=job, pod=pod, action=action, beneficiary=beneficiary):
                    self._evicting.setdefault(job, {})[pod] = beneficiary, action
                case PodsLeft(job=job, pods=left, how=how):
                    self._left(line, job, left, how)
                case Over(job=job):
                    self._add(line, "ended", job)
                    for known_of in (self._queues, self._placed, self._evicting):
                        known_of.pop(job, None)
                case NodeLine(name=name):
                    if name not in self._nodes and not listed:
                        self.changes.append(ClusterChange(at=line.at, what="node joined", name=name))
                    self._nodes.add(name)
                case NodeGone(name=name):
                    self._nodes.discard(name)
                    self.changes.append(ClusterChange(at=line.at, what="node left", name=name))
                case Conf(digest=digest):
                    if self._conf and self._conf != digest:
                        self.changes.append(ClusterChange(at=line.at, what="conf", name=digest))
                    self._conf = digest

    def _left(self, line: Line, job: str, pods: Iterable[str], how: str) -> None:
        self._placed.get(job, set()).difference_update(pods)
        asked = self._evicting.get(job, {})
        reasons = [asked.pop(pod) for pod in pods if pod in asked]
        if how == "evicted":
            for (beneficiary, action), count in Counter(reasons).items():
                self._add(line, "evicted", job, pods=count, beneficiary=beneficiary, action=action)

    def _add(self, line: Line, what: What, job: str, queue: str = "", pods: int = 0, **by: str) -> None:
        namespace, queue = job.partition("/")[0], queue or self._queues.get(job, "")
        self.changes.append(
            ClusterChange(at=line.at, what=what, name=job, namespace=namespace, queue=queue, pods=pods, **by)
        )

    # -- how the cluster is used --------------------------------------------------------------------------------------
    def decided(self, intents: Sequence[Intent]) -> None:
        """A cycle decided: look at the state."""
        self.look()

    def look(self) -> None:
        """Note how the cluster is used, if it is time."""
        now = self._state.now
        if now < self._due:
            return
        self._due = now + self._every
        self.samples = [*self.samples, self._sample(self._state)]
        if len(self.samples) > MOST_SAMPLES:
            self.samples = self.samples[::2]
            self._every *= 2
        self.number += 1

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


def changes_for(changes: Iterable[ClusterChange], sight: Visibility) -> list[ClusterChange]:
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
