"""A history as a trace, with the cluster it happened on, and with what went wrong there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from pumice.history.lines import NodeLine, Pods
from pumice.history.stories import Stay, Story, Told
from pumice.model import quantity
from pumice.sim.traces.model import TraceJob, TracePod

APART = 0.1
"""Pods of a job that end further apart than this part of its run time are not a gang's."""


@dataclass(slots=True)
class RecordedRun:
    """A history in the words of a scenario."""

    jobs: tuple[TraceJob, ...]
    nodes: list[dict[str, Any]]
    queues: list[dict[str, Any]]
    planned: list[dict[str, Any]]
    """Faults: nodes that left, came and took nothing, pods that were lost."""
    conf: dict[str, Any] | None
    eviction_s: float
    span_s: float
    notes: list[str] = field(default_factory=list)
    starts: dict[str, float] = field(default_factory=dict)
    """When each job got its place, by its name in the trace."""


def recorded(told: Told) -> RecordedRun:
    """The part of a history that can be played again: jobs with their run times, nodes, queues, faults, the conf."""
    zero = told.begins
    counts: Counter[str] = Counter()
    names: Counter[str] = Counter()
    jobs: list[tuple[tuple[float, bool, float], TraceJob]] = []
    starts: dict[str, float] = {}
    losses: dict[float, Counter[str]] = {}
    for story in told.jobs:
        if not story.pods:
            counts["never had a pod: left out"] += 1
            continue
        if story.ended is not None and story.since is None:
            counts["were gone before they had a place: left out"] += 1
            continue
        name = _unique(story.job.replace("/", "."), names)
        submit = max(round(story.submitted - zero, 3), 0.0)
        jobs.append(((submit, not story.found, story.created), _job(story, name, submit, counts)))
        if story.placed is not None:
            starts[name] = round(story.placed - zero, 3)
        for loss in story.losses:
            losses.setdefault(round(loss.at - zero, 3), Counter())[name] += loss.pods
    jobs.sort(key=lambda entry: entry[0])
    planned = [*_node_faults(told.nodes, zero), *({"at": at, "evict": dict(of)} for at, of in losses.items())]
    if told.resized:
        counts["nodes changed their size: as they were first"] += told.resized
    notes = [f"{count:,} {what}" for what, count in counts.items()]
    hours = sum(end - start for start, end in told.gaps) / 3600
    if told.gaps:
        notes.append(f"{len(told.gaps):,} times nobody wrote, {hours:.1f} h in all: what ended then ends after it")
    queues = [{"name": line.name, **line.spec} for line in told.queues.values()]
    return RecordedRun(
        jobs=tuple(job for _, job in jobs),
        nodes=[_node(stay.node) for stay in _first(told.nodes, zero)],
        queues=queues,
        planned=sorted(planned, key=lambda fault: fault["at"]),
        conf=told.conf,
        eviction_s=round(median(told.eviction_s), 3) if told.eviction_s else 1.0,
        span_s=told.ends - zero,
        notes=notes,
        starts=starts,
    )


def _unique(name: str, names: Counter[str]) -> str:
    names[name] += 1
    return name if names[name] == 1 else _unique(f"{name}~{names[name]}", names)


def _job(story: Story, name: str, submit: float, counts: Counter[str]) -> TraceJob:
    duration = story.ran
    if duration is None:
        if story.since is None and story.declared:
            duration = story.declared
            counts["were waiting at the end: they run as long as declared"] += 1
        else:
            duration = math.inf
            counts["ran or waited at the end: they have no end of their own"] += 1
    elif story.apart_s > APART * duration:
        counts["had pods that ended apart: played as if all ended with the last"] += 1
    if story.picky:
        counts["ask for more than room (selectors, volumes, topology): a trace has only the room"] += 1
    if story.found:
        counts["ran when the history began: they are placed anew in its first moment"] += 1
    return TraceJob(
        name=name,
        submit_s=submit,
        duration_s=round(duration, 3) if math.isfinite(duration) else duration,
        pods=tuple(_pods(pods) for pods in story.pods),
        min_available=story.needs,
        queue=story.queue or "default",
        user=story.job.partition("/")[0],
        priority=story.priority,
        run_time_declared_s=story.declared or None,
    )


def _pods(pods: Pods) -> TracePod:
    share = pods.share if pods.gpus else 0
    return TracePod(pods.count, pods.cpu, pods.memory, share, pods.gpus, pods.models)


def _first(nodes: Sequence[Stay], zero: float) -> list[Stay]:
    """Nodes that are there when it begins."""
    return [stay for stay in nodes if stay.since <= zero]


def _node(node: NodeLine) -> dict[str, Any]:
    """A node as a scenario lists it."""
    listed: dict[str, Any] = {"name": node.name, "cpu": quantity.milli_text(node.cpu)}
    listed["memory"] = quantity.bytes_text(node.memory)
    if node.gpus:
        listed["gpu"] = node.gpus
    if node.pods:
        listed["pods"] = node.pods
    if node.model:
        listed["model"] = node.model
    return listed


def _node_faults(nodes: Sequence[Stay], zero: float) -> list[dict[str, Any]]:
    faults: list[dict[str, Any]] = []
    known = {stay.node.name for stay in _first(nodes, zero)}
    for stay in nodes:
        name, since = stay.node.name, round(stay.since - zero, 3)
        if stay.since > zero:
            again = name in known
            faults.append({"at": since, **({"return": [name]} if again else {"join": [_node(stay.node)]})})
            known.add(name)
        for at, closed in stay.closed:
            faults.append({"at": max(round(at - zero, 3), 0.0), "cordon" if closed else "return": [name]})
        if stay.until is not None:
            faults.append({"at": round(stay.until - zero, 3), "cordon" if stay.outlived else "fail": [name]})
    return faults
