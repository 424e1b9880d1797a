"""A cycle that would decide what the last one did is not run.

Where nothing lasting happened since a cycle that bound, evicted and let in nobody, and everybody who was asked answers
by the cluster alone (`Plugin.steady`, `Action.steady`), the same questions have the same answers: everybody who waits
does so for the reasons that are known. Whatever lasts, an event or a decision, counts in `ClusterState.moment`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pumice.framework.session.fit_errors import FitErrors
from pumice.framework.session.problems import untold
from pumice.framework.session.refusals import Refusals
from pumice.framework.session.rounds import free_again
from pumice.model.intents import Note, StatusUpdate
from pumice.scheduler.report import CycleReport

if TYPE_CHECKING:
    from pumice.framework.placing.remembered import Remembered
    from pumice.framework.session.runtime import Runtime
    from pumice.framework.session.session import Session, Shard
    from pumice.scheduler.assembly import Assembly
    from pumice.state.cluster import ClusterState

_MANY_CHANGES: Final = 256
"""Beyond so many jobs that ended, a cycle is run that forgets them."""


@dataclass(slots=True)
class Standstill:
    """What the last cycle found out, and for which cluster and configuration that holds."""

    state: ClusterState
    assembly: Assembly
    shard: Shard | None
    moment: int
    until: float
    """The time at which room that is held for somebody becomes free, or somebody who is spared may be evicted."""
    report: CycleReport

    def lasts(
        self, state: ClusterState, assembly: Assembly, shard: Shard | None, environment: Mapping[str, Any] | None
    ) -> bool:
        """Would a cycle now decide the same?"""
        return (
            state is self.state
            and state.moment == self.moment
            and assembly is self.assembly
            and shard is self.shard
            and not environment
            and state.now < self.until
        )

    def again(self, now: float) -> CycleReport:
        """The report of a cycle that was not run: nothing is decided, and everybody waits for what is known."""
        known = self.report
        return replace(
            known, now=now, intents=[], timings={}, warnings=list(known.warnings), gauges={}, counters={}, histograms={}
        )


def standstill_after(
    session: Session, assembly: Assembly, report: CycleReport, began: int, until: float | None = None
) -> Standstill | None:
    """What stands after a cycle, if it left everything as it was; *began*: the moment at which it did.

    *until*: the time up to which it can stand, where that is known.
    """
    state, runtime = session.state, session.runtime
    if state.moment != began or state.refused or runtime.random_ties or report.errors or session.environment:
        return None
    if not all(action.steady for action in assembly.actions) or not session.steady:
        return None
    if not all(isinstance(intent, StatusUpdate | Note) for intent in report.intents):
        return None
    if until is None:
        until = min(_free_room(runtime), free_again(runtime.turns, state.now))
    return Standstill(state, assembly, session.shard, began, until, report)


def somebody_waits(state: ClusterState) -> bool:
    """Does anybody wait, for a place or to be let in?"""
    if state.unadmitted:
        return True
    for queue in state.queues.values():  # noqa: SIM110  (asked in every cycle: a generator takes twice the time)
        if queue.waiting:
            return True
    return False


def nobody_to_serve(
    state: ClusterState, assembly: Assembly, runtime: Runtime, environment: Mapping[str, Any] | None
) -> bool:
    """Does nobody wait who could find room, or want to be let in? So it is after jobs started or ended."""
    opened = runtime.opened
    if opened is None or opened[0] is not state or opened[1] is not assembly or not opened[2].steady:
        return False
    if runtime.metered or runtime.nominations or state.refused or environment or state.unadmitted:
        return False
    if max(len(state.dirty), len(state.changed_jobs)) > _MANY_CHANGES:
        return False
    if not assembly.for_waiting or untold(state, runtime):
        return False
    return not somebody_waits(state) or _in_vain(state, assembly, runtime, opened[2])


def nothing_to_tell(state: ClusterState) -> bool:
    """Did no job change that is still there?"""
    for job in state.changed_jobs.values():  # noqa: SIM110  (asked in every cycle: a generator takes twice the time)
        if job.in_session:
            return False
    return True


def _in_vain(state: ClusterState, assembly: Assembly, runtime: Runtime, resting: Session) -> bool:
    """Is everybody who waits known to find no room, and would no action do anything for such jobs?"""
    memory: Remembered | None = runtime.remembered
    if memory is None or resting.search.made is None or state.best_effort or state.rooms:
        return False
    if not assembly.passes_over_vain:
        return False
    return memory.everybody(state, assembly.conf.digest, resting.search.made, runtime.backlog)


def nothing_done(state: ClusterState, assembly: Assembly, runtime: Runtime) -> CycleReport:
    """The report of a cycle in which there was nothing to do: whoever waits does so for what is known."""
    refusals, errors = Refusals(), FitErrors()
    memory: Remembered | None = runtime.remembered
    if memory is not None and somebody_waits(state):
        memory.stand(refusals, errors)
    return CycleReport(state.now, assembly.conf.digest, [], refusals, errors, {}, {}, {}, {})


def _free_room(runtime: Runtime) -> float:
    return min((held.until for held in runtime.nominations.values() if held.node), default=float("inf"))
