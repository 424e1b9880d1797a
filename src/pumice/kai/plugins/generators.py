"""KAI's ways of choosing sets of victims: node by node, and over several nodes at once."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.framework.plugin import Plugin
from pumice.kai.search.accumulating import Accumulated, Context, accumulate
from pumice.kai.search.scenario import Scenario
from pumice.kai.view.tasks import TaskView


class NodeLocalGreedy(Plugin):
    """Victims one after the other, of each node on its own that the last of them was on."""

    name = "sg-nodelocalgreedy"

    def scenario_generator(self, context: Context) -> Iterator[Scenario]:
        """Scenarios, in the order in which they are tried."""
        return _node_by_node(context)


class MultiNodeGang(Plugin):
    """Victims on as many nodes as it takes, the nodes with least to free first."""

    name = "sg-multinodegang"

    def scenario_generator(self, context: Context) -> Iterator[Scenario]:
        """Scenarios, in the order in which they are tried."""
        return _over_nodes(context)


def _node_by_node(context: Context) -> Iterator[Scenario]:
    seen: set[frozenset[str]] = set()
    for so_far in accumulate(context):
        if so_far.last is None:
            if context.recorded:
                yield context.scenario(())
            continue
        last = so_far.batches[-1]
        names = sorted({t.node_name for t in last})
        by_node: dict[str, set[str]] = {}
        for task in so_far.tasks():
            by_node.setdefault(task.node_name, set()).add(task.job.job.uid)
        for name in names:
            jobs = by_node[name]
            chosen = [t for t in so_far.tasks() if t.job.job.uid in jobs]
            mark = frozenset(t.uid for t in chosen)
            if mark not in seen:
                seen.add(mark)
                yield context.scenario(chosen)


def _over_nodes(context: Context) -> Iterator[Scenario]:
    for so_far in accumulate(context):
        yield from _prefixes(context, so_far)


def _prefixes(context: Context, so_far: Accumulated) -> Iterator[Scenario]:
    """Growing sets of nodes, smallest useful ones first, until all nodes with victims are among them."""
    ledger = context.world.nodes
    pending = [_gpus(t) for t in context.tasks]
    free: dict[int, float] = {}
    appeared: dict[int, int] = {}
    for task in so_far.tasks():
        if task.node is not None:
            row = task.node.row
            if row not in free:
                appeared[row] = len(appeared)
                free[row] = ledger.idle_gpus(row) + ledger.releasing_gpus(row)
            free[row] += _gpus(task)
    base = 0.0
    for task in context.recorded:
        if task.node is not None and task.node.row in free:
            free[task.node.row] += _gpus(task)
    recorded: dict[int, float] = {}
    for task in context.recorded:
        if task.node is not None:
            recorded[task.node.row] = recorded.get(task.node.row, 0.0) + _gpus(task)
    for row in ledger.order.tolist():
        if context.feasible[row] and row not in free:
            base += ledger.idle_gpus(row) + ledger.releasing_gpus(row) + recorded.get(row, 0.0)
    least = min(pending, default=0.0)
    rows = sorted((r for r in free if free[r] >= least), key=lambda r: (free[r], appeared[r]))
    missing = sum(pending) - base
    length = 0
    while missing > 1e-9 and length < len(rows):
        missing -= free[rows[length]]
        length += 1
    if missing > 1e-9:
        return
    step = 1
    while True:
        chosen = set(rows[:length])
        batches = [b for b in so_far.batches if any(t.node is not None and t.node.row in chosen for t in b)]
        yield context.scenario([t for b in batches for t in b])
        if length >= len(rows):
            return
        length = min(length + step, len(rows))
        step *= 2


def _gpus(task: TaskView) -> float:
    return task.request.quota[2]
