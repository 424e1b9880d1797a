"""Plans for many equal tasks: what is looked at first makes them quicker, and never other plans."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pumice import NodeRows, Scope, Session, Task
from pumice.engine import choose as plan
from pumice.state.table import NodeTable
from pumice.testing import cluster, job, session, task_of


def _top_one_by_one(masked: list[float], ranks: list[int], most: int) -> tuple[list[int], tuple[float, int] | None]:
    order = sorted((-score, ranks[row], row) for row, score in enumerate(masked) if score > -np.inf)
    if most + 1 >= len(masked):
        return sorted(row for _, _, row in order), None
    following = order[most][:2] if len(order) > most else None
    return sorted(row for _, _, row in order[:most]), following


class _Ranks(NodeTable):
    """Rows of given ranks."""

    def __init__(self, ranks: list[int]) -> None:
        super().__init__()
        self.by = ranks

    @property
    def rows_by_name(self) -> bool:
        return self.by == sorted(self.by)


@pytest.mark.parametrize("seed", range(40))
def test_the_best_rows_are_those_of_a_sort(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice([1, 7, 40, 700, 30_000])
    kinds, closed = rng.choice([1, 2, 5, 1000]), rng.choice([0.0, 0.1, 0.9, 0.999, 1.0])
    masked = [-np.inf if rng.random() < closed else float(rng.randrange(kinds)) for _ in range(size)]
    ranks = list(range(size))
    if seed % 2:
        rng.shuffle(ranks)
    for most in (1, 16, 100, 300):
        top, following = plan._top_of(_Ranks(ranks), np.array(masked), most, np.array(ranks))
        assert (sorted(top.tolist()), following) == _top_one_by_one(masked, ranks, most)


def _scored(ssn: Session, sign: int) -> None:
    """Tasks go where most (1) or least (-1) is used already."""

    def score(_: Task, rows: NodeRows) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return sign * rows.used.milli_cpu.astype(np.float64)

    ssn.add_batch_node_order_fn("p", score, scope=Scope.NODE)


@pytest.mark.parametrize("sign", [1, -1, 0])
@pytest.mark.parametrize("reach", [(1, 1), (1, 2), (3, 40), (16, 1), (16, 5), (40, 2), (40, 40)])
def test_a_plan_is_the_same_wherever_it_looks_first(sign: int, reach: tuple[int, int]) -> None:
    ssn = session(cluster("30x4cpu, 5x9cpu, 20x1cpu"), job("a", tasks=40, cpu=1))
    _scored(ssn, sign)
    evaluator, asked = ssn.search.evaluator, task_of(ssn, "a-0")
    right = []
    view = evaluator.view(asked)
    for _ in range(40):  # one by one
        row = ssn.search.chooser.best_row(evaluator.view(asked).masked)
        right.append(row)
        pod = next(t for t in ssn.jobs["default/a"].tasks.values() if t.node is None)
        ssn.state.move(pod, pod.status.ALLOCATED, ssn.state.table.nodes[row])
    for pod in ssn.jobs["default/a"].tasks.values():
        ssn.state.move(pod, pod.status.PENDING, None)
    view = evaluator.view(asked)
    view.reach = reach
    assert plan.plan_rows(evaluator, view, 40) == right
    assert plan.plan_rows(evaluator, view, 40) == right  # with what was learned from the first
