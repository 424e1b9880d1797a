"""The two ports over a real API server: what happens comes out, what is asked for happens or is told to have failed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kube_bed import until
from kube_world import World

from pumice.kube.backend import BackendSettings, KubeBackend
from pumice.kube.credentials import Credentials
from pumice.model.api import Pod
from pumice.model.codes import ReasonCode
from pumice.model.events import BindFailed, ClusterEvent, EvictFailed, Gone, Seen
from pumice.model.intents import Bind, Evict, Nominate, Note, StatusUpdate


class Ports:
    """A backend, and everything that came out of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.backend = KubeBackend(Credentials(kubeconfig=str(world.bed.scheduler)), BackendSettings())
        self.events: list[ClusterEvent] = []

    def come(self, wanted: type, key: str) -> ClusterEvent:
        """Wait for an event about an object or pod of this test."""

        def found() -> ClusterEvent | None:
            self.events.extend(self.backend.drain())
            return next((e for e in self.events if isinstance(e, wanted) and self.key(e) == key), None)

        event: ClusterEvent = until(found, 20, f"{wanted.__name__} of {key}")
        self.events.clear()
        return event

    @staticmethod
    def key(event: ClusterEvent) -> str:
        match event:
            case Seen(object=obj):
                return obj.key
            case Gone(key=key):
                return key
            case _:
                return event.pod

    def uid(self, name: str) -> str:
        uid: str = self.world.pods()[name]["metadata"]["uid"]
        return uid


@pytest.fixture
def ports(world: World) -> Iterator[Ports]:
    world.node("n1")
    world.gang("g", 1)
    made = Ports(world)
    made.backend.start()
    until(made.backend.inbox.synced.is_set, 30, "everything was listed")
    try:
        yield made
    finally:
        made.backend.stop()


def test_what_is_there_and_what_changes_comes_out(ports: Ports) -> None:
    name = f"{ports.world.namespace}/g-0"
    ports.come(Seen, name)
    ports.world.pod("later", "g")
    ports.come(Seen, f"{ports.world.namespace}/later")
    ports.world.delete("later")
    ports.come(Gone, f"{ports.world.namespace}/later")
    assert list(ports.backend.drain()) == []


def test_a_bind_is_seen_with_its_annotations(ports: Ports) -> None:
    key, uid = f"{ports.world.namespace}/g-0", ports.uid("g-0")
    ports.come(Seen, key)
    ports.backend.submit([Bind(key, uid, "n1", annotations={"pumice.dev/device": "3"})])
    seen = ports.come(Seen, key)
    assert isinstance(seen, Seen)
    assert isinstance(seen.object, Pod)
    assert seen.object.spec.node_name == "n1"
    assert (seen.object.metadata.annotations or {})["pumice.dev/device"] == "3"


@pytest.mark.parametrize("wrong", ["no such pod", "another uid", "bound elsewhere"])
def test_a_bind_that_cannot_be_is_told_to_have_failed(ports: Ports, wrong: str) -> None:
    key, uid = f"{ports.world.namespace}/g-0", ports.uid("g-0")
    intent = Bind(key, uid, "n1")
    if wrong == "no such pod":
        intent = Bind(f"{ports.world.namespace}/nobody", "x", "n1")
    elif wrong == "another uid":
        intent = Bind(key, "another", "n1")
    else:
        ports.world.bed.call(
            "POST",
            ports.world.path("g-0", "binding"),
            {"metadata": {"name": "g-0"}, "target": {"kind": "Node", "name": "n2"}},
        )
    ports.backend.submit([intent])
    failed = ports.come(BindFailed, intent.pod)
    assert isinstance(failed, BindFailed)
    assert failed.uid == intent.uid


def test_the_same_bind_twice_is_no_failure(ports: Ports) -> None:
    key, uid = f"{ports.world.namespace}/g-0", ports.uid("g-0")
    ports.backend.submit([Bind(key, uid, "n1"), Bind(key, uid, "n1")])
    until(lambda: ports.world.bound() == {"g-0": "n1"}, 20, "it is bound")
    ports.backend.stop()
    assert not [e for e in ports.backend.drain() if isinstance(e, BindFailed)]


def test_an_eviction_is_seen_and_one_of_a_pod_that_was_replaced_harms_nobody(ports: Ports) -> None:
    key, uid = f"{ports.world.namespace}/g-0", ports.uid("g-0")
    ports.backend.submit([Bind(key, uid, "n1")])
    until(lambda: ports.world.bound() == {"g-0": "n1"}, 20, "it is bound")
    ports.world.kubelet()
    ports.backend.submit([Evict(key, "another", "n1", "preempt")])
    ports.backend.submit([Evict(key, uid, "n1", "preempt", beneficiary="x")])
    until(lambda: ports.world.pods()["g-0"]["metadata"].get("deletionTimestamp"), 20, "it is being deleted")
    ports.world.kubelet()
    ports.come(Gone, key)
    assert not [e for e in ports.events if isinstance(e, EvictFailed)]


def test_statuses_nominations_and_notes_are_written(ports: Ports) -> None:
    key, uid = f"{ports.world.namespace}/g-0", ports.uid("g-0")
    group = f"{ports.world.namespace}/g"
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "no room"}
    ports.backend.submit(
        [
            Nominate(key, uid, "n1"),
            StatusUpdate("PodGroup", group, {"phase": "Inqueue", "conditions": [condition]}),
            Note("PodGroup", group, "Warning", ReasonCode.UNSCHEDULABLE, "no room"),
        ]
    )
    until(lambda: ports.world.pods()["g-0"]["status"].get("nominatedNodeName") == "n1", 20, "it is nominated")
    until(lambda: ports.world.group("g").get("status", {}).get("phase") == "Inqueue", 20, "the phase is written")
    assert ports.world.group("g")["status"]["conditions"][0]["message"] == "no room"
    events = f"/api/v1/namespaces/{ports.world.namespace}/events"
    until(lambda: ports.world.bed.call("GET", events)["items"], 20, "an event is there")
