"""A finished plan of evictions: who may stay after all, who may refuse it, and its commit."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.framework.evicting.victims import scenario_of
from pumice.framework.placing.serving import PLACING
from pumice.framework.points import table as points
from pumice.framework.session.outcome import Refusal, Stage
from pumice.framework.session.search import ASKS as SEARCH_ASKS
from pumice.framework.session.session import Session
from pumice.framework.session.statement import ASKS as STATEMENT_ASKS
from pumice.framework.session.statement import OperationKind, Statement
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.task import Task

ASKS = (points.SCENARIO_VALIDATOR, points.ALLOCATABLE, *SEARCH_ASKS, *STATEMENT_ASKS)


def commit_plan(ssn: Session, action: str, statement: Statement, job: Job, task: Task | None = None) -> bool:
    """Commit a plan for a job if nobody refuses it; else take it back.

    A plan that evicts nobody is left to the action that places, if that is still to come: a promise would keep the job
    from the places that it can have at once. Nor is it made for a single *task*: half a gang would hold room.
    """
    if spares(ssn):
        if statement.has_evictions():
            useless = job.pending_best_effort_count > 0 and job.is_starving  # its gang would still not be whole
        else:
            useless = task is not None or not PLACING.isdisjoint(ssn.actions[_position(ssn, action) + 1 :])
        if useless:
            statement.discard()
            return False
    if statement.has_evictions():
        verdict = ssn.scenario_validator(scenario_of(action, job, statement.operations, task))
        if not verdict:
            ssn.outcome.refusals.add(
                job, Refusal.of(Stage.EVICTION, verdict, otherwise="the plan of evictions was refused")
            )
            statement.discard()
            return False
        ssn.metrics.counter("eviction_transactions_total", action=action)
    return statement.commit()


def spares(ssn: Session) -> bool:
    """Are victims spared that a plan does not need?"""
    return not ssn.compat.spare_victims


def _position(ssn: Session, action: str) -> int:
    return ssn.actions.index(action) if action in ssn.actions else len(ssn.actions)


def spare_more(ssn: Session, statement: Statement) -> None:
    """Let victims stay that later evictions on the same node have made needless.

    Only a node on which the plan places several tasks can have such: its placements are taken off and made again
    without the victim, and everything is put back as it was if one of them no longer fits.
    """
    nodes: dict[str, list[Task]] = {}
    for op in statement.operations:
        if op.kind is OperationKind.PIPELINE:
            nodes.setdefault(op.node.name, []).append(op.task)
    for op in [o for o in reversed(statement.operations) if o.kind is OperationKind.EVICT]:
        placed = nodes.get(op.node.name, ())
        if len(placed) < 2 or not _surplus(ssn, op.node, op.task):
            continue
        statement.undo_of(op.task)
        if not _still_fit(ssn, statement, placed, op.node):
            statement.evict(op.task, op.reason, op.for_task)


def _surplus(ssn: Session, node: Node, victim: Task) -> bool:
    table, row = ssn.state.table, node.row
    return all(table.free_soon(d, row) >= v for d, v in victim.klass.items)


def _still_fit(ssn: Session, statement: Statement, placed: Sequence[Task], node: Node) -> bool:
    """Do tasks that a statement pipelined on a node pass all filters there as things are now, devices and queue too?"""
    for task in placed:
        gpu = task.klass.gpu
        with statement.aside(task):
            fits = ssn.search.objection(task, node) is None and bool(
                ssn.allocatable(ssn.queues[task.job.queue], task)
                and (gpu is None or ssn.state.devices.fits_on(node.row, gpu, future=True))
            )
        if not fits:
            return False
    return True
