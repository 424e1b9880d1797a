"""Watches from the side what becomes of every pod, and says at the end whether anything happened that must not."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from kube_bed import ADMIN, until
from kube_world import GROUPS, World

from pumice.kube.gangs import HALF


@dataclass(frozen=True)
class _Pod:
    name: str
    node: str
    group: str
    cpu: int
    ended: bool
    deleted: bool


class Witness:
    """Keeps the history of the pods of a world, past restarts of the server. Use it with ``with``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pods: dict[str, _Pod] = {}
        self._bound: defaultdict[str, set[str]] = defaultdict(set)
        self.made: defaultdict[str, set[str]] = defaultdict(set)
        """Name -> UIDs of the pods that had it."""
        self._peak: dict[str, tuple[int, list[str]]] = {}
        self._members: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._follow, name="witness")
        self._connection: http.client.HTTPSConnection | None = None

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(30)

    # -- the check --------------------------------------------------------------------------------------------------
    def check(
        self, *, waiting: tuple[str, ...] = (), half: float = HALF, seconds: float = 90.0, contested: bool = False
    ) -> None:
        """What must hold after every fault.

        Every pod but the *waiting* ones gets a node, within *seconds*; then, over the whole history: no pod was bound
        twice, no node held more than it has, and no gang was half for longer than *half* seconds. Where nodes are
        *contested* by another scheduler, the kubelets see to it that they hold no more than they have.
        """
        try:
            until(lambda: not self._unbound(waiting), seconds, "everything is bound")
        except AssertionError as late:
            raise AssertionError(f"{late}: {self._unbound(waiting)[:8]}; groups: {self._groups()}") from None
        until(lambda: self._listed() == self._seen(), 20, "the witness has seen everything")
        with self._lock:
            twice = {uid: nodes for uid, nodes in self._bound.items() if len(nodes) > 1}
            assert not twice, f"bound twice: {twice}"
            for node, (cpu, pods) in self._peak.items():
                room = self._world.room.get(node, 0)
                assert contested or cpu <= room, f"{node} has {room}m CPU and held {cpu}m: {pods}"
            for group, (longest, count) in self._halves().items():
                assert longest <= half, f"gang {group} was half for {longest:.1f} s ({count} bound)"

    def _unbound(self, waiting: tuple[str, ...]) -> list[str]:
        return [
            name
            for name, pod in self._world.pods().items()
            if not pod["spec"].get("nodeName") and not name.startswith(waiting or ("\0",))
        ]

    def _groups(self) -> dict[str, Any]:
        """What the server says of each gang."""
        path = f"{GROUPS}/namespaces/{self._world.namespace}/podgroups"
        return {g["metadata"]["name"]: g.get("status") for g in self._world.bed.call("GET", path)["items"]}

    def _listed(self) -> dict[str, str]:
        return {p["metadata"]["uid"]: p["spec"].get("nodeName", "") for p in self._world.pods().values()}

    def _seen(self) -> dict[str, str]:
        with self._lock:
            return {uid: pod.node for uid, pod in self._pods.items()}

    def _halves(self) -> dict[str, tuple[float, int]]:
        """The longest time that each gang was half, and how many were bound then."""
        found: dict[str, tuple[float, int]] = {}
        now = time.monotonic()
        path = f"{GROUPS}/namespaces/{self._world.namespace}/podgroups"
        for group in self._world.bed.call("GET", path)["items"]:
            name, least = group["metadata"]["name"], group["spec"]["minMember"]
            since, worst = None, (0.0, 0)
            for at, count in [*self._members[name], (now, -1)]:
                if since is not None:
                    worst = max(worst, (at - since[0], since[1]))
                if not 0 < count < least:
                    since = None
                elif since is None:
                    since = (at, count)
            found[name] = worst
        return found

    # -- the watch --------------------------------------------------------------------------------------------------
    def _follow(self) -> None:
        version = ""
        while not self._ending.is_set():
            try:
                version = version or self._list()
                version = self._watch(version)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)

    def _open(self, query: str) -> http.client.HTTPResponse:
        trust = ssl.create_default_context(cafile=str(self._world.bed.folder / "ca.crt"))
        address = self._world.bed.url.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(address, timeout=2, context=trust)
        self._connection.request("GET", self._world.path() + query, headers={"Authorization": f"Bearer {ADMIN}"})
        return self._connection.getresponse()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _list(self) -> str:
        try:
            answer = self._open("")
            if answer.status != 200:
                raise http.client.HTTPException(answer.status)
            found = json.loads(answer.read())
        finally:
            self._close()
        with self._lock:
            present = {p["metadata"]["uid"] for p in found["items"]}
            for pod in found["items"]:
                self._take(pod)
            for uid in [uid for uid in self._pods if uid not in present]:
                self._drop(uid)
        version: str = found["metadata"]["resourceVersion"]
        return version

    def _watch(self, version: str) -> str:
        """Watch until the connection ends; returns the version reached, or nothing if the server forgot it."""
        try:
            answer = self._open(f"?watch=1&resourceVersion={version}&timeoutSeconds=1")
            while line := answer.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return ""
                with self._lock:
                    pod = event["object"]
                    if event["type"] == "DELETED":
                        self._drop(pod["metadata"]["uid"])
                    else:
                        self._take(pod)
                version = event["object"]["metadata"]["resourceVersion"]
        finally:
            self._close()
        return version

    def _take(self, pod: dict[str, Any]) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        node = spec.get("nodeName", "")
        self.made[meta["name"]].add(meta["uid"])
        self._pods[meta["uid"]] = _Pod(
            meta["name"],
            node,
            _group(meta),
            sum(_milli(c["resources"]["requests"]["cpu"]) for c in spec["containers"]),
            pod["status"]["phase"] in ("Succeeded", "Failed"),
            "deletionTimestamp" in meta,
        )
        if node:
            self._bound[meta["uid"]].add(node)
            here = [p for p in self._pods.values() if p.node == node and not p.ended]
            held = sum(p.cpu for p in here)
            if held > self._peak.get(node, (0, []))[0]:
                self._peak[node] = (held, [p.name for p in here])
        self._count(_group(meta))

    def _drop(self, uid: str) -> None:
        gone = self._pods.pop(uid, None)
        if gone is not None:
            self._count(gone.group)

    def _count(self, group: str) -> None:
        """Note how many members of a gang have a place; those that are being deleted have none any more."""
        members = [p for p in self._pods.values() if p.group == group and p.node and not p.deleted]
        self._members[group].append((time.monotonic(), len(members)))


def _milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000


def _group(meta: dict[str, Any]) -> str:
    """The gang of a pod: its label, or for pods of jobs its annotation."""
    found: str = meta.get("labels", {}).get("group") or meta["annotations"]["scheduling.k8s.io/group-name"]
    return found
