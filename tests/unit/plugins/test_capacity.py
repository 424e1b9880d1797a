"""capacity: queues with bounds, side by side."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_worlds import no_arguments, opened, queue

from effort import examples
from pumice.errors import InvalidInput
from pumice.framework.evicting.victims import EvictionContext
from pumice.framework.plugin import Arguments
from pumice.framework.session.session import Session
from pumice.model.resources import CPU, MEMORY, Resources, dim
from pumice.plugins.capacity import Capacity
from pumice.plugins.capacity.tree import QueueTree
from pumice.testing import Scenario
from pumice.testing.builders import job, node
from pumice.testing.world import task_of

PLUGINS = ["priority", "gang", "capacity"]


def _world(*objects: object) -> Session:
    return opened(Capacity(no_arguments()), *objects)  # type: ignore[arg-type]


def test_a_queue_is_served_up_to_its_capability_and_no_further() -> None:
    scenario = Scenario(queue("a", capability={"cpu": 3}), node("n", cpu=8))
    scenario.add(job("x", tasks=5, min_available=1, queue="a"))
    assert len(scenario.run(plugins=PLUGINS).binds) == 3
    assert scenario.last.why("x").reason == "queue resource quota insufficient: insufficient cpu"
    numbers = "queue a holds 3 of 3 cpu (its capability); 1 more are needed"
    assert scenario.last.why("x").text == f"queue resource quota insufficient: insufficient cpu; {numbers}"
    scenario.assert_invariants()


def test_nobody_may_use_what_another_queue_is_guaranteed() -> None:
    scenario = Scenario(queue("a"), queue("b", guarantee={"cpu": 5}), node("n", cpu=8))
    scenario.add(job("x", tasks=8, min_available=1, queue="a"))
    assert len(scenario.run(plugins=PLUGINS).binds) == 3


def test_deserved_is_kept_between_guarantee_and_limit() -> None:
    ssn = _world(
        queue("a", deserved={"cpu": 10, "nvidia.com/gpu": 2}, capability={"cpu": 4}),
        queue("b", deserved={"cpu": 1}, guarantee={"cpu": 2}),
        node("n", cpu=8),
    )
    tree = QueueTree(ssn.state.queues, ssn.state.total, hierarchy=False)
    assert tree.branches["a"].deserved == Resources.of(cpu=4, gpu=2)
    assert tree.branches["b"].deserved == Resources.of(cpu=2)
    assert tree.branches["a"].limit[CPU] == 4000
    assert tree.branches["b"].limit[CPU] == 8000


def test_queues_that_deserve_something_come_before_those_that_do_not() -> None:
    ssn = _world(
        *(queue("a"), queue("b", deserved={"cpu": 2}), queue("c", deserved={"cpu": 4})),
        *(queue("first", priority=5), node("n", cpu=8)),
        *(job("x", tasks=2, on="n", queue="b"), job("y", tasks=2, on="n", queue="c")),
    )
    heap = ssn.orders.queue_heap(ssn.queues.values())
    assert [heap.pop().name for _ in range(4)] == ["first", "c", "b", "a"]


def test_a_queue_may_reclaim_while_one_resource_stays_within_what_it_deserves() -> None:
    ssn = _world(
        queue("a", deserved={"cpu": 2, "memory": "1Gi"}),
        *(queue("b"), node("n", cpu=8)),
        job("x", tasks=1, on="n", queue="a", memory="1Gi"),
        *(job("small", queue="a", memory="1Gi"), job("big", queue="a", cpu=2, memory="1Gi")),
        job("none", queue="b"),
    )
    assert ssn.preemptive(ssn.queues["a"], [task_of(ssn, "small-0")])
    assert not ssn.preemptive(ssn.queues["a"], [task_of(ssn, "big-0")])
    assert not ssn.preemptive(ssn.queues["b"], [task_of(ssn, "none-0")])


def test_a_queue_at_its_limit_may_not_reclaim() -> None:
    limited = queue("a", deserved={"cpu": 4}, capability={"cpu": 1})
    ssn = _world(limited, node("n", cpu=8), job("x", on="n", queue="a"), job("y", queue="a"))
    answer = ssn.preemptive(ssn.queues["a"], [task_of(ssn, "y-0")])
    assert answer.text == "queue resource quota insufficient: insufficient cpu"


def _reclaim(ssn: Session, count: int, reclaimer: str = "y-0") -> int:
    victims = ssn.reclaimable(task_of(ssn, reclaimer), [task_of(ssn, f"x-{n}") for n in range(count)])
    return len(victims or [])


def test_a_queue_gives_back_what_it_holds_beyond_what_it_deserves() -> None:
    ssn = _world(queue("a", deserved={"cpu": 2}), queue("b", deserved={"cpu": 6}), node("n", cpu=8),
                 job("x", tasks=6, on="n", queue="a"), job("y", queue="b"))  # fmt: skip
    assert _reclaim(ssn, 6) == 4


def test_a_guarantee_is_never_reclaimed() -> None:
    ssn = _world(queue("a", guarantee={"cpu": 5}), queue("b", deserved={"cpu": 3}), node("n", cpu=8),
                 job("x", tasks=6, on="n", queue="a"), job("y", queue="b"))  # fmt: skip
    assert _reclaim(ssn, 6) == 1


def test_tasks_of_which_their_queue_deserves_nothing_go_at_once() -> None:
    ssn = _world(queue("a", deserved={"nvidia.com/gpu": 4}), queue("b", deserved={"cpu": 6}), node("n", cpu=8, gpu=8),
                 job("x", tasks=3, on="n", queue="a"), job("y", queue="b"))  # fmt: skip
    assert _reclaim(ssn, 3) == 3


def test_a_task_that_frees_nothing_the_reclaimer_wants_is_spared() -> None:
    ssn = _world(queue("a"), queue("b", deserved={"nvidia.com/gpu": 6}), node("n", cpu=8, gpu=8),
                 job("x", tasks=3, on="n", queue="a"), job("y", queue="b", cpu=0, gpu=1))  # fmt: skip
    assert _reclaim(ssn, 3) == 0


def test_a_gang_reclaims_by_the_same_bounds_and_preempts_anybody() -> None:
    ssn = _world(queue("a", deserved={"cpu": 2}), node("n", cpu=8), job("x", tasks=6, on="n", queue="a"))
    tasks = [task_of(ssn, f"x-{n}") for n in range(6)]
    job_x = ssn.jobs["default/x"]
    assert len(ssn.unified_evictable(EvictionContext("GangReclaim", job_x), tasks) or []) == 4
    assert len(ssn.unified_evictable(EvictionContext("GangPreempt", job_x), tasks) or []) == 6


def test_jobs_are_let_in_while_their_minimums_fit_the_limit() -> None:
    scenario = Scenario(queue("a", capability={"cpu": 4}), node("n", cpu=8))
    for n in range(3):
        scenario.add(job(f"j{n}", tasks=2, queue="a", min_resources={"cpu": 2}))
    cycle = scenario.run(actions=["enqueue"], plugins=PLUGINS)
    assert [scenario.job_of(f"j{n}").phase for n in range(3)] == ["Inqueue", "Inqueue", "Pending"]
    assert cycle.why("j2").reason == "queue resource quota insufficient: insufficient cpu"


def test_what_a_job_holds_beyond_its_minimum_does_not_count_against_new_jobs() -> None:
    running = job("old", tasks=4, min_available=1, on="n", queue="a", min_resources={"cpu": 1})
    ssn = _world(queue("a", capability={"cpu": 4}), node("n", cpu=8), running,
                 job("new", tasks=3, queue="a", min_resources={"cpu": 3}),
                 job("big", tasks=4, queue="a", min_resources={"cpu": 4}))  # fmt: skip
    assert ssn.job_enqueueable(ssn.jobs["default/new"])
    assert not ssn.job_enqueueable(ssn.jobs["default/big"])


def test_a_closed_queue_takes_nothing() -> None:
    ssn = _world(queue("a", state="Closing"), node("n"), job("x", queue="a", min_resources={"cpu": 1}))
    task = task_of(ssn, "x-0")
    assert ssn.allocatable(ssn.queues["a"], task).text == "queue a is Closing"
    assert ssn.job_enqueueable(task.job).text == "queue a is Closing"
    assert not ssn.preemptive(ssn.queues["a"], [task])
    assert ssn.allocatable_room(ssn.queues["a"], task, 3) == 0


def test_a_negative_level_counts_as_none_and_a_wrong_argument_is_named() -> None:
    assert Capacity(Arguments({"ancestorReclaimLevel": -3})).level == 0
    with pytest.raises(InvalidInput, match=r"capacity\.DynamicResourceAllocationEnable: must be true or false"):
        Capacity(Arguments({"capacity.DynamicResourceAllocationEnable": "perhaps"}))


def test_figures_of_queues_are_published() -> None:
    scenario = Scenario(queue("a", deserved={"cpu": 1}, capability={"cpu": 5}), node("n", cpu=8))
    cycle = scenario.add(job("x", tasks=2, queue="a")).run(plugins=PLUGINS)
    assert cycle.gauge("queue_allocated_milli_cpu", queue_name="a") == 2000
    assert cycle.gauge("queue_deserved_milli_cpu", queue_name="a") == 1000
    assert cycle.gauge("queue_capacity_milli_cpu", queue_name="a") == 5000
    assert cycle.gauge("queue_real_capacity_milli_cpu", queue_name="a") == 5000
    assert cycle.gauge("queue_share", queue_name="a") == 2.0
    assert cycle.gauge("queue_overused", queue_name="a") == 1.0


@settings(max_examples=examples(60), deadline=None)
@given(
    total=st.integers(0, 40),
    specs=st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 20), st.one_of(st.none(), st.integers(1, 20))),
        min_size=1,
        max_size=5,
    ),
)
def test_bounds_of_flat_queues_hold(total: int, specs: list[tuple[int, int, int | None]]) -> None:
    objects = [
        queue(
            f"q{n}",
            guarantee={"cpu": guarantee},
            deserved={"cpu": deserved},
            capability=None if capability is None else {"cpu": capability},
        )
        for n, (guarantee, deserved, capability) in enumerate(specs)
    ]
    ssn = _world(*objects, node("n", cpu=total, memory="1Gi"))
    tree = QueueTree(ssn.state.queues, ssn.state.total, hierarchy=False)
    guaranteed = sum(g for g, _, _ in specs)
    for n, (guarantee, deserved, capability) in enumerate(specs):
        branch = tree.branches[f"q{n}"]
        limit = min(max(total - guaranteed, 0) + guarantee, capability if capability is not None else 10**6)
        assert branch.limit[CPU] == limit * 1000
        assert branch.deserved.get(CPU) == max(min(deserved, limit), guarantee) * 1000
        assert branch.limit[MEMORY] == 2**30
        assert dim("nvidia.com/gpu") not in branch.limit


AMOUNTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"cpu": st.integers(0, 6), "memory": st.integers(0, 4), "gpu": st.integers(0, 4)}
)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(AMOUNTS, min_size=1, max_size=4), AMOUNTS, AMOUNTS, st.booleans())
def test_a_queue_that_may_not_reclaim_may_not_if_it_held_more(
    held: list[dict[str, Any]], deserved: dict[str, Any], asked: dict[str, Any], hierarchy: bool
) -> None:
    amounts = {"cpu": deserved["cpu"], "memory": deserved["memory"], "nvidia.com/gpu": deserved["gpu"]}
    queues = [queue("a", deserved=amounts, parent="top" if hierarchy else "")]
    queues += [queue("top", deserved={name: v + 1 for name, v in amounts.items()})] if hierarchy else []
    jobs = [made for n, one in enumerate(held) for made in job(f"r{n}", queue="a", on="n", **one)]
    objects = [*queues, node("n", cpu=99, memory=99, gpu=99), *jobs, *job("w", queue="a", **asked)]
    ssn = opened(Capacity(no_arguments()), *objects, hierarchy=hierarchy)
    statement, mine, task = ssn.statement(), ssn.queues["a"], task_of(ssn, "w-0")
    answers = [bool(ssn.preemptive(mine, [task]))]
    for n in range(len(held)):
        statement.evict(task_of(ssn, f"r{n}-0"), "test")
        answers.append(bool(ssn.preemptive(mine, [task])))
    assert answers == sorted(answers)
