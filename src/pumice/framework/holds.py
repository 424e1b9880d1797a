"""Freed room is kept for the one it was freed for.

When a plan with evictions is committed, every task that it promised a place is nominated for its node. A nomination
outlives the cycle: each session opens by holding its room (`hold_rooms`), so that nobody else sees it as free, until
the task has a place or is gone, its node is gone, or the nomination expires. The task itself looks at its nominated
node first (`search.py`), with the hold lifted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pumice.framework.runtime import Nomination
from pumice.model.node import Node
from pumice.model.status import TaskStatus
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.framework.session import Session

HOLD_SECONDS: Final = 120.0
"""How long freed room is held: four times the default grace that a pod has to terminate."""


def holds(ssn: Session) -> bool:
    """Is freed room kept for the one it was freed for?"""
    return not ssn.compat.hold_freed_room


def nominate(ssn: Session, task: Task, node: Node) -> None:
    """Hold room on the node for the task in the cycles to come."""
    if holds(ssn):
        ssn.runtime.nominations[task._uid] = Nomination(node.name, ssn.now + HOLD_SECONDS)


def hold_rooms(ssn: Session) -> None:
    """Hold the room of every nomination that still stands; forget the others."""
    nominations = ssn.runtime.nominations
    for uid in sorted(nominations):
        nomination = nominations[uid]
        task = ssn.state.tasks.get(uid)
        node = ssn.nodes.get(nomination.node)
        if task is not None and node is not None and _waits(task) and ssn.now < nomination.until:
            ssn.state.hold(task, node)
        else:
            del nominations[uid]
            if task is not None:
                task._nominated = task._pod.status.nominated_node_name


def _waits(task: Task) -> bool:
    """Does the task still wait for a place, in a job that can be scheduled?"""
    return task._status is TaskStatus.PENDING and task._job is not None and task._job.in_session
