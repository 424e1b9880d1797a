"""proportion: queues share the cluster by weight."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from queue_worlds import no_arguments, opened, queue

from effort import examples
from pumice.framework.session.session import Session
from pumice.model.intents import Note
from pumice.plugins.proportion import Proportion
from pumice.testing import Scenario
from pumice.testing.builders import job, node
from pumice.testing.world import task_of

PLUGINS = ["priority", "gang", "proportion"]


def _world(*objects: object) -> Session:
    return opened(Proportion(no_arguments()), *objects)  # type: ignore[arg-type]


def test_queues_with_equal_needs_are_served_by_weight() -> None:
    scenario = Scenario(queue("a", weight=3), queue("b"), node("n", cpu=8))
    scenario.add(job("x", tasks=8, min_available=1, queue="a"), job("y", tasks=8, min_available=1, queue="b"))
    cycle = scenario.run(plugins=PLUGINS)
    assert sum("x-" in pod for pod in cycle.binds) == 6
    assert sum("y-" in pod for pod in cycle.binds) == 2
    scenario.assert_invariants()


def test_a_gang_beyond_what_its_queue_deserves_waits_and_is_told_why() -> None:
    scenario = Scenario(queue("a", capability={"cpu": 2}), node("n", cpu=8), job("x", tasks=3, queue="a"))
    scenario.run(plugins=PLUGINS)
    scenario.assert_pending("x", because="queue resource quota insufficient: insufficient cpu")


def test_a_queue_that_holds_what_it_deserves_is_overused() -> None:
    ssn = _world(queue("a"), node("n", cpu=2), job("x", tasks=2, on="n", queue="a"), job("y", queue="a"))
    assert not ssn.overused(ssn.queues["a"])  # it still wants a third pod slot
    ssn = _world(queue("a"), node("n", cpu=2, pods=2), job("x", tasks=2, on="n", queue="a"), job("y", queue="a"))
    assert ssn.overused(ssn.queues["a"]).plugin == "proportion"


def test_a_closed_queue_takes_nothing_and_reclaims_nothing() -> None:
    ssn = _world(queue("a", state="Closed"), node("n"), job("x", queue="a", min_resources={"cpu": 1}))
    task = task_of(ssn, "x-0")
    for answer in (
        ssn.allocatable(ssn.queues["a"], task),
        ssn.preemptive(ssn.queues["a"], [task]),
        ssn.job_enqueueable(task.job),
    ):
        assert (bool(answer), answer.text) == (False, "queue a is Closed")
    assert ssn.allocatable_room(ssn.queues["a"], task, 5) == 0


def test_a_queue_without_a_state_is_open() -> None:
    ssn = _world(queue("a", state=""), node("n"), job("x", queue="a"))
    assert ssn.allocatable(ssn.queues["a"], task_of(ssn, "x-0"))


def test_queues_are_ordered_by_priority_and_then_by_share() -> None:
    ssn = _world(
        *(queue("a"), queue("b"), queue("first", priority=1), node("n", cpu=9)),
        *(job("x", tasks=2, on="n", queue="a"), job("y", tasks=1, on="n", queue="b")),
        *(job(f"more-{q}", tasks=9, queue=q) for q in ("a", "b")),
        job("z", tasks=3, on="n", queue="first"),
    )
    heap = ssn.orders.queue_heap(ssn.queues.values())
    assert [heap.pop().name for _ in range(3)] == ["first", "b", "a"]


def test_only_what_a_queue_holds_beyond_its_share_can_be_reclaimed() -> None:
    ssn = _world(
        *(queue("a"), queue("b"), node("n", cpu=6, pods=6)),
        *(job("x", tasks=6, on="n", queue="a"), job("y", tasks=6, queue="b")),
    )
    candidates = [task_of(ssn, f"x-{n}") for n in range(6)]
    victims = ssn.reclaimable(task_of(ssn, "y-0"), candidates) or []
    assert len(victims) == 3


def test_jobs_are_let_in_while_their_minimums_fit_the_limit() -> None:
    scenario = Scenario(queue("a", capability={"cpu": 4}), node("n", cpu=8))
    for n in range(3):
        scenario.add(job(f"j{n}", tasks=2, queue="a", min_resources={"cpu": 2}))
    cycle = scenario.run(actions=["enqueue"], plugins=PLUGINS)
    assert [scenario.job_of(f"j{n}").phase for n in range(3)] == ["Inqueue", "Inqueue", "Pending"]
    assert cycle.why("j2").reason == "queue resource quota insufficient: insufficient cpu"
    assert cycle.why("j2").plugin == "proportion"


def test_what_a_job_holds_beyond_its_minimum_does_not_count_against_new_jobs() -> None:
    running = job("old", tasks=4, min_available=1, on="n", queue="a", min_resources={"cpu": 1})
    ssn = _world(queue("a", capability={"cpu": 4}), node("n", cpu=8), running,
                 job("new", tasks=3, queue="a", min_resources={"cpu": 3}),
                 job("big", tasks=4, queue="a", min_resources={"cpu": 4}))  # fmt: skip
    assert ssn.job_enqueueable(ssn.jobs["default/new"])
    assert not ssn.job_enqueueable(ssn.jobs["default/big"])


def test_a_bad_guarantee_is_noted_on_its_queue_once_and_stops_nobody() -> None:
    bad = queue("bad", guarantee={"cpu": 6}, capability={"cpu": 1})
    scenario = Scenario(bad, queue("good"), node("n", cpu=8), job("x", queue="good"))
    first = scenario.run(plugins=PLUGINS)
    notes = [u for u in first.updates if isinstance(u, Note)]
    assert [(n.kind, n.key) for n in notes] == [("Queue", "bad")]
    scenario.assert_bound("x")
    assert not [u for u in scenario.run().updates if isinstance(u, Note)]


def test_figures_of_queues_are_published() -> None:
    scenario = Scenario(queue("a", weight=2), node("n", cpu=8), job("x", tasks=2, queue="a"))
    cycle = scenario.run(plugins=PLUGINS)
    assert cycle.gauge("queue_allocated_milli_cpu", queue_name="a") == 2000
    assert cycle.gauge("queue_deserved_milli_cpu", queue_name="a") == 2000
    assert cycle.gauge("queue_request_milli_cpu", queue_name="a") == 2000
    assert cycle.gauge("queue_weight", queue_name="a") == 2
    assert cycle.gauge("queue_share", queue_name="a") == 1.0
    assert cycle.gauge("queue_overused", queue_name="a") == 1.0
    assert cycle.gauge("queue_allocated_scalar_resources", queue_name="a", resource="pods") == 2


@settings(max_examples=examples(40), deadline=None)
@given(
    weights=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    capability=st.one_of(st.none(), st.integers(0, 12)),
    running=st.integers(0, 4),
    cpu=st.sampled_from(["125m", "500m", "1"]),
)
def test_room_agrees_with_placing_one_by_one(
    weights: tuple[int, int], capability: int | None, running: int, cpu: str
) -> None:
    limit = None if capability is None else {"cpu": capability}
    ssn = _world(
        *(queue("a", weight=weights[0], capability=limit), queue("b", weight=weights[1]), node("n", cpu=12, memory=0)),
        *(job("held", tasks=running, on="n", queue="a"), job("other", tasks=12, queue="b")),
        job("x", tasks=12, queue="a", cpu=cpu),
    )
    own, tasks = ssn.queues["a"], [task_of(ssn, f"x-{n}") for n in range(12)]
    room = ssn.allocatable_room(own, tasks[0], 12)
    statement, placed = ssn.statement(), 0
    for task in tasks:
        if not ssn.allocatable(own, task):
            break
        assert statement.allocate(task, ssn.nodes["n"]) == ""
        placed += 1
    assert room == placed
