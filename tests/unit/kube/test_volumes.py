"""Claims on the way to their volumes and devices, before pods are bound: all of a job's, or none."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import virtual_time
from scripted_api import ScriptedApi, serving, until

from pumice.clock import ManualClock
from pumice.kube.claims import BOUND_BY_US, COMPLETED, PROTECTION, SELECTED, DeviceClaims, Preparer, VolumeClaims
from pumice.kube.events import NoteWriter
from pumice.kube.kinds import RESOURCES
from pumice.kube.outbox import Outbox
from pumice.kube.reflector import Reflector
from pumice.kube.statuses import StatusWriter
from pumice.kube.watching import Inbox
from pumice.kube.writer import ApiWriter
from pumice.model.api import AnyObject, decode
from pumice.model.events import BindFailed, ClusterEvent
from pumice.model.intents import Bind, Choice, DeviceChoice, MadeClaim, VolumeChoice

Json = dict[str, Any]
FORBIDDEN = (403, {"message": "you may not"})
DEVICE = {"request": "r", "driver": "gpu", "pool": "n1", "device": "a"}
ALLOCATION: Json = {"devices": {"results": [DEVICE]}}
WRITTEN: Json = {**ALLOCATION, "allocationTimestamp": "2023-11-14T22:13:20Z"}
OTHER: Json = {"devices": {"results": [{**DEVICE, "device": "b"}]}}


class World:
    """An API server that keeps a few objects, an outbox at work, and what came back from it."""

    def __init__(self, api: ScriptedApi) -> None:
        self.api = api
        self.events: list[ClusterEvent] = []
        self.left = float("inf")
        self.objects: dict[str, Json] = {}
        self.seen: dict[str, dict[str, AnyObject]] = {
            kind: {} for kind in ("PersistentVolumeClaim", "PersistentVolume", "Node")
        }
        self.pods = {"ns/p", "ns/q"}
        self.versions = 100
        for name in ("n1", "n2"):
            self.seen["Node"][name] = decode("Node", {"metadata": {"name": name, "labels": {"host": name}}})
        for name in ("p", "q"):
            pod = {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {}}
            api.answers["GET", f"/api/v1/namespaces/ns/pods/{name}"] = [(200, pod)]
        self.out: Outbox

    def put(self, kind: str, name: str, **parts: Any) -> None:
        """Create an object; the watch shows it and all its changes at once."""
        namespace = "" if kind == "PersistentVolume" else "ns"
        key = f"{namespace}/{name}" if namespace else name
        meta = {"name": name, "uid": f"uid-{name}", "namespace": namespace, **parts.pop("metadata", {})}
        self.objects[key] = {"metadata": meta, "spec": {}, **parts}
        self._store(kind, key)
        path = RESOURCES[kind].path(key)

        async def get(_: Any) -> tuple[int, Json]:
            return 200, self.objects[key]

        async def patch(body: Json) -> tuple[int, Json]:
            return self.patch(kind, key, body)

        self.api.answers["GET", path] = [get]
        self.api.answers["PATCH", path] = [patch]
        self.api.answers["PATCH", f"{path}/status"] = [patch]

    def patch(self, kind: str, key: str, body: Json) -> tuple[int, Json]:
        """Carry a merge patch out, if it was made for the version that is there."""
        meta = self.objects[key]["metadata"]
        if body.get("metadata", {}).get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            return 409, {"reason": "Conflict", "message": "it was changed"}
        self.objects[key] = merged(self.objects[key], body)
        self._store(kind, key)
        return 200, self.objects[key]

    def _store(self, kind: str, key: str) -> None:
        self.versions += 1
        self.objects[key]["metadata"]["resourceVersion"] = str(self.versions)
        if kind in self.seen:
            self.seen[kind][key] = decode(kind, self.objects[key])

    def completes(self, claim: str, volume: str) -> None:
        """The volume controller binds a claim."""
        body = {"metadata": {"annotations": {COMPLETED: "yes"}}, "spec": {"volumeName": volume}}
        self.patch("PersistentVolumeClaim", f"ns/{claim}", {**body, "status": {"phase": "Bound"}})

    def notes(self, key: str) -> Json:
        found: Json = self.objects[key]["metadata"].get("annotations") or {}
        return found

    def bound(self) -> list[str]:
        return [path.split("/")[-2] for method, path, _, _ in self.api.requests if path.endswith("/binding")]

    def failures(self) -> dict[str, str]:
        return {e.uid: e.message for e in self.events if isinstance(e, BindFailed)}


def merged(into: Any, patch: Json) -> Json:
    out = copy.deepcopy(into) if isinstance(into, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value) if isinstance(value, dict) else value
    return out


@asynccontextmanager
async def working(tmp_path: Path) -> AsyncIterator[World]:
    async with serving(tmp_path) as (api, client):
        world = World(api)
        writer = ApiWriter(client, lambda: world.left)
        seen = world.seen
        volumes = VolumeClaims(
            writer, seen["PersistentVolumeClaim"], seen["PersistentVolume"], seen["Node"], world.pods
        )
        clock = ManualClock(1_700_000_000)
        notes = NoteWriter(writer, clock, "pumice")
        box = world.out = Outbox(
            writer,
            StatusWriter(writer, {}, clock),
            notes,
            world.events.extend,
            preparer=Preparer(writer, volumes, DeviceClaims(writer, notes, clock)),
        )
        task = asyncio.create_task(box.run())
        try:
            yield world
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def bind(pod: str, *choices: Choice, node: str = "n1", needed: int = 1) -> Bind:
    return Bind(f"ns/{pod}", pod, node, "ns/job", prepare=choices, needed=needed)


def made(claim: str, within: float = 600.0) -> VolumeChoice:
    return VolumeChoice(f"ns/{claim}", f"uid-{claim}", within=within)


def devices(claim: str, allocation: Json | None = None) -> DeviceChoice:
    return DeviceChoice(f"ns/{claim}", f"uid-{claim}", allocation)


def run(story: Callable[[World], Any], tmp_path: Path) -> None:
    async def told() -> None:
        async with asyncio.timeout(20), working(tmp_path) as world:
            await story(world)

    virtual_time.run(told())


# -- volumes ----------------------------------------------------------------------------------------------------------
def test_a_pod_is_bound_when_the_volume_that_was_made_for_its_node_is_there(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "data")
        w.out.put([bind("p", made("data"))])
        await until(lambda: w.notes("ns/data").get(SELECTED) == "n1")
        await asyncio.sleep(0.2)
        assert w.bound() == []
        w.put("PersistentVolume", "v")
        w.completes("data", "v")
        await w.out.finish()
        assert (w.bound(), w.failures()) == (["p"], {})
        assert w.notes("ns/data")[SELECTED] == "n1"

    run(story, tmp_path)


def test_a_volume_that_is_there_is_reserved_for_the_claim_before_the_pod_is_bound(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "data")
        w.put("PersistentVolume", "v")
        w.out.put([bind("p", VolumeChoice("ns/data", "uid-data", "v"))])
        await until(lambda: "claimRef" in w.objects["v"]["spec"])
        holder = w.objects["v"]["spec"]["claimRef"]
        assert (holder["kind"], holder["namespace"], holder["name"]) == ("PersistentVolumeClaim", "ns", "data")
        assert holder["uid"] == "uid-data"
        assert BOUND_BY_US in w.notes("v")
        assert w.bound() == []
        w.completes("data", "v")
        await w.out.finish()
        assert (w.bound(), w.failures()) == (["p"], {})

    run(story, tmp_path)


def test_a_claim_that_gets_no_volume_in_time_fails_the_bind_and_is_as_it_was(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "data", metadata={"annotations": {"mine": "1"}})
        w.put("PersistentVolumeClaim", "more")
        w.put("PersistentVolume", "v")
        w.out.put([bind("p", made("data", 0.3), VolumeChoice("ns/more", "uid-more", "v", within=0.3))])
        await w.out.finish()
        assert w.failures() == {"p": "PersistentVolumeClaim ns/data: it got no volume within 0.3 s"}
        assert w.notes("ns/data") == {"mine": "1"}
        assert "claimRef" not in w.objects["v"]["spec"]
        assert w.notes("v") == {}
        assert w.bound() == []
        await until(lambda: bool(w.api.sent("POST", "/events")))
        (told,) = w.api.sent("POST", "/events")
        assert (told["involvedObject"]["name"], told["reason"]) == ("p", "FailedBinding")
        assert told["message"] == "n1: PersistentVolumeClaim ns/data: it got no volume within 0.3 s"

    run(story, tmp_path)


def test_a_volume_that_was_bound_meanwhile_is_not_taken_back(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "data")
        w.put("PersistentVolumeClaim", "never")
        w.put("PersistentVolume", "v")
        w.out.put([bind("p", VolumeChoice("ns/data", "uid-data", "v"), made("never", 0.3))])
        await until(lambda: "claimRef" in w.objects["v"]["spec"])
        w.patch("PersistentVolume", "v", {"status": {"phase": "Bound"}})
        w.completes("data", "v")
        await w.out.finish()
        assert list(w.failures()) == ["p"]
        assert w.objects["v"]["spec"]["claimRef"]["name"] == "data"

    run(story, tmp_path)


def test_a_provisioner_that_gives_up_fails_the_bind_at_once(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "data")
        w.out.put([bind("p", made("data"))])
        await until(lambda: SELECTED in w.notes("ns/data"))
        w.patch("PersistentVolumeClaim", "ns/data", {"metadata": {"annotations": {SELECTED: None}}})
        await w.out.finish()
        assert "its volume is not made any more" in w.failures()["p"]

    run(story, tmp_path)


def test_a_volume_out_of_the_nodes_reach_fails_the_bind(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        line = {"key": "host", "operator": "In", "values": ["n2"]}
        far = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}}
        w.put("PersistentVolumeClaim", "data")
        w.put("PersistentVolume", "v", spec=far)
        w.completes("data", "v")
        w.out.put([bind("p", made("data"))])
        await w.out.finish()
        assert w.failures() == {"p": "PersistentVolumeClaim ns/data: its volume v cannot be used on node n1"}

    run(story, tmp_path)


@pytest.mark.parametrize(
    ("holder", "why"),
    [
        ({"namespace": "x", "name": "y", "uid": "z"}, "volume v was taken by x/y"),
        ({"namespace": "ns", "name": "data", "uid": "old"}, "volume v belongs to an earlier claim"),
    ],
)
def test_a_volume_that_somebody_took_fails_the_bind(tmp_path: Path, holder: Json, why: str) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "data")
        w.put("PersistentVolume", "v", spec={"claimRef": holder})
        w.out.put([bind("p", VolumeChoice("ns/data", "uid-data", "v"))])
        await w.out.finish()
        assert why in w.failures()["p"]
        assert w.objects["v"]["spec"]["claimRef"] == holder

    run(story, tmp_path)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"uid": "new"}, "it is gone, and another one has its name"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "it is being deleted"),
        ({"annotations": {SELECTED: "n2"}}, "its volume is being made for node n2"),
    ],
)
def test_a_claim_that_is_not_what_it_was_fails_the_bind(tmp_path: Path, metadata: Json, why: str) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "data", metadata=metadata)
        w.out.put([bind("p", made("data"))])
        await w.out.finish()
        assert why in w.failures()["p"]

    run(story, tmp_path)


def test_a_pod_that_goes_while_it_waits_gives_its_choice_back(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "data")
        w.out.put([bind("p", made("data"))])
        await until(lambda: SELECTED in w.notes("ns/data"))
        w.pods.discard("ns/p")
        w.api.answers["GET", "/api/v1/namespaces/ns/pods/p"] = [(404, {})]
        await w.out.finish()
        assert w.failures() == {"p": "pod ns/p: it is gone"}
        assert SELECTED not in w.notes("ns/data")

    run(story, tmp_path)


def test_a_choice_that_collides_or_whose_answer_is_lost_is_made_in_the_end(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "data")
        path = RESOURCES["PersistentVolumeClaim"].path("ns/data")

        async def lost(body: Json) -> tuple[int, Json]:
            w.patch("PersistentVolumeClaim", "ns/data", body)
            return 500, {"message": "we do not know"}

        script = w.api.answers["PATCH", path]
        script[:0] = [(409, {"message": "it was changed"}), lost]
        w.out.put([bind("p", made("data"))])
        await until(lambda: SELECTED in w.notes("ns/data"))
        w.put("PersistentVolume", "v")
        w.completes("data", "v")
        await w.out.finish()
        assert (w.bound(), w.failures()) == (["p"], {})

    run(story, tmp_path)


# -- together ---------------------------------------------------------------------------------------------------------
def test_a_gang_of_which_one_claim_is_refused_is_not_bound_and_leaves_nothing(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "one")
        w.put("PersistentVolumeClaim", "two")
        w.put("ResourceClaim", "gpu")

        async def refused(_: Any) -> tuple[int, Json]:
            await until(lambda: SELECTED in w.notes("ns/one") and "status" in w.objects["ns/gpu"])
            return FORBIDDEN

        w.api.answers["PATCH", RESOURCES["PersistentVolumeClaim"].path("ns/two")] = [refused]
        first = bind("p", devices("gpu", ALLOCATION), made("one"), needed=2)
        w.out.put([first, bind("q", made("two"), node="n2", needed=2)])
        await w.out.finish()
        assert set(w.failures()) == {"p", "q"}
        assert "you may not" in w.failures()["q"]
        assert w.failures()["p"].startswith("1 of 2 pods cannot be bound, and 2 must be: ")
        assert w.bound() == []
        assert SELECTED not in w.notes("ns/one")
        assert w.objects["ns/gpu"]["status"] == {}

    run(story, tmp_path)


def test_a_job_that_needs_fewer_is_bound_without_the_pod_whose_claim_is_refused(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "two")
        w.put("ResourceClaim", "gpu")
        w.api.answers["PATCH", RESOURCES["PersistentVolumeClaim"].path("ns/two")] = [FORBIDDEN]
        w.out.put([bind("p", devices("gpu", ALLOCATION)), bind("q", made("two"))])
        await w.out.finish()
        assert (w.bound(), list(w.failures())) == (["p"], ["q"])
        assert w.objects["ns/gpu"]["status"]["reservedFor"][0]["uid"] == "p"

    run(story, tmp_path)


def test_no_pod_of_a_gang_is_bound_before_all_claims_are_ready(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "one")
        w.out.put([bind("p"), bind("q", made("one"), needed=2), Bind("ns/r", "r", "n1", "ns/other")])
        await until(lambda: w.bound() == ["r"])
        await asyncio.sleep(0.2)
        assert w.bound() == ["r"]
        w.put("PersistentVolume", "v")
        w.completes("one", "v")
        await w.out.finish()
        assert sorted(w.bound()) == ["p", "q", "r"]

    run(story, tmp_path)


def test_a_choice_that_another_pod_still_waits_for_stays(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "shared")
        w.put("PersistentVolumeClaim", "never")
        w.out.put([bind("p", made("shared"), made("never", 0.3)), bind("q", made("shared"))])
        await until(lambda: "p" in w.failures() or SELECTED not in w.notes("ns/never"))
        await until(lambda: SELECTED in w.notes("ns/shared"))
        await asyncio.sleep(0.5)
        assert SELECTED in w.notes("ns/shared")
        w.put("PersistentVolume", "v")
        w.completes("shared", "v")
        await w.out.finish()
        assert (w.bound(), list(w.failures())) == (["q"], ["p"])
        assert SELECTED not in w.notes("ns/never")

    run(story, tmp_path)


def test_pods_on_two_nodes_wait_for_the_one_volume_that_they_share(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "shared")
        other = VolumeChoice("ns/shared", "uid-shared", node="n1")
        w.out.put([bind("p", made("shared"), needed=2), bind("q", other, node="n2", needed=2)])
        await until(lambda: w.notes("ns/shared").get(SELECTED) == "n1")
        w.put("PersistentVolume", "v")
        w.completes("shared", "v")
        await w.out.finish()
        assert (sorted(w.bound()), w.failures()) == (["p", "q"], {})

    run(story, tmp_path)


def test_who_ends_does_not_wait_for_volumes_and_binds_nothing_more(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("PersistentVolumeClaim", "data")
        w.out.put([bind("p", made("data")), Bind("ns/r", "r", "n1", "ns/other")])
        await until(lambda: SELECTED in w.notes("ns/data"))
        await w.out.finish(claims=False)
        w.put("PersistentVolume", "v")
        w.completes("data", "v")
        await asyncio.sleep(0.4)
        assert (w.bound(), w.failures()) == (["r"], {})
        assert w.notes("ns/data")[SELECTED] == "n1"

    run(story, tmp_path)


def test_who_does_not_lead_writes_nothing_into_claims(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.left = 0.0
        w.put("PersistentVolumeClaim", "data")
        w.put("ResourceClaim", "gpu")
        w.out.put([bind("p", made("data"), devices("gpu", ALLOCATION))])
        await w.out.finish()
        assert {method for method, *_ in w.api.requests} == {"GET"}
        assert "do not lead" in w.failures()["p"]

    run(story, tmp_path)


# -- devices ----------------------------------------------------------------------------------------------------------
def test_a_claim_gets_its_devices_and_its_user_before_the_pod_is_bound(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("ResourceClaim", "gpu", metadata={"finalizers": ["other"]})
        w.out.put([bind("p", devices("gpu", ALLOCATION))])
        await w.out.finish()
        assert (w.bound(), w.failures()) == (["p"], {})
        user = {"resource": "pods", "name": "p", "uid": "p"}
        assert w.objects["ns/gpu"]["status"] == {"allocation": WRITTEN, "reservedFor": [user]}
        assert w.objects["ns/gpu"]["metadata"]["finalizers"] == ["other", PROTECTION]
        order = [path.rsplit("/", 1)[-1] for method, path, _, _ in w.api.requests if method != "GET"]
        assert order == ["gpu", "status", "binding"]

    run(story, tmp_path)


def test_pods_that_share_a_claim_are_all_written_down(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("ResourceClaim", "gpu", status={"allocation": ALLOCATION, "reservedFor": [{"uid": "x"}]})
        w.out.put([bind("p", devices("gpu", ALLOCATION)), bind("q", devices("gpu"))])
        await w.out.finish()
        assert sorted(w.bound()) == ["p", "q"]
        assert sorted(u["uid"] for u in w.objects["ns/gpu"]["status"]["reservedFor"]) == ["p", "q", "x"]

    run(story, tmp_path)


@pytest.mark.parametrize(
    ("status", "choice", "why"),
    [
        ({}, None, "it has no devices any more"),
        ({"allocation": OTHER, "reservedFor": [{"uid": "x"}]}, ALLOCATION, "it got other devices in the meantime"),
        ({"allocation": OTHER, "reservedFor": [{"uid": str(n)} for n in range(256)]}, None, "it has 256 users"),
    ],
)
def test_a_device_claim_that_is_not_what_it_was_fails_the_bind(
    tmp_path: Path, status: Json, choice: Json | None, why: str
) -> None:
    async def story(w: World) -> None:
        w.put("ResourceClaim", "gpu", status=status)
        w.out.put([bind("p", devices("gpu", choice))])
        await w.out.finish()
        assert why in w.failures()["p"]
        assert w.objects["ns/gpu"]["status"] == status

    run(story, tmp_path)


def test_what_a_failed_bind_left_is_replaced(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("ResourceClaim", "gpu", status={"allocation": OTHER, "reservedFor": [{"uid": "p"}]})
        w.out.put([bind("p", devices("gpu", ALLOCATION))])
        await w.out.finish()
        assert w.bound() == ["p"]
        assert w.objects["ns/gpu"]["status"]["allocation"] == WRITTEN

    run(story, tmp_path)


@pytest.mark.parametrize(("refused", "bound"), [(422, ["p"]), (403, [])])
def test_a_claim_whose_finalizer_the_server_finds_invalid_is_used_without(
    tmp_path: Path, refused: int, bound: list[str]
) -> None:
    """So it is where drivers' parameters were sent with spaces: every patch spells them anew, as if they changed."""

    async def story(w: World) -> None:
        w.put("ResourceClaim", "gpu")
        path = RESOURCES["ResourceClaim"].path("ns/gpu")
        w.api.answers["PATCH", path] = [(refused, {"message": "spec: Invalid value: field is immutable"})]
        w.out.put([bind("p", devices("gpu", ALLOCATION))])
        await w.out.finish()
        assert w.bound() == bound
        if bound:
            assert w.objects["ns/gpu"]["status"]["reservedFor"][0]["uid"] == "p"
            await until(lambda: bool(w.api.sent("POST", "/events")))
            (event,) = w.api.sent("POST", "/events")
            assert (event["reason"], event["involvedObject"]["uid"]) == ("Unprotected", "uid-gpu")
            assert "field is immutable" in event["message"]

    run(story, tmp_path)


