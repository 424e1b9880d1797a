"""Workloads: traces, and arrivals drawn from a seed, turned into jobs that can be submitted."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from pumice.errors import InvalidInput
from pumice.framework.run_times import RUN_TIME_ANNOTATION
from pumice.model import keys
from pumice.model.api import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    Requirement,
    ResourceList,
    ResourceRequirements,
)
from pumice.model.mapping import Labels, frozen
from pumice.model.task import GROUP_ANNOTATION, ROLE_KEY
from pumice.sim.draws import Constant, Draw, stream, uniform_of
from pumice.sim.jobs import Demand, JobSpec, PodKind, Work, demand_of
from pumice.sim.recorder import MODEL_LABEL
from pumice.sim.results.records import Window
from pumice.sim.speed import Speed
from pumice.sim.traces import Trace, TraceJob, TracePod

NEARLY_WHOLE: Final = 0.9
"""The last submission ends a trace somewhat before its last day or week does: so much of a part must be there."""


@dataclass(frozen=True, slots=True)
class Split:
    """A trace cut into parts of one length. Each is a run of its own, and only jobs that it submits are measured."""

    begin_s: float
    length_s: float
    lead_s: float
    """Jobs of so long before a part are played first, so that it does not begin on an empty cluster."""
    numbers: tuple[int, ...]
    """Parts that have jobs, counted from 1. A rest that is shorter than `NEARLY_WHOLE` of a part is none."""

    @classmethod
    def of(cls, submits: Sequence[float], length_s: float, lead_s: float, window: Window | None) -> Split:
        """Return the parts of the trace that *submits* jobs at these times, within a window if one is given.

        :raises InvalidInput: there is not one whole part with a job.
        """
        first, last = (min(submits, default=0.0), max(submits, default=0.0)) if window is None else window
        whole = math.floor((last - first) / length_s + 1 - NEARLY_WHOLE + 1e-9)
        found = {math.floor((at - first) / length_s) + 1 for at in submits}
        numbers = tuple(number for number in range(1, whole + 1) if number in found)
        if not numbers:
            raise InvalidInput(f"--split: the trace has {(last - first) / 3600:.0f} h, so no part of this length")
        return cls(first, length_s, lead_s, numbers)

    def window(self, number: int) -> Window:
        """Return when the jobs of a part are submitted.

        :raises InvalidInput: there is no such part.
        """
        if number not in self.numbers:
            raise InvalidInput(f"part {number}: the trace has parts {self.numbers[0]} to {self.numbers[-1]}")
        begin = self.begin_s + (number - 1) * self.length_s
        return begin, begin + self.length_s

    def unit(self) -> str:
        """Return what one run stands for: ``part of 7 d``."""
        days = self.length_s / 86_400
        return f"part of {days:g} d" if days >= 1 else f"part of {self.length_s / 3600:g} h"


@dataclass(frozen=True, slots=True)
class Shake:
    """How a trace is varied from seed to seed."""

    jitter_s: float = 900.0
    """Every submission moves by up to this, either way."""
    drop: float = 0.01
    """The part of the jobs that is left out."""
    block_s: float = 0.0
    """Parts of this length (weeks, say) are drawn with replacement, in the place of the trace's own; 0: not."""

    def __bool__(self) -> bool:
        return bool(self.jitter_s or self.drop or self.block_s)

    def jobs(self, trace: Sequence[TraceJob], seed: int) -> list[TraceJob]:
        """Return the trace of this seed, in the order of submission; the same seed gives the same one."""
        drawn = self._blocks(trace, seed) if self.block_s and trace else iter(trace)
        return sorted(self._moved(drawn, seed), key=lambda job: job.submit_s)

    def _blocks(self, trace: Sequence[TraceJob], seed: int) -> Iterator[TraceJob]:
        first, last = trace[0].submit_s, trace[-1].submit_s
        count = max(1, math.ceil((last - first) / self.block_s))
        rng = stream(seed, "blocks")
        blocks: list[list[TraceJob]] = [[] for _ in range(count)]
        for job in trace:
            blocks[min(count - 1, int((job.submit_s - first) // self.block_s))].append(job)
        for place in range(count):
            block = rng.randrange(count)
            for job in blocks[block]:
                moved = job.submit_s + (place - block) * self.block_s
                yield replace(job, submit_s=moved, name=f"{job.name}-{place}")  # a block may come twice

    def _moved(self, jobs: Iterable[TraceJob], seed: int) -> Iterator[TraceJob]:
        for job in jobs:
            if self.drop and uniform_of(seed, "drop", job.name) < self.drop:
                continue
            if not self.jitter_s:
                yield job
                continue
            by = round((2 * uniform_of(seed, "jitter", job.name) - 1) * self.jitter_s)
            yield replace(job, submit_s=max(0.0, job.submit_s + by))

    def in_words(self) -> str:
        """Return what it does to a trace, as a part of a sentence."""
        parts = []
        if self.block_s:
            parts.append(f"parts of {self.block_s / 86_400:g} d drawn anew")
        if self.jitter_s:
            parts.append(f"submissions moved by up to {self.jitter_s / 60:g} min")
        if self.drop:
            parts.append(f"{100 * self.drop:g} % of jobs left out")
        return ", ".join(parts) or "nothing changed"


GPU = "nvidia.com/gpu"
FRACTION_ANNOTATION = keys.GPU_FRACTION
DEVICES_ANNOTATION = keys.GPU_DEVICES
SCHEDULER = "pumice"
DAY_S = 86_400.0
ONE, NONE = Constant(1), Constant(0)


# -- traces -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TracePart:
    """A trace of the workload, and how its jobs are submitted."""

    trace: Trace
    merge: bool = False
    """Each job is one pod that asks for all of it."""
    queue: str = ""
    """The queue that takes the place of the trace's own."""
    create_queues: bool = True
    """Make the queues that it names and that are not there."""
    shake: Shake = field(default_factory=Shake)
    """How it varies where many seeds are played."""
    speed: Speed | None = None
    """How fast its jobs work; else as the scenario says."""


class _Role(NamedTuple):
    """Equal pods of a job, and all that those of jobs of the same shape share."""

    name: str
    numbers: range
    """Their own, among all pods of the job."""
    spec: PodSpec
    demand: Demand
    notes: dict[str, str]


class _Shape(NamedTuple):
    """The common data of jobs with equal requests."""

    roles: tuple[_Role, ...]
    priority_class: str
    minimum: ResourceList
    """The sum of requests of the first of its pods, as many as must start together."""


class TraceJobs:
    """Turns jobs of a trace into jobs that can be submitted. Data of equal jobs is made once."""

    def __init__(
        self,
        *,
        merge: bool = False,
        queue: str = "",
        checkpoint_s: float = 0.0,
        speed: Speed | None = None,
        origin: str = "",
    ) -> None:
        self._merge, self._queue, self._origin = merge, queue, origin
        self._checkpoint, self._speed = checkpoint_s, speed
        self._kinds: dict[tuple[TracePod, int], tuple[PodSpec, Demand]] = {}
        self._shapes: dict[tuple[tuple[TracePod, ...], int, int], _Shape] = {}

    def jobs(self, trace: Iterable[TraceJob]) -> Iterator[JobSpec]:
        """Every job, in the order given."""
        return map(self.job, trace)

    def job(self, job: TraceJob) -> JobSpec:
        """One job: a PodGroup with one role per kind of pod. With *merge*, one pod that asks for the whole job."""
        pods, least, name, run_s = job.pods, job.min_available, job.name, job.duration_s
        if self._merge:
            pods, least = (_merged(job),), 1
        shape = self._shapes.get((pods, least, job.priority))
        if shape is None:
            shape = self._shapes[pods, least, job.priority] = self._shape(pods, least, job.priority)
        kinds = [
            PodKind(
                role,
                tuple([f"{name}-{role}-{n}" for n in numbers]),
                spec,
                demand,
                annotations=Labels({GROUP_ANNOTATION: name, **notes}),  # no other job's are equal
                run_s=run_s,
            )
            for role, numbers, spec, demand, notes in shape.roles
        ]
        declared = job.run_time_declared_s
        return JobSpec(
            name=name,
            submit_s=job.submit_s,
            kinds=tuple(kinds),
            min_available=least,
            work=Work.GANG,
            run_s=run_s if math.isfinite(run_s) else None,
            queue=self._queue or job.queue,
            user=job.user,
            priority=job.priority,
            priority_class=shape.priority_class,
            min_resources=shape.minimum,
            annotations=None if declared is None else Labels({RUN_TIME_ANNOTATION: seconds_text(declared)}),
            checkpoint_s=self._checkpoint,
            speed=self._speed,
            origin=f"{self._origin}:{job.line}" if job.line else self._origin,
        )

    def _shape(self, pods: tuple[TracePod, ...], least: int, priority: int) -> _Shape:
        roles = []
        first = 0
        for number, pod in enumerate(pods):
            role = "task" if len(pods) == 1 else f"task{number}"
            numbers = range(first, first + pod.count)
            spec, demand = self._kind(replace(pod, count=1), priority)
            roles.append(_Role(role, numbers, spec, demand, {ROLE_KEY: role, **_gpu_notes(pod)}))
            first = numbers.stop
        return _Shape(tuple(roles), class_name(priority), _minimum(pods, least))

    def _kind(self, pod: TracePod, priority: int) -> tuple[PodSpec, Demand]:
        known = self._kinds.get((pod, priority))
        if known is None:
            resources = ResourceRequirements(requests=_requests(pod))
            spec = PodSpec(
                containers=(Container(name="main", resources=resources),),
                scheduler_name=SCHEDULER,
                affinity=_models(pod),
                priority=priority or None,
                priority_class_name=class_name(priority),
            )
            known = self._kinds[pod, priority] = spec, demand_of(spec, pod.gpu_devices * pod.gpu_milli)
        return known


def _minimum(pods: tuple[TracePod, ...], least: int) -> ResourceList:
    """The sum of requests of the first *least* pods."""
    cpu = memory = gpus = 0
    left = least
    for pod in pods:
        count = min(left, pod.count)
        left -= count
        cpu += count * pod.cpu_milli
        memory += count * pod.memory_bytes
        gpus += count * pod.gpu_devices if pod.gpu_milli == 1000 else 0
    asked: ResourceList = frozen(_requests(TracePod(1, cpu, memory, 1000 if gpus else 0, gpus)))
    return asked


def class_name(priority: int) -> str:
    """The name of the PriorityClass that stands for a number; none for 0."""
    return f"priority-{priority}".replace("--", "-minus-") if priority else ""


def seconds_text(seconds: float) -> str:
    """A duration as an annotation carries it: ``90s``."""
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{seconds}s"


def _merged(job: TraceJob) -> TracePod:
    return TracePod(
        1,
        sum(p.count * p.cpu_milli for p in job.pods),
        sum(p.count * p.memory_bytes for p in job.pods),
        max(p.gpu_milli for p in job.pods),
        sum(p.count * p.gpu_devices for p in job.pods),
        job.pods[0].gpu_models,
    )


def _requests(pod: TracePod) -> ResourceList:
    listed: ResourceList = {}
    if pod.cpu_milli:
        listed["cpu"] = f"{pod.cpu_milli}m"
    if pod.memory_bytes:
        listed["memory"] = str(pod.memory_bytes)
    if pod.gpu_devices and pod.gpu_milli == 1000:
        listed[GPU] = str(pod.gpu_devices)
    return listed


def _gpu_notes(pod: TracePod) -> dict[str, str]:
    if not pod.gpu_devices or pod.gpu_milli == 1000:
        return {}
    notes = {FRACTION_ANNOTATION: f"{pod.gpu_milli / 1000:g}"}
    if pod.gpu_devices > 1:
        notes[DEVICES_ANNOTATION] = str(pod.gpu_devices)
    return notes


def _models(pod: TracePod) -> Affinity | None:
    if not pod.gpu_models:
        return None
    wanted = Requirement(key=MODEL_LABEL, operator="In", values=tuple(pod.gpu_models))
    term = NodeSelectorTerm(match_expressions=(wanted,))
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=(term,))))


