"""What KAI's actions cost a job, in calls of functions: they are the same on any machine, however busy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from pumice_bench import kai_shapes
from pumice_bench.run import conf_of
from pumice_bench.shape import Shape

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from steps import calls_of

REGISTRY = default_registry()


def calls(shape: Shape) -> int:
    """The calls of functions that the cycle of a shape takes when everything is loaded."""
    assembly = assemble(from_data(conf_of(shape, REGISTRY), catalogue_of(REGISTRY)).conf, REGISTRY)
    found = 0
    for _ in range(2):
        state = ClusterState()
        ((arriving, _gone),) = shape.cycles
        state.apply_all(Seen(obj) for obj in [*shape.objects, *arriving])
        report, found = calls_of(partial(run_cycle, state, assembly, Runtime()))
        assert len(report.binds) == shape.binds
    return found


@pytest.mark.parametrize(
    ("made", "most"), [(kai_shapes.allocate, 300), (kai_shapes.preempt, 100), (kai_shapes.consolidation_half, 600)]
)
def test_one_job_more_takes_few_steps(made: Callable[[int, int], Shape], most: int) -> None:
    """On as many nodes as the larger number of jobs needs; of preempt and consolidation every other job runs."""
    few, many = (calls(made(20, jobs)) for jobs in (40, 120))
    assert (many - few) / 80 < most