@pytest.mark.parametrize("others", [[], [{"uid": "x"}]])
def test_a_pod_that_is_not_bound_gives_its_devices_back(tmp_path: Path, others: list[Json]) -> None:
    async def story(w: World) -> None:
        status = {"allocation": ALLOCATION, "reservedFor": others} if others else {}
        w.put("ResourceClaim", "gpu", status=status)
        w.api.answers["POST", "/api/v1/namespaces/ns/pods/p/binding"] = [FORBIDDEN]
        w.out.put([bind("p", devices("gpu", ALLOCATION))])
        await w.out.finish()
        assert list(w.failures()) == ["p"]
        assert w.objects["ns/gpu"]["status"] == status

    run(story, tmp_path)


def test_the_claims_of_a_pod_that_somebody_else_bound_are_left_alone(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.put("ResourceClaim", "gpu")
        pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "p"}, "spec": {"nodeName": "n2"}}
        w.api.answers["GET", "/api/v1/namespaces/ns/pods/p"] = [(200, pod)]
        w.api.answers["POST", "/api/v1/namespaces/ns/pods/p/binding"] = [(409, {"message": "already assigned"})]
        w.out.put([bind("p", devices("gpu", ALLOCATION))])
        await w.out.finish()
        assert list(w.failures()) == ["p"]
        assert w.objects["ns/gpu"]["status"]["reservedFor"][0]["uid"] == "p"

    run(story, tmp_path)


