"""The loop: events from a backend go into the state, a cycle decides, its intents go back to the backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pumice.clock import Clock
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session, Shard
from pumice.ports import EventSource, IntentSink, Observer
from pumice.scheduler.assembly import Assembly
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.scheduler.set_back import LEAST, set_back
from pumice.scheduler.watchdog import Watchdog
from pumice.state.cluster import ClusterState


class Loop:
    """Joins a backend with the scheduler. One thread owns it.

    When to call `step` is the caller's: the simulator does at every instant in which something happened, the live
    scheduler when its period is over or a change woke it.
    """

    def __init__(
        self,
        source: EventSource,
        sink: IntentSink,
        assembly: Assembly,
        clock: Clock,
        *,
        state: ClusterState | None = None,
        runtime: Runtime | None = None,
        shard: Shard | None = None,
        environment: Mapping[str, Any] | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._source, self._sink, self._clock = source, sink, clock
        self._assembly = assembly
        self.state = state if state is not None else ClusterState()
        self.runtime = runtime if runtime is not None else Runtime()
        self.shard, self.environment = shard, environment
        self.inspect: Callable[[Session], None] | None = None
        """Is shown every session when everything is decided; must only read."""
        self.watchdog = watchdog
        """Names a plugin that does not return; liveness should fail while it is `stuck`."""
        self.observers: list[Observer] = []

    @property
    def assembly(self) -> Assembly:
        """The configuration in force."""
        return self._assembly

    def use(self, assembly: Assembly) -> None:
        """Decide by another configuration from the next cycle on; what was kept for the old one is dropped."""
        self._assembly = assembly
        self.runtime.forget()
        self.state.admission_changes = None

    def take_in(self) -> int:
        """Apply everything that happened since the last call; returns how many events there were."""
        now = self._clock.now()
        if self.state.now - now > LEAST:
            set_back(self.state, self.runtime, self.state.now - now)
        self.state.now = now
        self.state.give_names_back()
        events = list(self._source.drain())
        for observer in self.observers:
            observer.handed(events)
        for event in events:
            self.state.apply(event)
            for observer in self.observers:
                observer.saw(event)
        return len(events)

    def step(self, *, details: bool = False) -> CycleReport:
        """Take in what happened, run one cycle, hand its intents over; returns what was decided."""
        self.take_in()
        return self.decide(details=details)

    def decide(self, *, details: bool = False) -> CycleReport:
        """Run one cycle on what was taken in, hand its intents over; returns what was decided."""
        conf = self._assembly.conf
        for observer in self.observers:
            observer.deciding(conf.digest, conf.to_data)
        if self.watchdog is None:
            report = self._cycle(details)
        else:
            with self.watchdog.cycle():
                report = self._cycle(details)
        for observer in self.observers:
            observer.decided(report.intents)
        if report.intents:
            self._sink.submit(report.intents)
        return report

    def _cycle(self, details: bool) -> CycleReport:
        return run_cycle(
            self.state,
            self._assembly,
            self.runtime,
            shard=self.shard,
            environment=self.environment,
            details=details,
            inspect=self.inspect,
        )
