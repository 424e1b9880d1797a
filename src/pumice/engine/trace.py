"""Which attributes of a task a callback reads, so that tasks that agree in them can share its answers.

A callback is a function of what it reads: given equal values it takes the same path and gives the same answer. So
the answers to a user's callback are kept per class and per value of everything it was seen to read. What tells apart
tasks of one job (name, UID, pod) counts as the job itself: answers are kept per class and job at the finest.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from pumice.model.job import Job
from pumice.model.task import Task

_OF_CLASS = frozenset({"requests", "klass", "best_effort", "requires_gpu", "_class", "_best_effort"})
_BY_VALUE = frozenset({"labels", "annotations", "priority", "role", "namespace", "preemptable", "preemptible", "gated"})
_UID = "job.uid"


class TracedTask(Task):
    """A task that notes what is read of it."""

    __slots__ = ("_reads", "_real")

    def __init__(self, task: Task, reads: dict[str, None]) -> None:
        object.__setattr__(self, "_real", task)
        object.__setattr__(self, "_reads", reads)

    def __getattribute__(self, name: str) -> Any:
        real: Task = object.__getattribute__(self, "_real")
        reads: dict[str, None] = object.__getattribute__(self, "_reads")
        if name in ("job", "_job"):
            return TracedJob(real._job, reads) if real._job is not None else None
        if name in _BY_VALUE:
            reads[name] = None
        elif name not in _OF_CLASS and name != "__class__":
            reads[_UID] = None
        return getattr(real, name)


class TracedJob(Job):
    """A job that notes what is read of it."""

    __slots__ = ("_reads", "_real")

    def __init__(self, job: Job, reads: dict[str, None]) -> None:
        object.__setattr__(self, "_real", job)
        object.__setattr__(self, "_reads", reads)

    def __getattribute__(self, name: str) -> Any:
        real: Job = object.__getattribute__(self, "_real")
        if name != "__class__":
            object.__getattribute__(self, "_reads")[f"job.{name}"] = None
        return getattr(real, name)


def values(task: Task, reads: Mapping[str, None]) -> tuple[Hashable, ...]:
    """The values of what was read, for this task."""
    return tuple(_value(task, path) for path in reads)


def _value(task: Task, path: str) -> Hashable:
    job = task._job
    if path.startswith("job."):
        value = getattr(job, path[4:], None)
    else:
        value = getattr(task, path)
    if isinstance(value, (str, int, float, bytes)) or value is None:
        return value
    if isinstance(value, Mapping):
        try:
            return frozenset(value.items())
        except TypeError:
            pass
    return job._uid if job is not None else task._uid
