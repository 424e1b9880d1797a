"""``Simulation``: one run of a workload on an embedded cluster under one configuration, to a `RunRecord`."""

from __future__ import annotations

import gc
import heapq
import math
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version
from typing import Any, Final, TextIO

from pumice.config.durations import SECOND, parse_duration
from pumice.config.schema import SchedulerConf
from pumice.errors import InvalidInput, PumiceError
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.history.recorder import HistoryRecorder, HistoryWriter
from pumice.model import keys
from pumice.model.api import AnyObject, Metadata, NodeObject, PriorityClass, QueueObject, QueueSpec, QueueStatus
from pumice.model.kai import (
    KAI_PARENT_QUEUE,
    KAI_QUEUE,
    QUEUE_VERSION,
    KaiQueueObject,
    KaiQueueSpec,
    QueueResource,
    QueueResources,
)
from pumice.model.resources import CPU, MEMORY
from pumice.scheduler.assembly import Assembly
from pumice.scheduler.loop import Loop
from pumice.scheduler.report import CycleReport
from pumice.sim.cluster import Delays, SimCluster, SimPod
from pumice.sim.controller import JobController
from pumice.sim.engine import EventLog, Rank, Timeline
from pumice.sim.faults import Fault, Faults
from pumice.sim.fit import Room
from pumice.sim.jobs import JobSpec
from pumice.sim.policies import PolicyWatch
from pumice.sim.recorder import Recorder, queue_record
from pumice.sim.results.records import SEED, Origin, RecordedReason, RunRecord, Window
from pumice.sim.speed import Costs

OFTEN: Final = 4096
"""Cycles between two looks while something is found, and before the first one."""
SELDOM: Final = 8 * OFTEN
"""Cycles between two looks at the most."""


class Garbage:
    """Looks for garbage now and then: half as often each time that there is none, as at first once there is."""

    def __init__(self) -> None:
        self._between = self.next_look = OFTEN
        """How many cycles are between two looks, and the cycle after which the next one is due."""

    def look(self) -> None:
        """Free what nobody can reach, of what was made since the last look."""
        self._between = OFTEN if gc.collect(0) else min(2 * self._between, SELDOM)
        self.next_look += self._between


class Interrupted:
    """Says whether somebody asked for the end."""

    def __init__(self) -> None:
        self.asked = False

    def _notice(self, number: int, frame: object) -> None:
        if self.asked:  # once more: somebody does not want to wait
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def noticed() -> Iterator[Interrupted]:
    """Within the block a first Ctrl-C (or a SIGTERM that somebody handles) is noted, a second one interrupts."""
    interrupted = Interrupted()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    taken = {n: handler for n, handler in before.items() if callable(handler)}
    for number in taken:
        signal.signal(number, interrupted._notice)
    try:
        yield interrupted
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


READERS: Final = frozenset({"usage", "rescheduling"})
"""The plugins that read measurements."""
_SHARE: Final = re.compile(r"([0-9]{1,4})%", re.ASCII)


class SimMeasuring:
    """Measures as often as the conf says, once in thirty seconds if it does not; only where a plugin reads it."""

    def __init__(self, conf: SchedulerConf) -> None:
        self.wanted = any(listed.plugin.name in READERS for listed in conf.listed())
        self.interval = _interval(conf)
        self._last: dict[str, Any] | None = None

    def environment(self, cluster: SimCluster, now: float) -> dict[str, Any] | None:
        """The measurements for plugins at this time; None if no plugin reads them."""
        if not self.wanted:
            return None
        last = self._last
        if last is None or now - last["usage_time"] >= self.interval:
            last = self._last = {
                "usage_interval": self.interval,
                "usage_time": now,
                "node_usage": {name: self._percent(cluster, name, now) for name in sorted(cluster.nodes)},
            }
        return last

    def _percent(self, cluster: SimCluster, name: str, now: float) -> dict[str, float]:
        node = cluster.nodes[name]
        seen = [p for p in node.pods.values() if p.started is not None and now - p.started >= self.interval]
        used = {"cpu": 0.0, "memory": 0.0}
        for pod in seen:
            part = share_of(pod)
            used["cpu"] += part * pod.kind.demand.cpu_milli
            used["memory"] += part * pod.kind.demand.memory_bytes
        whole = {"cpu": node.whole.get(CPU, 0), "memory": node.whole.get(MEMORY, 0)}
        return {what: min(100.0 * used[what] / whole[what], 100.0) if whole[what] else 0.0 for what in used}


def share_of(pod: SimPod) -> float:
    """The part of what a pod asks for that it really uses: all of it, unless its annotation says so."""
    found = _SHARE.fullmatch((pod.kind.annotations or {}).get(keys.SIM_USES_ANNOTATION, "100%"))
    return int(found[1]) / 100 if found is not None else 1.0


