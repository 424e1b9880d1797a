"""Records to test with, from a small and obvious cluster simulation that shares no code with the package.

Nodes of 8 GPUs; a job of up to 8 GPUs takes the node with the fewest sufficient free GPUs, a larger one idle nodes and
a best fit for the rest. A job starts when all its GPUs are there and runs exactly its duration.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from pumice.sim.results import (
    EvictionRecord,
    JobRecord,
    NodeRecord,
    PodRecord,
    QueueRecord,
    RecordedReason,
    RunRecord,
    Sample,
)

GIB = 1024**3
QUEUES = {"research": 3.0, "production": 4.0, "batch": 1.0, "interactive": 2.0, "vision": 2.0, "language": 2.0}


@dataclass
class Job:
    number: int
    submit: int
    duration: int
    gpus: int
    queue: str = "default"
    user: str = ""
    priority: int = 0
    start: int | None = None
    end: int | None = None
    begun: int = 0
    places: list[tuple[int, int]] = field(default_factory=list)


Order = Callable[[Job], tuple[int, ...]]


def fifo(job: Job) -> tuple[int, ...]:
    return (-job.priority, job.submit, job.number)


def shortest_first(job: Job) -> tuple[int, ...]:
    return (job.duration, job.submit, job.number)


def place(free: list[int], gpus: int) -> list[tuple[int, int]] | None:
    """Nodes and GPUs for a job, or None."""
    whole, rest = divmod(gpus, 8) if gpus > 8 else (0, gpus)
    idle = [node for node, count in enumerate(free) if count == 8][:whole]
    if len(idle) < whole:
        return None
    places = [(node, 8) for node in idle]
    if rest:
        fits = [(count, node) for node, count in enumerate(free) if count >= rest and node not in idle]
        if not fits:
            return None
        places.append((min(fits)[1], rest))
    return places


def play(
    jobs: list[Job],
    nodes: int,
    order: Order,
    *,
    strict: bool = True,
    preempt: bool = False,
    horizon: int | None = None,
    name: str = "run",
    seed: int = 0,
) -> RunRecord:
    """Run *jobs* to their end (or to *horizon*) and return the record."""
    free = [8] * nodes
    arriving = sorted(jobs, key=lambda job: (job.submit, job.number))
    queue: list[Job] = []
    running: dict[int, Job] = {}
    ends: list[tuple[int, int, int]] = []
    pods: list[PodRecord] = []
    evictions: list[EvictionRecord] = []
    samples: list[Sample] = []
    now, index = 0, 0

    def leave(job: Job, outcome: str) -> None:
        for part, (node, gpus) in enumerate(job.places):
            free[node] += gpus
            lost = 0 if outcome in ("completed", "running") else now - job.begun
            pods.append(
                PodRecord(
                    job=f"default/job-{job.number:05d}",
                    name=f"job-{job.number:05d}-{part}",
                    node=f"node-{node:03d}",
                    start=job.begun,
                    end=None if outcome == "running" else now,
                    cpu_milli=gpus * 6000,
                    memory_bytes=gpus * 48 * GIB,
                    gpu_milli=gpus * 1000,
                    outcome=outcome if part == 0 or outcome != "evicted" else "restarted",  # type: ignore[arg-type]
                    lost_s=lost,
                )
            )
        running.pop(job.number)

    def begin(job: Job, places: list[tuple[int, int]]) -> None:
        for node, gpus in places:
            free[node] -= gpus
        job.places, job.begun = places, now
        job.start = now if job.start is None else job.start
        running[job.number] = job
        heapq.heappush(ends, (now + job.duration, job.number, now))

    def evict_for(job: Job) -> list[tuple[int, int]] | None:
        lower = sorted((v for v in running.values() if v.priority < job.priority), key=lambda v: (-v.begun, -v.number))
        trial, victims = list(free), []
        for victim in lower:
            for node, gpus in victim.places:
                trial[node] += gpus
            victims.append(victim)
            if place(trial, job.gpus) is not None:
                break
        else:
            return None
        for victim in victims:
            evictions.append(
                EvictionRecord(
                    time=now,
                    pod=f"job-{victim.number:05d}-0",
                    job=f"default/job-{victim.number:05d}",
                    queue=victim.queue,
                    action="preempt" if victim.queue == job.queue else "reclaim",
                    node=f"node-{victim.places[0][0]:03d}",
                    gpu_milli=victim.places[0][1] * 1000,
                    ran_s=now - victim.begun,
                    beneficiary=f"default/job-{job.number:05d}",
                    beneficiary_queue=job.queue,
                )
            )
            leave(victim, "evicted")
            queue.append(victim)
        return place(free, job.gpus)

    while index < len(arriving) or ends:
        moments = ([arriving[index].submit] if index < len(arriving) else []) + ([ends[0][0]] if ends else [])
        if horizon is not None and min(moments) > horizon:
            break
        now = min(moments)
        while ends and ends[0][0] == now:
            _, number, begun = heapq.heappop(ends)
            if number in running and running[number].begun == begun:
                running[number].end = now
                leave(running[number], "completed")
        while index < len(arriving) and arriving[index].submit == now:
            queue.append(arriving[index])
            index += 1
        for job in sorted(queue, key=order):
            places = place(free, job.gpus)
            if places is None and preempt and job.priority > 0:
                places = evict_for(job)
            if places is not None:
                queue.remove(job)
                begin(job, places)
            elif strict:
                break
        idle = sum(free)
        split = sum(count for count in free if count < 8)
        samples.append(Sample(time=now, fragmentation=split / idle if idle else None))

    finish = now if horizon is None else horizon
    still = set(running)
    for job in list(running.values()):
        leave(job, "running")
    return RunRecord(
        name=name,
        conf_digest=f"sha256:{random.Random(name).randbytes(8).hex()}",
        seed=seed,
        version="0.1.0",
        trace=f"{len(jobs):,} made-up jobs",
        horizon=finish,
        nodes=tuple(
            NodeRecord(name=f"node-{node:03d}", cpu_milli=64_000, memory_bytes=512 * GIB, gpus=8, gpu_model="A100")
            for node in range(nodes)
        ),
        queues=tuple(QueueRecord(name=queue, weight=weight) for queue, weight in QUEUES.items()),
        jobs=tuple(_record(job, job.number in still) for job in arriving[:index]),
        pods=tuple(pods),
        evictions=tuple(evictions),
        samples=tuple(samples),
        partial=horizon is not None and index < len(arriving),
    )


def _record(job: Job, running: bool) -> JobRecord:
    waits = job.end is None and not running
    reasons = (
        RecordedReason(text=f"too few free GPUs for {min(job.gpus, 8)} on one node", plugin="predicates", nodes=16),
        RecordedReason(text=f"0 of {math.ceil(job.gpus / 8)} required tasks have a place", plugin="gang"),
    )
    return JobRecord(
        name=f"job-{job.number:05d}",
        queue=job.queue,
        user=job.user,
        priority=job.priority,
        submit=job.submit,
        start=job.start,
        end=job.end,
        duration=job.duration,
        gpus=job.gpus,
        cpus=job.gpus * 6,
        memory_bytes=job.gpus * 48 * GIB,
        pods=math.ceil(job.gpus / 8),
        outcome="completed" if job.end is not None else "pending" if waits else "running",
        reasons=reasons if waits else (),
    )


def workload(count: int, seed: int, days: float = 7.0) -> list[Job]:
    """*count* jobs of six queues over some days: more by day than by night, most of them small and short."""
    rng = random.Random(seed)
    names = list(QUEUES)
    jobs = []
    submit_times: list[int] = []
    while len(submit_times) < count:
        moment = rng.uniform(0, days * 86_400)
        if rng.random() < 0.55 + 0.45 * math.sin(moment / 86_400 * 2 * math.pi - 1.6):
            submit_times.append(int(moment))
    for number, submit in enumerate(sorted(submit_times)):
        queue = rng.choices(names, [30, 12, 25, 18, 9, 6])[0]
        gpus = rng.choices([1, 2, 4, 8, 16, 24, 32, 64], [55, 14, 11, 12, 4, 1.5, 2, 0.5])[0]
        duration = int(min(max(rng.lognormvariate(7.6, 1.7), 20), 4 * 86_400))
        if queue == "interactive":
            gpus, duration = min(gpus, 2), min(duration, 14_400)
        priority = {"production": 100, "interactive": 10}.get(queue, 0)
        user = rng.choice(["ada", "grace", "linus", "barbara", "edsger", "margaret"])
        jobs.append(Job(number, submit, duration, gpus, queue, user, priority))
    return jobs
