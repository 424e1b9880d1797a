"""A dry run costs what a cycle costs: under 200 ms at 5,000 nodes and 50,000 pods."""

from __future__ import annotations

import gc
import time

import pytest

from pumice.answers.desk import Desk
from pumice.bench import shapes
from pumice.config import DEFAULT_CONF, load
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.testing import job
from pumice.testing.world import flat

LIMIT = 0.2


@pytest.mark.slow
def test_a_dry_run_takes_less_than_200_ms_at_5000_nodes_and_50000_pods() -> None:
    registry = default_registry()
    conf = load(DEFAULT_CONF, catalogue_of(registry), "<default>").conf
    state = ClusterState()
    gc.disable()
    try:
        for obj in shapes.steady(5000, 10, 1).objects:
            state.apply(Seen(obj))
    finally:
        gc.enable()
    assert (len(state.nodes), len(state.tasks)) == (5000, 50_000)
    state.now = 1.8e9
    desk = Desk(state, assemble(conf, registry), Runtime())
    run_cycle(state, desk.assembly, desk.runtime)
    new = flat([job("new", tasks=100, cpu=1)])
    spent = []
    for _ in range(5):
        begun = time.process_time()
        tried = desk.attempt(new)
        spent.append(time.process_time() - begun)
        assert len(tried.jobs[0].placed) == 100
    assert sorted(spent)[2] < LIMIT, spent
    print(f"a dry run: {1000 * sorted(spent)[2]:.0f} ms of CPU")
    begun = time.process_time()
    assert desk.why("bench/r0").explanation.stage == "served"
    assert time.process_time() - begun < LIMIT
    spent = []
    for _ in range(5):
        begun = time.process_time()
        question = desk.when("bench/r0")
        spent.append(time.process_time() - begun)
        assert len(question.scene.free) == 5000
    assert sorted(spent)[2] < LIMIT, spent
    print(f"the part of when that the scheduler's thread does: {1000 * sorted(spent)[2]:.0f} ms of CPU")
