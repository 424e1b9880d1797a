"""A dry run costs what a cycle costs: some 200 ms at 5,000 nodes and 50,000 pods at most."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

import pytest
from pumice_bench import shapes

from pumice.answers.service import Answers
from pumice.config import DEFAULT_CONF, load
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.recording import NextCycle
from pumice.state.cluster import ClusterState
from pumice.testing import job
from pumice.testing.world import flat
from steps import calls_of

T = TypeVar("T")
LIMIT = 1_000_000
"""Calls of functions: on a core of its own some 200 ms, which is what is promised. They are the same on any machine,
however busy; seconds are printed (`pytest -s`)."""

EVICTING = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
WAITING = 5000


def cost(what: str, work: Callable[[], T]) -> tuple[T, int]:
    """What some work gives, and the calls of functions that it takes; prints the CPU time that it took beside it."""
    begun = time.process_time()
    work()
    print(f"{what}: {1000 * (time.process_time() - begun):.0f} ms of CPU")
    return calls_of(work)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "hopeless"),
    [(DEFAULT_CONF, 0), (EVICTING, 1000), (EVICTING, 32)],
    ids=["by default", "evicting, and 5,000 wait that never fit", "evicting, and 5,000 wait for a whole node"],
)
def test_an_answer_takes_few_steps_at_5000_nodes_and_50000_pods(text: str, hopeless: int) -> None:
    registry = default_registry()
    conf = load(text, catalogue_of(registry), "<conf>").conf
    state = ClusterState()
    gc.disable()
    try:
        for obj in shapes.steady(5000, 10, 1).objects:
            state.apply(Seen(obj))
        state.now = 1.8e9
        desk = Answers(NextCycle(state, assemble(conf, registry), Runtime()))
        run_cycle(state, desk.cycle.assembly, desk.cycle.runtime)
        for obj in flat([job(f"hopeless-{n}", cpu=hopeless) for n in range(WAITING if hopeless else 0)]):
            state.apply(Seen(obj))
    finally:
        gc.freeze()  # as the scheduler does with what it begins with
        gc.enable()
    assert (len(state.nodes), len(state.tasks)) == (5000, 50_000 + (WAITING if hopeless else 0))
    # as a scheduler does before it answers: they were let in and refused
    run_cycle(state, desk.cycle.assembly, desk.cycle.runtime)
    new = flat([job("new", tasks=100, cpu=1)])
    tried, calls = cost("a dry run", lambda: desk.attempt(new))
    assert len(tried.jobs[0].placed) == 100
    assert calls < LIMIT
    why, calls = cost("why", lambda: desk.why("bench/r0"))
    assert why.explanation.stage == "served"
    assert calls < LIMIT
    if hopeless == 32:
        question, calls = cost("the scheduler's part of when", lambda: desk.when("default/hopeless-4999"))
        assert (len(question.scene.free), len(question.scene.waiters)) == (5000, WAITING)
        assert calls < LIMIT
    gc.unfreeze()
