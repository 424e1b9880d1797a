"""KAI's messages about jobs that are not served, in its own words: people and alerts know them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pumice.kai.view.jobs import DEFAULT_SET, JobView, PodSet
from pumice.kai.view.queues import GPU_NAMES, Amounts, QueueView
from pumice.kai.view.tasks import TaskView
from pumice.model.kai import KaiQueueSpec
from pumice.model.keys import MIG_RESOURCES, SUBGROUP_LABEL
from pumice.model.resources import dim_name

POD_ERRORS: Final = "PodSchedulingErrors"
_SEVERAL: Final = "Unable to schedule podgroup"
_NO_NODES: Final = "no nodes with enough resources were found"
_UNITS: Final = (
    ("CPU cores", "CPU cores", "cores", 1e-3),
    ("memory", "GB memory", "GB", 1e-9),
    ("GPUs", "GPUs", "GPUs", 1.0),
)
"""Per resource: what it is called, its unit where it is named for the first time, its unit after that, its scale."""
_CALLED: Final = {"cpu": "CPU cores", "memory": "memory", **dict.fromkeys(GPU_NAMES, "GPUs")}


class JobError(NamedTuple):
    """One thing in the way of a job: the kind of it, and the words."""

    reason: str
    text: str


def over_limit(queue: QueueView, n: int, held: Amounts, asked: Amounts) -> str:
    """A queue holds as much of a resource as it ever may."""
    called, _, unit, scale = _UNITS[n]
    limit, has, more = (f"{amount * scale:g} {unit}" for amount in (queue.limit[n], held[n], asked[n]))
    return (
        f"{_name(queue)} quota has reached the allowable limit of {called}. "
        f"Limit is {limit}, currently {has} allocated and workload requested {more}"
    )


def over_quota(queue: QueueView, n: int, held: Amounts, asked: Amounts) -> str:
    """Work that is never evicted would hold more than the quota."""
    _, first, unit, scale = _UNITS[n]
    return (
        f"Non-preemptible workload is over quota. Workload requested {asked[n] * scale:g} {first}, but {_name(queue)} "
        f"quota is {queue.quota[n] * scale:g} {unit}, while {held[n] * scale:g} {unit} are already allocated for "
        "non-preemptible pods. Use a preemptible workload to go over quota."
    )


def _name(queue: QueueView) -> str:
    spec = queue.queue.object.spec
    return (spec.display_name if isinstance(spec, KaiQueueSpec) else "") or queue.name


def lacks(name: str) -> str:
    """A node has too little of a resource."""
    if name.startswith(MIG_RESOURCES):
        return f"node(s) didn't have enough of mig profile: {name}"
    return f"node(s) didn't have enough resources: {_CALLED.get(name, name)}"


def beyond_largest(task: TaskView, name: str, most: float) -> str:
    """No node has so much of a resource as a task asks for; *most*: what the largest has, in KAI's unit."""
    cpu, memory, gpu = task.request.quota
    mig = "".join(f", mig {dim_name(d)}: {v / 1000:g}" for d, v in task.request.mig)
    called = {"cpu": "CPU", "memory": "memory", **dict.fromkeys(GPU_NAMES, "GPU")}.get(name, name)
    asked = f"GPU: {gpu:.19g}, CPU: {cpu / 1000:g} (cores), memory: {memory / 1e9:g} (GB), pods: 1{mig}"
    said = f"The pod {task.task.key} requires {asked}. "
    if not most or (called == name and name != "memory"):
        return f"{said}No node in the default node-pool has {called} resources"
    return f"{said}Max {called} resources available in a single node in the default node-pool is topped at {most:g}"


def no_capacity(reason: str, text: str) -> str:
    """A queue may not take the task on a node."""
    return f"node does not have enough capacity. Reason: {reason}, Details: {text}"


def task_error(nodes: Mapping[str, int]) -> str:
    """Why a task has no place: nodes by what is in the way."""
    listed = ". \n".join(sorted(f"{count} {text}" for text, count in nodes.items()))
    return f"{_NO_NODES}: {listed}." if listed else _NO_NODES


def pod_error(task: TaskView, why: str, podset: PodSet, placed: int) -> JobError:
    """Why a job has no place, by the task of it that found none; *placed*: those of its set before it."""
    job = task.job.whole
    sets = list(job.pod_sets())
    if not any(p.minimum > 1 for p in sets) or podset.active - placed >= podset.minimum:
        text = f"Resources were not found for pod {task.task.key} due to: {why}"
    elif len(sets) == 1 and sets[0].name == "default":
        text = (
            f"Resources were found for {placed} pods while {podset.minimum} are required for gang scheduling. "
            f"Additional pods cannot be scheduled due to: {why}"
        )
    else:
        text = (
            f"Resources were found for {placed} pods from all sub-groups while sub-group {podset.name} requires "
            f"{podset.minimum} pods for gang scheduling. Additional pods cannot be scheduled in this sub-group "
            f"due to: {why}"
        )
    return JobError(POD_ERRORS, text)


def topology_error(topology: str, level: str, job: str, why: str) -> JobError:
    """Why no domain takes a job."""
    said = f"topology {topology}, requirement {level} couldn't be satisfied for job <{job}>: {why}"
    return JobError(POD_ERRORS, said)


def job_error(errors: list[JobError]) -> str:
    """Everything that is in the way of a job, as KAI writes it into events and conditions."""
    if not errors:
        return ""
    counts: dict[str, int] = {}
    for error in errors:
        counts[error.text] = counts.get(error.text, 0) + 1
    listed = sorted(f"{n} {text}" if n > 1 else text for text, n in counts.items())
    heading = errors[0].reason if len(errors) == 1 else _SEVERAL
    return f"\n{heading}.\n" + ". \n".join(listed) + "."


def unready(job: JobView) -> str:
    """Return why a job cannot run yet: its PodGroup breaks a rule, or too few of its pods exist.

    Gated pods do not count. KAI has no text for it.
    """
    if job.problem:
        return job.problem
    short = [p for p in job.pod_sets() if not p.ready]
    if not short:
        return f"{len(job.root.members)} of the {job.root.need} sub-groups that it needs together exist"
    return "; ".join(
        f"{'' if p.name == DEFAULT_SET else f'sub-group {p.name}: '}"
        f"{p.placeable} of the {p.minimum} pods that it needs together exist"
        for p in short
    )


def strays(job: JobView) -> str:
    """Pods of a job name sub-groups that it does not have; nothing where none does."""
    return "; ".join(
        f"pod {t.task.name} is of the sub-group {t.task.labels.get(SUBGROUP_LABEL, DEFAULT_SET)}, which does not exist"
        for t in job.unknown
    )


def unreadable(job: JobView) -> str:
    """Pods of a job cannot be used as they are written; nothing where all can."""
    return "; ".join(
        f"pod {t.task.name} cannot be used: {t.task.invalid}" for t in job.tasks.values() if t.task.invalid
    )
