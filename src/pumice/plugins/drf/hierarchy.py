"""Dominant shares of a tree of queues: the path and the weights of each queue stand in its annotations.

``volcano.sh/hierarchy: root/science/gpu`` and ``volcano.sh/hierarchy-weights: 1/4/2`` put a queue below ``science``.
Jobs are the leaves. A job that wants no more, or can get no more, is *saturated*: it counts with what it holds. The
others count with the smallest share among them, so that one greedy job does not speak for its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pumice import Job, Queue, keys, quota

PATH = keys.HIERARCHY
WEIGHTS = keys.HIERARCHY_WEIGHTS
Held: TypeAlias = quota.Ledger


@dataclass(slots=True, eq=False)
class Place:
    """A place in the tree, with what was last computed for it."""

    weight: float = 1.0
    below: dict[str, Place] = field(default_factory=dict)
    queues: list[Queue] = field(default_factory=list)
    """The queues whose jobs hang here."""
    allocated: dict[int, quota.Number] = field(default_factory=dict)
    share: float = 0.0
    saturated: bool = False


@dataclass(slots=True)
class _Leaves:
    """The jobs of one queue taken together."""

    smallest: float = 1.0
    """The smallest share of a job that holds something and wants more."""
    satisfied: dict[int, quota.Number] = field(default_factory=dict)
    """The amounts that saturated jobs hold."""
    wanting: dict[int, quota.Number] = field(default_factory=dict)
    """The amounts of the others, each divided by its share."""
    saturated: bool = True


class Hierarchy:
    """The tree of all queues with jobs. It follows what they hold; asking costs the queues that changed."""

    def __init__(self, queues: Iterable[Queue], total: Sequence[tuple[int, quota.Number]]) -> None:
        self._queues = sorted(queues, key=lambda q: q.name)
        self._total = total
        self.root = Place()
        self.problems: dict[str, str] = {}
        self._paths: dict[str, list[Place]] = {}
        self._leaves: dict[str, tuple[object, _Leaves]] = {}
        self._stamp = -1
        for queue in self._queues:
            self._paths[queue.name] = self._place(queue)

    def _place(self, queue: Queue) -> list[Place]:
        """The places from the root to the queue's own."""
        path = queue.annotations.get(PATH, "").split("/")
        weights = queue.annotations.get(WEIGHTS, "").split("/")
        if len(weights) < len(path):
            self.problems[queue.name] = (
                f"queue {queue.name}: annotation {WEIGHTS} must give a weight for each part of {PATH} "
                f"{'/'.join(path)!r}, got {'/'.join(weights)!r}; missing ones count as 1"
            )
        places = [self.root]
        for n, name in enumerate(path[1:], 1):
            here = places[-1]
            if name not in here.below:
                here.below[name] = Place(_weight(weights[n] if n < len(weights) else ""))
            places.append(here.below[name])
        places[-1].queues.append(queue)
        return places

    def compare(self, left: Queue, right: Queue) -> float:
        """Below 0: left first. The first place in which their lines differ decides."""
        self._refresh()
        return self._compare(left, right)

    def gains(self, left: Queue, job: Job, more: Held, right: Queue, victim: Job, less: Held) -> bool:
        """Report whether *left* would stand strictly before *right* if *job* had more and *victim* less."""
        changed = {job.uid: _sum(job.held.amounts, more, 1)}
        changed[victim.uid] = _sum(changed.get(victim.uid, victim.held.amounts), less, -1)
        self._compute(changed, _sum(_sum(self._all_held(), more, 1), less, -1), {left.name, right.name})
        first = self._compare(left, right) < 0
        self._stamp = -1
        return first

    def _compare(self, left: Queue, right: Queue) -> float:
        for a, b in zip(self._path(left), self._path(right), strict=False):
            if a.saturated != b.saturated:
                return 1 if a.saturated else -1
            difference = a.share / a.weight - b.share / b.weight
            if difference:
                return difference
        return 0

    def _path(self, queue: Queue) -> list[Place]:
        return self._paths.get(queue.name) or [self.root]

    def _refresh(self) -> None:
        stamp = sum(q.version for q in self._queues)
        if stamp != self._stamp:
            self._compute({}, self._all_held(), frozenset())
            self._stamp = stamp

    def _all_held(self) -> dict[int, quota.Number]:
        held: dict[int, quota.Number] = {}
        for queue in self._queues:
            quota.added(held, queue.held.amounts.items())
        return held

    def _compute(self, changed: Mapping[str, Held], held: Held, queues: Iterable[str]) -> None:
        """Fill in the whole tree; *changed*: jobs of *queues* that are taken to hold something else than they do."""
        scarce = frozenset(d for d, v in self._total if not held.get(d, 0) < v)
        self._visit(self.root, changed, scarce, frozenset(queues))

    def _visit(self, place: Place, changed: Mapping[str, Held], scarce: frozenset[int], fresh: frozenset[str]) -> None:
        for child in place.below.values():
            self._visit(child, changed, scarce, fresh)
        leaves = [self._leaves_of(q, changed if q.name in fresh else {}, scarce) for q in place.queues]
        parts = list(place.below.values())
        smallest = min(
            [1.0, *(c.share for c in parts if c.share and not c.saturated), *(group.smallest for group in leaves)]
        )
        allocated: dict[int, quota.Number] = {}
        for child in parts:
            if child.share:
                factor = 1.0 if child.saturated else smallest / child.share
                quota.added(allocated, ((d, v * factor) for d, v in child.allocated.items()))
        for group in leaves:
            quota.added(allocated, group.satisfied.items())
            quota.added(allocated, ((d, v * smallest) for d, v in group.wanting.items()))
        place.allocated = allocated
        place.share = quota.largest_share(allocated, self._total)
        place.saturated = all(c.saturated for c in parts) and all(group.saturated for group in leaves)

    def _leaves_of(self, queue: Queue, changed: Mapping[str, Held], scarce: frozenset[int]) -> _Leaves:
        if changed:
            return self._gather(queue, changed, scarce)
        key = (queue.version, scarce)
        known = self._leaves.get(queue.name)
        if known is None or known[0] != key:
            known = self._leaves[queue.name] = key, self._gather(queue, changed, scarce)
        return known[1]

    def _gather(self, queue: Queue, changed: Mapping[str, Held], scarce: frozenset[int]) -> _Leaves:
        out = _Leaves()
        for _, job in sorted(queue.jobs.items()):
            held = changed.get(job.uid, job.held.amounts)
            saturated = _saturated(held, job.total_request.amounts, scarce)
            out.saturated &= saturated
            share = quota.largest_share(held, self._total)
            if not share:
                continue
            if saturated:
                quota.added(out.satisfied, held.items())
            else:
                out.smallest = min(out.smallest, share)
                quota.added(out.wanting, ((d, v / share) for d, v in held.items()))
        return out


def _saturated(held: Held, request: Held, scarce: frozenset[int]) -> bool:
    """Report whether the job has all it wants of some resource, or wants one of which nothing is left."""
    for d, v in held.items():
        if v >= quota.TOLERANCE:
            wanted = request.get(d, 0)
            if wanted and (v >= wanted or d in scarce):
                return True
    return False


def _sum(held: Held, items: Held, sign: int) -> dict[int, quota.Number]:
    out = dict(held)
    quota.added(out, items.items(), sign)
    return out


def _weight(text: str) -> float:
    """A written weight; below 1, or none, counts as 1."""
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if weight >= 1 else 1.0
