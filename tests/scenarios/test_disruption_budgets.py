"""Nobody is evicted against a disruption budget, and several victims of one budget are counted together."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest
from msgspec.structs import force_setattr

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.model.api import PodDisruptionBudget, decode
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.testing import Scenario

EVICTING = {
    "preempt": ["priority", "gang"],
    "gangpreempt": ["priority", "gang"],
    "reclaim": ["gang", "proportion"],
    "gangreclaim": ["gang", "conformance"],
}
NOT_READY = [{"type": "Ready", "status": "False"}]


def budget(name: str, allowed: int, **more: Any) -> PodDisruptionBudget:
    """A budget for the pods labelled ``app: NAME``."""
    made = decode(
        "PodDisruptionBudget",
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": more.pop("app", name)}}, **more.pop("spec", {})},
            "status": {"disruptionsAllowed": allowed, **more},
        },
    )
    assert isinstance(made, PodDisruptionBudget)
    return made


def crowded(scenario: Scenario) -> Scenario:
    """Four pods fill two nodes; a job of one task wants the room of some of them on one node."""
    scenario.queue("low").queue("high").node("n1", cpu=2).node("n2", cpu=2)
    scenario.job("web", queue="low", tasks=4, min_available=0, on=["n1", "n1", "n2", "n2"], task_labels={"app": "web"})
    return scenario


def wanting(scenario: Scenario, action: str, **job: Any) -> Scenario:
    queue = "low" if action.endswith("preempt") else "high"
    return scenario.job("urgent", queue=queue, priority=5, **job)


@pytest.mark.parametrize("action", list(EVICTING))
def test_a_plan_takes_no_more_of_one_budget_than_it_allows(scenario: Scenario, action: str) -> None:
    """Room for two tasks takes two victims, on one node or on two: a budget of one is not enough."""
    crowded(scenario).add(budget("web", 1))
    wanting(scenario, action, tasks=2, cpu=1)
    cycle = scenario.run(actions=["allocate", action], plugins=EVICTING[action])
    assert cycle.evictions == []


@pytest.mark.parametrize("action", list(EVICTING))
def test_a_plan_within_its_budget_is_carried_out(scenario: Scenario, action: str) -> None:
    crowded(scenario).add(budget("web", 2))
    wanting(scenario, action, tasks=2, cpu=1)
    cycle = scenario.run(actions=["allocate", action], plugins=EVICTING[action])
    assert len(cycle.evictions) == 2


def test_two_plans_of_one_cycle_share_a_budget(scenario: Scenario) -> None:
    crowded(scenario).add(budget("web", 1))
    wanting(scenario, "preempt", cpu=1).job("second", queue="low", priority=5, cpu=1)
    cycle = scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang"])
    assert len(cycle.evictions) == 1


def test_evictions_under_way_count_until_the_budget_shows_them(scenario: Scenario) -> None:
    """What the last cycle evicted is not seen back yet, so the next may not spend the same disruption again."""
    crowded(scenario).add(budget("web", 1))
    wanting(scenario, "preempt", cpu=1)
    (victim,) = decided(scenario)
    scenario.job("second", queue="low", priority=5, cpu=1)
    assert decided(scenario) == []
    name = victim.partition("/")[2]
    scenario.add(budget("web", 1, disruptedPods={name: "2026-01-01T00:00:00Z"}))
    assert len(decided(scenario)) == 1


def decided(scenario: Scenario) -> list[str]:
    """Whom a cycle evicts; nothing of it is carried out, so that everything stays under way."""
    registry = default_registry()
    conf = {"actions": "allocate, preempt", "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}]}]}
    assembly = assemble(from_data(conf, catalogue_of(registry), source="test").conf, registry)
    return run_cycle(scenario.state, assembly, scenario.runtime).evictions


def test_another_victim_is_chosen_where_there_is_one_without_a_budget(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).job("web", on="n1", min_available=0, task_labels={"app": "web"}, priority=1)
    scenario.job("plain", on="n1", min_available=0, priority=2).job("urgent", cpu=1, priority=5).add(budget("web", 0))
    scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang"])
    scenario.assert_evicted("plain-0")


def test_a_pod_under_two_budgets_cannot_be_evicted(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1).job("web", on="n1", min_available=0, task_labels={"app": "web"})
    scenario.job("urgent", cpu=1, priority=5).add(budget("web", 5), budget("again", 5, app="web"))
    scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang"])
    scenario.assert_evicted()


@pytest.mark.parametrize(
    ("health", "gone"),
    [
        ({"currentHealthy": 2, "desiredHealthy": 2}, True),
        ({"currentHealthy": 1, "desiredHealthy": 2}, False),
        ({"currentHealthy": 0, "desiredHealthy": 0}, False),
        ({"currentHealthy": 1, "desiredHealthy": 2, "spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}, True),
    ],
)
def test_a_pod_that_is_not_ready_is_counted_as_the_eviction_api_does(
    scenario: Scenario, health: dict[str, Any], gone: bool
) -> None:
    scenario.node("n1", cpu=1).job("web", on="n1", min_available=0, task_labels={"app": "web"})
    pod = scenario.task("web-0").pod
    force_setattr(pod, "status", decode("Pod", {"status": {"phase": "Running", "conditions": NOT_READY}}).status)  # type: ignore[attr-defined]
    scenario.add(pod, budget("web", 0, **health)).job("urgent", cpu=1, priority=5)
    scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang"])
    scenario.assert_evicted(*(["web-0"] if gone else []))


def test_a_pod_that_has_not_started_needs_no_budget(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1).job("web", tasks=0, min_available=0, phase="Running")
    scenario.pod("web-0", group="web", on="n1", phase="Pending", labels={"app": "web"}).add(budget("web", 0))
    scenario.job("urgent", cpu=1, priority=5)
    scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang"])
    scenario.assert_evicted("web-0")


def test_budgets_of_other_namespaces_do_not_count(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1).job("web", on="n1", min_available=0, task_labels={"app": "web"})
    elsewhere = budget("web", 0)
    force_setattr(elsewhere.metadata, "namespace", "other")
    scenario.add(elsewhere).job("urgent", cpu=1, priority=5)
    scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang"])
    scenario.assert_evicted("web-0")


@pytest.mark.parametrize(("compat", "gone"), [(None, []), ("volcano", ["default/web-0", "default/web-1"])])
def test_the_pdb_plugin_wants_nobody_evicted_by_shuffle(
    scenario: Scenario, compat: str | None, gone: list[str]
) -> None:
    scenario.node("n1", cpu=2).job("web", tasks=2, on="n1", task_labels={"app": "web"})
    cycle = scenario.run(conf={"actions": "shuffle", "tiers": [{"plugins": [{"name": "pdb"}]}]}, compat=compat)
    assert cycle.evictions == gone


@pytest.mark.parametrize(("plugins", "gone"), [(["pdb"], 0), ([], 1)])
def test_in_compat_only_the_pdb_plugin_looks_at_budgets(scenario: Scenario, plugins: list[str], gone: int) -> None:
    crowded(scenario).add(budget("web", 0))
    wanting(scenario, "preempt", cpu=1)
    tier = [{"name": name} for name in ["priority", *plugins]]
    conf = {"actions": "allocate, preempt", "tiers": [{"plugins": [*tier, {"name": "gang"}]}]}
    assert len(scenario.run(conf=conf, compat="volcano").evictions) == gone


@pytest.mark.parametrize(
    ("selector", "gone"),
    [
        ({"matchLabels": {"app": "web", "tier": "front"}}, []),
        ({"matchLabels": {"app": "web", "tier": "back"}}, ["web-0"]),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, []),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, ["web-0"]),
        ({}, []),
        (None, ["web-0"]),
    ],
)
def test_any_selector_finds_its_pods(scenario: Scenario, selector: dict[str, Any] | None, gone: list[str]) -> None:
    """An empty selector matches every pod of the namespace, a missing one none."""
    labels = {"app": "web", "tier": "front"}
    scenario.node("n1", cpu=1).job("web", on="n1", min_available=0, task_labels=labels).job("urgent", priority=5)
    meta = {"name": "keep", "namespace": "default"}
    scenario.add(decode("PodDisruptionBudget", {"metadata": meta, "spec": {"selector": selector}}))
    scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang"])
    scenario.assert_evicted(*gone)


def test_a_changed_budget_counts_in_the_next_cycle(scenario: Scenario) -> None:
    crowded(scenario).add(budget("web", 0))
    wanting(scenario, "preempt", cpu=1)
    assert scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang"]).evictions == []
    scenario.add(budget("web", 1))
    assert len(scenario.run().evictions) == 1


@pytest.mark.parametrize("action", list(EVICTING))
@pytest.mark.parametrize("pdb", [[], ["pdb"]], ids=["", "pdb"])
@pytest.mark.parametrize("sizes", [(1, 3), (3, 1), (1, 1, 3), (3, 1, 1)], ids=str)
@pytest.mark.parametrize("wants", [3, 1])
def test_a_budget_that_is_nearly_spent_is_for_the_victims_that_suffice(
    scenario: Scenario, action: str, pdb: list[str], sizes: tuple[int, ...], wants: int
) -> None:
    """One more may go, and only the large one makes enough room, wherever it stands in the order of victims."""
    scenario.queue("low").queue("high", weight=9).node("n1", cpu=sum(sizes)).add(budget("web", 1))
    for n, cpu in enumerate(sizes):
        scenario.job(f"web{n}", queue="low", tasks=1, min_available=0, on="n1", cpu=cpu, task_labels={"app": "web"})
    wanting(scenario, action, tasks=1, cpu=wants)
    cycle = scenario.run(actions=["allocate", action], plugins=[*EVICTING[action], *pdb])
    if wants == 3:
        assert cycle.evictions == [f"default/web{sizes.index(3)}-0"]
    else:
        assert len(cycle.evictions) == 1


def possible(nodes: list[list[tuple[int, str]]], left: dict[str, int], tasks: int, cpu: int) -> bool:
    """Is there any set of victims within their budgets that makes room for so many tasks? All of them are tried."""
    victims = [(n, size, of) for n, there in enumerate(nodes) for size, of in there]
    for count in range(len(victims) + 1):
        for gone in combinations(victims, count):
            room = sum(sum(size for at, size, _ in gone if at == n) // cpu for n in range(len(nodes)))
            if room >= tasks and all(sum(of == name for *_, of in gone) <= most for name, most in left.items()):
                return True
    return False


@pytest.mark.parametrize("action", list(EVICTING))
@pytest.mark.parametrize("part", range(5))
@pytest.mark.part(3)
def test_room_is_made_wherever_budgets_leave_a_way(action: str, part: int) -> None:
    """Two budgets over some of up to eight victims of several sizes, on one or two nodes, for one task or two."""
    for seed in range(part * 10, part * 10 + 10):
        draw = random.Random(seed)
        sizes = [[draw.choice((1, 1, 2, 3)) for _ in range(draw.randint(1, 4))] for _ in range(draw.randint(1, 2))]
        nodes = [[(size, draw.choice("aab-")) for size in there] for there in sizes]
        left, tasks, cpu = (
            {"a": draw.randint(0, 2), "b": draw.randint(0, 1)},
            draw.choice((1, 1, 2)),
            draw.randint(1, 4),
        )
        scenario = Scenario().queue("low").queue("high", weight=99).node("rest", cpu=9)
        scenario.job("rest", queue="low", tasks=9, on="rest", preemptible=False)
        scenario.add(*(budget(name, most) for name, most in left.items()))
        for n, there in enumerate(nodes):
            scenario.node(f"n{n}", cpu=sum(size for size, _ in there))
            for k, (size, of) in enumerate(there):
                labels = {"app": of} if of != "-" else {}
                scenario.job(f"v{n}{k}", queue="low", min_available=0, on=f"n{n}", cpu=size, task_labels=labels)
        wanting(scenario, action, tasks=tasks, cpu=cpu)
        found = scenario.run(actions=["allocate", action], plugins=EVICTING[action]).evictions
        assert bool(found) == possible(nodes, left, tasks, cpu), (seed, nodes, left, tasks, cpu, found)
