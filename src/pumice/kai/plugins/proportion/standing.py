"""Which queue goes first: who is below its share, within quota, of higher priority, and holds the smaller part."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from pumice.kai.search.claims import QueueClaim
from pumice.kai.view.amounts import NOTHING, UNLIMITED, Amounts, finite, with_slack, within
from pumice.kai.view.queues import QueueView
from pumice.kai.view.world import KaiWorld

_NO_SHARE = 1000.0
"""What holding a unit counts where nothing may be held."""


_Standing: TypeAlias = tuple[bool, bool, int, bool, float, float]
"""What of a claim is compared, the first difference first; the smaller one goes first.

Does its queue hold more than its share? Would it, with the job, hold more than its quota? The priority of the queue,
turned round. Would it hold something of which it may hold nothing? Its dominant share with the job, and without those
who would go. Its dominant share.
"""


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
        one, two = self._of(left), self._of(right)
        return settle(left.queue, right.queue) if one == two else -1 if one < two else 1

    def _of(self, claim: QueueClaim) -> _Standing:
        if claim.job is None:
            return self.standing(claim.queue, NOTHING, claim.released)
        return self.standing(claim.queue, self._world.next_request(claim.job), NOTHING)

    def standing(self, queue: QueueView, request: Amounts, gone: Amounts) -> _Standing:
        """What decides, unless it is the same for two claims: of *request* more, or when *gone* is given back."""
        held, key = queue.allocated, (queue.name, request is NOTHING)
        known = self._known.get(key)
        if known is not None and known[0] is held and known[1] == request and known[2] == gone:
            return known[3]
        share, quota, most, barred = self._bounds.get(queue.name) or self._measure(queue)
        cpu, memory, gpu = held
        more = (cpu + request[0], memory + request[1], gpu + request[2])
        if self._of_all:  # as KAI sees it
            over = cpu > share[0] and memory > share[1] and gpu > share[2]
        else:
            over = cpu > share[0] or memory > share[1] or gpu > share[2]
        found = (
            over,
            more[0] > quota[0] or more[1] > quota[1] or more[2] > quota[2],
            -queue.priority,
            barred and _uses_nothing_allowed(queue, more),
            _dominant((more[0] - gone[0], more[1] - gone[1], more[2] - gone[2]), most),
            _dominant(held, most),
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
