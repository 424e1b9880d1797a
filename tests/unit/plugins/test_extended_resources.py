"""Extended resources that a device class stands for are served by devices where no device plugin offers them."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.model import api
from pumice.model.events import Gone, Seen
from pumice.model.intents import DeviceChoice
from pumice.plugins.predicates.extended import ExtendedResources
from pumice.plugins.predicates.slices import Slices
from pumice.state.cluster import ClusterState
from pumice.testing import Scenario

Json = dict[str, Any]
GPU = "example.com/gpu"
DRIVER = "gpu.example.com"


def device_class(name: str = "gpu", resource: str = GPU, created: str = "2026-01-01T00:00:00Z") -> Json:
    spec: Json = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
    if resource:
        spec["extendedResourceName"] = resource
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}


def devices(on: str, *names: str) -> Json:
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": on, "devices": [{"name": n} for n in names]}
    return {"metadata": {"name": f"{on}-{'-'.join(names)}"}, "spec": spec}


def container(name: str, count: int = 0, **more: Any) -> Json:
    amounts = {"cpu": "1", **({GPU: str(count)} if count else {})}
    return {"name": name, "resources": {"requests": amounts}, **more}


def pod(name: str, *containers: Json, first: list[Json] | None = None) -> Json:
    spec: Json = {"containers": list(containers), "initContainers": first or []}
    meta: Json = {"name": name, "namespace": "default", "uid": name}
    meta["annotations"] = {"scheduling.k8s.io/group-name": name}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def seen(scenario: Scenario, kind: str, *objects: Json) -> None:
    for one in objects:
        scenario.add(api.decode(kind, one))


def groups(scenario: Scenario, *names: str) -> None:
    for name in names:
        meta = {"name": name, "namespace": "default", "uid": f"g-{name}"}
        seen(scenario, "PodGroup", {"metadata": meta, "spec": {"minMember": 1, "queue": "default"}})


def choices(ran: Any, name: str) -> tuple[DeviceChoice, ...]:
    [bind] = [one for one in ran.intents if getattr(one, "pod", "") == f"default/{name}"]
    return tuple(one for one in bind.prepare if isinstance(one, DeviceChoice))


@pytest.fixture
def dra(scenario: Scenario) -> Scenario:
    """Two nodes: one has two devices of a class, the other two GPUs of a device plugin."""
    scenario.node("claims", cpu=8).node("plugin", cpu=8, resources={GPU: 2})
    seen(scenario, "DeviceClass", device_class())
    seen(scenario, "ResourceSlice", devices("claims", "d0", "d1"))
    return scenario


def test_a_claim_is_made_where_no_device_plugin_offers_the_resource(dra: Scenario) -> None:
    groups(dra, "a", "b", "c", "d", "e")
    seen(dra, "Pod", *(pod(name, container("main", 1)) for name in "abcde"))
    ran = dra.run(actions=["allocate"], plugins=["predicates"])
    assert sorted(ran.binds.values()) == ["claims", "claims", "plugin", "plugin"]
    given = []
    for key, node in ran.binds.items():
        made = choices(ran, key.partition("/")[2])
        if node == "plugin":
            assert made == ()
            continue
        [choice] = made
        assert choice.made is not None
        assert choice.allocation is not None
        assert (choice.uid, choice.made.requests[0]["exactly"]["deviceClassName"]) == ("", "gpu")
        given += [r["device"] for r in choice.allocation["devices"]["results"]]
    assert sorted(given) == ["d0", "d1"]


def test_a_class_stands_for_the_resource_that_is_named_after_it(dra: Scenario) -> None:
    name = "deviceclass.resource.kubernetes.io/gpu"
    groups(dra, "a")
    seen(dra, "Pod", pod("a", {"name": "main", "resources": {"requests": {name: "2"}}}))
    ran = dra.run(actions=["allocate"], plugins=["predicates"])
    assert ran.binds == {"default/a": "claims"}


def test_a_pod_waits_where_the_devices_are_taken_by_a_claim_of_its_own(dra: Scenario) -> None:
    allocation = {"devices": {"results": [{"driver": DRIVER, "pool": "claims", "device": "d0", "request": "r"}]}}
    meta = {"name": "other", "namespace": "default", "uid": "other"}
    seen(dra, "ResourceClaim", {"metadata": meta, "spec": {}, "status": {"allocation": allocation}})
    groups(dra, "a")
    seen(dra, "Pod", pod("a", container("x", 2), container("y", 1)))
    assert dra.run(actions=["allocate"], plugins=["predicates"]).binds == {}


def test_the_room_is_gone_when_the_class_is(dra: Scenario) -> None:
    groups(dra, "a")
    seen(dra, "Pod", pod("a", container("main", 1)))
    dra.state.apply(Gone("Node", "plugin"))
    dra.state.apply(Gone("DeviceClass", "gpu"))
    assert dra.run(actions=["allocate"], plugins=["predicates"]).binds == {}


def test_of_several_classes_that_name_a_resource_the_newest_serves_it() -> None:
    state = ClusterState()
    for one in (
        device_class("old"),
        device_class("new-b", created="2026-02-01T00:00:00Z"),
        device_class("new-a", created="2026-02-01T00:00:00Z"),
    ):
        state.apply(Seen(api.decode("DeviceClass", one)))
    assert ExtendedResources(state, Slices(state)).classes()[GPU].metadata.name == "new-a"


@pytest.mark.parametrize(
    ("spec", "requests", "uses"),
    [
        (
            pod("a", container("x", 1), container("y", 2)),
            [("container-0-request-1", 1), ("container-1-request-1", 2)],
            [("x", "container-0-request-1"), ("y", "container-1-request-1")],
        ),
        (
            pod("a", container("x", 1), first=[container("i", 1)]),
            [("container-1-request-1", 1)],
            [("x", "container-1-request-1"), ("i", "container-1-request-1")],
        ),
        (
            pod("a", container("x", 1), first=[container("i", 3), container("j", 2)]),
            [("container-0-request-1", 2), ("container-2-request-1", 1)],
            [
                ("x", "container-2-request-1"),
                ("i", "container-2-request-1"),
                ("i", "container-0-request-1"),
                ("j", "container-2-request-1"),
                ("j", "container-0-request-1"),
            ],
        ),
        (
            pod("a", container("x", 1), first=[container("s", 1, restartPolicy="Always"), container("i", 2)]),
            [("container-0-request-1", 1), ("container-1-request-1", 1), ("container-2-request-1", 1)],
            [
                ("s", "container-0-request-1"),
                ("x", "container-2-request-1"),
                ("i", "container-2-request-1"),
                ("i", "container-1-request-1"),
            ],
        ),
    ],
    ids=["containers", "init reuses", "init asks for more", "sidecar before an init container"],
)
def test_containers_share_requests_as_kubernetes_says(
    dra: Scenario, spec: Json, requests: list[tuple[str, int]], uses: list[tuple[str, str]]
) -> None:
    groups(dra, "a")
    seen(dra, "Pod", spec)
    made = ExtendedResources(dra.state, Slices(dra.state)).made(dra.state.tasks["a"], (GPU,))
    assert [(r["name"], r["exactly"]["count"]) for r in made.requests] == requests
    assert [(u["containerName"], u["requestName"]) for u in made.mappings] == uses