# -- versions ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_device_claims_are_found_in_the_version_that_the_server_has(tmp_path: Path, version: str) -> None:
    async def story() -> None:
        async with asyncio.timeout(20), serving(tmp_path) as (api, client):
            path = f"/apis/resource.k8s.io/{version}/resourceclaims"
            meta = {"name": "gpu", "namespace": "ns", "resourceVersion": "5"}
            api.list(path, "7", {"metadata": meta})
            inbox = Inbox(["ResourceClaim"])
            reflector = Reflector(client, RESOURCES["ResourceClaim"], inbox)
            task = asyncio.create_task(reflector.run())
            await until(inbox.synced.is_set)
            assert reflector.versions == {"ns/gpu": "5"}
            assert reflector.resource.path("ns/gpu", "status") == (
                f"/apis/resource.k8s.io/{version}/namespaces/ns/resourceclaims/gpu/status"
            )
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    virtual_time.run(story())


def test_a_server_without_device_claims_is_gone_on_without_and_asked_for_the_newest_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with asyncio.timeout(20), serving(tmp_path) as (api, client):
            inbox = Inbox(["ResourceClaim"])
            reflector = Reflector(client, RESOURCES["ResourceClaim"], inbox)
            task = asyncio.create_task(reflector.run())
            await until(inbox.synced.is_set)
            assert len(api.requests) == 3
            assert reflector.resource == RESOURCES["ResourceClaim"]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    virtual_time.run(story())


