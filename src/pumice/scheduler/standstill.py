"""A cycle that would decide what the last one did is not run.

Where nothing lasting happened since a cycle that bound, evicted and let in nobody, and everybody who was asked answers
by the cluster alone (`Plugin.steady`, `Action.steady`), the same questions have the same answers: everybody who waits
does so for the reasons that are known. Whatever lasts, an event or a decision, counts in `ClusterState.moment`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pumice.framework.session.rounds import free_again
from pumice.model.intents import Note, StatusUpdate
from pumice.scheduler.report import CycleReport

if TYPE_CHECKING:
    from pumice.framework.session.runtime import Runtime
    from pumice.framework.session.session import Session, Shard
    from pumice.scheduler.assembly import Assembly
    from pumice.state.cluster import ClusterState


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


def standstill_after(session: Session, assembly: Assembly, report: CycleReport, began: int) -> Standstill | None:
    """What stands after a cycle, if it left everything as it was; *began*: the moment at which it did."""
    state, runtime = session.state, session.runtime
    if state.moment != began or state.refused or runtime.random_ties or report.errors or session.environment:
        return None
    if not all(action.steady for action in assembly.actions) or not session.steady:
        return None
    if not all(isinstance(intent, StatusUpdate | Note) for intent in report.intents):
        return None
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


def _free_room(runtime: Runtime) -> float:
    return min((held.until for held in runtime.nominations.values() if held.node), default=float("inf"))
