"""The whole life of gangs with kubelets on the nodes: bound, running, finished; evicted, gone, replaced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kube_bed import until
from kube_world import GROUPS, World, all_bound

EVICTING = """\
actions: "enqueue, allocate, {action}, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


def phases(world: World, gang: str) -> set[str]:
    return {p["status"]["phase"] for p in world.pods().values() if p["metadata"]["labels"]["group"] == gang}


def reached(world: World, gang: str, phase: str) -> None:
    until(lambda: phases(world, gang) == {phase}, 40, f"all pods of {gang} are {phase}")


def counted(world: World, gang: str, what: str) -> int:
    number: int = world.group(gang).get("status", {}).get(what, 0)
    return number


@pytest.fixture
def queues(world: World) -> Iterator[tuple[str, str]]:
    names = ("kubelets-rich", "kubelets-poor")
    for name in names:
        meta = {"name": name}
        spec = {"weight": 1, "reclaimable": True}
        version = "scheduling.volcano.sh/v1beta1"
        world.bed.create({"apiVersion": version, "kind": "Queue", "metadata": meta, "spec": spec})
    yield names
    for name in names:
        world.bed.call("DELETE", f"{GROUPS}/queues/{name}")


@pytest.mark.usefixtures("kubelets")
def test_a_gang_runs_and_finishes_and_the_next_takes_its_room(world: World) -> None:
    world.node("n1", cpu="2")
    world.node("n2", cpu="2")
    world.gang("first", 4, run_for="10s")
    world.scheduler("--no-leader-elect")
    reached(world, "first", "Running")
    until(lambda: counted(world, "first", "running") == 4, 20, "the group counts its running pods")
    world.gang("second", 4)
    assert not any(name.startswith("second") for name in world.bound())
    reached(world, "first", "Succeeded")
    until(lambda: counted(world, "first", "succeeded") == 4, 20, "the group counts its finished pods")
    reached(world, "second", "Running")
    assert sorted(world.bound().values()) == ["n1"] * 4 + ["n2"] * 4


@pytest.mark.usefixtures("kubelets")
def test_a_victim_of_preemption_goes_and_the_important_pod_runs(world: World, tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(EVICTING.format(action="preempt"))
    for name, value in (("kubelets-low", 10), ("kubelets-high", 1000)):
        meta = {"name": name}
        world.bed.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}
        )
    world.node("n1", cpu="3")
    world.gang("low", 3, minimum=1, priority="kubelets-low")
    world.scheduler("--no-leader-elect", f"--scheduler-conf={conf}")
    reached(world, "low", "Running")
    world.gang("high", 2, priority="kubelets-high")
    reached(world, "high", "Running")
    assert len([name for name in world.pods() if name.startswith("low")]) == 1


@pytest.mark.usefixtures("kubelets")
def test_a_poor_queue_reclaims_its_share_from_a_rich_one(world: World, queues: tuple[str, str], tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(EVICTING.format(action="reclaim"))
    world.node("n1", cpu="4")
    world.gang("rich", 4, minimum=1, queue=queues[0])
    world.scheduler("--no-leader-elect", f"--scheduler-conf={conf}")
    reached(world, "rich", "Running")
    world.gang("poor", 2, minimum=2, queue=queues[1])
    all_bound(world, "poor-0", "poor-1")
    reached(world, "poor", "Running")
    assert len([name for name in world.pods() if name.startswith("rich")]) == 2
