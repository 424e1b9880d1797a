"""How many tasks of a class there is room for: the count follows the rows that change."""

from __future__ import annotations

import random

import numpy as np

from pumice.engine.fit_count import FitCount
from pumice.model.status import TaskStatus
from pumice.testing import Scenario


def test_the_count_follows_what_comes_and_goes(scenario: Scenario) -> None:
    rng = random.Random(3)
    for n in range(40):
        scenario.node(f"n{n:02d}", cpu=rng.randrange(1, 9), memory=f"{rng.randrange(1, 33)}Gi")
    scenario.job("asked", cpu=2, memory="3Gi")
    for n in range(20):
        scenario.job(f"other{n}", cpu=rng.randrange(1, 4), memory=f"{rng.randrange(1, 5)}Gi")
    state, table = scenario.state, scenario.state.table
    klass = next(iter(state.jobs["default/asked"].tasks.values())).klass
    open_rows = np.ones(table.size, dtype=np.bool_)
    open_rows[3] = False
    kept = FitCount(klass, table, open_rows)
    tasks = [t for n in range(20) for t in state.jobs[f"default/other{n}"].tasks.values()]
    nodes = list(state.nodes.values())
    for step in range(200):
        task = rng.choice(tasks)
        if task.node is None:
            state.set_status(task, TaskStatus.ALLOCATED, rng.choice(nodes))
        else:
            state.set_status(task, TaskStatus.PENDING, None)
        if step % 3 == 0 and step % 100 < 70:  # also many at once
            assert kept.follow(table)
            assert kept.total == FitCount(klass, table, open_rows).total
    assert FitCount(klass, table, open_rows).total < FitCount(klass, table, np.ones(table.size, dtype=np.bool_)).total


def test_it_gives_up_when_a_node_changed(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).job("asked", cpu=1)
    table = scenario.state.table
    klass = next(iter(scenario.state.jobs["default/asked"].tasks.values())).klass
    kept = FitCount(klass, table, np.ones(table.size, dtype=np.bool_))
    scenario.node("n2", cpu=4)
    assert not kept.follow(table)
