"""Laws of eviction on random clusters: nobody goes for nothing, only lesser work goes, and it all settles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.framework.session.session import Session
from pumice.model.intents import Evict
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState
from pumice.testing.builders import job, node, queue
from pumice.testing.scenario import Scenario
from pumice.testing.world import session

pytestmark = pytest.mark.law

PREEMPT = {
    "actions": ("enqueue", "allocate", "preempt"),
    "plugins": [["priority", "gang"], ["predicates", "nodeorder"]],
}
RECLAIM = {
    "actions": ("enqueue", "allocate", "reclaim"),
    "plugins": [["priority", "gang"], ["predicates", "proportion", "nodeorder"]],
}
GANGS = {
    "actions": ("enqueue", "allocate", "gangpreempt"),
    "plugins": [["priority", "gang"], ["predicates", "nodeorder"]],
}


@dataclass(frozen=True)
class Given:
    """A running and a waiting part of a random cluster."""

    nodes: Sequence[int]
    running: Sequence[tuple[int, int, Sequence[int], str]]
    waiting: Sequence[tuple[int, int, int, int, str]]

    def scenario(self, *, recreate: bool = False) -> Scenario:
        made = Scenario(queue("a"), queue("b"), recreate=recreate)
        for n, cpu in enumerate(self.nodes):
            made.node(f"n{n}", cpu=cpu)
        room = list(self.nodes)
        for n, (priority, cpu, where, name) in enumerate(self.running):
            places = []
            for at in where:
                at %= len(room)
                if room[at] >= cpu:
                    room[at] -= cpu
                    places.append(f"n{at}")
            if places:
                minimum = 1 + n % len(places)
                made.job(
                    f"run{n}",
                    tasks=len(places),
                    on=places,
                    cpu=cpu,
                    priority=priority,
                    min_available=minimum,
                    queue=name,
                )
        for n, left in enumerate(room):
            if left:
                made.job(f"fill{n}", tasks=left, on=f"n{n}", cpu=1, priority=1, min_available=1 + n % 2, queue="a")
        for n, (priority, cpu, tasks, minimum, name) in enumerate(self.waiting):
            made.job(f"wait{n}", tasks=tasks, cpu=cpu, priority=priority, min_available=min(minimum, tasks), queue=name)
        return made


def clusters() -> st.SearchStrategy[Given]:
    """Up to four full nodes and up to three jobs that wait."""
    names = st.sampled_from(["a", "b"])
    running = st.tuples(
        st.sampled_from([1, 10]), st.integers(1, 3), st.lists(st.integers(0, 3), min_size=1, max_size=4), names
    )
    waiting = st.tuples(st.sampled_from([1, 10, 100]), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), names)
    return st.builds(
        Given,
        st.lists(st.integers(2, 6), min_size=1, max_size=4),
        st.lists(running, min_size=1, max_size=6),
        st.lists(waiting, min_size=1, max_size=3),
    )


@pytest.mark.parametrize("conf", [PREEMPT, RECLAIM, GANGS], ids=["preempt", "reclaim", "gangpreempt"])
@settings(max_examples=examples(40), deadline=None)
@given(world=clusters())
def test_every_eviction_has_a_beneficiary_that_then_fits(conf: Mapping[str, object], world: Given) -> None:
    scenario = world.scenario()
    cycle = scenario.run(**conf)  # type: ignore[arg-type]
    scenario.assert_invariants()
    for intent in cycle.intents:
        if isinstance(intent, Evict):
            assert intent.beneficiary_pod in cycle.pipelined


@pytest.mark.parametrize("conf", [PREEMPT, GANGS], ids=["preempt", "gangpreempt"])
@settings(max_examples=examples(40), deadline=None)
@given(world=clusters())
def test_whoever_is_preempted_has_a_lower_priority_and_the_same_queue(conf: Mapping[str, object], world: Given) -> None:
    scenario = world.scenario()
    for intent in scenario.run(**conf).intents:  # type: ignore[arg-type]
        if isinstance(intent, Evict):
            victim, helped = scenario.job_of(intent.job), scenario.job_of(intent.beneficiary)
            assert victim.priority < helped.priority
            assert victim.queue == helped.queue


HALF_BOUND = Given(
    nodes=[2, 5, 2, 6],
    running=[(1, 1, [0], "a"), (1, 1, [2], "a"), (1, 1, [3], "b"), (10, 1, [0, 3], "a"), (1, 1, [3], "b")],
    waiting=[(100, 4, 2, 1, "a")],
)
"""A gang that is made whole in the very cycle in which the rest of it would be evicted."""


@pytest.mark.parametrize("conf", [PREEMPT, RECLAIM, GANGS], ids=["preempt", "reclaim", "gangpreempt"])
@settings(max_examples=examples(25), deadline=None)
@given(world=clusters())
@example(world=HALF_BOUND)
def test_evictions_settle_even_when_evicted_pods_come_back(conf: Mapping[str, object], world: Given) -> None:
    scenario = world.scenario(recreate=True)
    scenario.run(12, **conf)  # type: ignore[arg-type]
    for _ in range(10):
        cycle = scenario.run()
        assert not cycle.evictions
        assert not cycle.binds
    scenario.assert_invariants()


def digest(state: ClusterState) -> object:
    """Everything that a session could have changed: ledgers, sums, indexes."""
    table = state.table
    ledgers = tuple(
        getattr(table, name)[:, : table.size].tobytes()
        for name in ("idle", "used", "releasing", "pipelined", "evicted", "nonzero_requested")
    )
    jobs = {
        uid: ({s: sorted(j.with_status(s)) for s in TaskStatus}, j.allocated, j.held, dict(j.pending.amounts))
        for uid, j in state.jobs.items()
    }
    queues = {
        name: (q.allocated, q.held, {d: v for d, v in q.pending.amounts.items() if v})
        for name, q in state.queues.items()
    }
    tasks = {uid: (t.status, t.node_name, t.evicted) for uid, t in state.tasks.items()}
    nodes = {n.name: sorted(n.tasks) for n in table.by_name.values()}
    return ledgers, table.pod_count[: table.size].tobytes(), jobs, queues, tasks, nodes


@settings(max_examples=examples(60), deadline=None)
@given(
    choices=st.lists(
        st.tuples(st.sampled_from(["evict", "pipeline", "allocate", "undo"]), st.integers(0, 9)), max_size=14
    )
)
def test_taking_a_statement_back_restores_everything_exactly(choices: Sequence[tuple[str, int]]) -> None:
    ssn = _small_session()
    before = digest(ssn.state)
    statement = ssn.statement()
    for what, number in choices:
        running = [t for t in ssn.state.tasks.values() if t.status is TaskStatus.RUNNING]
        pending = [t for t in ssn.state.tasks.values() if t.status is TaskStatus.PENDING]
        nodes = list(ssn.nodes.values())
        if what == "evict" and running:
            statement.evict(running[number % len(running)], "test")
        elif what == "pipeline" and pending:
            statement.pipeline(pending[number % len(pending)], nodes[number % len(nodes)])
        elif what == "allocate" and pending:
            statement.allocate(pending[number % len(pending)], nodes[number % len(nodes)])
        elif what == "undo" and statement.operations:
            statement.undo_of(statement.operations[number % len(statement.operations)].task)
    statement.discard()
    assert digest(ssn.state) == before


def _small_session() -> Session:
    return session(
        queue("a"),
        node("n0", cpu=8),
        node("n1", cpu=8),
        job("old", tasks=4, on=["n0", "n0", "n1", "n1"], cpu=2, queue="a"),
        job("new", tasks=3, cpu=3, queue="a", phase="Inqueue"),
    )
