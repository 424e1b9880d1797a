"""Which queue goes first: who is below its share, within quota, of higher priority, and holds the smaller part."""

from __future__ import annotations

from typing import NamedTuple

from pumice.kai.search.claims import QueueClaim
from pumice.kai.view.amounts import NOTHING, UNLIMITED, Amounts, exceeds, finite, minus, plus, within
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.world import KaiWorld

_NO_SHARE = 1000.0
"""What holding a unit counts where nothing may be held."""


class _Standing(NamedTuple):
    """What of a claim is compared, the first difference first; queues themselves aside."""

    over: bool
    """Does its queue hold more than its share?"""
    in_quota: bool
    """Would it, with the job, be within its quota?"""
    barred: bool
    """Would it hold something of which it may hold nothing?"""
    then: float
    """Its dominant share with the job, and without those who would go."""
    now: float
    """Its dominant share."""


class ClaimOrder:
    """Compares claims of queues."""

    def __init__(self, world: KaiWorld, offered: Amounts) -> None:
        self._world, self._offered = world, offered
        self._of_all = world.ssn.compat.kai_over_share
        self._known: dict[str, tuple[Amounts, JobView | None, int, Amounts, _Standing]] = {}
        """Queue -> what it holds, its job, how often that changed, what would go, as of last time, and what follows."""

    def compare(self, left: QueueClaim, right: QueueClaim) -> int:
        """Below 0: the left one goes first."""
        a, b = left.queue, right.queue
        one, two = self._standing(left), self._standing(right)
        if one.over != two.over:
            return one.over - two.over
        if one.in_quota != two.in_quota:
            return two.in_quota - one.in_quota
        if a.priority != b.priority:
            return -1 if a.priority > b.priority else 1
        if one.barred != two.barred:
            return one.barred - two.barred
        if one.then != two.then:
            return -1 if one.then < two.then else 1
        if one.now != two.now:
            return -1 if one.now < two.now else 1
        if a.allocatable != b.allocatable:
            one_share, two_share = _as_limits(a.allocatable), _as_limits(b.allocatable)
            if within(one_share, two_share):
                return -1
            if within(two_share, one_share):
                return 1
        return 0

    def _standing(self, claim: QueueClaim) -> _Standing:
        queue, job, gone = claim.queue, claim.job, claim.released
        changes = job.whole.changes if job is not None else 0
        known = self._known.get(queue.name)
        if known is not None and known[0] is queue.allocated and known[1] is job and known[2:4] == (changes, gone):
            return known[4]
        more = plus(queue.allocated, self._world.next_request(job) if job is not None else NOTHING)
        found = _Standing(
            over=self._over_share(queue),
            in_quota=within(more, queue.quota),
            barred=_uses_nothing_allowed(queue, more),
            then=self._dominant(queue, minus(more, gone)),
            now=self._dominant(queue, queue.allocated),
        )
        self._known[queue.name] = (queue.allocated, job, changes, gone, found)
        return found

    def _over_share(self, queue: QueueView) -> bool:
        """Does it hold more than its share of something (in KAI: of everything)?"""
        if self._of_all:
            return all(share < held for share, held in zip(queue.fair_share, queue.allocated, strict=True))
        return exceeds(queue.allocated, queue.fair_share)

    def _dominant(self, queue: QueueView, held: Amounts) -> float:
        largest = 0.0
        for amount, allowed, offered in zip(held, queue.allocatable, self._offered, strict=True):
            most = offered if allowed == UNLIMITED or allowed == float("inf") else allowed
            largest = max(largest, amount / most if most else amount * _NO_SHARE)
        return largest


def _as_limits(allocatable: Amounts) -> Amounts:
    """What a queue may hold, to be compared with what another may: without a limit, it is more than any."""
    cpu, memory, gpu = allocatable
    return (finite(cpu), finite(memory), finite(gpu))


def _uses_nothing_allowed(queue: QueueView, held: Amounts) -> bool:
    """Would it hold something of which it may hold nothing?"""
    return any(amount > 0 and allowed == 0 for amount, allowed in zip(held, queue.allocatable, strict=True))
