"""PodGroups of Kubernetes' own are kept as written, and where they say no more they are gangs like Volcano's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lawful import lawful
from told_worlds import ToldWorld

from pumice.model import api
from pumice.model.api import Pod
from pumice.testing import node

pytestmark = pytest.mark.law

VERSION = "scheduling.k8s.io/v1alpha2"
PLUGINS: list[list[Any]] = [["priority", "gang", "conformance"], ["predicates", "nodeorder"]]
groups = st.tuples(
    st.integers(0, 3),  # how many must start together; 0: a basic group
    st.integers(1, 4),  # how many pods there are
    st.sampled_from([1, 2]),  # CPUs of each
    st.sampled_from([0, 0, 5]),  # priority
    st.booleans(),  # in one rack
    st.booleans(),  # evicted together
)
steps = st.one_of(
    st.tuples(st.just("group"), groups),
    st.tuples(st.just("group"), groups),
    st.tuples(st.sampled_from(["end", "restart"]), st.integers(0, 5)),
)
racks = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 4)), min_size=1, max_size=4)


def native(name: str, least: int, priority: int, *, rack: bool, together: bool) -> Any:
    policy: dict[str, Any] = {"gang": {"minCount": least}} if least else {"basic": {}}
    spec: dict[str, Any] = {"schedulingPolicy": policy, "priority": priority}
    if rack:
        spec["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    if together:
        spec["disruptionMode"] = "PodGroup"
    meta = {"name": name, "namespace": "default", "uid": name}
    return api.decode("PodGroup", {"apiVersion": VERSION, "metadata": meta, "spec": spec})


def volcanos(name: str, least: int, priority: int) -> Any:
    spec = {"minMember": least, "queue": "default", "priorityClassName": f"p{priority}"}
    return api.decode("PodGroup", {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec})


def pods(name: str, count: int, cpu: int, priority: int, *, noted: bool = False) -> Iterator[Any]:
    for n in range(count):
        meta: dict[str, Any] = {"name": f"{name}-{n}", "namespace": "default", "uid": f"{name}-{n}"}
        spec: dict[str, Any] = {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            "priority": priority,
        }
        if noted:
            meta["annotations"] = {"scheduling.k8s.io/group-name": name}
        else:
            spec["schedulingGroup"] = {"podGroupName": name}
        yield api.decode("Pod", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})


def priorities() -> list[Any]:
    return [api.decode("PriorityClass", {"metadata": {"name": f"p{v}"}, "value": v}) for v in (0, 5)]


def happens(told: ToldWorld, what: str, which: Any) -> None:
    running = sorted(told.running())
    if what == "end" and running:
        told.state.apply_all(told.world.pod_changed(running[which % len(running)], phase="Succeeded"))
    elif what == "restart":
        told.restart()


@lawful(150)
@given(
    racks,
    st.lists(steps, min_size=2, max_size=8),
    st.sampled_from(["allocate", "allocate, preempt", "enqueue, allocate, gangpreempt", "preempt, allocate, backfill"]),
    st.booleans(),
)
def test_a_gang_starts_whole_stays_in_its_rack_and_leaves_together(
    nodes: list[tuple[str, int]], story: list[Any], actions: str, recreate: bool
) -> None:
    told = ToldWorld(actions, PLUGINS, recreate=recreate)
    place = {}
    for n, (rack, cpu) in enumerate(nodes):
        place[f"n{n}"] = rack
        told.add(node(f"n{n}", cpu=cpu, labels={"rack": rack}))
    written: dict[str, Any] = {}
    whole: set[str] = set()

    def of(name: str, chosen: dict[str, Pod]) -> list[Pod]:
        return [pod for key, pod in chosen.items() if key.rpartition("-")[0] == f"default/{name}"]

    for at, (what, which) in enumerate(story):
        told.state.now += 1
        if what == "group":
            least, count, cpu, priority, rack, together = written[f"g{at}"] = which
            told.add(native(f"g{at}", least, priority, rack=rack, together=together))
            told.add(*pods(f"g{at}", count, cpu, priority))
        else:
            happens(told, what, which)
        before = told.running()
        report = told.cycle()
        after = told.running()
        for name, (least, _, _, _, rack, together) in written.items():
            here = of(name, after)
            ended = sum(1 for o in told.world.objects if o.metadata.name.rpartition("-")[0] == name
                        and isinstance(o, Pod) and o.status.phase == "Succeeded")  # fmt: skip
            if [pod for pod in here if pod.key in report.binds] and name not in whole:
                assert len(here) + ended >= least
                whole.add(name)
            if rack:
                assert len({place[pod.spec.node_name] for pod in here}) <= 1
            gone = [pod for pod in of(name, before) if pod.key in report.evictions]
            if together and gone:
                assert len(gone) == len(of(name, before))
                assert "gangpreempt" in actions


@lawful(150)
@given(
    racks,
    st.lists(steps, min_size=2, max_size=8),
    st.sampled_from(["allocate", "enqueue, allocate, preempt", "enqueue, allocate, gangpreempt, backfill"]),
)
def test_a_gang_of_kubernetes_is_decided_as_one_of_volcanos(
    nodes: list[tuple[str, int]], story: list[Any], actions: str
) -> None:
    worlds = [ToldWorld(actions, PLUGINS, recreate=True) for _ in range(2)]
    for told in worlds:
        told.add(priorities())
        told.add(*(node(f"n{n}", cpu=cpu) for n, (_, cpu) in enumerate(nodes)))
    for at, (what, which) in enumerate(story):
        decided = []
        for told, noted in zip(worlds, (False, True), strict=True):
            told.state.now += 1
            if what == "group":
                least, count, cpu, priority, _, _ = which
                name = f"g{at}"
                told.add(
                    volcanos(name, least or 1, priority)
                    if noted
                    else native(name, least or 1, priority, rack=False, together=False)
                )
                told.add(*pods(name, count, cpu, priority, noted=noted))
            else:
                happens(told, what, which)
            report = told.cycle()
            decided.append((report.binds, report.evictions))
        assert decided[0] == decided[1]
