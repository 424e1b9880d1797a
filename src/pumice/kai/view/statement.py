"""A log of changes: do, roll back, commit. A victim may be given another place, or left where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from pumice.framework.points import table as t
from pumice.framework.session.statement import Operation, OperationKind, Statement
from pumice.kai.view.device_claims import ClaimsBefore
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import Amounts
from pumice.kai.view.tasks import TaskStage, TaskView
from pumice.kai.view.world import KaiWorld
from pumice.kai.view.zones import ZonePlacement
from pumice.model.intents import Bind
from pumice.model.node import Node
from pumice.model.status import TaskStatus

Before: TypeAlias = tuple[TaskStage, Node | None, tuple[str, ...], bool, Amounts, ZonePlacement | None]
"""The state of a task before a change."""


class ChangeKind(Enum):
    """The record of an operation."""

    EVICT = "evict"
    PIPELINE = "pipeline"
    ALLOCATE = "allocate"


@dataclass(slots=True, eq=False)
class ViewChange:
    """One change with what it takes to undo it."""

    kind: ChangeKind
    task: TaskView
    node: Node
    before: Before
    valid: bool = True
    """False: it was cancelled by a later one."""
    reason: str = ""
    for_job: JobView | None = None
    claims: ClaimsBefore = ()
    second: Node | None = None
    """The place that an evicted task was promised until then."""
    real: Operation | None = None
    """The effect on the task itself; None: the state has no word for it."""


def make_true(world: KaiWorld, real: Statement, done: Sequence[ViewChange]) -> bool:
    """Make changes true; False, with the state as it was, where a bind cannot be prepared."""
    ssn = world.ssn
    evicts = any(op.kind is ChangeKind.EVICT for op in done)
    for each in real.operations:
        each.evicted = evicts and each.kind is OperationKind.PIPELINE
    known = len(ssn.outcome.intents)
    if not real.commit(holds=not ssn.compat.kai_forgotten_promises):
        return False
    notes = {op.task.uid: world.notes_of(op.task) for op in done if op.kind is ChangeKind.ALLOCATE}
    for intent in ssn.outcome.intents[known:]:
        if isinstance(intent, Bind) and notes.get(intent.uid):
            intent.annotations.update(notes[intent.uid])
    for op in done:
        key = op.task.task.key
        if op.kind is ChangeKind.ALLOCATE:
            op.task.stage = TaskStage.BINDING
            world.calls.bind.append(key)
        elif op.kind is ChangeKind.EVICT:
            if op.for_job is not None:  # else nobody is helped by it
                world.times.lost_some(op.task.job.whole)
            world.calls.evict.append(key)
        else:
            world.calls.pipeline.append(key)
    return True


_EVICTABLE: Final = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING)


class ChangePlan:
    """Changes applied to a world, newest last."""

    __slots__ = ("_real", "_world", "objected", "operations")

    def __init__(self, world: KaiWorld) -> None:
        self._world = world
        self._real = Statement(world.ssn)
        """Does to the state, and tells handlers, what the state has a word for. Its operations are kept here."""
        self.objected = False
        """Whether a handler objected to the last placement."""
        self.operations: list[ViewChange] = []

    # -- doing ------------------------------------------------------------------------------------------------------
    def evict(self, task: TaskView, reason: str, for_job: JobView | None = None) -> None:
        """Take a task for leaving its node. A task whose node is gone leaves no room; its remover deals with it."""
        world, node = self._world, task.node
        if node is None:
            return
        op = ViewChange(ChangeKind.EVICT, task, node, _of(task), reason=reason, for_job=for_job)
        op.real = self._evict(op)
        world.count(task, -1)
        world.count_zones(task, node, -1)
        if world.claims is not None:
            op.claims = world.claims.leave(task.task)
        world.nodes.book(task, node, task.stage, task.groups, -1)
        world.nodes.book(task, node, TaskStage.RELEASING, task.groups, 1)
        task.stage, task.virtual = TaskStage.RELEASING, True
        world.changed(task)
        self.operations.append(op)

    def _evict(self, op: ViewChange) -> Operation | None:
        """Take a task itself for leaving; not one that has nothing of the state's yet."""
        task = op.task.task
        op.second = self._world.state.withdraw_second(task)
        if task.status not in _EVICTABLE:
            return None
        helped = next((x.task for x in op.for_job.tasks.values()), None) if op.for_job is not None else None
        self._real.evict(task, op.reason, helped)
        return self._real.operations.pop()

    def pipeline(self, task: TaskView, node: Node, groups: tuple[str, ...] = ()) -> bool:
        """Promise a task room that is being released, or leave a victim where it is; False: a handler objects."""
        if task.stage is TaskStage.RELEASING and task.node is node:
            eviction = self._eviction_of(task)
            if eviction is not None and self._is_as_before(eviction, node, groups):
                self._restore(eviction)
                eviction.valid = False
                self.operations.append(
                    ViewChange(ChangeKind.PIPELINE, task, eviction.node, eviction.before, valid=False)
                )
                return True
        return self._place(ChangeKind.PIPELINE, task, node, groups, TaskStage.PIPELINED)

    def _is_as_before(self, eviction: ViewChange, node: Node, groups: tuple[str, ...]) -> bool:
        """Report whether a victim would share the same GPUs, devices and NUMA zones."""
        world = self._world
        if sorted(eviction.before[2]) != sorted(groups):
            return False
        if world.claims is not None and not world.claims.still_free(eviction.claims):
            return False
        had, gets = eviction.before[5], world.zones_for(eviction.task, node)
        return had is None or gets is None or had == gets

    def allocate(self, task: TaskView, node: Node, groups: tuple[str, ...] = ()) -> bool:
        """Give a task its place; False: a handler objects."""
        return self._place(ChangeKind.ALLOCATE, task, node, groups, TaskStage.ALLOCATED)

    def _place(self, kind: ChangeKind, task: TaskView, node: Node, groups: tuple[str, ...], stage: TaskStage) -> bool:
        world = self._world
        op = ViewChange(kind, task, node, _of(task))
        if task.task.status is TaskStatus.PENDING:
            if kind is ChangeKind.ALLOCATE:
                known = world.state.devices
                devices: Sequence[int] = ()
                if groups:
                    devices = known.of_groups(task.task, groups, node.row)
                    known.name_groups(devices, groups, node.row)
                elif world.only_kai(t.GPU_ORDER):  # KAI's own put shared GPUs in order, and no whole ones
                    devices = known.pick(task.task, node)
                self.objected = bool(self._real.allocate(task.task, node, devices))
            else:
                self.objected = bool(self._real.pipeline(task.task, node))
            if self.objected:
                return False
            op.real = self._real.operations.pop()
        elif task.task.status is TaskStatus.RELEASING:
            world.state.promise_second(task.task, node)
        task.stage, task.node, task.groups, task.virtual = stage, node, groups, True
        task.accepted = world.counted(task.request, node)
        if world.zones:
            task.zones = world.zones_for(task, node)
            world.count_zones(task, node, 1)
        if world.claims is not None:
            op.claims = world.claims.take(task.task, node)
        world.nodes.book(task, node, stage, groups, 1)
        world.nodes.tasks.setdefault(node.row, {})[task.uid] = task
        world.nodes.came.append((node.row, task.uid))
        world.count(task, 1)
        world.changed(task)
        self.operations.append(op)
        return True

    def _eviction_of(self, task: TaskView) -> ViewChange | None:
        return next(
            (op for op in reversed(self.operations) if op.task is task and op.kind is ChangeKind.EVICT and op.valid),
            None,
        )

    # -- undoing ----------------------------------------------------------------------------------------------------
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

    def _undo(self, op: ViewChange) -> None:
        if op.kind is ChangeKind.PIPELINE and not op.valid:
            # it left a victim where it was: the victim is leaving again
            eviction = next(
                e for e in reversed(self.operations) if e.task is op.task and e.kind is ChangeKind.EVICT and not e.valid
            )
            eviction.valid = True
            task, world = op.task, self._world
            world.count(task, -1)
            world.count_zones(task, op.node, -1)
            if world.claims is not None:
                world.claims.leave(task.task)
            world.nodes.book(task, op.node, task.stage, task.groups, -1)
            world.nodes.book(task, op.node, TaskStage.RELEASING, task.groups, 1)
            task.stage, task.virtual = TaskStage.RELEASING, True
            world.changed(task)
            eviction.real = self._evict(eviction)
            return
        if not op.valid:
            return
        self._restore(op)

    def _restore(self, op: ViewChange) -> None:
        task, world = op.task, self._world
        if op.real is not None:
            self._real._undo(op.real)
            op.real = None
        elif op.kind is not ChangeKind.EVICT:
            world.state.withdraw_second(task.task)
        if op.second is not None:
            world.state.promise_second(task.task, op.second)
            op.second = None
        stage, node, groups, virtual, accepted, zones = op.before
        if op.kind is ChangeKind.EVICT:
            world.nodes.book(task, op.node, TaskStage.RELEASING, task.groups, -1)
            task.stage, task.node, task.groups, task.virtual, task.accepted = stage, node, groups, virtual, accepted
            task.tried = ()
            task.zones = zones
            world.nodes.book(task, op.node, stage, groups, 1)
            world.count(task, 1)
            world.count_zones(task, op.node, 1)
            if world.claims is not None:
                world.claims.stay(task.task, op.claims)
        else:
            world.count(task, -1)
            world.count_zones(task, op.node, -1)
            if world.claims is not None:
                world.claims.take_back(task.task, op.claims)
            world.nodes.book(task, op.node, task.stage, task.groups, -1)
            if node is not op.node:
                world.nodes.tasks[op.node.row].pop(task.uid, None)
                task.tried = task.groups if stage is TaskStage.RELEASING else ()
            task.zones = zones
            task.stage, task.node, task.groups, task.virtual, task.accepted = stage, node, groups, virtual, accepted
        world.changed(task)

    # -- ending -----------------------------------------------------------------------------------------------------
    def convert_to_pipelined(self, job: JobView) -> None:
        """Turn what a job was given at once into promises: a gang does not start in part."""
        world = self._world
        for op in self.operations:
            task = op.task
            if (
                op.kind is ChangeKind.ALLOCATE
                and op.valid
                and task.uid in job.tasks
                and task.stage is TaskStage.ALLOCATED
            ):
                world.nodes.book(task, op.node, TaskStage.ALLOCATED, task.groups, -1)
                world.nodes.book(task, op.node, TaskStage.PIPELINED, task.groups, 1)
                task.stage = TaskStage.PIPELINED
                op.kind = ChangeKind.PIPELINE
                if op.real is not None:
                    self._real._undo(op.real)
                    self._real.pipeline(task.task, op.node)
                    op.real = self._real.operations.pop()
                world.changed(task)

    def commit(self) -> bool:
        """Make it true: placements are bound, victims evicted, promises kept for this session.

        False, with everything undone, where a bind cannot be prepared.
        """
        done = [op for op in self.operations if op.valid]
        self._real.operations = [op.real for op in done if op.real is not None]
        if not make_true(self._world, self._real, done):
            for op in done:
                op.real = None  # it is undone already
            self.discard()
            return False
        self.operations = []
        return True


def _of(task: TaskView) -> Before:
    return task.stage, task.node, task.groups, task.virtual, task.accepted, task.zones
