"""The state behind the pages without a running scheduler: a saved cycle, a simulation, a watched cluster."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from pumice.answers.service import Answers
from pumice.answers.when.forecast import Forecasts
from pumice.clock import SystemClock
from pumice.dashboard.history import Chronicle
from pumice.errors import PumiceError
from pumice.framework.session.runtime import Runtime
from pumice.kube.watching import Watching
from pumice.model.events import ClusterEvent
from pumice.scheduler.assembly import Assembly
from pumice.scheduler.question_queue import QuestionQueue
from pumice.scheduler.recording import NextCycle
from pumice.sim.run import Simulation
from pumice.sim.scenario import SimScenario
from pumice.state.cluster import ClusterState


class StateHolder:
    """A thread that owns a state, answers questions about it and keeps its chronicle."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self.ask: QuestionQueue[Answers] = QuestionQueue(self._came.set)
        self.chronicle = Chronicle()
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name="pumice-dashboard", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self.stopping.set()
        self._thread.join(20)

    def _guarded(self) -> None:
        try:
            self.run()
        except PumiceError as exc:
            self.ask.closed = str(exc)
        except Exception as exc:
            self.ask.closed = f"{type(exc).__name__}: {exc}"
            raise
        finally:
            self.ask.closed = self.ask.closed or "it is over"

    def run(self) -> None:
        """Work until it is to stop."""
        raise NotImplementedError

    def wait(self, seconds: float) -> None:
        """Wait for a question, for at most so long."""
        self._came.wait(seconds)
        self._came.clear()


class StillHolder(StateHolder):
    """One instant: manifests or a saved cycle."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self._desk = replace(answers, forecasts=Forecasts())

    def run(self) -> None:
        """Answer."""
        self.chronicle.look(self._desk.state, self._desk.cycle.assembly.conf.digest)
        while not self.stopping.is_set():
            self.ask.answer(self._desk)
            self.wait(0.5)


class SimulationHolder(StateHolder):
    """A simulation that runs while one looks, *speed* times as fast as time passes; it stays at its end."""

    def __init__(self, scenario: SimScenario, running: str, assembly: Assembly, speed: float) -> None:
        super().__init__()
        self._scenario, self._speed = scenario, speed
        self._simulation = Simulation(scenario.setting_of(running), assembly)
        self._forecasts = Forecasts()

    def run(self) -> None:
        """Play, and answer between cycles."""
        simulation = self._simulation
        loop = simulation.loop
        loop.after = lambda report: self.chronicle.after(loop.state, report)
        begun = time.monotonic()

        def pace(_: Sequence[ClusterEvent]) -> None:
            while not self.stopping.is_set():
                self.ask.answer(Answers.of_loop(loop, forecasts=self._forecasts))
                ahead = simulation.timeline.now / self._speed - (time.monotonic() - begun)
                if ahead <= 0:
                    return
                self.wait(min(ahead, 0.5))
            raise KeyboardInterrupt

        simulation.cluster.witness = pace
        simulation.run(self._scenario.workload())
        simulation.cluster.witness = None
        loop.take_in()
        while not self.stopping.is_set():
            self.ask.answer(Answers.of_loop(loop, forecasts=self._forecasts))
            self.wait(0.5)


class ClusterHolder(StateHolder):
    """A cluster that another scheduler decides for: answers are what *assembly* would decide."""

    def __init__(self, watching: Watching, state: ClusterState, assembly: Assembly) -> None:
        super().__init__()
        self._watching, self._desk = watching, Answers(NextCycle(state, assembly, Runtime()), forecasts=Forecasts())

    def run(self) -> None:
        """Watch, and answer."""
        watching, answers, clock = self._watching, self._desk, SystemClock()
        watching.start()
        try:
            while not watching.inbox.synced.is_set() and not self.stopping.is_set():
                if not watching.alive:
                    raise PumiceError(f"the cluster cannot be read: {watching.failure}")
                self.stopping.wait(0.1)
            first = True
            while not self.stopping.is_set():
                if not watching.alive:
                    raise PumiceError(f"the cluster cannot be read any more: {watching.failure}")
                answers.state.now = clock.now()
                if first:
                    gc.disable()
                for event in watching.drain():
                    answers.state.apply(event)
                if first:
                    gc.freeze()
                    gc.enable()
                    first = False
                self.chronicle.look(answers.state, answers.cycle.assembly.conf.digest)
                self.ask.answer(answers)
                self.wait(1.0)
        finally:
            watching.stop()
