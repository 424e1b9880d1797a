"""``when``: the question put to a state, and the answer with what it assumes."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from pumice.answers.finding import find_job
from pumice.answers.when.calibration import SLACK, StartRange
from pumice.answers.when.forward import Amounts, Holder, Scene, Waiter, forecast
from pumice.answers.when.past import DRAWS, Learned, past_of, size_of
from pumice.answers.when.run_times import Kind
from pumice.framework.run_times import declared_run_time, started_at
from pumice.history.stories import Told
from pumice.model.job import Job
from pumice.model.resources import CPU, MEMORY, dim
from pumice.model.status import IS_ALLOCATED, TaskStatus
from pumice.model.task import GPU_RESOURCES, Task
from pumice.state.cluster import ClusterState
from pumice.words import counted

TESTED = 200
"""Past submissions that are predicted again, to see how predictions come out."""
FACTOR = 4.0
"""How wide a range is, either way, while no earlier prediction has come out."""
ORDER = "jobs start by priority and age, as soon as there is room for them in all nodes together"
ALONE = "nobody comes who goes first, and no node comes or goes"


class WhenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """When a job will likely start: a range, what it rests on, and what it assumes. Times are seconds from *now*."""

    job: str
    queue: str
    now: float
    runs: bool = False
    """It has its places already."""
    place: int = 0
    """Among all jobs that wait, by priority and age."""
    waiting: int = 0
    low: float | None = None
    """It starts before this in one of ten cases."""
    high: float | None = None
    """It starts after this in one of ten cases; None: it does not start with what is there."""
    outcomes: int = 0
    """Earlier predictions that the range was made from; 0: a guess."""
    learned: int = 0
    """Jobs whose run times were learned."""
    assumes: list[str] = []


def learn(told: Told) -> Learned:
    """Run times, and how predictions come out, from a history; the newest submissions are predicted again."""
    past, room = past_of(told)
    learned = Learned()
    waited = [job.job for job in past if job.submitted < job.started < math.inf]
    asked = set(waited[-TESTED:])
    for _ in learned.walk(past, room, lambda job: job.job in asked):
        pass
    return learned


def scene_of(state: ClusterState) -> tuple[Scene, list[Job]]:
    """What runs, what waits in which order, what is free; and the waiting jobs in that order."""
    open_nodes = [node for node in state.nodes.values() if not node.object.spec.unschedulable]
    dimensions = (CPU, MEMORY)
    room = [sum(int(node.allocatable.get(d)) for node in open_nodes) for d in dimensions]
    room.append(sum(int(node.allocatable.get(dim(name))) for node in open_nodes for name in GPU_RESOURCES))
    held = asks_of(task for node in open_nodes for task in node.tasks.values())
    holders, waiting = [], []
    for job in state.session_jobs.values():
        placed = [task for task in job.tasks.values() if IS_ALLOCATED[task.status]]
        if placed:
            begun = [at for at in map(started_at, placed) if at is not None]
            asks = asks_of(placed)
            kind = Kind(job.queue, size_of(asks))
            holders.append(Holder(kind, asks, min(begun, default=state.now), declared_run_time(job)))
        if job.with_status(TaskStatus.PENDING) and not job.is_ready:
            waiting.append(job)
    waiting.sort(key=lambda job: (-job.priority, job.creation, job.uid))
    queue = [Waiter(job.uid, _kind(job), _needs(job), declared_run_time(job)) for job in waiting]
    free = tuple(max(has - taken, 0) for has, taken in zip(room, held, strict=True))
    return Scene(state.now, free, holders, queue), waiting


def asks_of(tasks: Iterable[Task]) -> Amounts:
    """CPU, memory and GPUs, in thousandths where they are shared, of all of them."""
    cpu = memory = gpus = 0
    for task in tasks:
        requests, gpu = task.klass.requests, task.klass.gpu
        cpu += int(requests.get(CPU))
        memory += int(requests.get(MEMORY))
        gpus += gpu.devices * (gpu.milli or 1000) if gpu is not None else 0
    return cpu, memory, gpus


def _kind(job: Job) -> Kind:
    return Kind(job.queue, size_of(asks_of(job.tasks.values())))


def _needs(job: Job) -> Amounts:
    """What must be free for it to start."""
    pending = list(job.with_status(TaskStatus.PENDING).values())
    return asks_of(pending[: max(job.min_available - job.ready_count, 1)])


def when(state: ClusterState, name: str, namespace: str = "", learned: Learned | None = None) -> WhenAnswer:
    """When a job will likely start; *learned* is what the past says, if there is any.

    :raises NoSuchThing: there is no such job.
    """
    return when_all(state, learned, find_job(state, name, namespace))[0]


def when_all(state: ClusterState, learned: Learned | None = None, only: Job | None = None) -> list[WhenAnswer]:
    """When every waiting job will likely start, in their order; or *only* one job."""
    known = learned or Learned()
    scene, waiting = scene_of(state)
    if only is not None and only not in waiting:
        return [WhenAnswer(job=only.uid, queue=only.queue, now=state.now, runs=only.is_ready and bool(only.tasks))]
    said = forecast(scene, known.times, draws=DRAWS, last=only.uid if only is not None else "")
    return [
        _answer(job, place, len(waiting), said[job.uid], state.now, known)
        for place, job in enumerate(waiting, 1)
        if job.uid in said
    ]


def _answer(job: Job, place: int, waiting: int, said: float, now: float, known: Learned) -> WhenAnswer:
    found = known.calibration.range_of(said, now) or _guess(said)
    assumes = [ORDER, ALONE]
    if known.times.learned:
        assumes.append(
            f"run times are like those of {counted(known.times.learned, 'job')} that ended, at most as declared"
        )
    else:
        assumes.append("nothing is known of run times but what is declared: ten minutes to ten hours")
    if found is None:
        assumes.append("it asks for more than will be free, however long it waits")
    return WhenAnswer(
        job=job.uid,
        queue=job.queue,
        now=now,
        place=place,
        waiting=waiting,
        low=found.low if found is not None else None,
        high=found.high if found is not None else None,
        outcomes=found.outcomes if found is not None else 0,
        learned=known.times.learned,
        assumes=assumes,
    )


def _guess(said: float) -> StartRange | None:
    if not math.isfinite(said):
        return None
    return StartRange(max((said + SLACK) / FACTOR - SLACK, 0.0), said, (said + SLACK) * FACTOR - SLACK, 0)