# -- claims for extended resources -------------------------------------------------------------------------------------
MADE = MadeClaim(
    ({"name": "container-0-request-0", "exactly": {"deviceClassName": "gpu", "count": 1}},),
    ({"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"},),
)
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"


def extended(w: World) -> Bind:
    """The bind of a pod whose claim is not there yet; the server answers to its creation."""

    async def create(body: Json) -> tuple[int, Json]:
        name = body["metadata"]["name"]
        if f"ns/{name}" in w.objects:
            return 409, {"reason": "AlreadyExists", "message": "it exists"}
        w.put("ResourceClaim", name, spec=body["spec"], metadata=body["metadata"])
        return 201, w.objects[f"ns/{name}"]

    w.put("Pod", "p", metadata={"uid": "p"})
    w.api.answers["POST", CLAIMS] = [create]
    return bind("p", DeviceChoice("ns/p<extended-resources>", "", ALLOCATION, MADE))


def test_a_claim_is_made_for_extended_resources_and_named_in_the_status_of_the_pod(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.out.put([extended(w)])
        await w.out.finish()
        assert (w.bound(), w.failures()) == (["p"], {})
        claim = w.objects["ns/p-extended-resources-p"]
        assert claim["spec"] == {"devices": {"requests": list(MADE.requests)}}
        assert claim["status"]["allocation"] == WRITTEN
        assert w.objects["ns/p"]["status"]["extendedResourceClaimStatus"] == {
            "requestMappings": list(MADE.mappings),
            "resourceClaimName": "p-extended-resources-p",
        }

    run(story, tmp_path)


def test_a_claim_whose_answer_was_lost_is_used_and_one_of_another_pod_is_not(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        first = extended(w)
        w.put("ResourceClaim", "p-extended-resources-p", metadata={"ownerReferences": [{"uid": "p"}]})
        w.out.put([first])
        await until(lambda: w.bound() == ["p"])
        w.put("ResourceClaim", "p-extended-resources-p", metadata={"ownerReferences": [{"uid": "stranger"}]})
        w.out.put([first])
        await until(lambda: bool(w.failures()))
        assert "it belongs to another pod" in w.failures()["p"]
        assert w.bound() == ["p"]

    run(story, tmp_path)


def test_the_claim_that_was_made_is_free_for_the_next_try_if_the_pod_is_not_bound(tmp_path: Path) -> None:
    async def story(w: World) -> None:
        w.api.answers["POST", "/api/v1/namespaces/ns/pods/p/binding"] = [FORBIDDEN]
        w.out.put([extended(w)])
        await w.out.finish()
        assert "you may not" in w.failures()["p"]
        assert w.objects["ns/p-extended-resources-p"].get("status") == {}
        assert w.objects["ns/p"].get("status") == {}

    run(story, tmp_path)
