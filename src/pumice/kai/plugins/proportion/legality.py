"""Who may reclaim from whom, and down to what: judged where the chains of two queues part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from pumice.kai.view.amounts import GPU, Amounts, exceeds, finite, minus, plus, total, within
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView, diverge
from pumice.kai.view.tasks import TaskView

Standings: TypeAlias = Mapping[str, tuple[Amounts, Amounts]]
"""Queue -> (allocated, its part that cannot be evicted)."""


def units(job: JobView, tasks: Sequence[TaskView], goes: Callable[[TaskView], bool]) -> list[Amounts]:
    """What goes of a victim, in pieces: tasks beyond the minimum one by one, then the minimum as a whole."""
    first: list[Amounts] = []
    gang: list[Amounts] = []
    for podset in job.pod_sets():
        own = [t for t in tasks if t.podset.name == podset.name]
        gang += [t.accepted for t in own[: podset.minimum] if goes(t)]
        first += [t.accepted for t in own[podset.minimum :] if goes(t)]
    return first + ([total(gang)] if gang else [])


def reclaim_is_legal(
    job: JobView,
    request: Amounts,
    victims: Iterable[tuple[JobView, Sequence[Amounts]]],
    standings: Standings,
    multiplier: float,
    counts: Sequence[int],
) -> bool:
    """May the job have all of this go? *victims*: what goes of each, in pieces; *counts*: excess of which resources."""
    left: dict[str, Amounts] = {}

    def remaining(queue: QueueView) -> Amounts:
        return left.get(queue.name, standings[queue.name][0])

    mine_involved = _resources([request])
    involved: dict[QueueView, set[int]] = {}
    for victim, pieces in victims:
        theirs_involved = _resources(pieces)
        for unit in pieces:
            mine, theirs = diverge(job.queue, victim.queue)
            has = remaining(theirs)
            fair = exceeds(has, theirs.allocatable, counts)
            in_quota = within(plus(standings[mine.name][0], request), mine.quota)
            if not fair and not (in_quota and exceeds(has, theirs.quota, counts)):
                return False
            for queue in victim.queue.chain():
                left[queue.name] = minus(remaining(queue), unit)
                involved.setdefault(queue, set(mine_involved)).update(theirs_involved)
    return _within_bounds(job, request, left, standings, involved, multiplier)


def may_lose(queue: QueueView, request: Amounts, other: QueueView, counts: Sequence[int]) -> bool:
    """May anything of the other queue go, and not only move, for a request of the first? As things stand now."""
    mine, theirs = diverge(queue, other)
    if mine is theirs:
        return False
    if exceeds(theirs.allocated, theirs.allocatable, counts):
        return True
    return within(plus(mine.allocated, request), mine.quota) and exceeds(theirs.allocated, theirs.quota, counts)


def excess(queue: QueueView, request: Amounts, others: Iterable[QueueView], counts: Sequence[int]) -> dict[str, float]:
    """Queue next to the first one's chain -> GPUs that it holds beyond what it is left with; those that may lose some.

    The last piece that goes may be larger than what is left of the excess.
    """
    found: dict[str, float] = {}
    for other in others:
        mine, theirs = diverge(queue, other)
        if theirs.name in found or not may_lose(queue, request, other, counts):
            continue
        has = theirs.allocated
        bounds = [theirs.allocatable]
        if within(plus(mine.allocated, request), mine.quota):
            bounds.append(theirs.quota)
        if any(exceeds(has, bound, [n for n in counts if n != GPU]) for bound in bounds):
            found[theirs.name] = has[GPU]  # as long as it holds too much of another resource, GPUs may go
        else:
            found[theirs.name] = has[GPU] - min(finite(bound[GPU]) for bound in bounds)
    return found


def _resources(amounts: Iterable[Amounts]) -> set[int]:
    """Which resources there is something of."""
    return {n for a in amounts for n in range(3) if a[n] > 0}


def _within_bounds(
    job: JobView,
    request: Amounts,
    left: Mapping[str, Amounts],
    standings: Standings,
    involved: Mapping[QueueView, Iterable[int]],
    multiplier: float,
) -> bool:
    for queue in job.queue.chain():
        held, fixed = standings[queue.name]
        mine = plus(left.get(queue.name, held), request)
        for sibling, resources in involved.items():
            if sibling is queue or sibling.parent is not queue.parent:
                continue
            theirs = left[sibling.name]
            for n in resources:
                if _overtakes(mine[n], queue.fair_share[n], theirs[n], sibling.fair_share[n], multiplier):
                    return False
        if not job.preemptible and exceeds(plus(fixed, request), queue.quota):
            return False
    return True


def _overtakes(mine: float, share: float, theirs: float, their_share: float, multiplier: float) -> bool:
    """Would the reclaimer, above its share, be as saturated as who has to give?"""
    ratio = mine / share if share else (float("inf") if mine > 0 else 0.0)
    if ratio <= 1 or their_share <= 0:
        return False
    return multiplier * ratio >= theirs / their_share


def may_be_robbed(queue: QueueView, request: Amounts, other: QueueView, counts: Sequence[int]) -> bool:
    """Can anything be reclaimed from the other queue at all, on behalf of a request of the first?"""
    mine, theirs = diverge(queue, other)
    if exceeds(plus(mine.allocated, request), mine.quota):
        return exceeds(theirs.allocated, theirs.allocatable, counts)
    limited = [n for n in range(3) if request[n] > 0 and theirs.quota[n] != -1]
    if any(theirs.allocated[n] > theirs.quota[n] for n in limited):
        return True
    return not any(theirs.allocated[n] < theirs.quota[n] for n in limited)
