"""What a what-if would change: the two sides compared, who fares otherwise, and how queues would stand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from pumice.answers.standing import Standing
from pumice.answers.tried import Evicted
from pumice.answers.what_if.sides import BothSides, Fate, Side
from pumice.answers.when.answer import Verdict
from pumice.answers.when.learned import Learned
from pumice.answers.when.ranges import NOT_PLAYED, Forecasted, play
from pumice.answers.why import Source

MOST_JOBS: Final = 100
"""Jobs and evictions that an answer names, at most."""
LEAST_SECONDS, LEAST_PART = 60.0, 0.1
"""A start that moves by less is the same."""
ONE_CYCLE: Final = "the next cycle is decided twice on the same instant; what follows is played forward"


class BeforeAfter(msgspec.Struct, frozen=True, kw_only=True):
    """A number as things are, and as they would be."""

    before: int
    after: int


class SupposedStart(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a job on one side."""

    fate: Fate
    """In the next cycle."""
    verdict: Verdict = "unknown"
    """When it starts, as of `when`."""
    low: float | None = None
    likely: float | None = None
    high: float | None = None


class JobEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A job that fares otherwise."""

    job: str
    queue: str
    before: SupposedStart
    after: SupposedStart


class QueueStandings(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that stands otherwise after the next cycle."""

    queue: str
    before: Standing | None
    after: Standing | None


class WhatIfAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What would be decided otherwise, and who would start sooner or later."""

    changes: list[str]
    """What is supposed, in words."""
    starting: BeforeAfter
    """Jobs that the next cycle starts."""
    waiting: BeforeAfter
    """Jobs that wait after it."""
    evicted: BeforeAfter
    """Pods that it evicts."""
    sooner: int
    """Jobs that would start sooner."""
    later: int
    """Jobs that would start later, or lose pods."""
    jobs: list[JobEffect]
    """Those of them that fare most otherwise, the worst off first."""
    job: JobEffect | None = None
    """The one that was asked about."""
    evictions: list[Evicted] = []
    """Pods that would be evicted, and else not."""
    spared: list[Evicted] = []
    """Pods that would not be evicted, and else are."""
    queues: list[QueueStandings] = []
    """Those that would stand otherwise."""
    now: float
    source: Source = "scheduler"
    milliseconds: float = 0.0
    assumes: list[str] = []
    unseen: list[str] = []


def compared(sides: BothSides, learned: Learned | None, job: str, source: Source) -> WhatIfAnswer:
    """The answer, from both sides; *job*: the one that is told of in any case."""
    before, after = sides.before, sides.after
    played_before, played_after = (play(s.scene, learned) if s.scene.waiters else NOT_PLAYED for s in (before, after))
    effects = [
        JobEffect(
            job=uid,
            queue=sides.queue_of.get(uid, ""),
            before=_start(before, uid, played_before),
            after=_start(after, uid, played_after),
        )
        for uid in sorted({job, *_otherwise(before, after, played_before, played_after)})
        if uid in before.fates or uid in after.fates
    ]
    moved = {effect.job: move for effect in effects if (move := _moves(effect, played_before, played_after))}
    affected = sorted(
        (effect for effect in effects if effect.job in moved), key=lambda e: (-moved[e.job], e.queue, e.job)
    )
    later = sum(1 for move in moved.values() if move > 0)
    shown = affected if len(affected) <= MOST_JOBS else [*affected[: MOST_JOBS // 2], *affected[-MOST_JOBS // 2 :]]
    forecasts = (*played_after.answers.values(), *played_before.answers.values())
    assumes = list(dict.fromkeys(text for one in forecasts for text in one.assumes))
    gone, came = _only(before.evicted, after.evicted), _only(after.evicted, before.evicted)
    return WhatIfAnswer(
        changes=sides.changes,
        starting=BeforeAfter(before=_many(before, "starts"), after=_many(after, "starts")),
        waiting=BeforeAfter(before=_many(before, "waits", "promised"), after=_many(after, "waits", "promised")),
        evicted=BeforeAfter(before=len(before.evicted), after=len(after.evicted)),
        sooner=len(moved) - later,
        later=later,
        jobs=shown,
        job=next((effect for effect in effects if effect.job == job), None),
        evictions=came[:MOST_JOBS],
        spared=gone[:MOST_JOBS],
        queues=_standings(before.standings, after.standings),
        now=before.scene.now,
        source=source,
        assumes=[ONE_CYCLE, *sides.assumes, *assumes],
    )


def _many(side: Side, *fates: Fate) -> int:
    return sum(1 for fate in side.fates.values() if fate in fates)


def _otherwise(before: Side, after: Side, played_before: Forecasted, played_after: Forecasted) -> Iterator[str]:
    """Yield the jobs of which the two sides may say different things: most have one fate on both, and no forecast."""
    first, second = before.fates, after.fates
    forecast = played_before.seconds.keys() | played_after.seconds.keys()
    for uid in first.keys() | second.keys():
        if first.get(uid) != second.get(uid) or uid in forecast:
            yield uid


def _start(side: Side, job: str, played: Forecasted) -> SupposedStart:
    fate = side.fates.get(job, "runs")
    if fate in ("runs", "grows"):
        return SupposedStart(fate=fate, verdict="runs")
    if fate == "starts":
        return SupposedStart(fate=fate, verdict="now")
    said = played.answers.get(job) if fate == "waits" else None
    if said is None:
        return SupposedStart(fate=fate)
    return SupposedStart(fate=fate, verdict=said.verdict, low=said.low, likely=said.likely, high=said.high)


def _moves(effect: JobEffect, played_before: Forecasted, played_after: Forecasted) -> float:
    """Return by how many seconds a job starts later, below zero: sooner; 0 if it fares the same.

    Both sides are played with the same luck, so their difference is known even where neither start may be told.
    """
    before, after = _seconds(effect.job, effect.before, played_before), _seconds(effect.job, effect.after, played_after)
    if before == after:
        return 0.0
    if math.isinf(before) or math.isinf(after):
        return after - before if not (math.isinf(before) and math.isinf(after)) else 0.0
    step = after - before
    if effect.before.fate == effect.after.fate == "waits":
        return step if abs(step) >= max(LEAST_SECONDS, LEAST_PART * max(before, after)) else 0.0
    return step or 0.0


_ORDER: Final[dict[Fate, float]] = {"runs": 0.0, "grows": 0.0, "starts": 1e-3, "promised": 1.0, "waits": 10.0}


def _seconds(job: str, start: SupposedStart, played: Forecasted) -> float:
    """Return the seconds until a job runs: one that loses pods waits for the longest."""
    if start.fate == "evicted":
        return 1e12
    if start.fate != "waits":
        return _ORDER[start.fate]
    return _ORDER["waits"] + played.seconds.get(job, 1e9)


def _only(these: Iterable[Evicted], others: Iterable[Evicted]) -> list[Evicted]:
    known = {one.pod for one in others}
    return [one for one in these if one.pod not in known]


def _standings(before: Iterable[Standing], after: Iterable[Standing]) -> list[QueueStandings]:
    first, second = ({standing.queue: standing for standing in side} for side in (before, after))
    return [
        QueueStandings(queue=name, before=first.get(name), after=second.get(name))
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
    ]
