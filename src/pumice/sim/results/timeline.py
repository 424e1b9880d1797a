"""The course of a run: use by queue and by node, pending jobs, stays of a job. Exact, from the records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from pumice.sim.results.records import JobRecord, NodeRecord, PodRecord, RunRecord

Resource = Literal["gpu", "cpu", "memory"]
Floats = npt.NDArray[np.float64]

_POD: Mapping[Resource, Callable[[PodRecord], int]] = {
    "gpu": lambda pod: pod.gpu_milli,
    "cpu": lambda pod: pod.cpu_milli,
    "memory": lambda pod: pod.memory_bytes,
}
_NODE: Mapping[Resource, Callable[[NodeRecord], int]] = {
    "gpu": lambda node: 1000 * node.gpus,
    "cpu": lambda node: node.cpu_milli,
    "memory": lambda node: node.memory_bytes,
}


def span(run: RunRecord) -> tuple[float, float]:
    """Return the time that is shown: first submission to last end, or to the horizon if work was left."""
    if not run.jobs:
        return 0.0, run.horizon
    first = min(job.submit for job in run.jobs)
    if any(job.end is None for job in run.jobs):
        return first, max(first, run.horizon)
    return first, max(job.end for job in run.jobs if job.end is not None)


def measured(run: RunRecord) -> tuple[float, float]:
    """Return the time that figures of the whole run are taken over: what is measured of it, else its span."""
    return span(run) if run.measure is None else (run.measure[0], min(run.measure[1], run.horizon))


def edges(run: RunRecord, buckets: int, between: tuple[float, float] | None = None) -> Floats:
    """Return the borders of *buckets* equal parts of the span; a span of nothing is taken as one second."""
    first, last = between or span(run)
    return np.linspace(first, last if last > first else first + 1.0, buckets + 1)


def total(starts: Iterable[float], ends: Iterable[float], amounts: Iterable[float], at: Floats) -> Floats:
    """Return the amount × time of all intervals up to each of the points *at* (which ascend)."""
    start, end = np.fromiter(starts, np.float64), np.fromiter(ends, np.float64)
    amount = np.fromiter(amounts, np.float64)
    times = np.concatenate((start, end))
    if times.size == 0:
        return np.zeros_like(at)
    order = np.argsort(times, kind="stable")
    times = times[order]
    level = np.cumsum(np.concatenate((amount, -amount))[order])
    summed = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(times))))
    return np.interp(at, times, summed)  # the level is 0 before the first and after the last moment


def mean_use(pods: Iterable[PodRecord], resource: Resource, borders: Floats, horizon: float) -> Floats:
    """Return the mean amount in use between each two *borders*."""
    chosen, amount = list(pods), _POD[resource]
    ends = (horizon if pod.end is None else pod.end for pod in chosen)
    summed = total((pod.start for pod in chosen), ends, (float(amount(pod)) for pod in chosen), borders)
    return np.diff(summed) / np.diff(borders)


def mean_capacity(nodes: Iterable[NodeRecord], resource: Resource, borders: Floats, horizon: float) -> Floats:
    """Return the mean amount that the nodes offered between each two *borders*."""
    chosen, amount = list(nodes), _NODE[resource]
    last = max(horizon, float(borders[-1]))
    ends = (last if node.until is None else node.until for node in chosen)
    summed = total((node.since for node in chosen), ends, (float(amount(node)) for node in chosen), borders)
    return np.diff(summed) / np.diff(borders)


def use_by_queue(run: RunRecord, resource: Resource, borders: Floats) -> dict[str, Floats]:
    """Return ``mean_use`` of every queue that had a pod, by name."""
    queue_of = {job.key: job.queue for job in run.jobs}
    by_queue: dict[str, list[PodRecord]] = defaultdict(list)
    for pod in run.pods:
        by_queue[queue_of[pod.job]].append(pod)
    return {name: mean_use(by_queue[name], resource, borders, run.horizon) for name in sorted(by_queue)}


def main_resource(run: RunRecord) -> Resource:
    """Return what the run is about: GPUs where a node has any, else CPU."""
    return "gpu" if any(node.gpus for node in run.nodes) else "cpu"


def waiting(jobs: Iterable[JobRecord], at: Floats) -> Floats:
    """Return how many jobs were submitted and had never run, at each of the points *at*."""
    known = list(jobs)
    submits = np.sort(np.fromiter((job.submit for job in known), np.float64))
    starts = np.sort(np.fromiter((job.start for job in known if job.start is not None), np.float64))
    waited = np.searchsorted(submits, at, "right") - np.searchsorted(starts, at, "right")
    return waited.astype(np.float64)


def stays(pods: Iterable[PodRecord], horizon: float) -> list[tuple[float, float]]:
    """Return the times when at least one of *pods* ran, as intervals that do not touch, in order."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted((pod.start, horizon if pod.end is None else pod.end) for pod in pods):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
