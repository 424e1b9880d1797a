"""The record of evictions, so that they end: beneficiaries, and how often a job lost pods.

Rounds of evictions: jobs that are evicted for each other in turn lose work and win nothing.

A job that lately lost a place to another does not get one back from it by an eviction, nor from the job that the other
one lost its place to, over any number of jobs. It waits as if those could not be evicted (`not_back_from`). The pause
is valid for some minutes, and for twice as long each time that a round is closed later all the same. So evictions in
turn become rare, whatever victims plugins permit. Both is told: that somebody is spared for it, and that a round was
closed.

Lost surplus: a job whose surplus is evicted for ever new jobs, and placed again in between, loses work although no
round closes. After four such losses within an hour, no more than the minimum of the job is placed for 10 minutes
(`surplus_pause`). A further loss less than an hour after a pause doubles it, up to 30 minutes. Seven losses therefore
never lie within one hour: pauses of 10, 20 and 30 minutes take that long. The gang itself is placed at any time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from pumice.model.codes import ReasonCode
from pumice.model.intents import Note
from pumice.model.job import Job
from pumice.model.reason import Verdict, reject
from pumice.words import counted

if TYPE_CHECKING:
    from pumice.framework.session.questions import Questions
    from pumice.framework.session.session import Session

HOLD: Final = 600.0
"""Seconds for which a job gets nothing back from its beneficiary, at first."""
_DOUBLED: Final = 3
"""So often at most that time is doubled."""
_REMEMBERED: Final = 4.0
"""An eviction is forgotten after so many times that long."""
_MOST: Final = 10_000
"""So many jobs that were evicted are remembered."""
HOUR: Final = 3600.0
"""The seconds for which a loss counts."""
_TOO_OFTEN: Final = 4
"""So many losses within an hour begin a pause. With a larger number more than six would be possible in an hour."""
_FIRST_PAUSE: Final = 600.0
_LONGEST_PAUSE: Final = 1800.0
_HELP: Final = "See the order of jobs, and what plugins let go"


class Turn(NamedTuple):
    """A record of tasks of a job that were evicted for another job."""

    at: float
    """When that was last done."""
    rounds: int = 0
    """How many rounds the last such eviction closed, one after the other."""
    told: bool = False
    """Whether it was told that a task is spared for it."""

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


class Losses(NamedTuple):
    """When a job lost pods to other jobs: at most one loss between two placements of it."""

    times: tuple[float, ...]
    """Those of the hour before the last loss, the last included."""
    pause: float = 0.0
    """For how many seconds after the last loss no surplus is placed."""
    placed: bool = False
    """Report whether a pod of the job was placed since the last loss."""

    @property
    def until(self) -> float:
        """When surplus may be placed again."""
        return self.times[-1] + self.pause

    def and_now(self, now: float) -> Losses:
        """The same with a loss now."""
        times = (*(at for at in self.times if at > now - HOUR), now)
        if self.pause and now < self.until + HOUR:
            return Losses(times, min(2 * self.pause, _LONGEST_PAUSE))
        return Losses(times, _FIRST_PAUSE if len(times) >= _TOO_OFTEN else 0.0)

    def moved_back(self, by: float) -> Losses:
        """The same after the clock was set back."""
        return self._replace(times=tuple(at - by for at in self.times))


def copied(turns: Turns) -> Turns:
    """One that stays as this is now."""
    return {evicted: dict(helped) for evicted, helped in turns.items()}


def _bounded(ssn: Questions) -> bool:
    """Report whether evictions are to end."""
    return not ssn.compat.evictions_in_turn


def not_back_from(ssn: Session, job: Job) -> Collection[str]:
    """The jobs that are not evicted for this one: by an eviction, directly or round others, it lost a place to them."""
    turns = ssn.runtime.turns
    if job.uid not in turns or not _bounded(ssn):
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
    """Remember a lost place and its beneficiary; a round that is closed by it is reported, and counts.

    An evicted job loses its place to its beneficiary. Both lose it to a job that takes it earlier, because that job
    comes first in order.
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
    """The jobs that evictions of a job helped, those that their evictions helped, and so on: the shortest way to each.

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


# -- lost surplus ---------------------------------------------------------------------------------------------------
def surplus_pause(ssn: Questions, job: Job) -> Verdict | None:
    """Return why surplus of a job is not placed for now; None if it may be placed.

    The caller asks only about a job that has all that its gang needs.
    """
    known = ssn.runtime.losses.get(job.uid)
    if known is None or not _bounded(ssn) or ssn.state.now >= known.until:
        return None
    ssn.wake_at(known.until)
    text = (
        f"lost pods beyond its minimum again and again, {counted(len(known.times), 'time')} within the last hour; "
        f"the next are placed {known.pause / 60:.0f} minutes after the last loss"
    )
    return reject(text, ReasonCode.SURPLUS_PAUSED)


def note_losses(ssn: Session, pairs: Iterable[tuple[str, str]]) -> None:
    """Count a loss for each job of which a pod is evicted for another job, if a pod of it was placed since the last."""
    losses, now = ssn.runtime.losses, ssn.state.now
    for uid in sorted({evicted for evicted, helped in pairs if evicted and helped != evicted}):
        known = losses.pop(uid, Losses((), placed=True))  # the job that lost last stands last
        losses[uid] = known.and_now(now) if known.placed else known
    while losses and (len(losses) > _MOST or next(iter(losses.values())).until <= now - HOUR):
        del losses[next(iter(losses))]


def note_placed(ssn: Session, jobs: Iterable[str]) -> None:
    """Note that pods of jobs were placed: their next eviction is another loss."""
    losses = ssn.runtime.losses
    for uid in jobs:
        known = losses.get(uid)
        if known is not None and not known.placed:
            losses[uid] = known._replace(placed=True)
