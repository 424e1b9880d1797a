"""Which attributes of a task a callback reads, so that tasks that agree in them can share its answers.

A callback is a function of what it reads: given equal values it takes the same path and gives the same answer. So
the answers to a user's callback are kept per class and per value of everything it was seen to read. What tells apart
tasks of one job (name, UID, pod) counts as the job itself: answers are kept per class and job at the finest.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, cast

from pumice.model.task import Task

_OF_CLASS = frozenset({"requests", "klass", "best_effort", "requires_gpu"})
_BY_VALUE = frozenset({"labels", "annotations", "priority", "role", "namespace", "preemptable", "preemptible", "gated"})
_UID = "job.uid"


class _Traced:
    """Wraps an object and notes what is read of it; it passes for the object itself."""

    __slots__ = ("_reads", "_real")

    def __init__(self, real: object, reads: dict[str, None]) -> None:
        object.__setattr__(self, "_real", real)
        object.__setattr__(self, "_reads", reads)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(object.__getattribute__(self, "_real"), name, value)  # refused there

    def __delattr__(self, name: str) -> None:
        delattr(object.__getattribute__(self, "_real"), name)

    def __repr__(self) -> str:
        object.__getattribute__(self, "_reads")[_UID] = None
        return repr(object.__getattribute__(self, "_real"))

    def __hash__(self) -> int:
        object.__getattribute__(self, "_reads")[_UID] = None
        return hash(object.__getattribute__(self, "_real"))

    def __eq__(self, other: object) -> bool:
        object.__getattribute__(self, "_reads")[_UID] = None
        return bool(object.__getattribute__(self, "_real") == other)


class _TracedTask(_Traced):
    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        real: Task = object.__getattribute__(self, "_real")
        reads: dict[str, None] = object.__getattribute__(self, "_reads")
        if name == "job":
            return _TracedJob(real.job, reads) if real.job is not None else None
        if name in _BY_VALUE:
            reads[name] = None
        elif name not in _OF_CLASS and name != "__class__":
            reads[_UID] = None
        return getattr(real, name)


class _TracedJob(_Traced):
    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name != "__class__":
            object.__getattribute__(self, "_reads")[f"job.{name}"] = None
        return getattr(object.__getattribute__(self, "_real"), name)


def traced(task: Task, reads: dict[str, None]) -> Task:
    """The task, as one that notes in *reads* what is read of it."""
    return cast("Task", _TracedTask(task, reads))


def values(task: Task, reads: Mapping[str, None]) -> tuple[Hashable, ...]:
    """The values of what was read, for this task."""
    return tuple(_value(task, path) for path in reads)


def _value(task: Task, path: str) -> Hashable:
    job = task.job
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
    return job.uid if job is not None else task.uid
