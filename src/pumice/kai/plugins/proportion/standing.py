"""Which queue goes first: who is below its share, within quota, of higher priority, and holds the smaller part."""

from __future__ import annotations

import math
from typing import NamedTuple

from pumice.kai.search.claims import QueueClaim
from pumice.kai.view.amounts import NOTHING, UNLIMITED, Amounts, finite, minus, plus, with_slack, within
from pumice.kai.view.queues import QueueView
from pumice.kai.view.world import KaiWorld

_NO_SHARE = 1000.0
"""What holding a unit counts where nothing may be held."""


class _Standing(NamedTuple):
    """What of a claim is compared, the first difference first: the smaller one goes first."""

    over: bool
    """Does its queue hold more than its share?"""
    beyond_quota: bool
    """Would it, with the job, hold more than its quota?"""
    urgency: int
    """The priority of its queue, turned round."""
    barred: bool
    """Would it hold something of which it may hold nothing?"""
    then: float
    """Its dominant share with the job, and without those who would go."""
    now: float
    """Its dominant share."""


class _Bounds(NamedTuple):
    """What a queue is measured by: it is the same during a session."""

    share: Amounts
    """Its fair share, with what sums of fractions may be off."""
    quota: Amounts
    """Its quota, likewise; infinite where there is none."""
    most: Amounts
    """What of each resource is taken for all that it could hold."""
    barred: bool
    """May it hold nothing of some resource?"""


class ClaimOrder:
    """Compares claims of queues."""

    def __init__(self, world: KaiWorld, offered: Amounts) -> None:
        self._world, self._offered = world, offered
        self._of_all = world.ssn.compat.kai_over_share
        self._bounds: dict[str, _Bounds] = {}
        self._known: dict[tuple[str, bool], tuple[Amounts, Amounts, Amounts, _Standing]] = {}
        """Queue, and whether victims are taken -> what it holds, what is asked for, what would go, as of last time, and
        what follows."""

    def compare(self, left: QueueClaim, right: QueueClaim) -> int:
        """Below 0: the left one goes first."""
        one, two = self.standing(left), self.standing(right)
        return settle(left.queue, right.queue) if one == two else -1 if one < two else 1

    def standing(self, claim: QueueClaim) -> _Standing:
        """What decides, unless it is the same for two claims."""
        queue, job = claim.queue, claim.job
        gone, request = (claim.released, NOTHING) if job is None else (NOTHING, self._world.next_request(job))
        held, key = queue.allocated, (queue.name, job is None)
        known = self._known.get(key)
        if known is not None and known[0] is held and known[1] == request and known[2] == gone:
            return known[3]
        share, quota, most, barred = self._bounds.get(queue.name) or self._measure(queue)
        more = plus(held, request)
        found = _Standing(
            over=_above(held, share, self._of_all),
            beyond_quota=more[0] > quota[0] or more[1] > quota[1] or more[2] > quota[2],
            urgency=-queue.priority,
            barred=barred and _uses_nothing_allowed(queue, more),
            then=_dominant(minus(more, gone), most),
            now=_dominant(held, most),
        )
        self._known[key] = (held, request, gone, found)
        return found

    def _measure(self, queue: QueueView) -> _Bounds:
        share, allowed = queue.fair_share, queue.allocatable
        cpu, memory, gpu = (o if a in (UNLIMITED, math.inf) else a for a, o in zip(allowed, self._offered, strict=True))
        found = self._bounds[queue.name] = _Bounds(
            share if self._of_all else with_slack(share), with_slack(queue.quota), (cpu, memory, gpu), 0 in allowed
        )
        return found


def settle(a: QueueView, b: QueueView) -> int:
    """Which of two queues with the same standing goes first: the one that may hold less, if one of them may."""
    if a.allocatable != b.allocatable:
        one, two = _as_limits(a.allocatable), _as_limits(b.allocatable)
        if within(one, two):
            return -1
        if within(two, one):
            return 1
    return 0


def _above(held: Amounts, share: Amounts, all_of: bool) -> bool:
    """Does a queue hold more than its share of something (in KAI: of everything)?"""
    cpu, memory, gpu = held[0] > share[0], held[1] > share[1], held[2] > share[2]
    return (cpu and memory and gpu) if all_of else (cpu or memory or gpu)


def _dominant(held: Amounts, most: Amounts) -> float:
    """The largest part that is held of a resource."""
    largest = 0.0
    for n in (0, 1, 2):
        part = held[n] / most[n] if most[n] else held[n] * _NO_SHARE
        if part > largest:
            largest = part
    return largest


def _as_limits(allocatable: Amounts) -> Amounts:
    """What a queue may hold, to be compared with what another may: without a limit, it is more than any."""
    cpu, memory, gpu = allocatable
    return (finite(cpu), finite(memory), finite(gpu))


def _uses_nothing_allowed(queue: QueueView, held: Amounts) -> bool:
    """Would it hold something of which it may hold nothing?"""
    return any(amount > 0 and allowed == 0 for amount, allowed in zip(held, queue.allocatable, strict=True))
