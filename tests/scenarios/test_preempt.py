"""preempt: who goes for whom within a queue, who is spared, and for whom the freed room is kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import force_setattr

from pumice.framework.evicting.victims import EvictionScenario as EvictionPlan
from pumice.framework.plugin import Arguments, Plugin
from pumice.framework.session.nominations import HOLD_SECONDS
from pumice.framework.session.session import Session
from pumice.model.api import NetworkTopology, PodGroup, PodSpec
from pumice.model.intents import Evict, Nominate
from pumice.model.job import Job
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.writing import unsealed
from pumice.testing.builders import job, node, pod, queue
from pumice.testing.scenario import Scenario

ACTIONS = ("enqueue", "allocate", "preempt")
PLUGINS = [["priority", "gang", "conformance"], ["predicates", "nodeorder"]]


def preempt(scenario: Scenario, **options: object) -> Scenario:
    scenario.run(actions=ACTIONS, plugins=options.pop("plugins", PLUGINS), **options)  # type: ignore[arg-type]
    return scenario


def full_node(cpu: int = 4) -> Scenario:
    """One node that a job of low priority fills with tasks of one CPU each."""
    return Scenario(node("n0", cpu=cpu)).job("low", tasks=cpu, on="n0", priority=1, min_available=1)


def test_a_job_of_higher_priority_gets_the_room_of_a_lower_one() -> None:
    scenario = preempt(full_node().job("high", cpu=2, priority=10))
    assert len(scenario.last.evictions) == 2
    assert scenario.last.pipelined == {"default/high-0": "n0"}
    scenario.run()
    scenario.assert_bound("high", "n0")


def test_equal_priority_preempts_nobody() -> None:
    scenario = preempt(full_node().job("equal", cpu=2, priority=1))
    assert scenario.last.evictions == []


def test_another_queue_is_left_alone() -> None:
    scenario = full_node().add(queue("other")).job("high", cpu=2, priority=10, queue="other")
    assert preempt(scenario).last.evictions == []


def test_the_last_task_of_a_job_goes_first() -> None:
    scenario = preempt(full_node().job("high", cpu=1, priority=10))
    assert scenario.last.evictions == ["default/low-3"]


def test_the_worst_job_loses_first() -> None:
    scenario = Scenario(node("n0", cpu=4)).job("mid", tasks=2, on="n0", priority=5, min_available=1)
    scenario.job("low", tasks=2, on="n0", priority=1, min_available=1).job("high", cpu=1, priority=10)
    assert preempt(scenario).last.evictions == ["default/low-1"]


def test_a_gang_is_not_preempted_below_its_minimum() -> None:
    scenario = Scenario(node("n0", cpu=4)).job("gang", tasks=4, on="n0", priority=1).job("high", cpu=1, priority=10)
    assert preempt(scenario).last.evictions == []


def test_a_gang_keeps_the_minimum_of_each_role() -> None:
    scenario = Scenario(node("n0", cpu=3))
    group, *pods = job("low", tasks=3, on="n0", min_available=2)
    assert isinstance(group, PodGroup)
    force_setattr(group.spec, "min_task_member", {"main": 2})
    pods[1:] = [pod(f"low-{n}", group="low", on="n0", role="main") for n in (1, 2)]
    scenario.add(group, *pods).job("high", cpu=1, priority=10)
    assert preempt(scenario).last.evictions == ["default/low-0"]


def test_a_veto_of_the_first_tier_is_not_overruled_by_the_second() -> None:
    class Everyone(Plugin):
        name = "everyone"

        def preemptable(self, preemptor: Task, candidates: list[Task]) -> list[Task]:
            return candidates

    scenario = Scenario(node("n0", cpu=2)).job("gang", tasks=2, on="n0", priority=1).job("high", priority=10)
    plugins = [["priority", "gang"], ["predicates", Everyone]]
    assert preempt(scenario, plugins=plugins).last.evictions == []
    assert len(preempt(scenario, plugins=plugins, compat="volcano").last.evictions) == 1


def test_critical_pods_stay() -> None:
    scenario = Scenario(node("n0", cpu=1)).job("system", on="n0", priority=1, namespace="kube-system")
    assert preempt(scenario.job("high", priority=10)).last.evictions == []


def test_victims_that_the_plan_does_not_need_are_spared() -> None:
    """A small task is the first to go, but the big one that must go makes it needless."""
    scenario = (
        Scenario(node("n0", cpu=8)).job("big", cpu=7, on="n0", priority=2).job("small", cpu=1, on="n0", priority=1)
    )
    assert preempt(scenario.job("high", cpu=6, priority=10)).last.evictions == ["default/big-0"]


def test_compat_evicts_all_that_were_tried() -> None:
    scenario = (
        Scenario(node("n0", cpu=8)).job("big", cpu=7, on="n0", priority=2).job("small", cpu=1, on="n0", priority=1)
    )
    plugins = [["priority"], ["predicates"]]
    preempt(scenario.job("high", cpu=6, priority=10), plugins=plugins, compat="volcano")
    assert sorted(scenario.last.evictions) == ["default/big-0", "default/small-0"]


def test_nobody_is_evicted_while_there_is_room_elsewhere() -> None:
    """allocate could not start the gang, so preempt looks: one member fits on the free node, one needs a victim."""
    scenario = Scenario(node("n0", cpu=2), node("n1", cpu=2)).job("low", cpu=2, on="n0", priority=1)
    preempt(scenario.job("high", tasks=2, cpu=2, priority=10))
    assert scenario.last.evictions == ["default/low-0"]
    assert sorted(scenario.last.pipelined.values()) == ["n0", "n1"]


def test_a_gang_that_cannot_be_helped_in_full_evicts_nobody() -> None:
    scenario = full_node().job("high", tasks=3, cpu=2, priority=10)
    assert preempt(scenario).last.evictions == []


def test_a_pod_that_never_preempts_waits() -> None:
    scenario = full_node().job("high", cpu=2, priority=10, spec=PodSpec(preemption_policy="Never"))
    assert preempt(scenario).last.evictions == []


def test_a_task_that_asks_for_nothing_evicts_only_its_like() -> None:
    scenario = (
        Scenario(node("n0", cpu=4, pods=1)).job("low", cpu=1, on="n0", priority=1).job("high", cpu=0, priority=10)
    )
    assert preempt(scenario).last.evictions == []


def test_a_job_makes_room_for_its_own_more_important_task() -> None:
    scenario = Scenario(node("n0", cpu=2))
    scenario.add(*job("mixed", tasks=2, on="n0", min_available=1))
    scenario.add(pod("mixed-2", group="mixed", priority=50))
    preempt(scenario, plugins=[["priority"], ["predicates"]])
    assert scenario.last.evictions == ["default/mixed-1"]
    assert scenario.last.pipelined == {"default/mixed-2": "n0"}


def test_every_eviction_names_whom_it_helps() -> None:
    scenario = preempt(full_node().job("high", cpu=1, priority=10))
    evict = next(i for i in scenario.last.intents if isinstance(i, Evict))
    assert (evict.action, evict.beneficiary, evict.beneficiary_pod) == ("preempt", "default/high", "default/high-0")
    assert any(isinstance(i, Nominate) and i.pod == "default/high-0" for i in scenario.last.intents)


class Refuses(Plugin):
    """Refuses every plan, or every victim job of a name."""

    name = "refuses"

    def __init__(self, arguments: Arguments) -> None:
        self.job = arguments.str("job", "")

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_victim_filter_fn(self.name, lambda pending, victim: not self.job or victim.name != self.job)
        ssn.add_scenario_validator_fn(self.name, self.validate)

    def validate(self, plan: EvictionPlan) -> bool:
        assert plan.victims
        assert plan.job.name == "high"
        return bool(self.job)


@pytest.mark.parametrize("arguments", [{}, {"job": "low"}])
def test_a_plugin_can_refuse_a_plan_or_protect_a_job(arguments: dict[str, str]) -> None:
    plugins = [["priority", "gang", (Refuses, arguments)], ["predicates"]]
    scenario = preempt(full_node().job("high", cpu=1, priority=10), plugins=plugins)
    assert scenario.last.evictions == []
    assert scenario.last.pipelined == {}


# -- freed room -----------------------------------------------------------------------------------------------------
def preempted() -> Scenario:
    """A cycle in which ``high`` was promised the room of a task of ``low``."""
    scenario = preempt(full_node(2).job("high", cpu=1, priority=10))
    assert scenario.last.pipelined == {"default/high-0": "n0"}
    return scenario


@pytest.mark.parametrize("priority", [1, 10])
def test_freed_room_is_kept_from_those_who_come_after_its_holder(priority: int) -> None:
    scenario = preempted().job("later", cpu=1, priority=priority)
    scenario.run()
    assert scenario.last.binds == {"default/high-0": "n0"}


def test_freed_room_is_free_to_a_job_that_comes_before_its_holder_and_the_holder_is_told() -> None:
    scenario = preempted().job("urgent", cpu=1, priority=100)
    scenario.run()
    assert scenario.last.binds == {"default/urgent-0": "n0"}
    assert Nominate("default/high-0", "default/high-0", "") in scenario.last.intents
    assert scenario.last.evictions == ["default/low-0"]  # its own room is freed for it once more
    scenario.run()
    assert scenario.last.binds == {"default/high-0": "n0"}


def test_a_job_that_comes_first_looks_for_other_room_before_it_takes_held_room() -> None:
    scenario = preempted().node("n1", cpu=1).job("urgent", cpu=1, priority=100)
    scenario.run()
    assert scenario.last.binds == {"default/urgent-0": "n1", "default/high-0": "n0"}


def test_a_job_is_not_evicted_twice_for_the_same_waiting_one() -> None:
    """Its order puts the victim first, its priority last: it does not get the room back that was taken from it."""
    scenario = Scenario(queue("q1", capability={"cpu": 2}), recreate=True).node("n0", cpu=8)
    scenario.job("low", queue="q1", on="n0", cpu=2, priority=1, annotations={"pumice.dev/run-time": "1m"})
    scenario.job("high", queue="q1", cpu=2, priority=10)
    actions = ["enqueue", "allocate", "preempt", "backfill"]
    scenario.run(actions=actions, plugins=[["sjf", "priority", "gang"], ["predicates", "proportion"]])
    assert scenario.last.evictions == ["default/low-0"]
    for _ in range(20):
        assert scenario.run().evictions == []
    assert scenario.task("high-0").status is TaskStatus.RUNNING


def test_without_the_hold_the_urgent_job_takes_the_freed_room() -> None:
    scenario = full_node(2).job("high", cpu=1, priority=10)
    preempt(scenario, plugins=[["priority"], ["predicates"]], compat="volcano")
    assert scenario.last.evictions == ["default/low-1"]
    scenario.job("urgent", cpu=1, priority=100).run()
    assert "default/urgent-0" in scenario.last.binds


@pytest.mark.parametrize("gone", ["job", "pod"])
def test_the_hold_ends_when_its_task_or_job_is_gone(gone: str) -> None:
    scenario = preempted()
    (scenario.remove_job("high") if gone == "job" else scenario.remove("high-0")).job("late", cpu=1, priority=1)
    scenario.run()
    assert scenario.last.binds == {"default/late-0": "n0"}
    assert scenario.runtime.nominations == {}


def test_the_hold_expires() -> None:
    scenario = preempted()
    assert set(scenario.runtime.nominations) == {"default/high-0"}
    scenario.advance(HOLD_SECONDS).job("urgent", cpu=1, priority=100).run()
    assert "default/urgent-0" in scenario.last.binds


def test_the_hold_ends_when_the_task_has_its_place() -> None:
    scenario = preempted()
    scenario.run(2)
    assert scenario.runtime.nominations == {}
    scenario.assert_invariants()


def test_a_whole_gang_keeps_its_room_until_the_last_victim_is_gone() -> None:
    scenario = Scenario(node("n0", cpu=2), node("n1", cpu=2))
    scenario.job("low", tasks=4, on=["n0", "n0", "n1", "n1"], priority=1, min_available=1)
    preempt(scenario.job("high", tasks=3, cpu=1, priority=10))
    assert len(scenario.last.evictions) == 3
    scenario.job("urgent", tasks=1, cpu=1, priority=10).run()
    assert {p for p in scenario.last.binds if "high" in p} == {f"default/high-{n}" for n in range(3)}


def test_preemption_settles_when_victims_come_back() -> None:
    scenario = Scenario(node("n0", cpu=4), recreate=True).job("low", tasks=4, on="n0", priority=1, min_available=1)
    preempt(scenario.job("high", cpu=2, priority=10))
    scenario.run(3)
    scenario.assert_settled()
    scenario.assert_invariants()


# -- topology-aware -------------------------------------------------------------------------------------------------
def aware(**arguments: object) -> dict[str, object]:
    return {
        "actions": "enqueue, allocate, preempt",
        "tiers": [{"plugins": [{"name": n} for n in tier]} for tier in PLUGINS],
        "configurations": [{"name": "preempt", "arguments": {"enableTopologyAwarePreemption": True, **arguments}}],
    }


def test_the_node_whose_victims_matter_least_is_taken() -> None:
    scenario = Scenario(*(node(f"n{n}", cpu=2) for n in range(3)))
    for n, priority in enumerate((5, 1, 3)):
        scenario.job(f"low{n}", cpu=2, on=f"n{n}", priority=priority)
    scenario.job("high", cpu=2, priority=10).run(conf=aware(minCandidateNodesPercentage=100))
    assert scenario.last.evictions == ["default/low1-0"]


def test_the_search_ends_when_it_has_enough_candidates() -> None:
    scenario = Scenario(*(node(f"n{n}", cpu=2) for n in range(3)))
    for n, priority in enumerate((5, 1, 3)):
        scenario.job(f"low{n}", cpu=2, on=f"n{n}", priority=priority)
    scenario.job("high", cpu=2, priority=10).run(conf=aware(maxCandidateNodesAbsolute=1))
    assert scenario.last.evictions == ["default/low0-0"]


@pytest.mark.parametrize("compat", [None, "volcano"])
@pytest.mark.parametrize(("starts", "goes"), [((100, 500, 300), 1), ((100, None, 300), 1), ((None, 900, 900), 0)])
def test_of_equal_victims_the_one_goes_that_has_run_least(
    starts: tuple[int | None, ...], goes: int, compat: str | None
) -> None:
    """One that is bound and does not run yet has run least of all."""
    scenario = Scenario(*(node(f"n{n}", cpu=2) for n in range(3))).advance(1000)
    for n, start in enumerate(starts):
        scenario.job(f"low{n}", cpu=2, min_available=0, on=f"n{n}", priority=1)
        placed = scenario.task(f"low{n}-0").pod
        force_setattr(placed.status, "phase", "Pending" if start is None else "Running")
        force_setattr(placed.status, "start_time", start and datetime.fromtimestamp(start, UTC))
        scenario.add(placed)
    scenario.job("high", cpu=2, priority=10)
    cycle = scenario.run(conf=aware(minCandidateNodesPercentage=100), compat=compat)
    assert cycle.evictions == [f"default/low{goes}-0"]


def test_jobs_that_ask_for_a_topology_are_left_to_gangpreempt() -> None:
    scenario = full_node().job("high", cpu=2, priority=10)
    wanted: Job = scenario.job_of("high")
    assert wanted.group is not None
    force_setattr(wanted.group.spec, "network_topology", NetworkTopology(mode="hard", highest_tier_allowed=1))
    with unsealed(wanted):
        wanted.join(wanted.group)
    assert preempt(scenario).last.evictions == []
