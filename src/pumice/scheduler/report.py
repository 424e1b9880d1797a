"""What a cycle decided, why other jobs were not served, and where its time went; and the report of the last cycle.

The last report is returned again as long as the next cycle could only decide the same. A cycle that left the state as
it was, and in which nothing read the clock, chance or the environment, has the same answers when it is run again.
Whatever lasts beyond a session, an event or a decision, counts in `ClusterState.revision`. A part of the core that does
depend on time names the time of the next change (`Session.wake_at`): a nomination that expires, a refused write that
may be tried again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pumice.engine.diagnosis import FitError
from pumice.framework.metrics import Histogram, Series
from pumice.framework.session.outcome import Refusal
from pumice.model.intents import Bind, Evict, Intent, Nominate, Note, StatusUpdate

if TYPE_CHECKING:
    from pumice.framework.session.session import Session, Shard
    from pumice.scheduler.assembly import Assembly
    from pumice.state.cluster import ClusterState


@dataclass(slots=True)
class CycleReport:
    """The outcome of one cycle."""

    now: float
    conf_digest: str
    intents: list[Intent]
    refusals: Mapping[str, Refusal]
    fit_errors: Mapping[str, dict[str, FitError]]
    pipelined: dict[str, dict[str, str]]
    """Job -> pod -> node, for tasks that wait for room that is being released."""
    statuses: dict[str, dict[str, int]]
    """Job -> status -> tasks, when the cycle ended."""
    phases: dict[str, str]
    timings: dict[tuple[str, str], float]
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    gauges: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    counters: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    histograms: dict[Series, Histogram] = field(default_factory=dict)

    @property
    def binds(self) -> dict[str, str]:
        """Pod -> node."""
        return {i.pod: i.node for i in self.intents if isinstance(i, Bind)}

    @property
    def evictions(self) -> list[str]:
        """Pods to be evicted, in order."""
        return [i.pod for i in self.intents if isinstance(i, Evict)]

    @property
    def nominations(self) -> dict[str, str]:
        """Pod -> node that is being freed for it."""
        return {i.pod: i.node for i in self.intents if isinstance(i, Nominate) and i.node}


_LONGEST: Final = 60.0
"""Seconds for which a report is returned at most: a plugin may read a file, a server or a clock of its own, which the
session cannot see. kube-scheduler asks again about unschedulable pods for the same reason."""


@dataclass(slots=True)
class LastCycle:
    """State, its revision, configuration and shard -> report; valid until one of them changes or a time is reached."""

    state: ClusterState
    assembly: Assembly
    shard: Shard | None
    environment: bool
    """Whether there was an environment. It was not read."""
    revision: int
    until: float
    report: CycleReport

    def is_current(
        self, state: ClusterState, assembly: Assembly, shard: Shard | None, environment: Mapping[str, Any] | None
    ) -> bool:
        """Report whether a cycle that is run now would decide the same."""
        return (
            state is self.state
            and state.revision == self.revision
            and assembly is self.assembly
            and shard is self.shard
            and bool(environment) is self.environment
            and state.now < self.until
        )

    def report_at(self, now: float) -> CycleReport:
        """Return the report of a cycle that is not run: it decides nothing, and jobs wait for the known reasons."""
        known = self.report
        return replace(
            known, now=now, intents=[], timings={}, warnings=list(known.warnings), gauges={}, counters={}, histograms={}
        )


def last_cycle(session: Session, assembly: Assembly, report: CycleReport, began: int) -> LastCycle | None:
    """Return what is kept of a cycle; None if it changed anything or failed. *began*: the revision at its beginning."""
    state = session.state
    if state.revision != began or report.errors or session.wakes_at <= state.now:
        return None
    if not all(isinstance(intent, StatusUpdate | Note) for intent in report.intents):
        return None
    until = min(session.wakes_at, state.now + _LONGEST)
    return LastCycle(state, assembly, session.shard, bool(session.given_environment), began, until, report)
