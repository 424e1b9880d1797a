"""KAI's ways of choosing sets of victims: node by node, and over several nodes at once."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from pumice.framework.plugin import Plugin
from pumice.kai.search.scenarios import Accumulated, SearchContext, VictimScenario, accumulate
from pumice.kai.view.queues import GPU
from pumice.kai.view.tasks import TaskView


class NodeLocalGreedy(Plugin):
    """Victims one after the other, of each node on its own that the last of them was on."""

    name = "sg-nodelocalgreedy"
    persistent = True

    def scenario_generator(self, context: SearchContext) -> Iterator[VictimScenario]:
        """Scenarios, in the order in which they are tried."""
        return _node_by_node(context)


class MultiNodeGang(Plugin):
    """Victims on as many nodes as it takes, the nodes with least to free first."""

    name = "sg-multinodegang"
    persistent = True

    def scenario_generator(self, context: SearchContext) -> Iterator[VictimScenario]:
        """Scenarios, in the order in which they are tried."""
        return _over_nodes(context)


def _node_by_node(context: SearchContext) -> Iterator[VictimScenario]:
    if not context.node_might():
        if context.recorded and context.accepts(Accumulated()):
            yield context.scenario(())
        return
    on_node: dict[str, dict[str, None]] = {}
    pieces: dict[str, list[TaskView]] = {}
    for piece in context.recorded:
        pieces.setdefault(piece[0].job.job.uid, []).extend(piece)
    counted = 0
    seen: set[frozenset[str]] = set()
    for so_far in accumulate(context):
        if so_far.last is None:
            if context.recorded:
                yield context.scenario(())
            continue
        names = sorted({t.node_name for t in so_far.last.whole.tasks.values() if t.node is not None})
        for batch in so_far.batches[counted:]:
            for task in batch:
                on_node.setdefault(task.node_name, {})[task.job.job.uid] = None
            pieces.setdefault(batch[0].job.job.uid, []).extend(batch)
        counted = len(so_far.batches)
        for name in names:
            chosen = [list(pieces[uid]) for uid in on_node.get(name, ())]
            if not chosen or not context.might(chosen):
                continue
            mark = frozenset(t.uid for piece in chosen for t in piece)
            if mark not in seen:
                seen.add(mark)
                yield context.scenario(chosen)


def _over_nodes(context: SearchContext) -> Iterator[VictimScenario]:
    for so_far in accumulate(context):
        yield from _prefixes(context, so_far)


def _prefixes(context: SearchContext, so_far: Accumulated) -> Iterator[VictimScenario]:
    """Growing sets of nodes, smallest useful ones first, until all nodes with victims are among them."""
    ledger = context.world.nodes
    pending = [_gpus(t) for t in context.tasks]
    open_gpus = ledger.free_gpus().copy()
    for task in (t for piece in context.recorded for t in piece):
        if task.node is not None:
            open_gpus[task.node.row] += task.accepted[GPU]
    free: dict[int, float] = {}
    appeared: dict[int, int] = {}
    for task in so_far.tasks():
        if task.node is not None:
            row = task.node.row
            if row not in free:
                appeared[row] = len(appeared)
                free[row] = float(open_gpus[row])
            free[row] += task.accepted[GPU]
    others = context.feasible.copy()
    others[list(free)] = False
    base = float(open_gpus[others].sum())
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
        batches = [b for b in so_far.batches if _is_on(b, chosen)]
        if context.might(batches):
            yield context.scenario(batches)
        if length >= len(rows):
            return
        length = min(length + step, len(rows))
        step *= 2


def _is_on(tasks: Sequence[TaskView], rows: Container[int]) -> bool:
    """Report whether one of the tasks is on one of the nodes."""
    for task in tasks:  # noqa: SIM110 - asked of every victim
        if task.node is not None and task.node.row in rows:
            return True
    return False


def _gpus(task: TaskView) -> float:
    return task.request.quota[2]
