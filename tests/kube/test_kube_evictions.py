"""Evictions on a real API server: disruption budgets are looked at before, and what the server refuses is a reason."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from kube_bed import until
from kube_world import Scheduler, World, all_bound

CONF = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
"""


@pytest.fixture
def scheduler(world: World, tmp_path: Path) -> Scheduler:
    """A scheduler that preempts; one pod on each of two nodes, of a job with a budget and of one without."""
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONF)
    for name, value in (("low", 10), ("high", 1000)):
        meta = {"name": f"{world.namespace}-{name}"}
        world.bed.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}
        )
    world.node("n1", cpu="1")
    made = world.scheduler("--no-leader-elect", f"--scheduler-conf={conf}")
    world.gang("plain", 1, minimum=0, priority=f"{world.namespace}-low")
    all_bound(world, "plain-0")
    world.node("n2", cpu="1")
    world.gang("kept", 1, minimum=0, priority=f"{world.namespace}-low")
    all_bound(world, "kept-0")
    world.kubelet()
    return made


def budget(world: World, allowed: int, *, seen: bool = True) -> None:
    """A budget for the pods of ``kept``; its controller, which does not run here, has *seen* it or not."""
    path = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets"
    if not world.bed.call("GET", path)["items"]:
        world.bed.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "keep", "namespace": world.namespace},
                "spec": {"minAvailable": 0, "selector": {"matchLabels": {"group": "kept"}}},
            }
        )
    status = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}
    world.bed.call("PATCH", f"{path}/keep/status", {"status": {**status, "observedGeneration": int(seen)}})


def terminating(world: World) -> list[str]:
    return [name for name, pod in world.pods().items() if pod["metadata"].get("deletionTimestamp")]


def unschedulable(world: World, group: str) -> str:
    conditions: list[dict[str, Any]] = world.group(group).get("status", {}).get("conditions", [])
    return "".join(c["message"] for c in conditions if c["type"] == "Unschedulable")


def test_a_spent_budget_keeps_a_plan_from_being_made(world: World, scheduler: Scheduler) -> None:
    budget(world, 0)
    world.gang("high", 2, priority=f"{world.namespace}-high")
    until(lambda: bool(unschedulable(world, "high")), 40, "the gang is told that it cannot be placed")
    time.sleep(1)
    assert terminating(world) == []
    assert "was not evicted" not in scheduler.log
    budget(world, 1)
    until(lambda: sorted(terminating(world)) == ["kept-0", "plain-0"], 40, "both are evicted")
    world.kubelet()
    all_bound(world, "high-0", "high-1")


def test_what_was_freed_before_a_refusal_is_kept_and_the_refusal_is_told(world: World, scheduler: Scheduler) -> None:
    """The status allows one disruption, but the server refuses because the budget's controller has not seen it."""
    budget(world, 1, seen=False)
    world.gang("high", 2, priority=f"{world.namespace}-high")
    until(lambda: "the eviction of" in unschedulable(world, "high"), 40, "the gang is told of the refusal")
    assert f"{world.namespace}/kept-0 was refused" in unschedulable(world, "high")
    assert terminating(world) == ["plain-0"]

    def nominated() -> list[str]:
        return sorted(p["status"].get("nominatedNodeName", "") for n, p in world.pods().items() if n.startswith("high"))

    until(lambda: nominated() == ["", "n1"], 20, "only the node where room was freed is nominated")
    world.kubelet()
    world.gang("quick", 1, priority=f"{world.namespace}-low")
    until(lambda: bool(unschedulable(world, "quick")), 20, "the freed room is not given away")
    events = world.bed.call("GET", f"/api/v1/namespaces/{world.namespace}/events")["items"]
    (told,) = {e["involvedObject"]["name"] for e in events if e["reason"] == "EvictionRefused"}
    assert told == "high"
    budget(world, 1)

    def step() -> bool:
        world.remove_deleted()
        return {"high-0", "high-1"} <= set(world.bound())

    until(step, 60, "the gang has its places")
    assert "quick-0" not in world.bound()


@pytest.mark.parametrize("at_a_time", [1, 3, 8])
def test_room_held_for_many_never_keeps_a_gang_above_them_from_starting(
    world: World, tmp_path: Path, at_a_time: int
) -> None:
    """Eight pods wait for room that was freed for them and whose holders take their time; then a gang of the highest
    priority comes. Whatever becomes free, it goes to the gang until that is whole."""
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONF)
    for name, value in (("low", 10), ("mid", 100), ("top", 1000)):
        meta = {"name": f"{world.namespace}-{name}"}
        world.bed.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}
        )
    for n in range(8):
        world.node(f"n{n}", cpu="1")
    world.scheduler("--no-leader-elect", f"--scheduler-conf={conf}")
    world.gang("low", 8, minimum=0, priority=f"{world.namespace}-low")
    all_bound(world, *(f"low-{n}" for n in range(8)))
    world.kubelet()
    for n in range(8):
        world.gang(f"mid{n}", 1, priority=f"{world.namespace}-mid")
    until(lambda: len(terminating(world)) == 8, 60, "everybody of low is on the way out")
    world.gang("top", 4, priority=f"{world.namespace}-top")
    until(lambda: bool(unschedulable(world, "top")), 60, "the gang waits")
    gone = 0
    while gone < 8 and not any(name.startswith("top") for name in world.bound()):
        for name in sorted(terminating(world))[:at_a_time]:
            world.delete(name)
            gone += 1
        if gone >= 4:
            until(lambda: any(n.startswith("top") for n in world.bound()), 60, "the gang starts")
        else:
            time.sleep(2)
        assert not any(name.startswith("mid") for name in world.bound()) or gone > 4
    all_bound(world, *(f"top-{n}" for n in range(4)))
    assert gone <= max(4, at_a_time) + at_a_time
    for name in terminating(world):
        world.delete(name)
    until(lambda: sum(n.startswith("mid") for n in world.bound()) == 4, 60, "the rest is for those below")
