"""A history as a trace, with the cluster it happened on, and with what went wrong there."""

from __future__ import annotations

import gzip
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from pumice.history.lines import NodeLine, Pods
from pumice.history.stories import Stay, Story, Told
from pumice.model import quantity
from pumice.sim.traces.model import TraceJob, TracePod
from pumice.sim.traces.native import write


def write_trace(jobs: Iterable[TraceJob], path: Path) -> None:
    """Write a trace in our own format, packed if the name ends in ``.gz``. Equal traces give equal bytes.

    :raises InvalidInput: a name that the format does not carry.
    """
    text = io.StringIO()
    write(jobs, text)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def scenario_path(trace: Path) -> Path:
    """The path of a trace's scenario: beside it."""
    return trace.with_name(f"{trace.name.removesuffix('.gz').removesuffix('.csv')}.yaml")


def scenario_text(found: RecordedRun, trace: str, name: str) -> str:
    """The scenario that plays a recorded trace: its nodes, queues, faults and conf."""
    data: dict[str, Any] = {
        "name": name,
        "horizon": math.ceil(found.span_s) + 1,
        "cluster": {"nodes": found.nodes},
        "queues": found.queues,
        "workload": {"trace": {"file": trace}},
    }
    if found.planned:
        data["faults"] = {"planned": found.planned}
    data["delays"] = {"eviction": found.eviction_s}
    if found.conf is not None:
        data["configurations"] = {"recorded": found.conf}
    body = yaml.safe_dump(data, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    said = "".join(f"# {note}\n" for note in found.notes)
    return f"# Made of a history. Run times count from the moment that a job got its places.\n{said}{body}"


STAYS = frozenset({"default", "root", ""})
"""Names of queues that everybody has."""
LEFT = (
    "times (counted from the first), sizes, run times, priorities, models of GPUs, and how many nodes, queues and "
    "users there are"
)
"""The content of a redacted trace."""


def new_names(names: Iterable[str], word: str, stays: frozenset[str] = frozenset()) -> dict[str, str]:
    """A number for each name. New names stand in the order of the old ones, because names settle ties."""
    old = sorted(set(names) - stays)
    width = len(str(max(len(old) - 1, 0)))
    return {name: name for name in stays} | {name: f"{word}-{at:0{width}d}" for at, name in enumerate(old)}


def redacted_jobs(jobs: Iterable[TraceJob], queues: Mapping[str, str] | None = None) -> tuple[TraceJob, ...]:
    """The same jobs with new names for them, their users and their queues; the first one comes at second 0."""
    old = list(jobs)
    names = new_names((job.name for job in old), "job")
    users = new_names((job.user for job in old), "user", frozenset({""}))
    queues = new_names((job.queue for job in old), "queue", STAYS) if queues is None else queues
    zero = min((job.submit_s for job in old), default=0.0)
    return tuple(
        replace(
            job,
            name=names[job.name],
            user=users[job.user],
            queue=queues[job.queue],
            submit_s=job.submit_s - zero,
            line=0,
        )
        for job in old
    )


def redacted(found: RecordedRun) -> RecordedRun:
    """The same record with new names for jobs, users, queues and nodes. The conf stays as it is."""
    named = [*(job.queue for job in found.jobs), *(queue["name"] for queue in found.queues)]
    queues = new_names([*named, *(queue.get("parent", "") for queue in found.queues)], "queue", STAYS)
    jobs = new_names((job.name for job in found.jobs), "job")
    joined = [node for fault in found.planned for node in fault.get("join", ())]
    nodes = new_names((node["name"] for node in (*found.nodes, *joined)), "node")
    users = new_names((job.user for job in found.jobs), "user", frozenset({""}))
    return replace(
        found,
        jobs=tuple(
            replace(job, name=jobs[job.name], user=users[job.user], queue=queues[job.queue]) for job in found.jobs
        ),
        nodes=[{**node, "name": nodes[node["name"]]} for node in found.nodes],
        queues=[_queue(queue, queues) for queue in found.queues],
        planned=[_fault(fault, nodes, jobs) for fault in found.planned],
        starts={jobs[name]: at for name, at in found.starts.items()},
    )


def _queue(queue: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    parent = {"parent": names[queue["parent"]]} if "parent" in queue else {}
    return {**queue, "name": names[queue["name"]], **parent}


def _fault(fault: dict[str, Any], nodes: Mapping[str, str], jobs: Mapping[str, str]) -> dict[str, Any]:
    new: dict[str, Any] = {"at": fault["at"]}
    for kind, what in fault.items():
        if kind == "evict":
            new[kind] = {jobs[job]: pods for job, pods in what.items()}
        elif kind == "join":
            new[kind] = [{**node, "name": nodes[node["name"]]} for node in what]
        elif kind != "at":
            new[kind] = [nodes[name] for name in what]
    return new


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
