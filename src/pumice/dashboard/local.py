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
from pumice.dashboard.history import RecentHistory
from pumice.errors import PumiceError
from pumice.framework.session.runtime import Runtime
from pumice.history.recorder import HistoryRecorder
from pumice.kube.watching import Watching
from pumice.model.events import ClusterEvent
from pumice.ports import Observer
from pumice.scheduler.assembly import Assembly
from pumice.scheduler.question_queue import QuestionQueue
from pumice.scheduler.recording import NextCycle
from pumice.sim.run import Simulation
from pumice.sim.scenario import SimScenario
from pumice.state.cluster import ClusterState


class StateHolder:
    """A thread that owns a state, answers questions about it and keeps its recent history."""

    def __init__(self, state: ClusterState) -> None:
        self._came = threading.Event()
        self.ask: QuestionQueue[Answers] = QuestionQueue(self._came.set)
        self.history = RecentHistory(state)
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
        super().__init__(answers.state)
        self._answers = replace(answers, forecasts=Forecasts())

    def run(self) -> None:
        """Answer."""
        self.history.look()
        while not self.stopping.is_set():
            self.ask.answer(self._answers)
            self.wait(0.5)


class SimulationHolder(StateHolder, Observer):
    """A simulation that runs while one looks, *speed* times as fast as time passes; it stays at its end."""

    def __init__(self, scenario: SimScenario, running: str, assembly: Assembly, speed: float) -> None:
        self._scenario, self._speed = scenario, speed
        self._simulation = Simulation(scenario.setting_of(running), assembly)
        super().__init__(self._simulation.loop.state)
        self._forecasts = Forecasts()
        self._begun = time.monotonic()

    def run(self) -> None:
        """Play, and answer between cycles."""
        loop = self._simulation.loop
        loop.observers += [HistoryRecorder(loop.state, [self.history]), self.history, self]
        self._begun = time.monotonic()
        self._simulation.run(self._scenario.workload())
        loop.observers.remove(self)
        loop.take_in()
        while not self.stopping.is_set():
            self._answer()
            self.wait(0.5)

    def handed(self, events: Sequence[ClusterEvent]) -> None:
        """Answer until it is time for these events."""
        while not self.stopping.is_set():
            self._answer()
            ahead = self._simulation.timeline.now / self._speed - (time.monotonic() - self._begun)
            if ahead <= 0:
                return
            self.wait(min(ahead, 0.5))
        raise KeyboardInterrupt

    def _answer(self) -> None:
        self.ask.answer(Answers.of_loop(self._simulation.loop, forecasts=self._forecasts))


class ClusterHolder(StateHolder):
    """A cluster that another scheduler decides for: answers are what *assembly* would decide."""

    def __init__(self, watching: Watching, state: ClusterState, assembly: Assembly) -> None:
        super().__init__(state)
        self._watching = watching
        self._answers = Answers(NextCycle(state, assembly, Runtime()), forecasts=Forecasts())

    def run(self) -> None:
        """Watch, and answer."""
        watching, answers, clock = self._watching, self._answers, SystemClock()
        conf, recorder = answers.cycle.assembly.conf, HistoryRecorder(answers.state, [self.history])
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
                    recorder.saw(event)
                if first:
                    gc.freeze()
                    gc.enable()
                    first = False
                recorder.deciding(conf.digest, conf.to_data)
                self.history.look()
                self.ask.answer(answers)
                self.wait(1.0)
        finally:
            watching.stop()
