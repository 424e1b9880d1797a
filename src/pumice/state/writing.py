"""The writers of what plugins see. Only the state has them.

One per slot that changes in a task's life or with every move; where a whole object is taken over, `unsealed` is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pumice.model.api import Pod, PodGroup
from pumice.model.job import Job, SubJob, TaskGroup
from pumice.model.mapping import ReadOnlyMap
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import Number, Resources
from pumice.model.sealed import writer
from pumice.model.status import TaskStatus
from pumice.model.task import Task

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
set_in_session: Final[Callable[[Job, bool], None]] = writer(Job, "in_session")
set_contribution: Final[Callable[[Job, tuple[str, Resources, Resources, Resources]], None]] = writer(
    Job, "_contribution"
)
set_queue_version: Final[Callable[[Queue, int], None]] = writer(Queue, "version")


def set_sums(sums: dict[int, Number], amounts: Mapping[int, Number]) -> None:
    """Put other amounts into a sum; whoever reads it sees them."""
    sums.clear()
    sums.update(amounts)
