"""The running scheduler: takes in what happened, decides when we lead, follows its conf, ends cleanly."""

from __future__ import annotations

import gc
import logging
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from pumice.framework.session.session import Session
from pumice.kube.admission import Admissions, Ungrouped
from pumice.kube.backend import KubeBackend
from pumice.kube.gangs import HALF, HalfGangs
from pumice.kube.health import Probes
from pumice.kube.metrics import CycleMetrics
from pumice.kube.outbox import StaleIntents
from pumice.kube.statuses import PodConditions, QueueStatuses
from pumice.model.codes import ReasonCode
from pumice.model.intents import Intent, Note
from pumice.ports import Binder, ReadsBack
from pumice.scheduler.following import CONF, Following
from pumice.scheduler.loop import Loop
from pumice.scheduler.question_queue import NoAnswer, QuestionQueue
from pumice.scheduler.report import CycleReport
from pumice.scheduler.watchdog import Watchdog
from pumice.state.cluster import ClusterState

if TYPE_CHECKING:
    from pumice.answers.service import Answers
    from pumice.answers.when.forecast import Forecasts
    from pumice.answers.when.learned import Learned
    from pumice.history.recorder import HistoryWriter

log = logging.getLogger("pumice.kube")
T = TypeVar("T")

FAILING = 5
"""So many cycles in a row that failed as a whole, and we should be started anew."""
GATHER = 0.02
"""Seconds between the change that calls for a cycle and the cycle: changes seldom come alone."""
REPEAT = 30.0
"""Seconds between two lines about what keeps us from deciding."""
ANSWERING = 0.25
"""Seconds that go into answers after a cycle; questions that are left wait for the next."""


