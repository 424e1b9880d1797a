"""Changes in mind made true: placements are bound, victims evicted, promises kept for the session."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.framework.session.statement import OperationKind, Statement
from pumice.kai.view.changes import ChangeKind, ViewChange
from pumice.kai.view.stage import TaskStage
from pumice.kai.view.world import KaiWorld
from pumice.model.intents import Bind


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
