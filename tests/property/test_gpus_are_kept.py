"""No GPU is given to more than it has, in either dialect: shares, memory, whole ones, binds under way, false labels."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lawful import lawful

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import decode
from pumice.model.events import Seen
from pumice.model.intents import Bind
from pumice.model.task import Task
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.state.devices import GROUP_LABEL
from pumice.state.invariants import violations

MEMORY = 10_000
WAYS = ("0.3333", "0.5", "0.1428", "0.335", "0.33333333334", "3333 MiB", "5000 MiB", "1", "2", "0.5 x 2")
LIES: tuple[dict[str, str], ...] = ({}, {}, {GROUP_LABEL: "a"}, {GROUP_LABEL: "b"}, {"volcano.sh/gpu-index": "0"})
REGISTRY = default_registry()
CONFS: dict[str, dict[str, Any]] = {
    "kai": {"dialect": "kai", "actions": "allocate, consolidation, reclaim, preempt"},
    "volcano": {
        "actions": "enqueue, allocate, preempt, backfill",
        "tiers": [{"plugins": [{"name": n} for n in ("priority", "gang", "predicates", "nodeorder")]}],
    },
}

pods = st.tuples(st.sampled_from(WAYS), st.sampled_from(LIES), st.sampled_from(["train", "build"]))
steps = st.lists(st.tuples(st.lists(pods, max_size=4), st.booleans(), st.integers(0, 5)), min_size=2, max_size=5)


class Story:
    """A cluster of one node for each number of GPUs, told in steps; a bind is seen a step later, or never."""

    def __init__(self, dialect: str, gpus: list[int], running: list[Any]) -> None:
        conf = from_data(CONFS[dialect], catalogue_of(REGISTRY)).conf
        self.assembly: Assembly = assemble(conf, REGISTRY)
        self.kai = dialect == "kai"
        self.state, self.runtime, self.made = ClusterState(scheduler_names=None), Runtime(), 0
        self.state.now = 1_000_000.0
        self.bound: dict[str, Bind] = {}
        self.asked: dict[str, dict[str, str]] = {}
        for n, count in enumerate(gpus):
            labels = {"nvidia.com/gpu.memory": str(MEMORY)}
            offered = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(count)}
            ready = [{"type": "Ready", "status": "True"}]
            self.tell(
                "Node", {"metadata": {"name": f"n{n}", "labels": labels}}, {}, allocatable=offered, conditions=ready
            )
        for name, value in (("train", 50), ("build", 100)):
            self.tell("PriorityClass", {"metadata": {"name": name}, "value": value})
        version = "scheduling.run.ai/v2" if self.kai else "scheduling.volcano.sh/v1beta1"
        self.tell("Queue", {"apiVersion": version, "metadata": {"name": "q"}}, {})
        for n, drawn in enumerate(running):
            self.pod(drawn, f"n{n % len(gpus)}")

    def tell(self, kind: str, data: dict[str, Any], spec: dict[str, Any] | None = None, **status: Any) -> None:
        self.state.apply(
            Seen(
                decode(
                    kind, data | ({"spec": spec} if spec is not None else {}) | ({"status": status} if status else {})
                )
            )
        )

    def pod(self, drawn: Any, node: str = "") -> None:
        way, lie, priority = drawn
        name, self.made = f"p{self.made}", self.made + 1
        version = "scheduling.run.ai/v2alpha2" if self.kai else "scheduling.volcano.sh/v1beta1"
        group = {"apiVersion": version, "metadata": {"name": name, "namespace": "d", "uid": f"g-{name}"}}
        self.tell("PodGroup", group, {"minMember": 1, "queue": "q", "priorityClassName": priority})
        notes = {"pod-group-name": name, "scheduling.k8s.io/group-name": name, **lie}
        asked = {"cpu": "1", "memory": "1Gi"}
        if "MiB" in way:
            notes["gpu-memory"] = way.split()[0]
        elif "." in way:
            notes["gpu-fraction"], *many = way.split(" x ")
            notes |= {"gpu-fraction-num-devices": many[0]} if many else {}
        else:
            asked["nvidia.com/gpu"] = way
        self.asked[name] = asked
        self.say(name, notes, lie, asked, node)

    def say(self, name: str, notes: dict[str, str], labels: dict[str, str], asked: dict[str, str], node: str) -> None:
        meta = {"name": name, "namespace": "d", "uid": name, "annotations": notes, "labels": labels}
        spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": asked, "limits": asked}}]}
        phase = "Running" if node else "Pending"
        self.tell("Pod", {"metadata": meta}, spec | ({"nodeName": node} if node else {}), phase=phase)

    def step(self, arrive: list[Any], seen: bool, ends: int) -> None:
        for drawn in arrive:
            self.pod(drawn)
        report = run_cycle(self.state, self.assembly, self.runtime)
        assert report.errors == []
        self.bound |= {i.uid: i for i in report.intents if isinstance(i, Bind)}
        assert not violations(self.state)
        for node in self.state.nodes.values():
            self.look([t for t in node.tasks.values() if t.uid in self.bound], int(node.gpus))
        for bind in list(self.bound.values()) if seen else ():
            pod = self.state.tasks[bind.uid].pod
            asked = self.asked[bind.uid]
            notes = {**(pod.metadata.annotations or {}), **bind.annotations}
            self.say(pod.metadata.name, notes, dict(pod.metadata.labels or {}), asked, bind.node)
        self.state.now += 1 + ends

    def look(self, tasks: list[Task], gpus: int) -> None:
        """What the scheduler placed on a node: by device, and in KAI by the group that the bind names."""
        devices: dict[int, Fraction] = {}
        groups: dict[str, Fraction] = {}
        for task in tasks:
            each, many = share_of(task)
            assert len(set(task.devices)) == many, task
            for device in task.devices:
                devices[device] = devices.get(device, Fraction(0)) + each
            said = self.bound[task.uid].annotations if self.kai else {}
            named = [v for k, v in said.items() if k.startswith(GROUP_LABEL)]
            for group in named:
                groups[group] = groups.get(group, Fraction(0)) + each
            assert not self.kai or each == 1 or len(named) == many
        assert all(held <= 1 for held in devices.values()), devices
        assert all(held <= 1 for held in groups.values()), groups
        assert all(device < gpus for device in devices)


def share_of(task: Task) -> tuple[Fraction, int]:
    """The exact part of each device that a pod asks for, and of how many."""
    notes = task.pod.metadata.annotations or {}
    if "gpu-memory" in notes:
        return Fraction(int(notes["gpu-memory"]), MEMORY), 1
    if "gpu-fraction" in notes:
        return Fraction(notes["gpu-fraction"]), int(notes.get("gpu-fraction-num-devices", 1))
    return Fraction(1), int(task.klass.requests["nvidia.com/gpu"])


@pytest.mark.parametrize("dialect", CONFS)
@lawful(150)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=2), st.lists(pods, max_size=3), steps)
def test_no_gpu_gives_more_than_it_has(dialect: str, gpus: list[int], running: list[Any], told: list[Any]) -> None:
    story = Story(dialect, gpus, running)
    for step in told:
        story.step(*step)


@pytest.mark.parametrize("dialect", CONFS)
@pytest.mark.parametrize(
    ("way", "many"), [("0.3333", 3), ("0.1428", 7), ("3333 MiB", 3), ("0.335", 2), ("0.33333333334", 2)]
)
def test_so_many_shares_fit_on_one_gpu(dialect: str, way: str, many: int) -> None:
    story = Story(dialect, [1], [])
    story.step([(way, {}, "train")] * (many + 1), False, 0)
    assert len(story.bound) == many