class Service:
    """Runs cycles on a backend until told to stop. One thread calls ``run`` and owns the state."""

    def __init__(
        self,
        backend: KubeBackend,
        loop: Loop,
        *,
        period: float = 1.0,
        follow: Following | None = None,
        metrics: CycleMetrics | None = None,
        binders: dict[str, Binder] | None = None,
        half_gangs: float = HALF,
        history: Sequence[HistoryWriter] = (),
        learned: Learned | None = None,
        measured: Callable[[ClusterState], dict[str, Any] | None] | None = None,
    ) -> None:
        """*history*: takes its lines; *learned*: what the past says of run times; *measured*: how busy nodes are."""
        self._backend, self._loop, self._period = backend, loop, period
        self._follow, self._measured = follow, measured
        self.metrics = metrics or CycleMetrics()
        self._binders = binders if binders is not None else {}
        self._loop.inspect = self._look
        self._backend.outcomes = self.metrics
        self._stopping = threading.Event()
        self._ready = False
        self._wanted: list[Future[bytes]] = []
        self._questions: QuestionQueue[Answers] = QuestionQueue(self._backend.inbox.wake)
        self._complaints: dict[str, str] = {}
        self._unsaid: list[Note] = []
        self._conditions = PodConditions()
        self._queues = QueueStatuses()
        self._admissions, self._ungrouped = Admissions(), Ungrouped()
        self._half = HalfGangs(half_gangs)
        self._overtaken = StaleIntents()
        self._history, self._learned = history, learned
        self._forecasts: Forecasts | None = None
        loop.observers.append(self._ungrouped)
        if history:
            from pumice.history.recorder import HistoryRecorder

            loop.observers.append(HistoryRecorder(loop.state, history))
        self._queue_made = False
        self._failing, self._failure = 0, ""
        self._waits_since = float("inf")
        """When something that keeps us from deciding began, or was last told."""
        self.cycles = 0
        """How many cycles have run."""

    # -- asked from other threads -----------------------------------------------------------------------------------
    def stop(self) -> None:
        """End after the cycle that is running."""
        self._stopping.set()
        self._backend.inbox.wake()

    def answers(self, *, debug: bool = False) -> Probes:
        """The input of the HTTP endpoints."""
        return Probes(self.trouble, self.unready, self.metrics.text, self.next_cycle if debug else None)

    def trouble(self) -> str:
        """Why we should be started anew; nothing if all is well."""
        stuck = self._loop.watchdog.stuck if self._loop.watchdog is not None else None
        if stuck is not None:
            return str(stuck)
        if self._failing >= FAILING:
            return f"the last {self._failing} cycles failed: {self._failure}"
        return "" if self._backend.alive or not self._ready else "the connection to the cluster has ended"

    def unready(self) -> str:
        """Why we cannot decide yet; a replica that does not lead but could is ready."""
        if not self._ready:
            whys = self._backend.missing
            kinds = (f"{kind} ({why})" if (why := whys.get(kind)) else kind for kind in self._backend.inbox.missing)
            return f"waiting for the first list of {', '.join(kinds)}"
        return self._follow.missing if self._follow is not None else ""

    def next_cycle(self) -> Future[bytes]:
        """The next cycle, saved as a file's content, once it has run.

        :raises NoAnswer: this replica runs none.
        """
        idle = self._idle()
        if idle:
            raise NoAnswer(idle)
        wanted: Future[bytes] = Future()
        self._wanted.append(wanted)
        self._backend.inbox.wake()
        return wanted

    def ask(self, question: Callable[[Answers], T], who: str = "") -> Future[T]:
        """The answer to a question about the state, once it was put; that is after the next cycle.

        :raises NoAnswer: this replica answers none.
        """
        idle = self._idle()
        if idle:
            raise NoAnswer(idle)
        return self._questions(question, who)

    def _idle(self) -> str:
        """Why no cycles run here; nothing if they do."""
        if not self._ready:
            return self.unready()
        if not self._backend.leading:
            if self._backend.catching_up:
                return "this replica has just taken the lead, and still reads what the one before it wrote"
            leader = self._backend.leader
            return "this replica does not lead" + (f", {leader} does" if leader else "")
        return self._follow.missing if self._follow is not None else ""

    # -- the run ----------------------------------------------------------------------------------------------------
    def run(self) -> int:
        """Work until stopped; returns the exit code: 0 if somebody asked us to stop, else 1."""
        watchdog = self._loop.watchdog = Watchdog()
        try:
            self._backend.start()
            self._first_lists()
            while not self._stopping.is_set():
                if self._backend.lost.is_set():
                    log.error("another replica leads now, or we could not renew our lease; ending")
                    return 1
                if not self._backend.alive:
                    log.error("the connection to the cluster has ended")
                    return 1
                self._follow_conf()
                self._guarded_step()
                self._tell_waiting()
                if self._backend.inbox.wait(self._period):
                    self._stopping.wait(GATHER)
            return 0
        finally:
            self._backend.stop()
            watchdog.close()
            for writer in self._history:
                writer.close()

    def _first_lists(self) -> None:
        """Wait until everything was listed, and take it in."""
        inbox = self._backend.inbox
        while not inbox.synced.is_set() and not self._stopping.is_set() and self._backend.alive:
            inbox.wait(0.2)
            if not inbox.synced.is_set():
                self._tell_waiting()
        if inbox.synced.is_set():
            gc.disable()  # everything that is made here stays, and passes over it cost more than making it
            self.metrics.took_in(self._loop.take_in())
            gc.freeze()
            gc.enable()
            self._ready = True

    def _tell_waiting(self) -> None:
        """Publish which kinds are followed, and say every 30 s what still keeps us from deciding."""
        self.metrics.followed(self._backend.missing)
        text, now = self.unready() or self._backend.lease_trouble, time.monotonic()
        if not text:
            self._waits_since = float("inf")
        elif self._waits_since == float("inf"):
            self._waits_since = now
        elif now - self._waits_since >= REPEAT:
            self._waits_since = now
            log.warning("still waiting: %s", text)

    def _guarded_step(self) -> None:
        """One step. If it fails it is told, once per reason, counted, and tried again with the next period.

        The cycle took back what it had done; nothing of it was sent.
        """
        try:
            self._step()
        except BaseException as exc:
            if isinstance(exc, KeyboardInterrupt):
                raise
            reason = _reason(exc)
            self._failing += 1
            self.metrics.failed()
            if reason != self._failure:
                log.error("a cycle failed, and the next is tried: %s", reason, exc_info=exc)
            self._failure = reason
            return
        if self._failing:
            log.info("cycles succeed again; %d failed in a row", self._failing)
        self._failing, self._failure = 0, ""

    def _step(self) -> None:
        leads = self._backend.leading
        self.metrics.leading(leads)
        self.metrics.took_in(self._loop.take_in())
        wanted, self._wanted = self._wanted, []
        idle = self._idle()
        if idle:
            _settle(wanted, error=NoAnswer(idle))
            self._questions.refuse(idle)
            self._loop.state.rest()
            for observer in self._loop.observers:
                observer.rest()
            return
        self._make_default_queue()
        loop = self._loop
        overtaken = self._overtaken.look(loop.state)
        if overtaken:
            self._backend.withdraw(overtaken)
        released = self._half.release(loop.state)
        if released:
            self._backend.submit(released)
        if self._measured is not None:
            loop.environment = self._measured(loop.state)
        if wanted:
            report = self._recorded(wanted)
        else:
            report = loop.decide()
        self._overtaken.handed_over(report.intents)
        self.cycles += 1
        self.metrics.cycle(report, loop.state)
        self.metrics.listed({kind: reflector.lists for kind, reflector in self._backend.reflectors.items()})
        told: list[Intent] = [*self._conditions.updates(report, loop.state)]
        if self._backend.settings.dialect != "kai":  # what KAI's queues hold is written by its queue controller
            told += self._queues.updates(loop.state)
        told += [*self._admissions.updates(report, loop.state), *self._ungrouped.notes(loop.state)]
        if told:
            self._backend.submit(told)
        self._answer()

    def _answer(self) -> None:
        """Answer open questions about what we know, for a while."""
        if not self._questions:
            return
        from pumice.answers.service import Answers  # large: loaded with the first question
        from pumice.answers.when.forecast import Forecasts

        self._forecasts = self._forecasts or Forecasts()
        self._questions.answer(Answers.of_loop(self._loop, self._learned, self._forecasts), ANSWERING)

    def _recorded(self, wanted: Sequence[Future[bytes]]) -> CycleReport:
        """Decide, and give whoever wants it the cycle: what it was decided on, and what was decided.

        One that fails is given too, without decisions. A cycle that cannot be saved is no failed cycle.
        """
        from pumice import saved  # here, as in `_answer`
        from pumice.extender.asking.calls import EXCHANGES
        from pumice.scheduler.recording import decisions_of, record

        loop = self._loop
        try:
            begun = record(loop.state, loop.assembly.conf, loop.runtime, shard=loop.shard, environment=loop.environment)
        except Exception as exc:
            _settle(wanted, error=exc)
            return loop.decide()
        environment = loop.environment
        loop.environment = {**(environment or {}), EXCHANGES: begun.exchanges}
        try:
            report = loop.decide()
            begun.decisions = decisions_of(report.intents)
            return report
        finally:
            loop.environment = environment
            try:
                _settle(wanted, content=saved.dump(begun, "pumice run"))
            except Exception as exc:
                _settle(wanted, error=exc)

    def _look(self, session: Session) -> None:
        self.metrics.session(session)
        for binder in session.binds.binders.values():
            if isinstance(binder, ReadsBack) and binder.read_back is None:
                binder.read_back = self._backend.node_of
        self._binders.update(session.binds.binders)

    def _follow_conf(self) -> None:
        """Apply a changed conf and changed plugins; report once why some cannot be used."""
        if self._follow is None:
            return
        watchdog = self._loop.watchdog
        with watchdog.cycle() if watchdog is not None else nullcontext():  # plugins are loaded and tried in there
            assembly = self._follow.poll()
        if assembly is not None:
            self._loop.use(assembly)
            log.info("the conf is %s from the next cycle on", assembly.conf.digest)
        for what, complaint in self._follow.complaints.items():
            if complaint == self._complaints.get(what, ""):
                continue
            self._complaints[what] = complaint
            self.metrics.good(what, not complaint)
            if complaint:
                log.error("the %s cannot be used: %s", what, complaint)
            conf_map = self._backend.settings.conf_map
            if what == CONF and conf_map is not None:
                key = f"{conf_map.namespace}/{conf_map.name}"
                self._unsaid = (
                    [Note("ConfigMap", key, "Warning", ReasonCode.CONF_NOT_USED, complaint)] if complaint else []
                )
        if self._unsaid and self._backend.leading:
            self._backend.submit(self._unsaid)
            self._unsaid = []

    def _make_default_queue(self) -> None:
        """Create the default queue if the cluster has none, as Volcano does; KAI makes none."""
        name = self._loop.state.default_queue
        if self._queue_made or name in self._loop.state.queues or self._backend.settings.dialect == "kai":
            self._queue_made = True
            return
        self._queue_made = True
        body = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": True},
        }
        self._backend.create("Queue", body)


def _settle(wanted: Sequence[Future[bytes]], *, content: bytes = b"", error: Exception | None = None) -> None:
    """Answer whoever still waits."""
    for future in wanted:
        if future.done() or not future.set_running_or_notify_cancel():
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(content)


def _reason(exc: BaseException) -> str:
    """The exception, and its place."""
    frames = traceback.extract_tb(exc.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(exc).__name__}: {exc}{where}"
