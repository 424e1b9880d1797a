"""Changes in mind made true: placements are bound, victims evicted, promises kept for the session."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.framework.points import table as t
from pumice.framework.session.statement import Statement, nobody_between
from pumice.kai.view.changes import ChangeKind, ViewChange
from pumice.kai.view.stage import TaskStage
from pumice.kai.view.world import KaiWorld
from pumice.model.intents import Bind
from pumice.model.status import TaskStatus


def make_true(world: KaiWorld, done: Sequence[ViewChange]) -> bool:
    """Make changes true; False, with nothing changed but in mind, where a bind cannot be prepared."""
    if len(done) == 1 and done[0].kind is ChangeKind.ALLOCATE and nobody_between(world.ssn):
        _bind(world, done[0])
    elif not _by_statement(world, done):
        return False
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


def _bind(world: KaiWorld, op: ViewChange) -> None:
    """Bind one task, as a statement would that holds nothing else."""
    view, node, ssn = op.task, op.node, world.ssn
    task, request = view.task, view.request
    unshared = not request.devices or (request.shared is None and not world.nodes.shared.get(node.row))
    whole = unshared and world.only_kai(t.GPU_ORDER)  # all GPUs that nobody shares are alike then
    devices = () if whole or task.klass.gpu is None else ssn.search.pick_devices(task, node)
    ssn.state.move(task, TaskStatus.ALLOCATED, node, devices=devices)
    ssn.state.confirm(task)
    ssn.outcome.intents.append(Bind(task.key, task.uid, node.name, task.job_key, world.notes_of(view), "", (), 0))


def _by_statement(world: KaiWorld, done: Sequence[ViewChange]) -> bool:
    ssn = world.ssn
    real = Statement(ssn)
    for op in done:
        task = op.task.task
        if op.kind is ChangeKind.EVICT and task.status in (TaskStatus.RUNNING, TaskStatus.BOUND):
            helped = next((x.task for x in op.for_job.tasks.values()), None) if op.for_job is not None else None
            real.evict(task, op.reason, helped)
        elif op.kind is ChangeKind.ALLOCATE:
            real.allocate(task, op.node)
        elif op.kind is ChangeKind.PIPELINE and task.status is TaskStatus.PENDING:
            real.pipeline(task, op.node, evicted=any(o.kind is ChangeKind.EVICT for o in done))
    known = len(ssn.outcome.intents)
    if not real.commit(holds=not ssn.compat.kai_forgotten_promises):
        return False
    notes = {op.task.uid: world.notes_of(op.task) for op in done if op.kind is ChangeKind.ALLOCATE}
    for intent in ssn.outcome.intents[known:]:
        if isinstance(intent, Bind) and notes.get(intent.uid):
            intent.annotations.update(notes[intent.uid])
    return True
