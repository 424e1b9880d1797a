"""Which queue goes first: who is below its share, within quota, of higher priority, and holds the smaller part."""

from __future__ import annotations

from pumice.kai.search.claims import QueueClaim
from pumice.kai.view.amounts import NOTHING, UNLIMITED, Amounts, exceeds, minus, plus, within
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.world import KaiWorld

_NO_SHARE = 1000.0
"""What holding a unit counts where nothing may be held."""


class ClaimOrder:
    """Compares claims of queues."""

    def __init__(self, world: KaiWorld, offered: Amounts) -> None:
        self._world, self._offered = world, offered
        self._of_all = world.ssn.compat.kai_over_share

    def compare(self, left: QueueClaim, right: QueueClaim) -> int:
        """Below 0: the left one goes first."""
        a, b = left.queue, right.queue
        over = self._over_share(a) - self._over_share(b)
        if over:
            return over
        job_a, job_b = self._request(left.job), self._request(right.job)
        quota = within(plus(b.allocated, job_b), b.quota) - within(plus(a.allocated, job_a), a.quota)
        if quota:
            return quota
        if a.priority != b.priority:
            return -1 if a.priority > b.priority else 1
        gone_a, gone_b = left.released, right.released
        with_a, with_b = minus(plus(a.allocated, job_a), gone_a), minus(plus(b.allocated, job_b), gone_b)
        nothing = _uses_nothing_allowed(a, plus(a.allocated, job_a)) - _uses_nothing_allowed(
            b, plus(b.allocated, job_b)
        )
        if nothing:
            return nothing
        for mine, other in ((with_a, with_b), (a.allocated, b.allocated)):
            one, two = self._dominant(a, mine), self._dominant(b, other)
            if one != two:
                return -1 if one < two else 1
        one_share, two_share = a.allocatable, b.allocatable
        if one_share != two_share:
            if within(one_share, two_share):
                return -1
            if within(two_share, one_share):
                return 1
        return 0

    def _request(self, job: JobView | None) -> Amounts:
        if job is None:
            return NOTHING
        return self._world.next_request(job)

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


def _uses_nothing_allowed(queue: QueueView, held: Amounts) -> bool:
    """Would it hold something of which it may hold nothing?"""
    return any(amount > 0 and allowed == 0 for amount, allowed in zip(held, queue.allocatable, strict=True))
