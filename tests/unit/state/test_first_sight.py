"""It does not matter whether a pod is first seen running, or waiting and then running."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import force_setattr, replace
from state_facts import BASE, facts

from effort import examples
from pumice.model.api import ClaimVolume, Pod, PodSpec, SchedulingGroup, Toleration, Volume
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing import job, node, pod, queue


@st.composite
def running(draw: st.DrawFn, number: int) -> Pod:
    return pod(
        f"p-x-{number}",
        group=draw(st.sampled_from(["a", "b", "lost", "unknown", ""])),
        cpu=draw(st.integers(0, 3)),
        gpu=draw(st.sampled_from([0, 0, 1])),
        annotations=draw(st.sampled_from([None, None, {"gpu-fraction": "0.5"}, {"volcano.sh/preemptable": "false"}])),
        on=draw(st.sampled_from(["n1", "n2", "n2", "n9", ""])),
        phase=draw(st.sampled_from(["Running", "Pending", "Succeeded"])),
        role=draw(st.sampled_from(["", "worker"])),
    )


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), st.integers(1, 8))
def test_a_pod_first_seen_running_counts_like_one_that_was_seen_waiting(data: st.DataObject, count: int) -> None:
    pods = [data.draw(running(n)) for n in range(count)]
    at_once, by_steps = ClusterState(), ClusterState()
    for state in (at_once, by_steps):
        state.apply_all(Seen(obj) for obj in BASE)
    for obj in pods:
        waiting = Pod(metadata=obj.metadata, spec=pod("x", cpu=0).spec, status=type(obj.status)(phase="Pending"))
        force_setattr(waiting.spec, "containers", obj.spec.containers)
        by_steps.apply(Seen(waiting))
        for state in (at_once, by_steps):
            state.apply(Seen(obj))
    assert violations(at_once) == []
    assert facts(at_once) == facts(by_steps)


@st.composite
def happening(draw: st.DrawFn) -> ClusterEvent:
    """Most often another pod that has its place; else anything that pods, groups, queues and nodes go through."""
    number = draw(st.integers(0, 11))
    match draw(st.sampled_from(["pod"] * 6 + ["pod gone", "group", "group gone", "node", "node gone", "queue"])):
        case "pod":
            return Seen(draw(running(number)))
        case "pod gone":
            return Gone("Pod", f"default/p-x-{number}")
        case "group":
            where = draw(st.sampled_from(["default", "other"]))
            return Seen(job(draw(st.sampled_from(["a", "b", "unknown"])), tasks=0, queue=where)[0])
        case "group gone":
            return Gone("PodGroup", f"default/{draw(st.sampled_from(['a', 'b']))}")
        case "node":
            return Seen(node(draw(st.sampled_from(["n1", "n2", "n9"])), cpu=draw(st.sampled_from([32, 64])), gpu=8))
        case "node gone":
            return Gone("Node", draw(st.sampled_from(["n1", "n2", "n9"])))
        case _:
            return Seen(queue("other", weight=draw(st.integers(1, 3))))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(happening(), max_size=40))
def test_many_events_at_once_count_like_one_by_one(events: list[ClusterEvent]) -> None:
    at_once, by_steps = ClusterState(), ClusterState()
    for state in (at_once, by_steps):
        state.apply_all(Seen(obj) for obj in BASE)
    at_once.apply_all(events)
    for event in events:
        by_steps.apply(event)
    assert violations(at_once) == []
    assert facts(at_once) == facts(by_steps)
    for state in (at_once, by_steps):
        state.refresh()
    assert facts(at_once) == facts(by_steps)
    assert set(at_once.changed_jobs) == set(by_steps.changed_jobs)


@pytest.mark.parametrize("count", [1, 7, 8, 100])
def test_gangs_of_any_size_count_like_one_by_one(count: int) -> None:
    events = [Seen(obj) for name in ("x", "y") for obj in job(name, tasks=count, on=["n1", "n1", "n2"] * 34, cpu=1)]
    at_once, by_steps = ClusterState(), ClusterState()
    for state in (at_once, by_steps):
        state.apply_all(Seen(obj) for obj in BASE)
    at_once.apply_all(events)
    for event in events:
        by_steps.apply(event)
    assert violations(at_once) == []
    assert facts(at_once) == facts(by_steps)
    assert at_once.queues["default"].allocated["cpu"] == 2 * count


BORN = datetime(2026, 1, 1, tzinfo=UTC)
ODD: dict[str, dict[str, Any]] = {
    "as the others": {},
    "another age": {"creation_timestamp": BORN + timedelta(hours=1)},
    "an age that is none": {"creation_timestamp": datetime(1, 1, 1)},  # noqa: DTZ001  (no machine counts back to it)
    "on its way out": {"deletion_timestamp": BORN},
    "another's UID": {"uid": "u-0"},
    "the name of one before": {"name": "p-x-0"},
    "a name without an index": {"name": "p-x"},
    "an index that is too long to be one": {"name": "p-x-" + "9" * 5000},
    "other labels": {"labels": {"a": "b"}},
    "other notes": {"annotations": {"scheduling.k8s.io/group-name": "a", "volcano.sh/preemptable": "false"}},
    "another namespace": {"namespace": "elsewhere"},
    "not here yet": {"node_name": "n9"},
    "not placed": {"node_name": ""},
    "another priority": {"priority": 7},
    "another toleration": {"tolerations": (Toleration(key="k"),)},
    "a quantity that is none": {"overhead": {"cpu": "x"}},
    "a group of Kubernetes' own": {"scheduling_group": SchedulingGroup(pod_group_name="native")},
    "ended": {"phase": "Succeeded"},
    "another phase": {"phase": "Pending"},
    "promised a place": {"nominated_node_name": "n2"},
}


def changed(obj: Pod, **fields: Any) -> Pod:
    """The pod with other fields, wherever they stand."""
    for part in ("metadata", "spec", "status"):
        before = getattr(obj, part)
        obj = replace(obj, **{part: replace(before, **{k: v for k, v in fields.items() if hasattr(before, k)})})
    return obj


def slots(state: ClusterState) -> dict[str, dict[str, object]]:
    """Everything that tasks say."""
    said = {}
    for task in state.tasks.values():
        mine = {name: getattr(task, name.lstrip("_")) for name in type(task).__slots__}
        mine |= {"klass": task.klass.requests, "job": task.job and task.job.uid, "node": task.node_name}
        said[task.uid] = mine | {"sub_job": task.sub_job and task.sub_job.uid}
    return said


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([*ODD, *["as the others"] * 12])), max_size=20))
@pytest.mark.parametrize("gpu", [0, 1])
def test_pods_that_are_alike_are_known_as_if_each_was_read(gpu: int, likes: list[tuple[str, str]]) -> None:
    events: list[ClusterEvent] = []
    for n, (group, odd) in enumerate(likes):
        plain = pod(f"p-x-{n}", group=group, gpu=gpu, on=["n1", "n2"][n % 2], role="worker")
        events.append(Seen(changed(plain, **{"uid": f"u-{n}", "creation_timestamp": BORN, **ODD[odd]})))
    at_once, by_steps = ClusterState(), ClusterState()
    for state in (at_once, by_steps):
        state.apply_all(Seen(obj) for obj in BASE)
    at_once.apply_all(events)
    for event in events:
        by_steps.apply(event)
    assert violations(at_once) == []
    assert slots(at_once) == slots(by_steps)
    assert facts(at_once) == facts(by_steps)
    assert at_once.problems == by_steps.problems
    assert (at_once.revision, at_once.versions) == (by_steps.revision, by_steps.versions)


def test_a_pod_with_a_problem_that_is_alike_when_it_comes_again_has_none_any_more() -> None:
    state = ClusterState()
    state.apply_all(Seen(obj) for obj in BASE)
    first, second = (changed(pod(f"p-x-{n}", group="a", on="n1"), uid=f"u-{n}") for n in range(2))
    taken = changed(second, uid="u-0")
    state.apply_all([Seen(first), Seen(taken)])
    assert list(state.problems) == [("Pod", "default/p-x-1")]
    state.apply_all([Seen(changed(pod("p-x-2", group="a", on="n1"), uid="u-2")), Seen(second)])
    assert not state.problems
    assert violations(state) == []


def test_pods_that_differ_in_what_nobody_places_them_by_are_of_one_class() -> None:
    token = Volume(name="kube-api-access-x7f2p")
    claim = Volume(name="data", persistent_volume_claim=ClaimVolume(claim_name="c"))
    state = ClusterState()
    for n, volumes in enumerate([None, (token,), (replace(token, name="kube-api-access-9zq4k"),), (token, claim)]):
        state.apply(Seen(pod(f"p-x-{n}", group="a", spec=PodSpec(volumes=volumes))))
    first, second, third, other = (task.klass for task in state.tasks.values())
    assert first is second is third
    assert other is not first
    assert other.spec.volumes == (claim,)
