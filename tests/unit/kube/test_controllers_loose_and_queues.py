"""PodGroups for pods that have none, and states of queues: what is sent to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import controller_objects as some
import msgspec
import pytest
from msgspec.structs import force_setattr
from scripted_api import ScriptedApi, serving

from pumice.kube.controllers.pod_groups import LoosePodController
from pumice.kube.controllers.queues import QueueController
from pumice.kube.controllers.store import Store
from pumice.kube.errors import ApiRefused
from pumice.kube.writer import ApiWriter
from pumice.model.api import PodGroup
from pumice.model.intents import Note

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "sweep", "uid": "u-sweep", "controller": True}


class Bench:
    def __init__(self, api: ScriptedApi, hand: ApiWriter) -> None:
        self.api = api
        self.store = Store()
        self.notes: list[Note] = []
        self.loose = LoosePodController(
            self.store, hand, lambda note, _: self.notes.append(note), schedulers=frozenset(("pumice",))
        )
        self.queues = QueueController(self.store, hand, lambda note, _: self.notes.append(note), "ns")


def bench(tmp_path: Path, body: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving(tmp_path) as (api, client):
            await body(Bench(api, ApiWriter(client, lambda: 100.0, patient=False)))

    asyncio.run(run())


def test_pods_of_one_owner_share_a_group_and_its_annotations(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        notes = {
            "scheduling.volcano.sh/group-min-member": "2",
            "scheduling.volcano.sh/queue-name": "night",
            "volcano.sh/preemptable": "true",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        }
        b.api.answers["GET", "/apis/batch/v1/namespaces/ns/jobs/sweep"] = [(200, {"metadata": {"annotations": notes}})]
        for name in ("a", "b"):
            b.store.take(some.loose_pod(name, cpu="500m", ownerReferences=[OWNER]))
        await b.loose.look("ns/podgroup-u-sweep")
        (made,) = b.api.sent("POST", "podgroups")
        assert made["metadata"]["name"] == "podgroup-u-sweep"
        assert made["metadata"]["annotations"] == {"volcano.sh/preemptable": "true"}
        assert made["metadata"]["ownerReferences"] == [OWNER]
        assert made["spec"] == {"minMember": 2, "minResources": {"cpu": "1"}, "queue": "night"}
        patched = {path.rpartition("/")[2]: body for method, path, _, body in b.api.requests if method == "PATCH"}
        assert sorted(patched) == ["a", "b"]
        assert patched["a"] == {
            "metadata": {"uid": "uid-a", "annotations": {"scheduling.k8s.io/group-name": "podgroup-u-sweep"}}
        }

    bench(tmp_path, body)


def test_an_annotation_that_is_no_number_is_told_and_one_pod_is_enough(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        notes = {"scheduling.volcano.sh/group-min-member": "many"}
        b.api.answers["GET", "/apis/batch/v1/namespaces/ns/jobs/sweep"] = [(200, {"metadata": {"annotations": notes}})]
        b.store.take(some.loose_pod("a", ownerReferences=[OWNER]))
        await b.loose.look("ns/podgroup-u-sweep")
        assert b.api.sent("POST", "podgroups")[0]["spec"]["minMember"] == 1
        assert "got 'many'" in b.notes[0].message

    bench(tmp_path, body)


def test_pods_of_other_schedulers_grouped_pods_and_ended_ones_are_not_ours(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        ended = some.loose_pod("ended")
        force_setattr(ended.status, "phase", "Succeeded")
        others = [
            some.loose_pod("other", scheduler="default-scheduler"),
            some.loose_pod("grouped", annotations={"scheduling.k8s.io/group-name": "mine"}),
            some.pod("of-a-job"),
            ended,
        ]
        assert [b.loose.concerns(p) for p in [*others, some.loose_pod("ours")]] == [False] * 4 + [True]

    bench(tmp_path, body)


def test_a_pod_whose_patch_failed_is_not_forgotten(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.store.take(some.loose_pod("a"))
        path = "/api/v1/namespaces/ns/pods/a"
        b.api.answers["PATCH", path] = [(500, {}), (200, {})]
        with pytest.raises(ApiRefused):
            await b.loose.look("ns/podgroup-uid-a")
        await b.loose.look("ns/podgroup-uid-a")
        assert len(b.api.sent("PATCH", "pods/a")) == 2

    bench(tmp_path, body)


REPLICAS = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u-web", "controller": True}
OWN = {"scheduling.k8s.io/group-name": "podgroup-u-web"}


def made_group(name: str = "podgroup-u-web", **meta: Any) -> PodGroup:
    data = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "ownerReferences": [REPLICAS],
    }
    return msgspec.convert({"metadata": {**data, **meta}, "status": {"phase": "Inqueue"}}, PodGroup)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumice.kube.controllers.pod_groups.EMPTY", 0.0)


@pytest.mark.usefixtures("at_once")
def test_the_group_of_an_old_replica_set_goes_with_its_last_pod(tmp_path: Path) -> None:
    """Eleven rollouts of a Deployment closed a queue: each left a group that asked for room."""

    async def body(b: Bench) -> None:
        b.store.take(made_group())
        for name in ("a", "b"):
            b.store.take(some.loose_pod(name, ownerReferences=[REPLICAS], annotations=OWN))
        for left in ("a", "b"):
            await b.loose.look("ns/podgroup-u-web")
            assert b.api.sent("DELETE") == []
            b.store.drop("OwnedPod", f"ns/{left}")
        await b.loose.look("ns/podgroup-u-web")
        (deleted,) = b.api.sent("DELETE", "podgroups/podgroup-u-web")
        assert deleted["preconditions"] == {"uid": "uid-podgroup-u-web"}

    bench(tmp_path, body)


def test_a_group_without_pods_stays_for_a_moment(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.store.take(made_group())
        for _ in range(3):
            await b.loose.look("ns/podgroup-u-web")
        assert b.api.requests == []
        assert b.loose.queue.due("ns/podgroup-u-web")

    bench(tmp_path, body)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("other", ["finished", "leaving", "of another scheduler", "new"])
def test_a_group_that_has_any_pod_stays(tmp_path: Path, other: str) -> None:
    async def body(b: Bench) -> None:
        pod = some.loose_pod("a", ownerReferences=[REPLICAS], annotations={} if other == "new" else OWN)
        if other == "finished":
            force_setattr(pod.status, "phase", "Succeeded")
        elif other == "leaving":
            force_setattr(pod.metadata, "deletion_timestamp", datetime(2020, 1, 1, tzinfo=UTC))
        elif other == "of another scheduler":
            force_setattr(pod.spec, "scheduler_name", "volcano")
        b.store.take(made_group())
        assert b.loose.follows(pod)
        b.store.take(pod)
        await b.loose.look("ns/podgroup-u-web")
        assert b.api.sent("DELETE") == []

    bench(tmp_path, body)


@pytest.mark.usefixtures("at_once")
def test_a_group_that_somebody_else_made_stays_without_pods(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        for group in (made_group("mine"), made_group("podgroup-of-mine"), made_group(ownerReferences=[])):
            b.store.take(group)
            await b.loose.look(group.key)
        assert b.api.requests == []

    bench(tmp_path, body)


def test_a_group_that_was_deleted_under_its_pods_is_made_again(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.store.take(made_group())
        b.store.take(some.loose_pod("a", ownerReferences=[REPLICAS], annotations=OWN))
        b.store.drop("PodGroup", "ns/podgroup-u-web")
        await b.loose.look("ns/podgroup-u-web")
        assert [g["metadata"]["name"] for g in b.api.sent("POST", "podgroups")] == ["podgroup-u-web"]
        assert b.api.sent("PATCH") == []

    bench(tmp_path, body)


def test_a_queue_gets_its_state_and_counters_once(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        path = "/apis/scheduling.volcano.sh/v1beta1/queues/q"
        status = {"state": "Open", "running": 1, "pending": 1}
        answer = {"metadata": {"name": "q", "uid": "uid-q", "resourceVersion": "9000000"}, "status": status}
        b.api.answers["PATCH", f"{path}/status"] = [(200, answer)]
        b.store.take(some.queue("q"))
        b.store.take(some.group("g1", "Running", "q"))
        b.store.take(some.group("g2", "", "q"))
        await b.queues.look("q")
        await b.queues.look("q")
        assert b.api.sent("PATCH") == [{"status": {"state": "Open", "running": 1, "pending": 1}}]

    bench(tmp_path, body)


def test_a_child_is_marked_before_it_is_closed_and_after_it_was_opened(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.store.take(some.queue("top", state="Closed"))
        b.store.take(some.queue("child", parent="top", state="Open"))
        path = "/apis/scheduling.volcano.sh/v1beta1/queues/child"
        b.api.answers["PATCH", f"{path}/status"] = [(404, {})]
        await b.queues.look("child")
        assert [p.removeprefix(path) for m, p, _, _ in b.api.requests if m == "PATCH"] == ["", "/status"]
        assert b.api.sent("PATCH")[0]["metadata"]["annotations"] == {"volcano.sh/closed-by-parent": "true"}

    bench(tmp_path, body)


def test_another_pod_of_the_same_name_is_not_put_into_the_group_of_the_one_that_was(tmp_path: Path) -> None:
    async def body(b: Bench) -> None:
        b.store.take(some.loose_pod("a"))
        refusal = {"reason": "Invalid", "message": 'Pod "a" is invalid: metadata.uid: field is immutable'}
        b.api.answers["PATCH", "/api/v1/namespaces/ns/pods/a"] = [(422, refusal)]
        await b.loose.look("ns/podgroup-uid-a")
        assert len(b.api.sent("PATCH", "pods/a")) == 1
        b.store.take(some.loose_pod("b"))
        b.api.answers["PATCH", "/api/v1/namespaces/ns/pods/b"] = [(422, {"reason": "Invalid", "message": "no"})]
        with pytest.raises(ApiRefused):
            await b.loose.look("ns/podgroup-uid-b")

    bench(tmp_path, body)
