"""No card is ever given to more than it has, in any story of whole and shared requests, against books of its own."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from lawful import lawful

from pumice.framework.session.runtime import Runtime
from pumice.model.api import Pod, decode
from pumice.model.events import Seen
from pumice.state.cluster import ClusterState
from pumice.testing import Scenario, node

IDS, INDEX = "volcano.sh/vgpu-ids-new", "volcano.sh/gpu-index"
NUMBER, MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
ACTIONS = ("allocate", "preempt", "backfill")
CORES, PERCENT = "volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory-percentage"

MODES = st.sampled_from(["hami-core", "hami-core", "mig"])
WAYS = {"mixed": [300, 600], "halves": [500, 500], "whole": [1000]}
"""The ways to cut a MIG card, and the memory of each instance."""
GEOMETRIES = [
    {
        "models": ["X"],
        "allowedGeometries": [
            {
                "group": "mixed",
                "geometries": [{"name": "s", "memory": 300, "count": 1}, {"name": "l", "memory": 600, "count": 1}],
            },
            {"group": "halves", "geometries": [{"name": "half", "memory": 500, "count": 2}]},
            {"group": "whole", "geometries": [{"name": "all", "memory": 1000, "count": 1}]},
        ],
    }
]
HEALTH = st.sampled_from([True, True, True, False])
cards = st.lists(
    st.tuples(st.sampled_from([1, 2, 10]), st.sampled_from([1000, 1500]), HEALTH, MODES),
    min_size=1,
    max_size=3,
)
parts = st.fixed_dictionaries(
    {NUMBER: st.sampled_from([1, 1, 2])},
    optional={MEMORY: st.sampled_from([300, 500, 1000]), CORES: st.sampled_from([25, 50, 100])},
) | st.fixed_dictionaries({NUMBER: st.just(1), PERCENT: st.sampled_from([25, 50, 100])})
shares = st.fixed_dictionaries({"volcano.sh/gpu-memory": st.sampled_from([300, 500, 1000])}) | st.fixed_dictionaries(
    {"volcano.sh/gpu-number": st.sampled_from([1, 2])}
)


def jobs(asked: Any) -> Any:
    return st.tuples(st.just("job"), st.lists(asked, min_size=1, max_size=2), st.sampled_from([0, 5]))


def steps(asked: Any) -> Any:
    rest = st.tuples(st.sampled_from(["end", "delete", "restart"]), st.integers(0, 5), st.just(0))
    return st.lists(st.one_of(jobs(asked), jobs(asked), rest), min_size=3, max_size=9)


def _tell(scenario: Scenario, at: int, what: str, which: Any, priority: int) -> None:
    """Let one thing happen."""
    running = sorted(o.key for o in scenario.objects if isinstance(o, Pod) and o.status.phase == "Running")
    if what == "job":
        name = f"j{at}"
        meta = {"name": name, "namespace": "default"}
        spec = {"minMember": 1, "queue": "default", "priorityClassName": f"p{priority}"}
        scenario.add(decode("PodGroup", {"metadata": meta, "spec": spec}))
        for n, asked in enumerate(which):
            amounts = {"cpu": "100m", **{k: str(v) for k, v in asked.items()}}
            container = {"name": "c", "resources": {"limits": amounts, "requests": amounts}}
            notes = {"scheduling.k8s.io/group-name": name}
            labels = {"app": "alone"} if len(which) > 1 else {}
            pod = {"name": f"{name}-{n}", "namespace": "default", "annotations": notes, "labels": labels}
            body = {"containers": [container], "schedulerName": "pumice", "priority": priority}
            scenario.add(decode("Pod", {"metadata": pod, "spec": body, "status": {"phase": "Pending"}}))
    elif what == "end" and running:
        scenario.finish(running[which % len(running)])
    elif what == "delete" and running:
        scenario.delete(running[which % len(running)])
    elif what == "restart":
        scenario.runtime, scenario.state = Runtime(), ClusterState()
        for obj in scenario.objects:
            scenario.state.apply(Seen(obj))


def _there(scenario: Scenario, key: str) -> list[tuple[str, Pod]]:
    """(what an annotation says, pod) of every pod that is on a node."""
    pods = [o for o in scenario.objects if isinstance(o, Pod) and o.spec.node_name]
    return [((p.metadata.annotations or {})[key], p) for p in pods if p.status.phase == "Running"]


def _play(scenario: Scenario, story: list[Any], arguments: dict[str, Any], look: Any, actions: Any = ACTIONS) -> None:
    scenario.add(*(decode("PriorityClass", {"metadata": {"name": f"p{v}"}, "value": v}) for v in (0, 5)))
    plugins = ["priority", "gang", "predicates", ("deviceshare", arguments)]
    for at, step in enumerate(story):
        _tell(scenario, at, *step)
        done = scenario.run(actions=["enqueue", *actions], plugins=plugins)
        assert done.errors == []
        look()


@lawful(60)
@given(
    st.lists(cards, min_size=1, max_size=2),
    steps(parts),
    st.sampled_from(["", "binpack", "spread"]),
    st.permutations(ACTIONS),
)
def test_no_card_has_more_users_memory_or_cores_than_it_has(
    drawn: Any, story: list[Any], policy: str, actions: list[str]
) -> None:
    machines = {f"n{n}": {f"GPU-{n}-{c}": card for c, card in enumerate(one)} for n, one in enumerate(drawn)}
    scenario = Scenario()
    for name, own in machines.items():
        text = ":".join(f"{u},{s},{m},NVIDIA-X,{str(h).lower()},{mode}" for u, (s, m, h, mode) in own.items())
        offer = {NUMBER: 100, MEMORY: 100_000, CORES: 1000}
        scenario.add(node(name, annotations={"volcano.sh/node-vgpu-register": text}, resources=offer))

    def look() -> None:
        users: dict[str, list[tuple[int, int, bool]]] = {}
        cut: dict[str, list[tuple[str, int]]] = {}
        for told, pod in _there(scenario, IDS):
            for part in told.replace(";", ":").split(":"):
                if part:
                    named, _, asked, cores = part.split(",")
                    uuid, _, slot = named.partition("[")
                    memory = int(asked)
                    if slot:
                        group, _, position = slot.removesuffix("]").partition("-")
                        memory = WAYS[group][int(position)]  # an instance is taken whole
                        assert int(asked) <= memory
                        cut.setdefault(uuid, []).append((group, int(position)))
                    assert bool(slot) == (machines[pod.spec.node_name][uuid][3] == "mig")
                    assert uuid in machines[pod.spec.node_name]
                    users.setdefault(uuid, []).append((memory, int(cores), "app" in (pod.metadata.labels or {})))
        for own in machines.values():
            for uuid, (slots, memory, healthy, _) in own.items():
                instances = cut.get(uuid, [])
                assert len(set(instances)) == len(instances)
                assert len({group for group, _ in instances}) <= 1
                on = users.get(uuid, [])
                assert len(on) <= (slots if healthy else 0)
                assert sum(m for m, _, _ in on) <= memory
                assert sum(c for _, c, _ in on) <= 100
                assert len(on) < 2 or all(c < 100 for _, c, _ in on)
                assert sum(1 for *_, alone in on if alone) <= 1

    rules = {"deviceshare.GPUExclusiveRules": [{"app": "alone"}]}
    arguments: dict[str, Any] = {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": policy, **rules}
    arguments["deviceshare.KnownMigGeometries"] = GEOMETRIES
    _play(scenario, story, arguments, look, actions)


@lawful(40)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=2), steps(shares))
def test_no_card_is_shared_and_whole_at_once_or_above_its_memory(drawn: list[int], story: list[Any]) -> None:
    scenario = Scenario()
    for n, count in enumerate(drawn):
        scenario.add(node(f"n{n}", resources={"volcano.sh/gpu-number": count, "volcano.sh/gpu-memory": count * 1000}))

    def look() -> None:
        held: dict[tuple[str, str], int] = {}
        for told, pod in _there(scenario, INDEX):
            container = (pod.spec.containers or ())[0]
            assert container.resources is not None
            asked = container.resources.requests or {}
            assert len(told.split(",")) == int(asked.get("volcano.sh/gpu-number", 1))
            for index in told.split(","):
                assert int(index) < drawn[int(pod.spec.node_name[1:])]
                key = (pod.spec.node_name, index)
                held[key] = held.get(key, 0) + int(asked.get("volcano.sh/gpu-memory", 1000))
        assert all(memory <= 1000 for memory in held.values()), held

    _play(scenario, story, {"deviceshare.GPUSharingEnable": True}, look)
