"""The running scheduler on a scripted server: lists, a gang, binds, what comes back, and a clean end."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from scripted_api import ScriptedApi, serving, until, write_kubeconfig

from pumice import saved
from pumice.clock import SystemClock
from pumice.config import load
from pumice.config.loader import ConfSource
from pumice.framework.registry import default_registry
from pumice.kube import backend as backend_module
from pumice.kube.backend import BackendSettings, ConfMap, KubeBackend
from pumice.kube.credentials import Credentials
from pumice.kube.kinds import RESOURCES
from pumice.kube.lease import Election
from pumice.kube.service import Service
from pumice.model.api import decode
from pumice.model.events import ClusterEvent, Seen
from pumice.model.status import TaskStatus as S
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.following import Following, PluginFolder
from pumice.scheduler.loop import Loop
from pumice.scheduler.question_queue import NoAnswer
from pumice.scheduler.recording import replay
from pumice.state.cluster import ClusterState

CONF = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n'
OTHER = CONF.replace("enqueue, allocate", "enqueue")
PODS = RESOURCES["Pod"].collection
LEASES = "/apis/coordination.k8s.io/v1/namespaces/sys/leases"


def pod(name: str, cpu: str = "1") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": "5",
            "annotations": {"scheduling.k8s.io/group-name": "gang"},
        },
        "spec": {
            "schedulerName": "pumice",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
        },
        "status": {"phase": "Pending"},
    }


def cluster(api: ScriptedApi, *pods: dict[str, Any], queue: str = "default", members: int = 2) -> None:
    """One node of 4 CPUs, one queue, one gang."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {
        "metadata": {"name": "n1", "resourceVersion": "1"},
        "status": {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    group = {
        "metadata": {"name": "gang", "namespace": "ns", "uid": "g", "resourceVersion": "2"},
        "spec": {"minMember": members, "queue": "default"},
        "status": {"phase": "Pending"},
    }
    given: dict[str, list[dict[str, Any]]] = {
        "Node": [node],
        "PodGroup": [group],
        "Queue": [{"metadata": {"name": queue, "resourceVersion": "3"}, "spec": {"weight": 1}}],
        "Pod": list(pods),
    }
    for kind, resource in RESOURCES.items():
        if resource.needed:
            api.list(resource.collection, "10", *given.get(kind, ()))
    for one in pods:
        api.answers["POST", f"/api/v1/namespaces/ns/pods/{one['metadata']['name']}/binding"] = [_binding(api, one)]


def _binding(api: ScriptedApi, one: dict[str, Any]) -> Any:
    async def bind(body: Any) -> tuple[int, Any]:
        bound = json.loads(json.dumps(one))
        bound["spec"]["nodeName"] = body["target"]["name"]
        bound["metadata"]["resourceVersion"] = "20"
        api.watches[PODS].put_nowait({"type": "MODIFIED", "object": bound})
        return 201, {}

    return bind


class Running:
    def __init__(self, service: Service, backend: KubeBackend, state: ClusterState, task: asyncio.Task[int]) -> None:
        self.service, self.backend, self.state, self.task = service, backend, state, task

    async def end(self) -> int:
        self.service.stop()
        return await asyncio.wait_for(self.task, 20)


@asynccontextmanager
async def running(
    tmp_path: Path,
    api: ScriptedApi,
    *,
    election: Election | None = None,
    conf: Path | ConfMap | None = None,
    plugins: Path | None = None,
    in_flight: int = 64,
) -> AsyncIterator[Running]:
    registry = default_registry()
    credentials = Credentials(kubeconfig=write_kubeconfig(tmp_path, api.url, "first"))
    conf_map = conf if isinstance(conf, ConfMap) else None
    backend = KubeBackend(credentials, BackendSettings(election=election, conf_map=conf_map, in_flight=in_flight))
    state = ClusterState(scheduler_names=["pumice"])
    folder = PluginFolder(plugins, registry) if plugins is not None else None
    if folder is not None:
        registry = folder.load() or registry
    catalogue = catalogue_of(registry)
    begun = load(CONF, catalogue, "conf").conf
    follow = Following(
        registry,
        conf=ConfSource(conf, catalogue) if conf is not None else None,
        initial=begun if conf_map is None else None,
        folder=folder,
    )
    loop = Loop(backend, backend, assemble(begun, registry), SystemClock(), state=state)
    service = Service(
        backend,
        loop,
        period=0.1,
        follow=follow,
    )
    run = Running(service, backend, state, asyncio.create_task(asyncio.to_thread(service.run)))
    try:
        yield run
    finally:
        if not run.task.done():
            await run.end()


def binds(api: ScriptedApi) -> dict[str, str]:
    return {b["metadata"]["name"]: b["target"]["name"] for b in api.sent("POST", "/binding")}


def test_a_gang_is_bound_and_its_group_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"))
            async with running(tmp_path, api) as run:
                await until(lambda: len(binds(api)) == 2)
                await until(lambda: any(b["status"].get("phase") == "Running" for b in api.sent("PATCH", "podgroups")))
                await until(lambda: not run.state.assumed)
                assert (run.service.trouble(), run.service.unready()) == ("", "")
                assert await run.end() == 0
            assert binds(api) == {"a": "n1", "b": "n1"}
            assert len(api.sent("POST", "/binding")) == 2

    asyncio.run(story())


def test_a_gang_that_does_not_fit_whole_is_not_bound_in_part(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a", cpu="3"), pod("b", cpu="3"))
            async with running(tmp_path, api) as run:
                await until(lambda: run.service.cycles >= 5)
                assert binds(api) == {}
                conditions = [c for b in api.sent("PATCH", "podgroups") for c in b["status"].get("conditions", ())]
                assert {c["type"] for c in conditions} == {"Unschedulable"}
                await until(lambda: len(api.sent("PATCH", "/pods/")) == 2)
                written = api.sent("PATCH", "/pods/")
                assert {c["reason"] for b in written for c in b["status"]["conditions"]} == {"Unschedulable"}
                assert {b["metadata"]["resourceVersion"] for b in written} == {"5"}

    asyncio.run(story())


def test_a_bind_that_fails_is_tried_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"))
            path = "/api/v1/namespaces/ns/pods/a/binding"
            api.answers["POST", path].insert(0, (403, {"message": "a webhook says no"}))
            async with running(tmp_path, api) as run:
                await until(lambda: len(api.sent("POST", path)) == 2)
                await until(lambda: not run.state.assumed)
                assert {t.key: t.status for t in run.state.tasks.values()} == dict.fromkeys(("ns/a", "ns/b"), S.BOUND)
                assert len(api.sent("POST", "pods/b/binding")) == 1

    asyncio.run(story())


def test_a_missing_default_queue_is_created(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, queue="other")
            async with running(tmp_path, api):
                await until(lambda: bool(api.sent("POST", "/queues")))
                assert api.sent("POST", "/queues")[0]["metadata"] == {"name": "default"}

    asyncio.run(story())


def test_a_replica_that_does_not_lead_follows_the_cluster_and_writes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"))
            held = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 60}}
            api.answers["GET", f"{LEASES}/pumice"] = [(200, held)]
            async with running(tmp_path, api, election=Election("pumice", "sys", "us", 1.0, 0.6, 0.1)) as run:
                await until(lambda: "ns/gang" in run.state.jobs)
                looked = [r for r in api.requests if "leases" in r[1]]
                await until(lambda: sum("leases" in r[1] for r in api.requests) >= len(looked) + 3)
                assert (run.service.cycles, run.service.unready()) == (0, "")
                assert [m for m, *_ in api.requests if m != "GET"] == []

    asyncio.run(story())


