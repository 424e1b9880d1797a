"""Cycles in which nobody can be served, and jobs that changed have only to be told of: no session is opened for that.

So it is where pods start: their jobs wait for nothing, and their PodGroups are to say that they run. Whoever has
something to say when a session closes says it here too, if he needs nothing else for it (`Plugin.closes_alone`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.framework.metrics import Metrics
from pumice.framework.placing.remembered import Remembered
from pumice.framework.plugin import Plugin
from pumice.framework.points.guard import FAILS, let_pass
from pumice.framework.session.outcome import Outcome
from pumice.model.job import Job
from pumice.scheduler.report import CycleReport
from pumice.scheduler.standstill import somebody_waits

if TYPE_CHECKING:
    from pumice.framework.session.runtime import Runtime
    from pumice.framework.session.session import Session
    from pumice.scheduler.assembly import Assembly
    from pumice.state.cluster import ClusterState


class Closing:
    """What a plugin that closes alone may look at."""

    __slots__ = ("_jobs", "metrics", "outcome", "state")

    def __init__(self, state: ClusterState, runtime: Runtime, jobs: list[Job]) -> None:
        self.state, self.outcome = state, Outcome(state, runtime)
        self.metrics = Metrics(runtime.metered)
        self._jobs = jobs

    @property
    def now(self) -> float:
        """The time of the cycle."""
        return self.state.now

    def changed_jobs(self) -> list[Job]:
        """Jobs that changed since the last session closed, and that are to be told of."""
        return self._jobs


def tell(state: ClusterState, assembly: Assembly, runtime: Runtime) -> CycleReport | None:
    """Tell of the jobs that changed, where nobody can be served (`nobody_to_serve`); None where a session has to."""
    closers = runtime.opened[2].of_registrations(_closers) if runtime.opened is not None else None
    if closers is None or runtime.all_promised is not None or runtime.health:
        return None
    state.refresh()
    closing = Closing(state, runtime, [job for job in state.changed_jobs.values() if job.in_session])
    outcome = closing.outcome
    memory: Remembered | None = runtime.remembered
    if memory is not None and somebody_waits(state):
        memory.stand(outcome.refusals, outcome.fit_errors)
    for plugin in closers:
        try:
            plugin.on_session_close(closing)
        except FAILS as exc:
            let_pass(exc)
            return None  # in a session it is contained
    outcome.settle(closing.changed_jobs())
    state.changed_jobs.clear()
    return CycleReport(
        state.now, assembly.conf.digest, outcome.intents, outcome.refusals, outcome.fit_errors, {}, {}, {}, {}
    )


def _closers(ssn: Session) -> list[Any] | None:
    """The plugins that say something when a session closes; None where one of them needs the session."""
    known = [plugin for plugin in ssn.plugins() if type(plugin).on_session_close is not Plugin.on_session_close]
    return known if all(vars(type(plugin)).get("closes_alone", False) for plugin in known) else None