# -- arrivals drawn from a seed -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Arrivals:
    """When jobs arrive: on average *every* so many seconds from *start* to *until*, or *count* of them."""

    every_s: float
    process: str = "poisson"
    """``poisson``, or ``regular`` for equal distances."""
    start_s: float = 0.0
    until_s: float = math.inf
    count: int | None = None
    daily: tuple[float, ...] = ()
    """Weight of each part of a day (24 of them: of each hour); the mean stays *every*."""
    batch: int = 1
    """Jobs that arrive together."""

    @property
    def expected(self) -> float:
        """How many jobs arrive, about; infinite where they never cease."""
        drawn = self.batch * max(0.0, self.until_s - self.start_s) / self.every_s
        return drawn if self.count is None else min(drawn, self.count)

    def faster(self, factor: float) -> Arrivals:
        """The same with so many times as many jobs in the same time."""
        count = None if self.count is None else round(self.count * factor)
        return replace(self, every_s=self.every_s / factor, count=count)

    def times(self, rng: random.Random) -> Iterator[float]:
        """The instants, whole seconds in order.

        Distances are drawn on a clock that runs as fast as jobs arrive, and then turned into time. One draw gives one
        arrival, so that another load or another pattern of the day moves the jobs and changes none of them.
        """
        made, busy = 0, self._busy(self.start_s)
        while self.count is None or made < self.count:
            busy += rng.expovariate(1 / self.every_s) if self.process == "poisson" else self.every_s
            now = self._time(busy)
            if now >= self.until_s:
                return
            for _ in range(self.batch):
                made += 1
                yield float(round(now))
                if self.count is not None and made >= self.count:
                    return

    def _busy(self, time: float) -> float:
        """The reading of that clock at a *time*; on average it keeps pace."""
        if not self.daily:
            return time
        days, rest = divmod(time, DAY_S)
        hour = DAY_S / len(self.daily)
        whole = int(rest // hour)
        passed = sum(self.daily[:whole]) * hour + self.daily[whole] * (rest - whole * hour)
        return days * DAY_S + passed / self._mean

    def _time(self, busy: float) -> float:
        """When that clock shows *busy*."""
        if not self.daily:
            return busy
        days, rest = divmod(busy, DAY_S)
        rest *= self._mean
        hour = DAY_S / len(self.daily)
        for number, weight in enumerate(self.daily):
            if rest < weight * hour:
                return days * DAY_S + (number + rest / weight / hour) * hour
            rest -= weight * hour
        return (days + 1) * DAY_S

    @property
    def _mean(self) -> float:
        return sum(self.daily) / len(self.daily)


@dataclass(frozen=True, slots=True)
class Generator:
    """A stream of jobs of one kind."""

    name: str
    arrivals: Arrivals
    duration: Draw
    pods: Draw = ONE
    min_available: int | None = None
    """Pods that must start together; None: all."""
    gpu: Draw = NONE
    """GPU devices of each pod."""
    gpu_fraction: float = 1.0
    cpu_milli: int = 0
    memory_bytes: int = 0
    cpu_milli_per_gpu: int = 0
    memory_bytes_per_gpu: int = 0
    gpu_models: tuple[str, ...] = ()
    queue: str = "default"
    users: int = 0
    priority: int = 0
    declared: float = 0.0
    """The declared run time as a multiple of the real one; 0: none is declared."""
    speed: Speed | None = None
    """How fast the jobs work; else as the scenario says."""
    origin: str = ""
    """The source, for messages: ``day.yaml:12``."""

    def jobs(self, seed: int) -> Iterator[TraceJob]:
        """The jobs, in the order of arrival; the same seed gives the same ones."""
        for number, submit in enumerate(self.arrivals.times(stream(seed, self.name, "arrivals"))):
            duration = float(max(1, round(self._drawn("duration", self.duration, seed, number))))
            pods = max(1, round(self._drawn("pods", self.pods, seed, number)))
            devices = max(0, round(self._drawn("gpu", self.gpu, seed, number)))
            user = int(uniform_of(seed, self.name, "user", number) * self.users)
            pod = TracePod(
                pods,
                self.cpu_milli + devices * self.cpu_milli_per_gpu,
                self.memory_bytes + devices * self.memory_bytes_per_gpu,
                round(1000 * self.gpu_fraction) if devices else 0,
                devices,
                self.gpu_models,
            )
            yield TraceJob(
                name=f"{self.name}-{number:05d}",
                submit_s=submit,
                duration_s=duration,
                pods=(pod,),
                min_available=min(self.min_available or pods, pods),
                queue=self.queue,
                user=f"{self.name}-user-{user}" if self.users else "",
                priority=self.priority,
                run_time_declared_s=float(math.ceil(duration * self.declared)) if self.declared else None,
            )

    def _drawn(self, quantity: str, draw: Draw, seed: int, number: int) -> float:
        """The values of one quantity for one job; a stream is made only for draws."""
        if isinstance(draw, Constant):
            return draw.value
        return draw(stream(seed, self.name, quantity, number))
