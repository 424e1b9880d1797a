"""Volumes and devices on a real API server: what is chosen is written, waited for, and only then is the pod bound.

There is no volume controller, no provisioner and no claim controller here: the tests play them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kube_bed import Bed, Refusal, until
from kube_world import World, all_bound

from pumice.kube.kinds import RESOURCES

Json = dict[str, Any]
SELECTED = "volume.kubernetes.io/selected-node"
DRIVER = "gpu.example.com"
IMPATIENT = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
    arguments:
      volumebinding.bindTimeoutSeconds: 1
"""


class Store:
    """Storage classes, volumes, claims and devices of one test."""

    def __init__(self, world: World) -> None:
        self.world, self.bed = world, world.bed
        self._made: list[str] = []

    def create(self, kind: str, version: str, name: str, namespaced: bool = False, **parts: Any) -> Json:
        meta: Json = {"name": name, **({"namespace": self.world.namespace} if namespaced else {})}
        meta |= parts.pop("metadata", {})
        if not namespaced:
            self._made.append(RESOURCES[kind].path(name))
        return self.bed.create({"apiVersion": version, "kind": kind, "metadata": meta, **parts})

    def clean(self) -> None:
        for path in self._made:
            try:
                if "/persistentvolumes/" in path:
                    self.bed.call("PATCH", path, {"metadata": {"finalizers": None}}, patch="merge")
                self.bed.call("DELETE", path)
            except Refusal as no:
                if no.code != 404:
                    raise

    # -- volumes ----------------------------------------------------------------------------------------------------
    def storage_class(self, provisioner: str) -> str:
        name = f"late-{self.world.namespace}"
        mode = "WaitForFirstConsumer"
        self.create("StorageClass", "storage.k8s.io/v1", name, provisioner=provisioner, volumeBindingMode=mode)
        return name

    def volume(self, name: str, storage_class: str, node: str, claim: Json | None = None) -> str:
        """A volume on one node; made for a claim, if one is given."""
        line = {"key": "host", "operator": "In", "values": [node]}
        spec: Json = {
            "storageClassName": storage_class,
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}},
        }
        if claim is not None:
            meta = claim["metadata"]
            spec["claimRef"] = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
        full = f"{name}-{self.world.namespace}"
        self.create("PersistentVolume", "v1", full, spec=spec)
        self.bed.call("PATCH", self.path("PersistentVolume", full, "status"), {"status": {"phase": "Available"}})
        return full

    def claim(self, name: str, storage_class: str) -> None:
        spec = {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        self.create("PersistentVolumeClaim", "v1", name, True, spec=spec)

    def complete(self, name: str, volume: str) -> None:
        """Bind a claim as the volume controller does."""
        path = self.path("PersistentVolumeClaim", name)
        note = {"pv.kubernetes.io/bind-completed": "yes"}
        self.bed.call("PATCH", path, {"metadata": {"annotations": note}, "spec": {"volumeName": volume}})
        self.bed.call("PATCH", f"{path}/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})

    # -- devices ----------------------------------------------------------------------------------------------------
    def devices(self, node: str, *names: str) -> str:
        """A device class, and some devices of it on a node, in a pool of its name."""
        name = f"gpu-{self.world.namespace}"
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        self.create("DeviceClass", "resource.k8s.io/v1", name, spec={"selectors": selectors})
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        listed = [{"name": n} for n in names]
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": listed}
        self.create("ResourceSlice", "resource.k8s.io/v1", f"slice-{self.world.namespace}", spec=spec)
        return name

    def device_claim(self, name: str, device_class: str, **metadata: Any) -> Json:
        request = {"name": "r", "exactly": {"deviceClassName": device_class, "count": 1}}
        spec = {"devices": {"requests": [request]}}
        return self.create("ResourceClaim", "resource.k8s.io/v1", name, True, spec=spec, metadata=metadata)

    def freed(self, name: str) -> None:
        """Free a claim as the claim controller does when its last user is gone."""
        status = {"status": {"allocation": None, "reservedFor": None}}
        self.bed.call("PATCH", self.path("ResourceClaim", name, "status"), status, patch="merge")

    # -- both -------------------------------------------------------------------------------------------------------
    def path(self, kind: str, name: str, sub: str = "") -> str:
        key = name if kind == "PersistentVolume" else f"{self.world.namespace}/{name}"
        return RESOURCES[kind].path(key, sub)

    def get(self, kind: str, name: str) -> Json:
        found: Json = self.bed.call("GET", self.path(kind, name))
        return found

    def selected(self, claim: str) -> str:
        """For which node a claim's volume is to be made."""
        notes: dict[str, str] = self.get("PersistentVolumeClaim", claim)["metadata"].get("annotations") or {}
        return notes.get(SELECTED, "")

    def users(self, claim: str) -> list[str]:
        return sorted(u["name"] for u in self.get("ResourceClaim", claim).get("status", {}).get("reservedFor", ()))

    def pod(self, name: str, group: str, *, volumes: tuple[str, ...] = (), claims: tuple[Json, ...] = ()) -> Json:
        container: Json = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        if claims:
            container["resources"]["claims"] = [{"name": c["name"]} for c in claims]
        spec: Json = {"schedulerName": "pumice", "containers": [container]}
        spec["volumes"] = [{"name": v, "persistentVolumeClaim": {"claimName": v}} for v in volumes]
        spec["resourceClaims"] = list(claims)
        note = {"annotations": {"scheduling.k8s.io/group-name": group}}
        return self.create("Pod", "v1", name, True, spec=spec, metadata=note)


@pytest.fixture
def store(world: World) -> Iterator[Store]:
    made = Store(world)
    try:
        yield made
    finally:
        made.clean()


def stays(what: Callable[[], bool], seconds: float = 1.0) -> None:
    """Something is true, and stays so for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert what()
        time.sleep(0.1)


def shared(name: str) -> Json:
    return {"name": name, "resourceClaimName": name}


def test_a_gang_is_bound_when_the_volumes_of_all_its_pods_are_made(world: World, store: Store) -> None:
    storage = store.storage_class("csi.example.com")
    for n in (0, 1):
        world.node(f"n{n}", cpu="1", host=f"n{n}")
        store.claim(f"data-{n}", storage)
    world.gang("g", 0, minimum=2)
    for n in (0, 1):
        store.pod(f"g-{n}", "g", volumes=(f"data-{n}",))
    scheduler = world.scheduler("--no-leader-elect")
    until(
        lambda: {store.selected("data-0"), store.selected("data-1")} == {"n0", "n1"}, 40, "both volumes are asked for"
    )
    wanted = store.get("PersistentVolumeClaim", "data-0")
    store.complete("data-0", store.volume("v0", storage, store.selected("data-0"), wanted))
    stays(lambda: world.bound() == {})
    wanted = store.get("PersistentVolumeClaim", "data-1")
    store.complete("data-1", store.volume("v1", storage, store.selected("data-1"), wanted))
    all_bound(world, "g-0", "g-1")
    assert world.bound() == {f"g-{n}": store.selected(f"data-{n}") for n in (0, 1)}
    assert "forbidden" not in scheduler.log.lower()


def test_a_volume_that_is_there_is_reserved_and_decides_the_node(world: World, store: Store) -> None:
    storage = store.storage_class("kubernetes.io/no-provisioner")
    world.node("n0", host="n0")
    world.node("n1", host="n1")
    volume = store.volume("v", storage, "n1")
    store.claim("data", storage)
    world.gang("g", 0, minimum=1)
    store.pod("g-0", "g", volumes=("data",))
    scheduler = world.scheduler("--no-leader-elect")
    until(lambda: "claimRef" in store.get("PersistentVolume", volume)["spec"], 40, "the volume is reserved")
    held = store.get("PersistentVolume", volume)
    assert held["spec"]["claimRef"]["uid"] == store.get("PersistentVolumeClaim", "data")["metadata"]["uid"]
    assert held["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert world.bound() == {}
    store.complete("data", volume)
    all_bound(world, "g-0")
    assert world.bound() == {"g-0": "n1"}
    assert "forbidden" not in scheduler.log.lower()


def test_a_volume_that_nobody_makes_is_given_up_and_tried_again(world: World, store: Store, tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(IMPATIENT)
    storage = store.storage_class("csi.example.com")
    world.node("n0", host="n0")
    store.claim("data", storage)
    world.gang("g", 0, minimum=1)
    store.pod("g-0", "g", volumes=("data",))
    scheduler = world.scheduler("--no-leader-elect", f"--scheduler-conf={conf}")
    until(lambda: "it got no volume within 1 s" in scheduler.log, 40, "the bind is given up")
    assert world.bound() == {}
    until(lambda: store.selected("data") == "n0", 20, "it is tried again")
    store.complete("data", store.volume("v", storage, "n0", store.get("PersistentVolumeClaim", "data")))
    all_bound(world, "g-0")
    assert "forbidden" not in scheduler.log.lower()


def test_a_volume_that_is_being_made_when_the_scheduler_is_killed_is_waited_for_by_the_next(
    world: World, store: Store
) -> None:
    storage = store.storage_class("csi.example.com")
    world.node("n0", host="n0")
    world.node("n1", host="n1")
    store.claim("data", storage)
    world.gang("g", 0, minimum=1)
    store.pod("g-0", "g", volumes=("data",))
    first = world.scheduler("--no-leader-elect")
    until(lambda: store.selected("data"), 40, "the volume is asked for")
    first.kill()
    node = store.selected("data")
    world.scheduler("--no-leader-elect")
    stays(lambda: world.bound() == {} and store.selected("data") == node, 3.0)
    store.complete("data", store.volume("v", storage, node, store.get("PersistentVolumeClaim", "data")))
    all_bound(world, "g-0")
    assert world.bound() == {"g-0": node}


def test_a_device_is_given_to_one_claim_until_it_is_free_again(world: World, store: Store) -> None:
    world.node("n0")
    kind = store.devices("n0", "gpu-0")
    for name in ("first", "second"):
        world.gang(name, 0, minimum=1)
        store.device_claim(name, kind)
    store.pod("first-0", "first", claims=(shared("first"),))
    scheduler = world.scheduler("--no-leader-elect")
    all_bound(world, "first-0")
    claim = store.get("ResourceClaim", "first")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["request"], result["driver"], result["pool"], result["device"]) == ("r", DRIVER, kind, "gpu-0")
    (term,) = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    assert store.users("first") == ["first-0"]
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]

    store.pod("second-0", "second", claims=(shared("second"),))

    def told() -> bool:
        conditions = world.group("second").get("status", {}).get("conditions", [])
        return any(c["type"] == "Unschedulable" and "cannot allocate all claims" in c["message"] for c in conditions)

    until(told, 40, "the second group is told that there is no device")
    assert "second-0" not in world.bound()
    world.delete("first-0")
    store.freed("first")
    all_bound(world, "second-0")
    assert store.users("second") == ["second-0"]
    assert "forbidden" not in scheduler.log.lower()


def test_all_pods_of_a_gang_use_the_claim_that_they_share(world: World, store: Store) -> None:
    world.node("n0")
    world.node("n1")
    store.device_claim("shared", store.devices("n1", "gpu-0", "gpu-1"))
    world.gang("g", 0, minimum=2)
    for n in (0, 1):
        store.pod(f"g-{n}", "g", claims=(shared("shared"),))
    scheduler = world.scheduler("--no-leader-elect")
    all_bound(world, "g-0", "g-1")
    assert set(world.bound().values()) == {"n1"}
    assert store.users("shared") == ["g-0", "g-1"]
    assert len(store.get("ResourceClaim", "shared")["status"]["allocation"]["devices"]["results"]) == 1
    assert "forbidden" not in scheduler.log.lower()


def test_a_pod_with_a_claim_template_waits_for_its_claim(world: World, store: Store) -> None:
    world.node("n0")
    kind = store.devices("n0", "gpu-0")
    world.gang("g", 0, minimum=1)
    pod = store.pod("g-0", "g", claims=({"name": "gpu", "resourceClaimTemplateName": "template"},))
    scheduler = world.scheduler("--no-leader-elect")

    def told() -> bool:
        conditions = world.group("g").get("status", {}).get("conditions", [])
        return any("waiting for the resourceclaim" in c.get("message", "") for c in conditions)

    until(told, 40, "the group is told what it waits for")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "g-0", "uid": pod["metadata"]["uid"], "controller": True}
    store.device_claim("made", kind, ownerReferences=[owner])
    made = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]}}
    store.bed.call("PATCH", world.path("g-0", "status"), made)
    all_bound(world, "g-0")
    assert store.users("made") == ["g-0"]
    assert "forbidden" not in scheduler.log.lower()


def test_what_a_scheduler_left_when_it_was_killed_is_taken_up(world: World, store: Store, bed: Bed) -> None:
    """A claim has devices on a node that is full now; its pod, which never got there, gets others elsewhere."""
    world.node("n0", cpu="1")
    world.node("n1")
    kind = store.devices("n1", "gpu-0")
    store.device_claim("left", kind)
    world.gang("g", 0, minimum=1)
    pod = store.pod("g-0", "g", claims=(shared("left"),))
    on = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    results = [{"request": "r", "driver": DRIVER, "pool": "n0", "device": "gpu-9"}]
    status = {
        "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [on]}},
        "reservedFor": [{"resource": "pods", "name": "g-0", "uid": pod["metadata"]["uid"]}],
    }
    bed.call("PATCH", store.path("ResourceClaim", "left", "status"), {"status": status}, patch="merge")
    world.pod("blocker", "none", "1", scheduler="other")
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "blocker"}, "target": {"name": "n0"}}
    bed.call("POST", world.path("blocker", "binding"), body)
    scheduler = world.scheduler("--no-leader-elect")
    all_bound(world, "g-0")
    assert world.bound()["g-0"] == "n1"
    (result,) = store.get("ResourceClaim", "left")["status"]["allocation"]["devices"]["results"]
    assert (result["pool"], result["device"]) == (kind, "gpu-0")
    assert "forbidden" not in scheduler.log.lower()
