"""Who may reclaim from whom, and down to what: judged where the chains of two queues part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from pumice.kai.view.amounts import Amounts, exceeds, minus, plus, total, within
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView, diverge
from pumice.kai.view.tasks import TaskView

Standings: TypeAlias = Mapping[str, tuple[Amounts, Amounts]]
"""Queue -> (allocated, its part that cannot be evicted)."""


def units(job: JobView, tasks: Sequence[TaskView]) -> list[Amounts]:
    """What goes of a victim, in pieces: tasks beyond the minimum one by one, then the minimum as a whole."""
    first: list[Amounts] = []
    gang: list[Amounts] = []
    for podset in job.pod_sets():
        own = [t for t in tasks if t.podset.name == podset.name]
        gang += [t.accepted for t in own[: podset.minimum]]
        first += [t.accepted for t in own[podset.minimum :]]
    return first + ([total(gang)] if gang else [])


def reclaim_is_legal(
    job: JobView,
    request: Amounts,
    victims: Iterable[tuple[JobView, Sequence[TaskView]]],
    standings: Standings,
    multiplier: float,
) -> bool:
    """May the job have all of this go?"""
    left: dict[str, Amounts] = {}

    def remaining(queue: QueueView) -> Amounts:
        return left.get(queue.name, standings[queue.name][0])

    involved = [False, False, False]
    for victim, tasks in victims:
        for unit in units(victim, tasks):
            mine, theirs = diverge(job.queue, victim.queue)
            has = remaining(theirs)
            fair = exceeds(has, theirs.allocatable)
            in_quota = within(plus(standings[mine.name][0], request), mine.quota)
            if not fair and not (in_quota and exceeds(has, theirs.quota)):
                return False
            for queue in victim.queue.chain():
                left[queue.name] = minus(remaining(queue), unit)
            involved = [seen or amount > 0 for seen, amount in zip(involved, unit, strict=True)]
    return _within_bounds(job, request, left, standings, involved, multiplier)


def _within_bounds(
    job: JobView,
    request: Amounts,
    left: Mapping[str, Amounts],
    standings: Standings,
    involved: Sequence[bool],
    multiplier: float,
) -> bool:
    for queue in job.queue.chain():
        held, fixed = standings[queue.name]
        mine = plus(left.get(queue.name, held), request)
        siblings = queue.parent.children if queue.parent is not None else ()
        for sibling in siblings or ():
            if sibling is not queue and sibling.name in left:
                theirs = left[sibling.name]
                for n in range(3):
                    if involved[n] and _overtakes(
                        mine[n], queue.fair_share[n], theirs[n], sibling.fair_share[n], multiplier
                    ):
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


def may_be_victim(job: JobView, request: Amounts, victim: JobView) -> bool:
    """Can anything be reclaimed from the victim's queue at all?"""
    mine, theirs = diverge(job.queue, victim.queue)
    if exceeds(plus(mine.allocated, request), mine.quota):
        return exceeds(theirs.allocated, theirs.allocatable)
    limited = [n for n in range(3) if request[n] > 0 and theirs.quota[n] != -1]
    if any(theirs.allocated[n] > theirs.quota[n] for n in limited):
        return True
    return not any(theirs.allocated[n] < theirs.quota[n] for n in limited)
