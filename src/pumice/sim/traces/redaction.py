"""New names for everything in a trace that somebody chose, so that it can be given away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pumice.sim.traces.from_history import RecordedRun
from pumice.sim.traces.model import TraceJob

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
