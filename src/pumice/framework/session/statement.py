"""Statement: do, checkpoint, undo, commit. Nothing outside a statement changes a task during a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pumice.framework.points.handlers import Unprepared
from pumice.framework.points.table import BIND_REQUEST_MUTATE, GPU_ORDER
from pumice.framework.session.nominations import nominate
from pumice.framework.session.outcome import Stage
from pumice.framework.session.rounds import note_losses, note_lost, note_placed
from pumice.model.intents import Bind, Choice, Evict, Nominate
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.status import TaskStatus
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.framework.session.session import Session

S = TaskStatus


class OperationKind(Enum):
    """The record of an operation."""

    ALLOCATE = "allocate"
    PIPELINE = "pipeline"
    EVICT = "evict"


ASKS = (BIND_REQUEST_MUTATE, GPU_ORDER)
PLACED = {OperationKind.ALLOCATE: S.ALLOCATED, OperationKind.PIPELINE: S.PIPELINED}
"""The status that a placing operation gives a task."""


@dataclass(slots=True)
class Operation:
    """One applied operation with what it takes to undo it."""

    kind: OperationKind
    task: Task
    node: Node
    before: TaskStatus
    reason: str = ""
    for_task: Task | None = None
    evicted: bool = False
    """pipeline: whether a task was evicted for it."""


class Statement:
    """An ordered log of operations already applied to the session.

    Leaving it without `commit` or `keep` must be done through `discard`, which restores everything exactly.
    """

    __slots__ = ("_ssn", "operations", "ready")

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self.operations: list[Operation] = []
        self.ready = False
        """Whether its job is known to be ready with its placements."""

    def __len__(self) -> int:
        return len(self.operations)

    # -- doing ----------------------------------------------------------------------------------------------------
    def allocate(self, task: Task, node: Node, devices: Sequence[int] = ()) -> str:
        """Give a pending task its place; the text of a handler's objection (then nothing changed), or nothing.

        *devices*: the GPUs that it shall have there; else those that plugins put first.
        """
        return self._place(OperationKind.ALLOCATE, task, node, S.ALLOCATED, False, devices)

    def pipeline(self, task: Task, node: Node, evicted: bool = False) -> str:
        """Promise a pending task room that is being released; an objection as in `allocate`."""
        return self._place(OperationKind.PIPELINE, task, node, S.PIPELINED, evicted)

    def _place(
        self,
        kind: OperationKind,
        task: Task,
        node: Node,
        status: TaskStatus,
        evicted: bool,
        devices: Sequence[int] = (),
    ) -> str:
        ssn = self._ssn
        before = task.status
        if not devices and task.klass.gpu is not None and status is S.ALLOCATED:
            devices = ssn.search.pick_devices(task, node)
        ssn.state.move(task, status, node, devices=devices)
        if ssn.handlers:
            said, plugin = ssn.handlers.allocated(task)
            if said:
                ssn.state.move(task, before, None)
                ssn.handlers.deallocated(task, node)
                if task.job is not None:
                    ssn.outcome.refuse(task.job, Stage.OBJECTION, f"{task.name} on {node.name}: {said}", plugin)
                return said
        self.operations.append(Operation(kind, task, node, before, evicted=evicted))
        return ""

    def allocate_many(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> int:
        """Give equal pending tasks of one job their places, in order; how many were placed before an objection."""
        ssn = self._ssn
        if not ssn.handlers.take_many:
            for n, (task, node) in enumerate(zip(tasks, nodes, strict=True)):
                if self.allocate(task, node):
                    return n
            return len(tasks)
        ssn.state.place_many(tasks, nodes, S.ALLOCATED)
        ssn.handlers.allocated_many(tasks)
        allocate, before = OperationKind.ALLOCATE, S.PENDING
        self.operations += [Operation(allocate, task, node, before) for task, node in zip(tasks, nodes, strict=True)]
        return len(tasks)

    def evict(self, task: Task, reason: str, for_task: Task | None = None) -> None:
        """Mark a task as being evicted, for the good of *for_task*."""
        node = task.node
        assert node is not None, f"task {task.key} is on no node"
        before = task.status
        self._ssn.state.move(task, S.RELEASING, node, evicted=True)
        self._ssn.budgets.count(task, 1)
        self._ssn.handlers.deallocated(task)
        self.operations.append(Operation(OperationKind.EVICT, task, node, before, reason=reason, for_task=for_task))

    # -- undoing --------------------------------------------------------------------------------------------------
    def checkpoint(self) -> int:
        """A mark to `rollback` to."""
        return len(self.operations)

    def rollback(self, mark: int) -> None:
        """Undo everything after *mark*, newest first."""
        while len(self.operations) > mark:
            self._undo(self.operations.pop())

    def discard(self) -> None:
        """Undo everything."""
        self.rollback(0)

    def undo_of(self, task: Task) -> None:
        """Undo the one eviction of *task*, wherever it stands in the log."""
        for at, op in enumerate(self.operations):
            if op.task is task:
                del self.operations[at]
                self._undo(op)
                return

    @contextmanager
    def aside(self, task: Task) -> Iterator[None]:
        """Within the block *task*, which this statement gave a place, does not have it."""
        op = next(op for op in self.operations if op.task is task)
        status = task.status
        self._undo(op)
        try:
            yield
        finally:
            self._ssn.state.move(task, status, op.node)
            self._ssn.handlers.restored(task)

    def _undo(self, op: Operation) -> None:
        ssn = self._ssn
        if op.kind is OperationKind.EVICT:
            if ssn.compat.undone_evictions:
                unseen = ssn.configured("predicates") and not ssn.simulates
                ssn.state.move(op.task, S.RUNNING, op.node, evicted=unseen)
            else:
                ssn.state.move(op.task, op.before, op.node)
            ssn.budgets.count(op.task, -1)
            ssn.handlers.restored(op.task)
        else:
            ssn.state.move(op.task, op.before, None)
            ssn.handlers.deallocated(op.task, op.node)

    # -- ending ---------------------------------------------------------------------------------------------------
    def merge(self, other: Statement) -> None:
        """Take over another statement's operations."""
        self.operations += other.operations
        other.operations = []

    def replay(self, saved: Sequence[Operation]) -> bool:
        """Do again what was done and undone; False, with this statement undone, if somebody objects now."""
        for op in saved:
            if op.kind is OperationKind.EVICT:
                self.evict(op.task, op.reason, op.for_task)
            elif self._place(op.kind, op.task, op.node, PLACED[op.kind], op.evicted):
                self.discard()
                return False
        return True

    def promises(self) -> int:
        """How many tasks it promised a place."""
        return sum(1 for op in self.operations if op.kind is OperationKind.PIPELINE)

    def has_evictions(self) -> bool:
        """Report whether it evicts any task."""
        return any(op.kind is OperationKind.EVICT for op in self.operations)

    def commit(self, *, holds: bool = True) -> bool:
        """Turn the log into intents: placements become binding, evictions are final for this session.

        *holds*: freed room is held for its beneficiary in the next cycles. False, with everything undone, where a bind
        cannot be prepared: half a gang is worth nothing.
        """
        ssn = self._ssn
        try:
            prepared = {op.task.uid: ssn.binds.choices(op.task) for op in self.operations} if ssn.binds.prepares else {}
        except Unprepared as exc:
            job = next(op.task.job for op in self.operations if op.task.job is not None)
            self.discard()
            ssn.outcome.refuse(job, Stage.BIND, exc.text, exc.plugin)
            return False
        operations, self.operations = self.operations, []
        if ssn.runtime.losses:
            note_placed(ssn, {op.task.job_key for op in operations if op.kind is OperationKind.ALLOCATE})
        if len(operations) > 1 and not prepared and self._bind_together(operations):
            return True
        evictions = [op for op in operations if op.kind is OperationKind.EVICT]
        if evictions:
            lost = {(op.task.job_key, op.for_task.job_key) for op in evictions if op.for_task is not None}
            note_lost(ssn, lost)
            note_losses(ssn, lost)
        freed = {op.task.job_key for op in evictions} if holds else ()
        for op in operations:
            if op.kind is OperationKind.ALLOCATE:
                self._bind(op, prepared.get(op.task.uid, ()))
            elif op.kind is OperationKind.EVICT:
                self._evicted(op)
            else:
                ssn.outcome.promises.append(op)
                if op.evicted:
                    ssn.outcome.intents.append(Nominate(op.task.key, op.task.uid, op.node.name))
        if freed:
            nominate(ssn, [(op.task, op.node) for op in operations if op.kind is OperationKind.PIPELINE], freed)
        return True

    def _bind_together(self, operations: list[Operation]) -> bool:
        """Bind the placed tasks of one job at once, where no plugin has to do with binds; False where it has."""
        ssn, job = self._ssn, operations[0].task.job
        if job is None or ssn.binds.binders or ssn.anybody(BIND_REQUEST_MUTATE):
            return False
        allocate = OperationKind.ALLOCATE
        for op in operations:
            if op.kind is not allocate or op.task.job is not job or op.task.sub_job is not None:
                return False
        ssn.state.confirm_many([op.task for op in operations])
        ssn.outcome.intents += [
            Bind(op.task.key, op.task.uid, op.node.name, op.task.job_key, {}, "", (), 0) for op in operations
        ]
        return True

    def _bind(self, op: Operation, claims: tuple[Choice, ...]) -> None:
        ssn, task = self._ssn, op.task
        notes = ssn.bind_request_mutate(task, op.node.name)
        needed = _still_needed(task.job) if claims and task.job is not None else 0
        ssn.state.confirm(task)
        binder = ssn.binds.binder_of(task)
        ssn.outcome.intents.append(
            Bind(task.key, task.uid, op.node.name, task.job_key, dict(notes), binder, claims, needed)
        )

    def _evicted(self, op: Operation) -> None:
        ssn, task, helped = self._ssn, op.task, op.for_task
        ssn.budgets.commit(task)
        ssn.state.assume(task)
        for_job, for_pod = (helped.job_key, helped.key) if helped is not None else ("", "")
        ssn.outcome.intents.append(Evict(task.key, task.uid, op.node.name, op.reason, task.job_key, for_job, for_pod))

    def keep(self) -> None:
        """Leave it applied until the session closes; then it is undone."""
        self._ssn.outcome.kept.append(self)


def nobody_between(ssn: Session) -> bool:
    """Report whether no plugin acts between a placement and its bind."""
    return not (ssn.handlers or ssn.binds or ssn.anybody(BIND_REQUEST_MUTATE))


def _still_needed(job: Job) -> int:
    """How many tasks of a job must still be bound to complete its minimum."""
    return max(0, job.min_available - job.count(S.BOUND, S.RUNNING, S.SUCCEEDED))


@contextmanager
def trial(ssn: Session) -> Iterator[Statement]:
    """A statement that is taken back on leaving the block."""
    statement = Statement(ssn)
    try:
        yield statement
    finally:
        statement.discard()
