"""Whose turn it is among a few jobs, where everybody who waits asks for the same: then nobody else is looked at.

A queue is compared by what it holds and by what its next job asks for. Where the latter is the same for all jobs, the
queue that goes first is served until it has none left or one of them is placed: to be passed by changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final

from pumice.framework.points import table as t
from pumice.kai.search.runs import RankedJobs, rank
from pumice.kai.view.amounts import NOTHING, Amounts, finite
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.world import KaiWorld

_FEW: Final = 8
"""So many jobs, and so many kinds of bounds, are compared with each other."""
_CLEARLY: Final = 1e-6
"""Bounds that differ by less may be taken for equal."""


class EqualTurns:
    """Says who of some jobs goes first, as an order of all who wait would."""

    def __init__(self, world: KaiWorld, waiting: RankedJobs) -> None:
        self._world, self._waiting = world, waiting
        self._keys = world.orders.claim_keys()
        self._rank = rank(world, victims=False)
        self._able = self._keys is not None and all(map(world.only_kai, (t.JOB_ORDER, t.QUEUE_CLAIM_ORDER)))
        self._settled: bool | None = None
        """Does one of two queues that have the same key always go first, whomever they are compared with?"""

    def tell(self, jobs: Sequence[JobView]) -> bool:
        """Can it be told by these jobs alone? They, and all who wait, ask for the same then."""
        if not self._able or len(jobs) > _FEW:
            return False
        world = self._world
        request = world.next_request(jobs[0])
        for job in jobs:
            if not job.queue.is_leaf or world.next_request(job) != request:
                return False
        for runs in self._waiting.runs().values():
            for run in runs:
                if run.request != request:
                    return False
        if self._settled is None:
            self._settled = _is_settled(world.queues.values())
        return self._settled

    def first(self, jobs: Sequence[JobView]) -> JobView:
        """Who goes first; as queues are now."""
        request, level = self._world.next_request(jobs[0]), -1
        while len(jobs) > 1:
            chains = [job.queue.chain() for job in jobs]
            if -level > len(chains[0]):
                return min(jobs, key=self._rank)
            best = chains[0][level]
            for chain in chains:
                if chain[level] is not best and self._is_before(chain[level], best, request):
                    best = chain[level]
            jobs = [job for job, chain in zip(jobs, chains, strict=True) if chain[level] is best]
            level -= 1
        return jobs[0]

    def _is_before(self, one: QueueView, other: QueueView, request: Amounts) -> bool:
        assert self._keys is not None
        key, settle = self._keys
        a, b = key(one, request, NOTHING), key(other, request, NOTHING)
        if a != b:
            return bool(a < b)
        said = settle(one, other)
        return said < 0 if said else (one.creation, one.uid) < (other.creation, other.uid)


def _is_settled(queues: Iterable[QueueView]) -> bool:
    """Are queues side by side that have other bounds than each other always in one order by these?"""
    bounds: dict[str, dict[Amounts, QueueView]] = {}
    for queue in queues:
        bounds.setdefault(queue.parent.name if queue.parent is not None else "", {})[queue.allocatable] = queue
    for kinds in bounds.values():
        if len(kinds) > _FEW or not all(_is_one_way(a, b) for a, b in combinations(kinds, 2)):
            return False
    return True


def _is_one_way(a: Amounts, b: Amounts) -> bool:
    """Is one of two bounds clearly above the other in all that they differ in?"""
    pairs = [(x, y) for x, y in zip(map(finite, a), map(finite, b), strict=True) if x != y]
    if not pairs or any(abs(x - y) < _CLEARLY for x, y in pairs):
        return False
    return all(x > y for x, y in pairs) or all(x < y for x, y in pairs)
