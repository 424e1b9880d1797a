"""A fresh API server with nodes, groups and pods, made quickly, and watched for binds."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "kube"))

from kube_bed import ADMIN, SCHEDULER, Bed, Refusal, until  # noqa: E402 - the bed has one home, with the tests

GROUPS = "/apis/scheduling.volcano.sh/v1beta1"
NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
IN_FLIGHT = 64


def say(text: str) -> None:
    """A line of progress."""
    print(f"  {text}", file=sys.stderr, flush=True)


@contextmanager
def fresh_bed() -> Iterator[Bed]:
    """A new server with our CRDs and rights, and nothing else on it."""
    folder = Path(tempfile.mkdtemp(prefix="pumice-bench-"))
    bed = Bed(folder)
    try:
        bed.start()
        for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
            bed.apply(path)
        bed.apply(ROOT / "deploy" / "manifests" / "rbac.yaml")
        for plural in ("podgroups", "queues"):
            until(partial(_listed, bed, plural), 30, f"{plural} can be listed")
        queue = {"kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1}}
        bed.create({"apiVersion": "scheduling.volcano.sh/v1beta1", **queue})
        yield bed
    finally:
        bed.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _listed(bed: Bed, plural: str) -> bool:
    try:
        return "items" in bed.call("GET", f"{GROUPS}/{plural}")
    except Refusal:
        return False


# -- objects --------------------------------------------------------------------------------------------------------
def node(number: int) -> dict[str, Any]:
    """A ready node of 32 cores."""
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    name = f"node-{number:05d}"
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def group(name: str, members: int) -> dict[str, Any]:
    """A PodGroup that needs all its members."""
    meta = {"name": name, "namespace": NAMESPACE}
    spec = {"minMember": members, "queue": "default", "minResources": {"cpu": str(members)}}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": spec,
    }


def pod(name: str, scheduler: str, member_of: str = "", on: str = "") -> dict[str, Any]:
    """A pod of one core."""
    amounts = {"cpu": "1", "memory": "1Gi"}
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "containers": [{"name": "main", "image": "none", "resources": {"requests": amounts}}],
    }
    if on:
        spec["nodeName"] = on
    meta: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    if member_of:
        meta["annotations"] = {"scheduling.k8s.io/group-name": member_of}
    return {"metadata": meta, "spec": spec}


def workload(pods: int, size: int, scheduler: str, prefix: str = "p") -> tuple[list[dict[str, Any]], list[Any]]:
    """Groups of *size* and their pods; *size* 0: pods without groups."""
    groups, made = [], []
    for first in range(0, pods, size or pods):
        members = min(size or pods, pods - first)
        name = f"{prefix}-{first:05d}" if size else ""
        if size:
            groups.append(group(name, members))
        made += [pod(f"{prefix}-{first + i:05d}", scheduler, name) for i in range(members)]
    return groups, made


# -- making them ----------------------------------------------------------------------------------------------------
def connect(folder: Path, connections: int = IN_FLIGHT, token: str = ADMIN) -> aiohttp.ClientSession:
    """A bare client."""
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    connector = aiohttp.TCPConnector(limit=connections, ssl=context)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=2**21)


def create(bed: Bed, what: str, path: str, objects: list[Any]) -> None:
    """Create objects, many at a time, as the administrator."""
    if not objects:
        return
    started = time.monotonic()

    async def run() -> None:
        waiting = iter(objects)
        async with connect(bed.folder) as session:

            async def work() -> None:
                for body in waiting:
                    async with session.post(bed.url + path, data=msgspec.json.encode(body)) as answer:
                        text = await answer.read()
                        if answer.status >= 300:
                            raise SystemExit(f"{path}: {answer.status} {text[:300]!r}")

            await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))

    asyncio.run(run())
    say(f"{len(objects):,} {what} created in {time.monotonic() - started:.0f} s")


def fill(bed: Bed, nodes: int, groups: list[Any], pods: list[Any]) -> None:
    """Create nodes, groups and pods."""
    create(bed, "nodes", "/api/v1/nodes", [node(i) for i in range(nodes)])
    create(bed, "groups", f"{GROUPS}/namespaces/{NAMESPACE}/podgroups", groups)
    create(bed, "pods", PODS, pods)


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta


class _Line(msgspec.Struct):
    type: str
    object: _Object


_LINE, _LINE_OBJECT = msgspec.json.Decoder(_Line), msgspec.json.Decoder(_Object)


# -- watching -------------------------------------------------------------------------------------------------------
class Binds:
    """When pods got their nodes, by a watch of its own that decodes hardly anything."""

    def __init__(self, bed: Bed) -> None:
        self.times: list[float] = []
        self._bed = bed
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._follow()), daemon=True)

    def __enter__(self) -> Binds:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def wait(self, pods: int, seconds: float) -> bool:
        """Wait until so many have nodes; False if they did not in time."""
        end = time.monotonic() + seconds
        while len(self.times) < pods and time.monotonic() < end:
            time.sleep(0.02)
        return len(self.times) >= pods

    async def _follow(self) -> None:
        """Count pods as they are bound: then they enter the selection, which is one ADDED each.

        A busy server may end a watch at any time; it is taken up where it broke.
        """
        select = {"fieldSelector": "spec.nodeName!="}
        async with connect(self._bed.folder) as session:
            async with session.get(self._bed.url + PODS, params={**select, "limit": "1"}) as answer:
                version = _LINE_OBJECT.decode(await answer.read()).metadata.resource_version
            self._ready.set()
            while not self._stop.is_set():
                query = {**select, "watch": "1", "resourceVersion": version}
                limit = aiohttp.ClientTimeout(total=None)
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(self._bed.url + PODS, params=query, timeout=limit) as answer:
                        rest = b""
                        async for chunk in answer.content.iter_any():
                            *lines, rest = (rest + chunk).split(b"\n")
                            for line in lines:
                                seen = _LINE.decode(line)
                                version = seen.object.metadata.resource_version or version
                                if seen.type == "ADDED":
                                    self.times.append(time.monotonic())
                            if self._stop.is_set():
                                return


def check(bed: Bed, pods: int) -> str:
    """What is wrong with where the pods are, or nothing."""
    found = bed.call("GET", f"{PODS}?resourceVersion=0")["items"]
    loads: dict[str, int] = {}
    for one in found:
        where = one["spec"].get("nodeName", "")
        loads[where] = loads.get(where, 0) + 1
    if len(found) != pods or loads.get(""):
        return f"{loads.get('', 0)} of {len(found)} pods have no node"
    fullest = max(loads.values())
    return f"a node of 32 cores has {fullest} pods" if fullest > 32 else ""


__all__ = ["NAMESPACE", "PODS", "SCHEDULER", "Bed", "Binds", "check", "connect", "create", "fill", "fresh_bed"]
