"""Rounds of evictions: jobs that are evicted for each other in turn lose work and win nothing.

A job that lately lost a place to another does not get one back from it by an eviction, nor from whom that one lost his
to, by any way round: it waits as if those could not be evicted (`not_back_from`). That holds for some minutes, and each
time that a round is closed all the same, later, for twice as long. So evictions in turn become rare, whatever plugins
say who may go for whom. Both is told: that somebody is spared for it, and that a round was closed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from pumice.model.codes import ReasonCode
from pumice.model.intents import Note
from pumice.model.job import Job

if TYPE_CHECKING:
    from pumice.framework.session.session import Session

HOLD: Final = 600.0
"""Seconds for which a job gets nothing back from whom it was evicted for, at first."""
_DOUBLED: Final = 3
"""So often at most that time is doubled."""
_REMEMBERED: Final = 4.0
"""An eviction is forgotten after so many times that long."""
_MOST: Final = 10_000
"""So many jobs that were evicted are remembered."""
_HELP: Final = "See the order of jobs, and what plugins let go"


class Turn(NamedTuple):
    """That tasks of a job were evicted for another job."""

    at: float
    """When that was last done."""
    rounds: int = 0
    """How many rounds the last such eviction closed, one after the other."""
    told: bool = False
    """Was it told that somebody is spared for it?"""

    @property
    def until(self) -> float:
        """The time from which the first job may get something back."""
        return self.at + HOLD * 2.0 ** min(self.rounds, _DOUBLED)

    @property
    def forgotten(self) -> float:
        """The time from which it is as if it had not been."""
        return self.at + _REMEMBERED * (self.until - self.at)


Turns = dict[str, dict[str, Turn]]
"""The job that was evicted -> the one that it was evicted for -> when."""


def copied(turns: Turns) -> Turns:
    """One that stays as this is now."""
    return {evicted: dict(helped) for evicted, helped in turns.items()}


def not_back_from(ssn: Session, job: Job) -> Collection[str]:
    """The jobs that are not evicted for this one: by an eviction, directly or round others, it lost a place to them."""
    turns = ssn.runtime.turns
    if job.uid not in turns or ssn.compat.evictions_in_turn:
        return ()
    now = ssn.state.now
    ssn.wake_at(min((t.until for helped in turns.values() for t in helped.values() if now < t.until), default=math.inf))
    return _ways(turns, job.uid, now).keys()


def tell_spared(ssn: Session, job: Job, spared: str) -> None:
    """Say, once, that a job is not evicted for another, because both would take turns."""
    turns = ssn.runtime.turns
    way = _ways(turns, job.uid, ssn.state.now)[spared]
    first = turns[job.uid][way[1]]
    if first.told:
        return
    turns[job.uid][way[1]] = first._replace(told=True)
    left = min(turn.until for turn in _on(turns, way)) - ssn.state.now
    ssn.metrics.counter("pumice_eviction_rounds_total", result="spared")
    text = (
        f"was evicted for {_told(way[1:])}; so {spared} is not evicted for it for {left:.0f} s: jobs would take turns. "
        f"{_HELP}"
    )
    ssn.outcome.intents.append(Note(job.kind, job.uid, "Warning", ReasonCode.EVICTED_IN_TURN, text))


def note_lost(ssn: Session, pairs: Iterable[tuple[str, str]]) -> None:
    """Remember who lost a place to whom; a round that is closed by it is told, and counts.

    Who is evicted loses his place to the one he is evicted for; and both lose it to him who takes it before that one
    does, because he comes before it in order.
    """
    lost = {pair for pair in pairs if all(pair) and pair[0] != pair[1]}
    if not lost:
        return
    turns, now = ssn.runtime.turns, ssn.state.now
    if not ssn.forgot_turns:  # nothing grows old within a cycle
        ssn.forgot_turns = True
        _forget(turns, now)
    while len(turns) > _MOST:
        del turns[next(iter(turns))]
    for evicted, helped in sorted(lost):
        way = _ways(turns, helped).get(evicted)
        mine = turns.setdefault(evicted, {})
        rounds = mine[helped].rounds if helped in mine else 0
        if way is not None:
            rounds = 1 + max(rounds, *(turn.rounds for turn in _on(turns, way)))
            _tell_closed(ssn, evicted, way)
        mine[helped] = Turn(now, rounds)


def _forget(turns: Turns, now: float) -> None:
    for evicted, helped in list(turns.items()):
        for other in [other for other, turn in helped.items() if turn.forgotten <= now]:
            del helped[other]
        if not helped:
            del turns[evicted]


def _tell_closed(ssn: Session, evicted: str, way: list[str]) -> None:
    ssn.metrics.counter("pumice_eviction_rounds_total", result="closed")
    job = ssn.jobs.get(evicted)
    if job is not None:
        text = f"evicted for {_told(way)}: jobs take turns, and every eviction loses work. {_HELP}"
        ssn.outcome.intents.append(Note(job.kind, evicted, "Warning", ReasonCode.EVICTED_IN_TURN, text))


def _told(way: Iterable[str]) -> str:
    return ", that one for ".join(way)


def _on(turns: Turns, way: list[str]) -> Iterator[Turn]:
    return (turns[evicted][helped] for evicted, helped in pairwise(way))


def _ways(turns: Turns, start: str, now: float | None = None) -> dict[str, list[str]]:
    """Whom evictions of a job helped, and those of the ones who were helped, and so on: the shortest way to each.

    With *now* by those only whose time is not over.
    """
    ways, reached = {start: [start]}, [start]
    for job in reached:
        for helped, turn in sorted(turns.get(job, {}).items()):
            if helped not in ways and (now is None or now < turn.until):
                ways[helped] = [*ways[job], helped]
                reached.append(helped)
    del ways[start]
    return ways
