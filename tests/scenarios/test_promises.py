"""What a cycle promises is kept by the next: nobody is evicted for nothing, no half gang holds room."""

from __future__ import annotations

import pytest

from pumice.testing import Scenario

RECLAIM_FIRST = ["enqueue", "reclaim", "allocate", "preempt", "backfill"]
SHARES = [["priority", "gang", "conformance"], ["drf", "predicates", "proportion", "nodeorder"]]


def test_a_gang_that_asks_for_nothing_is_not_bound_by_half(scenario: Scenario) -> None:
    scenario.node("n1", pods=1).job("probe", tasks=2, cpu=0)
    scenario.run(actions=["allocate", "backfill"], plugins=["gang", "predicates"])
    scenario.assert_pending("probe", because="1 of 2 required tasks have a place; 0/1 nodes are unavailable: 1 ")
    scenario.node("n2", pods=1).run()
    scenario.assert_bound("probe")


def test_a_pod_slot_is_not_used_before_its_pod_is_gone(scenario: Scenario) -> None:
    """A task that asks for nothing got the slot of an evicted pod while that was still terminating."""
    scenario.queue("a").queue("b", reclaimable=False)  # else both could take turns
    scenario.node("n1", pods=1).job("old", queue="a", on="n1", min_available=0).job("probe", queue="b", cpu=0)
    first = scenario.run(actions=RECLAIM_FIRST, plugins=[["gang", "conformance"], ["predicates"]])
    assert (first.evictions, first.binds) == (["default/old-0"], {})
    assert scenario.run().binds == {"default/probe-0": "n1"}


def test_nobody_is_evicted_for_a_gpu_share_on_a_node_without_gpus(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).job("low", tasks=2, min_available=0, on="n1", priority=1)
    scenario.job("share", priority=5, task_annotations={"gpu-fraction": "0.5"})
    scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang", "predicates"])
    scenario.assert_evicted()


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_one_device_is_not_promised_to_two_shares(scenario: Scenario, action: str) -> None:
    """Two shares of 0.6 were promised the device that one eviction frees; only one of them could have it."""
    scenario.node("n1", cpu=8, gpu=1).job("low", gpu=1, on="n1", priority=1)
    scenario.job("shares", tasks=2, priority=5, task_annotations={"gpu-fraction": "0.6"})
    scenario.run(actions=["allocate", action], plugins=["priority", "gang", "predicates"])
    scenario.assert_evicted()


def test_a_device_that_is_promised_is_not_given_to_another(scenario: Scenario) -> None:
    scenario.node("n1", cpu=8, gpu=2).job("low", gpu=1, on="n1", priority=1, tasks=2, min_available=0)
    scenario.job("high", priority=5, task_annotations={"gpu-fraction": "0.6"})
    first = scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang", "predicates"])
    assert len(first.evictions) == 1
    scenario.job("quick", gpu=1, priority=5).run()
    scenario.assert_bound("high")


def test_a_job_gets_its_room_where_reclaim_runs_before_allocate(scenario: Scenario) -> None:
    """reclaim promised the freed room again in every cycle, so that allocate never saw the job."""
    scenario.node("n1", cpu=2).node("n2", cpu=2)
    scenario.job("low", tasks=2, min_available=0, on=["n1", "n2"], priority=1).job("high", tasks=3, priority=5)
    scenario.run(actions=RECLAIM_FIRST, plugins=SHARES)
    scenario.run(2)
    scenario.assert_bound("high")


def test_nobody_is_evicted_for_a_job_behind_the_head_of_a_strict_queue(scenario: Scenario) -> None:
    scenario.queue("strict", dequeue_strategy="fifo").queue("other")
    scenario.node("n1", cpu=2).job("running", tasks=2, min_available=0, queue="other", on="n1")
    scenario.job("wide", tasks=5, queue="strict").job("small", queue="strict")
    scenario.run(actions=["allocate", "reclaim"], plugins=["gang", "predicates"])
    scenario.assert_evicted()
    scenario.assert_pending("small", because="waits behind default/wide (strict FIFO)")


def test_preempting_within_a_job_does_not_hold_room_for_half_a_gang(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1).job("pair", tasks=2)
    cycle = scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang", "predicates"])
    assert cycle.pipelined == {}


def test_nobody_is_evicted_for_tasks_that_nobody_will_bind(scenario: Scenario) -> None:
    """Tasks that ask for nothing are bound by backfill; without it in the conf an eviction helps nobody."""
    scenario.node("n1", pods=1).job("low", cpu=0, on="n1", priority=1).job("probe", cpu=0, priority=5)
    scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang", "predicates"])
    scenario.assert_evicted()


def test_queues_do_not_take_turns_on_one_place(scenario: Scenario) -> None:
    """Each queue deserves the place and the first tier permits every victim: both reclaimed it for ever."""
    turns = Scenario(recreate=True).queue("a").queue("b").node("n1", cpu=4, pods=1)
    turns.job("here", queue="a", on="n1", min_available=0).job("there", queue="b")
    turns.run(actions=["allocate", "reclaim"], plugins=SHARES)
    turns.assert_settled(cycles=10)
    turns.assert_evicted()


def test_a_queue_still_reclaims_what_another_holds_too_much(scenario: Scenario) -> None:
    scenario.queue("a").queue("b").node("n1", cpu=4)
    scenario.job("greedy", tasks=4, min_available=0, queue="a", on="n1").job("poor", tasks=2, queue="b")
    scenario.run(2, actions=["allocate", "reclaim"], plugins=SHARES)
    scenario.assert_bound("poor")
    scenario.stays_settled()


def test_a_victim_that_the_quota_needs_gone_is_not_spared(scenario: Scenario) -> None:
    """The node had room for the whole plan without it, the queue had not: the job was evicted for and not bound."""
    scenario.queue("small", capability={"cpu": 4}).cluster("2x4cpu")
    scenario.job("low", tasks=4, min_available=2, queue="small", on="node-0", priority=1)
    scenario.job("high", tasks=3, queue="small", cpu="500m", priority=5)
    scenario.run(2, actions=["allocate", "preempt"], plugins=["priority", "gang", "capacity", "predicates"])
    scenario.assert_bound("high")


def test_nobody_is_reclaimed_for_a_job_that_a_queue_above_its_own_may_not_take(scenario: Scenario) -> None:
    scenario.queue("root").queue("team", capability={"cpu": 1}).queue("mine", parent="team", deserved={"cpu": 2})
    scenario.queue("other").node("n1", cpu=2)
    scenario.job("running", tasks=2, min_available=0, queue="other", on="n1").job("large", cpu=2, queue="mine")
    tree = {"name": "capacity", "enableHierarchy": True}
    scenario.run(actions=["allocate", "reclaim"], plugins=["gang", "conformance", tree, "predicates"])
    scenario.assert_evicted()
