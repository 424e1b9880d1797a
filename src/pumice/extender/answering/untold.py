"""Things that a call names but does not tell: reading them is answered with 409, never with a guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from pumice.errors import PumiceError
from pumice.model.api import AnyObject
from pumice.model.job import Job
from pumice.model.node import LedgerCells, Node
from pumice.model.queue import Queue
from pumice.state.cluster import ClusterState
from pumice.state.table import NodeTable

T = TypeVar("T")


class NotTold(PumiceError):
    """The policy read something that neither the call nor a snapshot holds."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: not told by the call, and no onSessionOpen of this caller has brought it")


def _untold(what: str, *names: str) -> Callable[[type[T]], type[T]]:
    """A class whose attributes of these names cannot be read."""

    def read(self: Any) -> NoReturn:
        raise NotTold(f"{what} of {self!r}")

    def hide(cls: type[T]) -> type[T]:
        for name in names:
            setattr(cls, name, property(read))
        return cls

    return hide


@_untold("what is told", *("priority", "creation", "labels", "annotations", "phase"))
@_untold("what is told", *("min_resources", "sub_jobs", "tasks"))
@_untold("sums", *("min_available", "preemptible", "allocated", "held", "total_request"))
@_untold("sums", "ready_count", "waiting_count")
class UntoldJob(Job):
    """A job that a task names; only its names are known, and its queue where the task tells it."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def queue(self) -> str:
        """Its queue, if the task told it."""
        queue: str = Job.__dict__["queue"].__get__(self)
        if not queue:
            raise NotTold(f"queue of {self!r}")
        return queue

    def __repr__(self) -> str:
        return f"<Job {self.uid}>"


@_untold("sums", "allocated", "held", "pending", "inqueue", "elastic", "jobs")
class UntoldSums(Queue):
    """A queue whose sums were not told."""

    __slots__ = ()


@_untold("what is told", *("labels", "annotations", "taints", "allocatable", "capacity", "unschedulable", "gpus"))
@_untold("ledgers", *("idle", "used", "releasing", "pipelined", "future_idle", "idle_gpus", "gpu_utilization"))
class UntoldNode(Node):
    """A node that a task names; only its name is known, and the tasks that were told to be there."""

    __slots__ = ()


_LEDGERS: Final = frozenset({"idle", "used", "releasing", "pipelined", "evicted", "assumed", "pod_count"})
_CLUSTER: Final = frozenset(
    {"queues", "jobs", "session_jobs", "tasks", "total", "used_total", "keep_sum", "namespaces", "objects"}
    | {"total_resources", "nodes"}
)
_IN_SNAPSHOTS: Final = frozenset({"ResourceQuota"})
"""Kinds that the state only keeps, and that snapshots bring."""


class _UntoldCells(LedgerCells):
    """A ledger that was not told."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def cells(self) -> NoReturn:
        raise NotTold(f"{self._name} of the nodes")


class TableView:
    """The node table as a served policy sees it: ledgers of nodes that came without them cannot be read."""

    def __init__(self, table: NodeTable, untold: set[int]) -> None:
        self._table, self._untold = table, untold
        self.ledgers = {
            name: _UntoldCells(name) if name in _LEDGERS else cells for name, cells in table.ledgers.items()
        }
        """What nodes whose ledgers were not told read their amounts from."""

    def __getattr__(self, name: str) -> Any:
        if name in _LEDGERS and self._untold:
            raise NotTold(f"{name} of the nodes")
        return getattr(self._table, name)


class StateView:
    """The state as a served policy sees it: without a snapshot nothing that speaks of the whole cluster.

    A snapshot tells of jobs, tasks, nodes, queues and quotas; of other kinds (hyper-nodes, claims, budgets) none does.
    """

    def __init__(self, state: ClusterState, table: TableView, *, complete: bool, followed: bool) -> None:
        self._state, self.table, self._complete, self._followed = state, table, complete, followed

    def __getattr__(self, name: str) -> Any:
        if name in _CLUSTER and not self._complete:
            raise NotTold(f"the cluster's {name.replace('_', ' ')}")
        return getattr(self._state, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_state", "table", "_complete", "_followed"):
            super().__setattr__(name, value)
        else:
            setattr(self._state, name, value)

    def kind(self, name: str) -> dict[str, AnyObject]:
        if not (self._followed or (self._complete and name in _IN_SNAPSHOTS)):
            raise NotTold(f"the cluster's objects of kind {name}")
        return self._state.kind(name)
