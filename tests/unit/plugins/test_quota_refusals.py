"""The numbers of a refusal are those of the moment in which it was asked for."""

from __future__ import annotations

import pytest
from queue_worlds import opened, queue

from pumice.framework.plugin import Arguments, Plugin
from pumice.plugins.capacity import Capacity
from pumice.plugins.proportion import Proportion
from pumice.testing.builders import job, node


@pytest.mark.parametrize("plugin", [Proportion, Capacity])
def test_what_is_counted_for_a_moment_is_told_and_then_forgotten(plugin: type[Plugin]) -> None:
    ssn = opened(
        plugin(Arguments({})), queue("q", capability={"cpu": 3}), node("n", cpu=9), job("a", tasks=5, queue="q")
    )
    mine, task = ssn.queues["q"], next(iter(ssn.jobs["default/a"].tasks.values()))
    for counted in (3, 4, 5, 3):
        ssn.state.count_in_queue(mine, [task] * counted, 1)
        (short,) = ssn.allocatable(mine, task).limits
        ssn.state.count_in_queue(mine, [task] * counted, -1)
        assert (short.holds, short.may_have, short.asks) == (counted, 3, 1)
    assert ssn.allocatable(mine, task)
