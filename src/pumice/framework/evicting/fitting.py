"""Whether evictions on one node make room for a task, and which victims bring it closest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pumice.engine.heap import GoHeap
from pumice.framework.session.session import Session
from pumice.model.node import Node
from pumice.model.task import Task


def enough(ssn: Session, task: Task, node: Node, victims: Sequence[Task]) -> bool:
    """Is there room for the task were all these gone?"""
    table, row = ssn.state.table, node.row
    for d, v in zip(task.klass.fit_dims, task.klass.fit_values, strict=True):
        free = table.free_soon(d, row)
        if free < v and free + sum(int(t.klass.requests.get(d)) for t in victims) < v:
            return False
    return True


def shortage(ssn: Session, task: Task, node: Node) -> list[tuple[int, int]]:
    """What the node has too little of for the task, once what is leaving is gone."""
    table, row = ssn.state.table, node.row
    short = []
    for d, v in zip(task.klass.fit_dims, task.klass.fit_values, strict=True):
        free = table.free_soon(d, row)
        if free < v:
            short.append((d, v - free))
    return short


def worth_of(short: Sequence[tuple[int, int]], victim: Task) -> float:
    """How much of what is short a victim would leave, as parts of each resource."""
    return sum(min(int(victim.klass.requests.get(d)) / missing, 1.0) for d, missing in short)


def most_first(victims: Sequence[Task], worth: Callable[[Task], float]) -> GoHeap[Task]:
    """Victims to be popped one by one, those of most worth first."""
    return GoHeap(lambda a, b: worth(a) > worth(b), victims)


def roomy(ssn: Session, task: Task, node: Node, less: Task | None = None) -> bool:
    """Is there room for the task once what is leaving is gone, *less* staying?"""
    table, row = ssn.state.table, node.row
    for d, v in zip(task.klass.fit_dims, task.klass.fit_values, strict=True):
        stays = int(less.klass.requests.get(d)) if less is not None else 0
        if table.free_soon(d, row) < v + stays:
            return False
    return True
