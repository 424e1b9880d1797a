"""The writers of what plugins see. Only the state may import them.

One function per slot that changes in a task's life or with every move; `unsealed` where a whole object is taken over;
and what writes into the mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final

from pumice.model.api import Pod, PodGroup, QueueObject
from pumice.model.job import Job, SubJob, TaskGroup
from pumice.model.mapping import ReadOnlyMap
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import Number, Resources
from pumice.model.sealed import Sealed
from pumice.model.status import TaskStatus
from pumice.model.task import Task

_write = object.__setattr__


def writer(cls: type, slot: str) -> Callable[[Any, Any], None]:
    """The function that writes one slot of a sealed class."""
    write: Callable[[Any, Any], None] = cls.__dict__[slot].__set__
    return write


class unsealed:  # noqa: N801  (read as a word: ``with unsealed(job):``)
    """Within the block the slots of *thing* can be written: ``with unsealed(job) as draft``."""

    __slots__ = ("_cls", "_thing")

    def __init__(self, thing: Sealed) -> None:
        self._thing, self._cls = thing, type(thing)

    def __enter__(self) -> Any:
        _write(self._thing, "__class__", self._cls._draft)
        return self._thing

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        _write(self._thing, "__class__", self._cls)


def become(thing: Sealed, cls: type[Sealed]) -> None:
    """Make *thing* one of another class of the same slots."""
    _write(thing, "__class__", cls)


_dict: Final[Any] = dict
"""To checkers a read-only mapping has no methods that write."""
find: Final[Callable[..., Any]] = _dict.get
"""The value of a key that is surely text, in a third of the time of ``get``."""
put: Final[Callable[[ReadOnlyMap[Any, Any], Any, Any], Any]] = _dict.setdefault
"""Add what is not there yet; ``dict.__setitem__`` takes twice the time."""
put_all: Final[Callable[[ReadOnlyMap[Any, Any], Iterable[tuple[Any, Any]]], None]] = _dict.update
"""Add several that are not there yet, as (key, value)."""
take: Final[Callable[..., Any]] = _dict.pop
"""Take out."""
replace: Final[Callable[[ReadOnlyMap[Any, Any], Any, Any], None]] = _dict.__setitem__
"""Add, or put in place of what is there."""
empty: Final[Callable[[ReadOnlyMap[Any, Any]], None]] = _dict.clear
"""Take everything out."""

set_status: Final[Callable[[Task, TaskStatus], None]] = writer(Task, "status")
set_node: Final[Callable[[Task, Node | None], None]] = writer(Task, "node")
set_job: Final[Callable[[Task, Job], None]] = writer(Task, "job")
set_sub_job: Final[Callable[[Task, SubJob | None], None]] = writer(Task, "sub_job")
set_pod: Final[Callable[[Task, Pod], None]] = writer(Task, "pod")
set_labels: Final[Callable[[Task, ReadOnlyMap[str, str]], None]] = writer(Task, "labels")
set_annotations: Final[Callable[[Task, ReadOnlyMap[str, str]], None]] = writer(Task, "annotations")
set_nominated_node: Final[Callable[[Task, str], None]] = writer(Task, "nominated_node")
set_devices: Final[Callable[[Task, tuple[int, ...]], None]] = writer(Task, "devices")
set_evicted: Final[Callable[[Task, bool], None]] = writer(Task, "evicted")
set_assumed_at: Final[Callable[[Task, float | None], None]] = writer(Task, "assumed_at")

set_group_version: Final[Callable[[TaskGroup, int], None]] = writer(TaskGroup, "version")
set_pending_best_effort: Final[Callable[[TaskGroup, int], None]] = writer(TaskGroup, "pending_best_effort_count")
set_min_available: Final[Callable[[TaskGroup, int], None]] = writer(TaskGroup, "min_available")
set_pod_group: Final[Callable[[Job, PodGroup | None], None]] = writer(Job, "group")
set_phase: Final[Callable[[Job, str], None]] = writer(Job, "phase")
set_priority: Final[Callable[[Job, int], None]] = writer(Job, "priority")
set_left_out: Final[Callable[[Job, str], None]] = writer(Job, "left_out")
set_in_session: Final[Callable[[Job, bool], None]] = writer(Job, "in_session")
set_contribution: Final[Callable[[Job, tuple[str, Resources, Resources, Resources]], None]] = writer(
    Job, "_contribution"
)
set_queue_object: Final[Callable[[Queue, QueueObject], None]] = writer(Queue, "object")
set_queue_version: Final[Callable[[Queue, int], None]] = writer(Queue, "version")


def set_sums(sums: dict[int, Number], amounts: Mapping[int, Number]) -> None:
    """Put other amounts into a sum; whoever reads it sees them."""
    sums.clear()
    sums.update(amounts)
