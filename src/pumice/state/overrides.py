"""Facts that a caller states beside the objects, as an extender's snapshot does. They override sums of the objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from pumice.model.job import Job
from pumice.model.node import LedgerRow, Node
from pumice.model.queue import Queue
from pumice.model.resources import Number
from pumice.state.table import NodeTable
from pumice.state.writing import become, put, set_sums, take, unsealed

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

T = TypeVar("T", Queue, Node)


def name_job(state: ClusterState, job: Job, queue: str, shown_as: type[Job]) -> None:
    """Know a job by its name, and its queue perhaps, and show it as a *shown_as*."""
    with unsealed(job) as draft:
        draft.queue = queue
    become(job, shown_as)
    put(state.jobs, job.uid, job)


def forget_job(state: ClusterState, uid: str) -> None:
    """Know nothing of a job that has no tasks any more."""
    take(state.jobs, uid, None)


def tell_job(job: Job, priority: int, min_available: int, phase: str) -> None:
    """Apply an override to a job; without a phase in it, the phase stays."""
    with unsealed(job) as draft:
        draft.priority, draft.min_available = priority, min_available
        draft.phase = phase or job.phase


def tell_sums(queue: Queue, allocated: Mapping[int, Number]) -> None:
    """Take over what a queue is said to hold."""
    set_sums(queue._allocated, allocated)
    set_sums(queue._held, allocated)
    with unsealed(queue) as draft:
        draft.version += 1


def show_as(thing: T, cls: type[T]) -> None:
    """Show a queue or a node as one of another class of the same slots, that of what is told of it."""
    become(thing, cls)


def read_through(node: Node, table: NodeTable) -> None:
    """Let a node's ledgers be read through another view of the table."""
    with unsealed(node) as draft:
        draft._table = table
        for name in ("idle", "used", "releasing", "pipelined"):
            setattr(draft, name, LedgerRow(table.ledgers[name], node))
