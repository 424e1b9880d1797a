"""reclaim: a queue below its share gets room back from queues above theirs."""

from __future__ import annotations

import random

import pytest

from pumice.model.api import PodSpec
from pumice.model.status import TaskStatus
from pumice.testing.builders import node, queue
from pumice.testing.scenario import Scenario

ACTIONS = ("enqueue", "allocate", "reclaim")
PLUGINS = [["priority", "gang", "conformance"], ["predicates", "proportion", "nodeorder"]]


def reclaim(scenario: Scenario, **options: object) -> Scenario:
    scenario.run(actions=ACTIONS, plugins=options.pop("plugins", PLUGINS), **options)  # type: ignore[arg-type]
    return scenario


def hog(cpu: int = 4, *, reclaimable: bool | None = None, recreate: bool = False) -> Scenario:
    """One node that a job of queue ``a`` fills; queue ``b`` deserves half of it."""
    scenario = Scenario(queue("a", reclaimable=reclaimable), queue("b"), node("n0", cpu=cpu), recreate=recreate)
    return scenario.job("hog", tasks=cpu, on="n0", queue="a", min_available=1)


def test_a_queue_gets_back_what_it_deserves_and_no_more() -> None:
    scenario = hog(recreate=True)
    for n in range(4):
        scenario.job(f"mine{n}", cpu=1, queue="b")
    reclaim(scenario).run(8)
    running = [scenario.task(f"mine{n}-0").node_name for n in range(4)]
    assert sorted(running) == ["", "", "n0", "n0"]
    assert len(scenario.job_of("hog").with_status(TaskStatus.RUNNING)) == 2
    scenario.assert_settled(cycles=10)


def test_a_job_reclaims_no_more_than_its_minimum() -> None:
    scenario = reclaim(hog().job("mine", tasks=4, cpu=1, queue="b", min_available=1))
    assert len(scenario.last.evictions) == 1
    scenario.run(4)
    assert sum(len(c.evictions) for c in scenario.cycles) == 1


def test_a_queue_that_may_not_be_reclaimed_keeps_everything() -> None:
    assert reclaim(hog(reclaimable=False).job("mine", queue="b")).last.evictions == []


def test_jobs_of_the_own_queue_are_never_reclaimed() -> None:
    assert reclaim(hog().job("mine", queue="a", priority=10)).last.evictions == []


def test_a_pod_that_never_preempts_does_not_reclaim() -> None:
    scenario = hog().job("mine", queue="b", spec=PodSpec(preemption_policy="Never"))
    assert reclaim(scenario).last.evictions == []


def test_a_gang_reclaims_all_it_needs_or_nothing() -> None:
    scenario = reclaim(hog().job("mine", tasks=3, cpu=1, queue="b"))
    assert scenario.last.evictions == []
    scenario = reclaim(hog().job("mine", tasks=2, cpu=1, queue="b"))
    assert len(scenario.last.evictions) == 2


def test_the_only_task_of_a_job_can_be_reclaimed() -> None:
    """A job that needs one task is no gang: nothing half remains when it goes."""
    scenario = Scenario(queue("a"), queue("b"), node("n0", cpu=2))
    scenario.job("one", on="n0", queue="a").job("two", on="n0", queue="a").job("mine", queue="b")
    assert reclaim(scenario).last.evictions == ["default/two-0"]


def test_reclaim_and_preempt_do_not_take_turns() -> None:
    scenario = hog(recreate=True).job("mine", tasks=4, cpu=1, queue="b", min_available=1)
    scenario.run(8, actions=("enqueue", "allocate", "preempt", "reclaim"), plugins=PLUGINS)
    scenario.assert_settled(cycles=10)
    scenario.assert_invariants()


def test_reclaimed_room_is_kept_for_the_reclaimer() -> None:
    scenario = reclaim(hog(2).job("mine", cpu=1, queue="b"))
    assert len(scenario.last.evictions) == 1
    scenario.job("urgent", cpu=1, queue="a", priority=100).run()
    assert scenario.last.binds == {"default/mine-0": "n0"}


def test_a_node_that_the_filters_refuse_is_not_cleared() -> None:
    scenario = Scenario(queue("a"), queue("b"), node("n0", cpu=4, taints=["reserved=yes:NoSchedule"]))
    scenario.job("hog", tasks=4, on="n0", queue="a", min_available=1).job("mine", queue="b")
    assert reclaim(scenario).last.evictions == []


SHARELESS = (
    [["priority", "gang"], ["predicates"]],
    [["priority", "gang", "conformance"], ["predicates", "nodeorder"]],
    [["priority"], ["predicates"]],
)
ORDERS = (
    ["enqueue", "allocate", "reclaim"],
    ["enqueue", "reclaim", "allocate"],
    ["enqueue", "allocate", "preempt", "reclaim", "backfill"],
)


@pytest.mark.parametrize("plugins", SHARELESS, ids=lambda tiers: "+".join(name for tier in tiers for name in tier))
@pytest.mark.parametrize("actions", ORDERS, ids="+".join)
@pytest.mark.part(3)
def test_queues_do_not_take_turns_where_no_plugin_says_what_they_deserve(
    actions: list[str], plugins: list[list[str]]
) -> None:
    """Evicted pods come back at once, and whoever reclaimed a place could lose it in the same way."""
    for seed in range(4):
        draw = random.Random(seed)
        scenario = Scenario(recreate=True)
        for name in ("q0", "q1", "q2"):
            scenario.add(queue(name, weight=draw.choice((1, 2, 3))))
        for n in range(draw.randint(1, 3)):
            scenario.node(f"n{n}", cpu=draw.choice((2, 4)))
        for n in range(draw.randint(3, 6)):
            tasks = draw.randint(1, 3)
            least, in_queue, priority = draw.choice((1, tasks)), draw.choice(("q0", "q1", "q2")), draw.choice((1, 1, 5))
            scenario.job(
                f"j{n}", tasks=tasks, queue=in_queue, cpu=draw.choice((1, 2)), min_available=least, priority=priority
            )
        late = 0
        for cycle in range(16):
            done = scenario.run(actions=actions, plugins=plugins) if cycle == 0 else scenario.run()
            scenario.advance(1)
            late += len(done.evictions) if cycle >= 10 else 0
        assert late == 0, f"seed {seed}: {late} evictions after ten cycles"