def test_a_replica_that_takes_the_lead_knows_what_the_one_before_it_did_however_late_its_watches_are(
    tmp_path: Path,
) -> None:
    """The other filled the node with its last breath; the watch has not shown it yet."""

    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"))
            full = pod("full", cpu="4")
            full["metadata"]["annotations"] = {}
            full["spec"]["nodeName"] = "n1"
            api.list(PODS, "11", pod("a"), pod("b"), full)
            held = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 1}}
            api.answers["GET", f"{LEASES}/pumice"] = [(200, held)]
            api.answers["PUT", f"{LEASES}/pumice"] = [(200, held)]
            async with running(tmp_path, api, election=Election("pumice", "sys", "us", 1.0, 0.6, 0.1)) as run:
                await until(lambda: "ns/gang" in run.state.jobs)
                assert "ns/full" not in run.state.task_by_key
                await until(lambda: run.service.cycles >= 3)
                assert "ns/full" in run.state.task_by_key
                assert binds(api) == {}

    asyncio.run(story())


@pytest.mark.parametrize("leader", [False, True], ids=["alone", "leader"])
def test_a_scheduler_that_stood_still_lists_again_before_it_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leader: bool
) -> None:
    monkeypatch.setattr(backend_module, "STOOD_STILL", 0.4)
    monkeypatch.setattr(backend_module, "BEAT", 0.05)
    taken = pod("other", cpu="4")
    taken["metadata"]["annotations"] = {}
    taken["spec"] |= {"schedulerName": "default-scheduler", "nodeName": "n1"}
    late = pod("c")

    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"), members=3)
            api.answers["POST", "/api/v1/namespaces/ns/pods/c/binding"] = [_binding(api, late)]
            held = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "us", "leaseDurationSeconds": 15}}
            for method, path in (("POST", LEASES), ("GET", f"{LEASES}/pumice"), ("PUT", f"{LEASES}/pumice")):
                api.answers[method, path] = [(200, held)]
            election = Election("pumice", "sys", "us", 15.0, 10.0, 0.2) if leader else None
            async with running(tmp_path, api, election=election) as run:
                await until(lambda: run.service.cycles >= 3)
                loop = run.backend._loop
                assert loop is not None
                loop.call_soon_threadsafe(time.sleep, 0.8)
                await asyncio.sleep(0.1)
                api.lists.pop(PODS)
                api.list(PODS, "30", pod("a"), pod("b"), late, taken)
                api.watches[PODS].put_nowait({"type": "ADDED", "object": late})  # the watch shows only one of the two
                await until(lambda: "ns/other" in run.state.task_by_key)
                decided = run.service.cycles
                await until(lambda: run.service.cycles >= decided + 3)
                assert binds(api) == {}
                assert run.backend.leading

    asyncio.run(story())