def _interval(conf: SchedulerConf) -> float:
    try:
        found = parse_duration(conf.metrics.get("interval") or "30s") / SECOND
    except InvalidInput:
        found = 0.0
    return found if found > 0 else 30.0


INTERRUPTED = "interrupted"
"""The failure of a run that the user ended."""
MOST_NAMED = 5
"""Jobs that can never fit which are named one by one."""
MOST_STILL_S = 7 * 86_400
"""Cycles by the clock end a run if they decided nothing for so long and nothing else will happen."""
MOST_CYCLES_AT_ONCE = 100
"""Cycles at one instant before the next one has to wait for the period."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run."""

    now: float
    submitted: int
    over: int
    cycles: int


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything about a run but its workload and its configuration."""

    name: str = "run"
    objects: Sequence[AnyObject] = ()
    """Nodes, queues and whatever else is there at the start."""
    seed: int = 0
    horizon_s: float = math.inf
    delays: Delays = field(default_factory=Delays)
    faults: Faults = field(default_factory=Faults)
    costs: Costs = field(default_factory=Costs)
    period_s: float = 1.0
    """How long after a cycle that decided something the next one follows, if nothing happens before."""
    settle: bool = True
    """Do such cycles follow at all? Without them a cycle runs only at instants in which something happened."""
    every_s: float = 0.0
    """A cycle runs at least so often while there are jobs, as in production; 0: only when something happens."""
    measure: Window | None = None
    """Jobs submitted in it are played to their end and count in figures; those before and after it are load."""
    unit: str = SEED
    """The population of the run in a comparison."""
    trace: str = ""
    """The workload, in a few words."""
    warnings: tuple[str, ...] = ()
    """Doubts about it."""
    notes: tuple[str, ...] = ()
    """The inputs that were left out or changed."""
    origin: Origin = field(default_factory=Origin)


class Simulation:
    """A run in the making. `run` it to its end, or to its first failure; `record` is there in any case."""

    def __init__(
        self,
        setting: Setting,
        assembly: Assembly,
        *,
        log: TextIO | None = None,
        progress: Callable[[Progress], None] | None = None,
        history: HistoryWriter | None = None,
    ) -> None:
        self.setting = setting
        self.timeline = Timeline()
        self.log = EventLog(log)
        self.recorder = Recorder(self.timeline, self._queue_of)
        self.cluster = SimCluster(
            self.timeline, delays=setting.delays, seed=setting.seed, log=self.log, watcher=self.recorder
        )
        self.controller = JobController(
            self.cluster,
            self.recorder,
            seed=setting.seed,
            pod_failures_every_s=setting.faults.pods_every_s,
            costs=setting.costs,
        )
        runtime = Runtime(seed=setting.seed, metered=False)
        self.loop = Loop(self.cluster, self.cluster, assembly, self.timeline.clock, runtime=runtime)
        if history is not None:
            followed = HistoryRecorder(self.loop.state, [history], strict=True)
            self.loop.observers.append(followed)
            self.recorder.endings = followed.endings
        self._policies = PolicyWatch(ticking=bool(setting.every_s))
        self.loop.inspect = self._look
        self._measuring = SimMeasuring(assembly.conf)
        self._garbage = Garbage()
        self.cycles = 0
        self.failure = ""
        """Why the run was stopped before its end, or nothing."""
        self.never_fit: list[str] = []
        """Jobs that the cluster is too small for, each with the reason."""
        self._progress = progress
        self._last: CycleReport | None = None
        nodes = [o for o in setting.objects if isinstance(o, NodeObject)]
        self._room = Room([*nodes, *setting.faults.joining])
        self._priorities: set[int] = set()
        self._arrivals: Iterator[JobSpec] = iter(())
        self._arriving = False
        self._wake_at = -1.0
        self._span = 0.0
        self._ticking = False
        self._decided_at = 0.0
        self._ended = False
        """All jobs that count are over, before the horizon."""

    def _queue_of(self, job: str) -> str:
        found = self.controller.jobs.get(job)
        return found.spec.queue if found is not None else ""

    # -- running ----------------------------------------------------------------------------------------------------
    def run(self, workload: Iterable[JobSpec]) -> RunRecord:
        """Play the workload (in the order of submission) to the end or the horizon; returns the record.

        A plugin that crashes, a scheduler that over-commits and an interruption by the user stop the run: the record
        is then marked as partial and `failure` says why.
        """
        collects = gc.isenabled()
        gc.disable()  # neither the scheduler nor the cluster make cyclic garbage; that of plugins is looked for
        try:
            with noticed() as interrupted:
                self._set_up(workload)
                self._play(interrupted)
        except KeyboardInterrupt:
            self.failure = INTERRUPTED
        except PumiceError as exc:
            self.failure = str(exc)
        finally:
            if collects:
                gc.enable()
        self.log.flush()
        return self.record()

    def _set_up(self, workload: Iterable[JobSpec]) -> None:
        cluster = self.cluster
        objects = list(self.setting.objects)
        if not any(isinstance(o, QueueObject) and o.metadata.name == "default" for o in objects):
            objects.insert(0, default_queue())
        nodes = [o for o in objects if isinstance(o, NodeObject)]
        for obj in objects:
            if isinstance(obj, NodeObject):
                cluster.join(obj)
            else:
                cluster.put(obj)
        for fault in self.setting.faults.plan(nodes, self.setting.seed, self.setting.horizon_s):
            self.timeline.at(fault.time, Rank.NODES, self._fault, fault)
        self._arrivals = iter(workload)
        self._next_arrival()

    def _fault(self, fault: Fault) -> None:
        fault.happen(self.cluster)

    def _next_arrival(self) -> None:
        """Let the next job of the workload arrive in its time, and no further one be looked at before."""
        spec = next(self._arrivals, None)
        self._arriving = spec is not None
        if spec is not None:
            self.timeline.at(max(spec.submit_s, self.timeline.now), Rank.ARRIVALS, self._arrive, spec)

    def _arrive(self, spec: JobSpec) -> None:
        if spec.key in self.controller.jobs:
            where = f"{spec.origin}: " if spec.origin else ""
            raise InvalidInput(f"{where}job {spec.key} is submitted while another one of that name is there")
        if spec.priority and spec.priority_class and spec.priority not in self._priorities:
            self._priorities.add(spec.priority)
            self.cluster.put(PriorityClass(metadata=Metadata(name=spec.priority_class), value=spec.priority))
        objection = self._room.objection(spec)
        if objection:
            where = f"{spec.origin}: " if spec.origin else ""
            self.never_fit.append(f"{where}job {spec.key} can never fit: {objection}")
        self._span = max(self._span, spec.submit_s)
        self.recorder.submitted(spec)
        self.controller.submit(spec)
        self._next_arrival()

    def _play(self, interrupted: Interrupted) -> None:
        timeline, setting = self.timeline, self.setting
        while True:
            if interrupted.asked:
                raise KeyboardInterrupt
            following = timeline.next_time()
            if following is None or following > setting.horizon_s:
                break
            if not self._arriving and not self.controller.jobs and self.controller.submitted:
                break  # only faults are left, and no job is there for them
            if self._is_measured(following):
                self._ended = True
                break
            if self._nothing_follows() and timeline.now - self._decided_at > MOST_STILL_S:
                break
            timeline.advance()
            at_once = 0
            while self.cluster.wake:
                self.cluster.wake = False
                decided = self.cluster.decisions
                self._cycle()
                at_once += 1
                if self.cluster.decisions > decided:
                    self._decided_at = timeline.now
                    self._wake_later()
                if at_once >= MOST_CYCLES_AT_ONCE:
                    self.cluster.wake = False
                    self._wake_later(force=True)
            self._tick_later()

    def _is_measured(self, following: float) -> bool:
        """Report whether all jobs that count are over; one that runs and has no end of its own is as good as over."""
        window = self.setting.measure
        if window is None or following < window[1]:
            return False
        return not any(
            window[0] <= job.spec.submit_s < window[1] and not (job.running and job.spec.run_s is None)
            for job in self.controller.jobs.values()
        )

    def _cycle(self) -> None:
        self.loop.environment = self._measuring.environment(self.cluster, self.timeline.now)
        report = self.loop.step()
        self._last = report
        self.cycles += 1
        if report.errors:
            raise PumiceError(report.errors[0])
        self.recorder.sample(self.loop.state, self._span)
        if self._progress is not None and self.cycles % 64 == 0:
            self._progress(self.progress)
        if self.cycles >= self._garbage.next_look:
            self._garbage.look()

    def _look(self, session: Session) -> None:
        if not self._policies.look(session):
            self.loop.inspect = None

    @property
    def progress(self) -> Progress:
        """The progress of the run."""
        return Progress(self.timeline.now, self.controller.submitted, self.controller.over, self.cycles)

    def _wake_later(self, *, force: bool = False) -> None:
        if not self.setting.settle and not force:
            return
        at = self.timeline.now + self.setting.period_s
        if at > self._wake_at and self.controller.jobs:
            self._wake_at = at
            self.timeline.at(at, Rank.WAKE, self._wake)

    def _tick_later(self) -> None:
        """Let a cycle run at the next multiple of `Setting.every_s`, if there are jobs."""
        every = self.setting.every_s
        if every and not self._ticking and self.controller.jobs:
            self._ticking = True
            self.timeline.at((math.floor(self.timeline.now / every) + 1) * every, Rank.WAKE, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        self._wake()

    def _nothing_follows(self) -> bool:
        """Report whether nothing but cycles by the clock is going to happen."""
        return len(self.timeline) == self._ticking

    def _wake(self) -> None:
        self.cluster.wake = True

    # -- the record -------------------------------------------------------------------------------------------------
    def record(self) -> RunRecord:
        """The results of the run so far."""
        setting, now = self.setting, self.timeline.now
        for job in list(self.controller.jobs.values()):
            self.recorder.job_left(job, () if job.running else self._reasons(job.key))
        whole = math.isfinite(setting.horizon_s) and not self.failure and not self._ended
        horizon = setting.horizon_s if whole else now
        warnings = [*setting.warnings, *self.never_fit_in_words(), *self._stuck()]
        warnings += self._policies.warnings(setting.name)
        if self.failure:
            warnings.append(f"stopped at {timedelta(seconds=round(now))} of simulated time: {self.failure}")
        return RunRecord(
            name=setting.name,
            conf_digest=self.loop.assembly.conf.digest,
            seed=setting.seed,
            version=version("pumice"),
            trace=setting.trace,
            horizon=max(horizon, now),
            nodes=self.recorder.nodes,
            queues=tuple(queue_record(q.object) for q in self.loop.state.queues.values()),
            jobs=self.recorder.jobs,
            pods=tuple(self.recorder.pods),
            evictions=tuple(self.recorder.evictions),
            samples=tuple(self.recorder.samples),
            partial=bool(self.failure),
            warnings=tuple(warnings),
            notes=setting.notes,
            unit=setting.unit,
            measure=setting.measure,
            origin=setting.origin,
        )

    def never_fit_in_words(self) -> list[str]:
        """The first of the jobs that can never fit, and how many more there are."""
        more = len(self.never_fit) - MOST_NAMED
        rest = [f"and {more:,} more job{'' if more == 1 else 's'} that can never fit"] if more > 0 else []
        return [*self.never_fit[:MOST_NAMED], *rest]

    def _stuck(self) -> list[str]:
        """A warning if the run ended because nothing more can happen, and jobs wait that have a queue and room."""
        jobs = self.controller.jobs.values()
        if self.failure or not self._nothing_follows() or any(job.running for job in jobs):
            return []
        said = Counter(
            f"{reason.text} ({reason.plugin})" if reason.plugin else reason.text
            for job in jobs
            if job.spec.queue in self.loop.state.queues and not self._room.objection(job.spec)
            for reason in self._reasons(job.key)[:1]
        )
        return [f"jobs wait for ever though nothing runs: {said.most_common(1)[0][0]}"] if said else []

    def _reasons(self, key: str) -> tuple[RecordedReason, ...]:
        """Why a job waited in the last cycle."""
        report = self._last
        if report is None:
            return ()
        for error in report.fit_errors.get(key, {}).values():
            said = tuple(RecordedReason(text=r.text, plugin=r.plugin, nodes=n) for r, n in error.reasons())
            if said:
                return said
        refusal = report.refusals.get(key)
        if refusal is None:
            return ()
        if refusal.error is not None and refusal.error.reasons():
            return tuple(RecordedReason(text=r.text, plugin=r.plugin, nodes=n) for r, n in refusal.error.reasons())
        return (RecordedReason(text=refusal.text, plugin=refusal.plugin),)


def default_queue(name: str = "default") -> QueueObject:
    """An open queue of weight 1."""
    return QueueObject(
        metadata=Metadata(name=name, uid=name),
        spec=QueueSpec(weight=1, reclaimable=True),
        status=QueueStatus(state="Open"),
    )


def kai_queues() -> tuple[QueueObject, ...]:
    """The queues that an installation of KAI makes, without quota and limit."""
    free = QueueResource(quota=0, limit=-1, over_quota_weight=1)
    resources = QueueResources(cpu=free, memory=free, gpu=free)
    return tuple(
        KaiQueueObject(
            api_version=QUEUE_VERSION,
            metadata=Metadata(name=name, uid=name),
            spec=KaiQueueSpec(parent=parent, resources=resources),
            status=QueueStatus(state="Open"),
        )
        for name, parent in ((KAI_PARENT_QUEUE, ""), (KAI_QUEUE, KAI_PARENT_QUEUE))
    )


def merged(workloads: Sequence[Iterable[JobSpec]]) -> Iterator[JobSpec]:
    """Several workloads as one, in the order of submission; those of the first come first at one instant."""
    return heapq.merge(*workloads, key=lambda spec: spec.submit_s)