def test_a_lost_lease_ends_the_process_with_an_error(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"))
            lease = {"metadata": {"resourceVersion": "1"}, "spec": {}}
            api.answers["POST", LEASES] = [(201, lease)]
            stolen = {"metadata": {"resourceVersion": "2"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 9}}
            api.answers["PUT", f"{LEASES}/pumice"] = [(409, {})]
            api.answers["GET", f"{LEASES}/pumice"] = [(404, {}), (200, stolen)]
            async with running(tmp_path, api, election=Election("pumice", "sys", "us", 1.0, 0.6, 0.1)) as run:
                assert await asyncio.wait_for(run.task, 15) == 1

    asyncio.run(story())


def test_a_changed_conf_is_used_from_the_next_cycle_and_a_bad_one_is_not(tmp_path: Path) -> None:
    async def story() -> None:
        conf = tmp_path / "scheduler.conf"
        conf.write_text(CONF)
        async with serving(tmp_path) as (api, _):
            cluster(api)
            async with running(tmp_path, api, conf=conf) as run:
                await until(lambda: run.service.cycles >= 1)
                conf.write_text(OTHER)
                await until(lambda: run.service._loop.assembly.conf.actions == ("enqueue",))
                conf.write_text("actions: nonsense")
                await until(lambda: "pumice_conf_good 0.0" in run.service.metrics.text().decode())
                assert run.service._loop.assembly.conf.actions == ("enqueue",)

    asyncio.run(story())


def conf_map(text: str, version: str) -> dict[str, Any]:
    meta = {"name": "conf", "namespace": "sys", "uid": "m", "resourceVersion": version}
    return {"metadata": meta, "data": {"scheduler.conf": text}}


def test_the_conf_of_a_config_map_is_waited_for_then_followed_and_a_bad_one_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        maps = "/api/v1/namespaces/sys/configmaps"
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"))
            api.list(maps, "10")
            async with running(tmp_path, api, conf=ConfMap.parse("sys/conf")) as run:
                await until(lambda: "ConfigMap sys/conf" in run.service.unready())
                assert "it does not exist" in run.service.unready()
                assert (run.service.cycles, binds(api)) == (0, {})
                api.watches[maps].put_nowait({"type": "ADDED", "object": conf_map(CONF, "11")})
                await until(lambda: len(binds(api)) == 2)
                assert run.service.unready() == ""
                api.watches[maps].put_nowait({"type": "MODIFIED", "object": conf_map("actions: nonsense", "12")})
                await until(lambda: any("nonsense" in e["message"] for e in api.sent("POST", "/namespaces/sys/events")))
                event = api.sent("POST", "/namespaces/sys/events")[-1]
                assert (event["reason"], event["involvedObject"]["kind"]) == ("ConfNotUsed", "ConfigMap")
                assert "pumice_conf_good 0.0" in run.service.metrics.text().decode()
                assert run.service._loop.assembly.conf.actions == ("enqueue", "allocate")
                api.watches[maps].put_nowait({"type": "MODIFIED", "object": conf_map(OTHER, "13")})
                await until(lambda: run.service._loop.assembly.conf.actions == ("enqueue",))
                assert "pumice_conf_good 1.0" in run.service.metrics.text().decode()
        asked = [query for method, path, query, _ in api.requests if path == maps]
        assert {query.get("fieldSelector") for query in asked} == {"metadata.name=conf"}

    asyncio.run(story())


PLUGIN = """
from pumice import Plugin, Unfit


class Picky(Plugin):
    name = "picky"

    def predicate(self, task, node):
        {0}
"""


def test_a_changed_plugin_is_used_from_the_next_cycle_and_a_bad_one_is_not(tmp_path: Path) -> None:
    async def story() -> None:
        plugins, conf = tmp_path / "plugins", tmp_path / "scheduler.conf"
        plugins.mkdir()
        (plugins / "picky.py").write_text(PLUGIN.format('raise Unfit("not today")'))
        conf.write_text(CONF + "  - name: picky\n")
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"))
            async with running(tmp_path, api, conf=conf, plugins=plugins) as run:
                await until(lambda: run.service.cycles >= 3)
                assert binds(api) == {}
                (plugins / "picky.py").write_text("this is not Python")
                await until(lambda: "pumice_plugins_good 0.0" in run.service.metrics.text().decode())
                cycles = run.service.cycles
                await until(lambda: run.service.cycles >= cycles + 2)
                assert (binds(api), run.service.trouble()) == ({}, "")
                (plugins / "picky.py").write_text(PLUGIN.format("return None"))
                await until(lambda: len(binds(api)) == 2)
                assert "pumice_plugins_good 1.0" in run.service.metrics.text().decode()

    asyncio.run(story())


def test_the_next_cycle_can_be_had_as_a_file(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a", cpu="3"), pod("b", cpu="3"))
            async with running(tmp_path, api) as run:
                await until(lambda: run.service.cycles >= 1)
                content = await asyncio.wait_for(asyncio.wrap_future(run.service.next_cycle()), 10)
                cycle = saved.parse(content)
                assert sorted(cycle.objects) == ["Node", "Pod", "PodGroup", "Queue"]

    asyncio.run(story())


def held_by(other: str, seconds: int = 60) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": other, "leaseDurationSeconds": seconds}}


def test_a_replica_that_does_not_lead_says_at_once_who_does(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"))
            api.answers["GET", f"{LEASES}/pumice"] = [(200, held_by("scheduler-7"))]
            async with running(tmp_path, api, election=Election("pumice", "sys", "us", 1.0, 0.6, 0.1)) as run:
                with pytest.raises(NoAnswer, match="waiting for the first list"):
                    run.service.next_cycle()
                await until(lambda: "ns/gang" in run.state.jobs and bool(run.backend.leader))
                with pytest.raises(NoAnswer, match="this replica does not lead, scheduler-7 does"):
                    run.service.next_cycle()

    asyncio.run(story())


def test_somebody_who_stopped_waiting_for_a_cycle_does_no_harm(tmp_path: Path) -> None:
    """A future that was cancelled ended the replica in its first cycle as leader."""

    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a", cpu="3"), pod("b", cpu="3"))
            async with running(tmp_path, api) as run:
                await until(lambda: run.service.cycles >= 1)
                gone, there = run.service.next_cycle(), run.service.next_cycle()
                assert gone.cancel()
                assert saved.parse(await asyncio.wrap_future(there)).objects["Pod"]
                cycles = run.service.cycles
                await until(lambda: run.service.cycles > cycles)
                assert run.service.trouble() == ""

    asyncio.run(story())


def test_who_waits_for_a_cycle_when_the_lead_is_lost_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"))
            api.answers["GET", f"{LEASES}/pumice"] = [(200, held_by("another"))]
            async with running(tmp_path, api, election=Election("pumice", "sys", "us", 1.0, 0.6, 0.1)) as run:
                await until(lambda: run.service.unready() == "" and bool(run.backend.leader))
                late: Future[bytes] = Future()
                run.service._wanted.append(late)
                run.backend.inbox.wake()
                with pytest.raises(NoAnswer, match="another does"):
                    await asyncio.wrap_future(late)

    asyncio.run(story())


def test_a_cycle_on_file_is_the_one_that_was_decided_however_much_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"), members=1)
            async with running(tmp_path, api) as run:
                await until(lambda: len(binds(api)) == 2)
                calls = itertools.count()

                def drain() -> list[ClusterEvent]:
                    more = decode("Pod", pod(f"late-{next(calls)}", cpu="1m"))
                    return [*run.backend.inbox.drain(), Seen(more)]

                monkeypatch.setattr(run.backend, "drain", drain)
                cycle = saved.parse(await asyncio.wrap_future(run.service.next_cycle()))
                names = {o["metadata"]["name"] for o in cycle.objects["Pod"]}
                assert cycle.decisions
                assert {d["pod"].partition("/")[2] for d in cycle.decisions} <= names
                assert replay(cycle, default_registry()).decisions == cycle.decisions

    asyncio.run(story())


@pytest.mark.parametrize("kind", [ValueError, SystemExit, RecursionError])
@pytest.mark.part(9)
def test_a_cycle_that_fails_stops_nothing_and_many_in_a_row_ask_for_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    broken = threading.Event()
    broken.set()

    def cycle(*args: Any, **named: Any) -> Any:
        if broken.is_set():
            raise kind("out of the blue")
        return run_cycle(*args, **named)

    monkeypatch.setattr("pumice.scheduler.loop.run_cycle", cycle)

    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"))
            async with running(tmp_path, api) as run:
                await until(lambda: run.service._failing >= 1)
                content = saved.parse(await asyncio.wrap_future(run.service.next_cycle()))
                assert (len(content.objects["Pod"]), content.decisions) == (2, [])
                await until(lambda: "out of the blue" in run.service.trouble())
                assert "pumice_failed_cycles_total 0.0" not in run.service.metrics.text().decode()
                broken.clear()
                await until(lambda: len(binds(api)) == 2)
                await until(lambda: run.service.trouble() == "")
                assert await run.end() == 0

    asyncio.run(story())
    told = [r for r in caplog.records if "a cycle failed" in r.getMessage()]
    assert len(told) == 1
    assert "out of the blue at" in told[0].getMessage()
    assert "pumice_failed_cycles_total" in (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()


def test_a_bind_that_waits_is_not_sent_to_a_node_that_somebody_else_filled(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"), members=1)
            answered = asyncio.Event()

            async def slowly(_: Any) -> tuple[int, Any]:
                await answered.wait()
                return 201, {}

            for name in "ab":
                api.answers["POST", f"/api/v1/namespaces/ns/pods/{name}/binding"] = [slowly]
            async with running(tmp_path, api, in_flight=1) as run:
                await until(lambda: len(binds(api)) == 1)
                other = pod("other", cpu="3")
                other["spec"] |= {"nodeName": "n1", "schedulerName": "default-scheduler"}
                other["metadata"]["resourceVersion"] = "30"
                api.watches[PODS].put_nowait({"type": "ADDED", "object": other})
                await until(lambda: "ns/other" in run.state.task_by_key)
                cycles = run.service.cycles
                await until(lambda: run.service.cycles >= cycles + 2)
                answered.set()
                await until(lambda: len(run.state.assumed) == 1)
                assert len(binds(api)) == 1

    asyncio.run(story())
