"""Knows only the API: follows pods, nodes, PodGroups, queues and events, and writes down what must not be."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kube_bed import ADMIN, Bed
from kube_world import GROUPS

RACE = 20.0
"""Seconds within which two schedulers may have given the same room away without knowing of each other."""
GROUP = "scheduling.k8s.io/group-name"


@dataclass
class Pod:
    """What is known of a pod."""

    key: str
    node: str
    group: str
    cpu: int
    ours: bool
    ended: bool
    leaving: bool
    since: float
    """When it was first seen."""
    placed: float = 0.0
    """When it was first seen on its node."""


@dataclass
class Group:
    """What is known of a PodGroup."""

    least: int
    queue: str
    half: float = 0.0
    """Since when it has been half; 0 while it is not."""
    contradicts: bool = False
    """Whether its conditions were seen to contradict each other."""
    whole: bool = False


class SoakWitness:
    """Keeps what is now, and the violations that were. Use it with ``with``."""

    def __init__(self, bed: Bed, half: float, say: Callable[[str], None]) -> None:
        self._bed, self._half, self._say = bed, half, say
        self.pods: dict[str, Pod] = {}
        self.rooms: dict[str, int] = {}
        self.groups: dict[str, Group] = {}
        self.queues: dict[str, int] = {}
        """Queue -> thousandths of CPU that it may hold; no entry: as many as there are."""
        self._gone: dict[str, float] = {}
        self._on: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._members: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._nodes_of: dict[str, str] = {}
        self._known: set[str] = set()
        self.violations: list[str] = []
        self.races: list[float] = []
        """Of each over-commit in a race with the other scheduler, the seconds between the two binds."""
        self.evicted: Counter[str] = Counter()
        """Pod by its name, which its owner gives to the next one -> how often it was evicted."""
        self.thrown_away = 0.0
        """CPU seconds that evicted pods had on their nodes."""
        self.used = 0.0
        """CPU seconds that all our pods had on their nodes, once they ended or left."""
        self.halves: list[float] = []
        """How long each gang was half that was whole, or gone, afterwards."""
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.longest_half = 0.0
        self.longest_wait = 0.0
        self._new: list[tuple[str, Pod]] = []
        """Pods that are on a node for the first time; looked at when all that was told with them is taken."""
        self._ending = threading.Event()
        self._lock = threading.RLock()
        takes = [
            ("/api/v1/nodes", self._node),
            (f"{GROUPS}/queues", self._queue),
            (f"{GROUPS}/podgroups", self._group),
            ("/api/v1/pods", self._pod),
            ("/api/v1/events", self._event),
        ]
        self._threads = [threading.Thread(target=self._follow, args=take, name=take[0]) for take in takes]
        self._threads.append(threading.Thread(target=self._look, name="halves"))

    def __enter__(self) -> SoakWitness:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(30)

    def waiting(self) -> list[str]:
        """Our pods that have no node."""
        with self._lock:
            return sorted(p.key for p in self.pods.values() if p.ours and not p.node and not p.ended and not p.leaving)

    def held(self) -> dict[str, int]:
        """Queue -> thousandths of CPU of the pods of its groups that are on nodes."""
        with self._lock:
            found: Counter[str] = Counter()
            for key, members in self._members.items():
                group = self.groups.get(key)
                if group is not None:
                    found[group.queue] += sum(p.cpu for p in members.values() if p.node and not p.ended)
            return dict(found)

    # -- what must not be -------------------------------------------------------------------------------------------
    def _wrong(self, text: str) -> None:
        self.violations.append(text)
        self._say(f"VIOLATION {text}")

    def _judge(self) -> None:
        """Look at what is newly placed: within a list, what ended may stand after what took its room."""
        new, self._new = self._new, []
        for uid, pod in new:
            self._placed(uid, pod, time.monotonic())

    def _placed(self, uid: str, pod: Pod, now: float) -> None:
        pod.placed = now
        before = self._nodes_of.setdefault(uid, pod.node)
        if before != pod.node:
            self._wrong(f"pod {pod.key} was bound to {before} and to {pod.node}")
        if pod.ours:
            self.counts["binds"] += 1
            self.longest_wait = max(self.longest_wait, now - pod.since)
        gone = self._gone.get(pod.node)
        if pod.ours and gone is not None and pod.node not in self.rooms and now - gone > RACE:
            self._wrong(f"pod {pod.key} was bound to {pod.node}, which is gone for {now - gone:.0f} s")
        here = [p for p in self._on[pod.node].values() if not p.ended]
        held, room = sum(p.cpu for p in here), self.rooms.get(pod.node)
        if room is not None and held > room:
            there = ", ".join(f"{p.key} {p.cpu}m{' leaving' if p.leaving else ''}" for p in here)
            told = f"{pod.node} has {room}m CPU and holds {held}m since {pod.key}: {there}"
            recent = [p for p in here if p.ours != pod.ours and now - p.placed <= RACE]
            if not pod.ours or recent:
                self.races.append(min((now - p.placed for p in recent), default=0.0))
            else:
                self._wrong(told)
        group = self.groups.get(pod.group)
        if group is not None and group.queue in self.queues:
            held = self.held().get(group.queue, 0)
            if held > self.queues[group.queue]:
                most = self.queues[group.queue]
                self._wrong(f"queue {group.queue} may hold {most}m and holds {held}m since {pod.key}")

    def _look(self) -> None:
        while not self._ending.wait(1.0):
            now = time.monotonic()
            with self._lock:
                for key, group in self.groups.items():
                    self._look_at(key, group, now)

    def _look_at(self, key: str, group: Group, now: float) -> None:
        members = [p for p in self._members[key].values() if not p.leaving]
        # KWOK writes by name: a pod that has the name of one just deleted may be told to have ended before it is placed
        there = sum(bool(p.node) or p.ended for p in members)
        if there >= group.least:
            group.whole = True
        if group.whole and there == 0:
            group.whole = False
        if not 0 < there < group.least or group.whole:
            if group.half:
                self.halves.append(now - group.half)
            group.half = 0.0
        elif not group.half:
            group.half = now
        elif now - group.half > self._half and now - group.half - 1.5 <= self._half:
            self._wrong(f"gang {key} is half for {now - group.half:.0f} s: {there} of {group.least}")
        if group.half:
            self.longest_half = max(self.longest_half, now - group.half)

    # -- what is seen -----------------------------------------------------------------------------------------------
    def _pod(self, kind: str, obj: dict[str, Any]) -> None:
        meta, spec = obj["metadata"], obj["spec"]
        uid, now = meta["uid"], time.monotonic()
        old = self.pods.pop(uid, None)
        self._account(old, obj, kind == "DELETED", now)
        if old is not None:
            self._on[old.node].pop(uid, None)
            self._members[old.group].pop(uid, None)
        if kind == "DELETED":
            self._nodes_of.pop(uid, None)
            self.counts["pods that went"] += 1
            return
        if old is None and uid not in self._known:
            self._known.add(uid)
            self.counts["pods"] += 1
        group = meta.get("annotations", {}).get(GROUP, "")
        pod = Pod(
            key=f"{meta['namespace']}/{meta['name']}",
            node=spec.get("nodeName", ""),
            group=f"{meta['namespace']}/{group}" if group else "",
            cpu=sum(_milli(c.get("resources", {}).get("requests", {}).get("cpu", "0")) for c in spec["containers"]),
            ours=spec["schedulerName"] == "pumice",
            ended=obj["status"].get("phase") in ("Succeeded", "Failed"),
            leaving="deletionTimestamp" in meta,
            since=old.since if old is not None else now,
            placed=old.placed if old is not None else 0.0,
        )
        self.pods[uid] = pod
        self._members[pod.group][uid] = pod
        if pod.node:
            self._on[pod.node][uid] = pod
            if not pod.placed:
                self._new.append((uid, pod))

    def _account(self, old: Pod | None, obj: dict[str, Any], deleted: bool, now: float) -> None:
        """Count the work of a pod of ours when it ends or leaves its node, and whether it was thrown away."""
        if old is None or not old.ours or not old.placed or old.ended or old.leaving:
            return
        ends = obj["status"].get("phase") in ("Succeeded", "Failed")
        if not (ends or deleted or "deletionTimestamp" in obj["metadata"]):
            return
        work = old.cpu / 1000 * (now - old.placed)
        self.used += work
        if not ends and any(c["type"] == "DisruptionTarget" for c in obj["status"].get("conditions", ())):
            self.evicted[old.key] += 1
            self.thrown_away += work

    def _node(self, kind: str, obj: dict[str, Any]) -> None:
        name = obj["metadata"]["name"]
        if kind == "DELETED":
            self.rooms.pop(name, None)
            self._gone[name] = time.monotonic()
        else:
            self._gone.pop(name, None)
            self.rooms[name] = _milli(obj["status"]["allocatable"]["cpu"])

    def _group(self, kind: str, obj: dict[str, Any]) -> None:
        meta, spec = obj["metadata"], obj["spec"]
        key = f"{meta['namespace']}/{meta['name']}"
        if kind == "DELETED":
            self.groups.pop(key, None)
            self.counts["gangs that went"] += 1
            return
        known = self.groups.setdefault(key, Group(0, ""))
        known.least, known.queue = spec.get("minMember", 0), spec.get("queue", "default")
        true = {c["type"] for c in obj.get("status", {}).get("conditions", ()) if c["status"] == "True"}
        contradicts = {"Scheduled", "Unschedulable"} <= true
        if contradicts and not known.contradicts:
            self._wrong(f"gang {key} is told to be Scheduled and Unschedulable")
        known.contradicts = contradicts

    def _queue(self, kind: str, obj: dict[str, Any]) -> None:
        most = obj["spec"].get("capability", {}).get("cpu")
        if kind != "DELETED" and most is not None:
            self.queues[obj["metadata"]["name"]] = _milli(str(most))

    def _event(self, kind: str, obj: dict[str, Any]) -> None:
        if kind != "DELETED":
            self.counts["events"] += 1
            self.reasons[obj.get("reason", "")] += 1

    # -- watching ---------------------------------------------------------------------------------------------------
    def _follow(self, path: str, take: Callable[[str, dict[str, Any]], None]) -> None:
        version, known = "", dict[str, dict[str, Any]]()
        while not self._ending.is_set():
            try:
                version = version or self._list(path, take, known)
                version = self._watch(path, take, known, version)
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                time.sleep(0.2)

    def _open(self, path: str) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        trust = ssl.create_default_context(cafile=str(self._bed.folder / "ca.crt"))
        connection = http.client.HTTPSConnection(self._bed.url.removeprefix("https://"), timeout=15, context=trust)
        connection.request("GET", path, headers={"Authorization": f"Bearer {ADMIN}"})
        answer = connection.getresponse()
        if answer.status != 200:
            connection.close()
            raise http.client.HTTPException(answer.status)
        return connection, answer

    def _list(self, path: str, take: Callable[[str, dict[str, Any]], None], known: dict[str, dict[str, Any]]) -> str:
        connection, answer = self._open(path)
        try:
            found = json.loads(answer.read())
        finally:
            connection.close()
        with self._lock:
            now = {o["metadata"]["uid"]: o for o in found["items"]}
            for uid in [uid for uid in known if uid not in now]:
                take("DELETED", known.pop(uid))
            for uid, obj in now.items():
                new = (
                    known.get(uid, {}).get("metadata", {}).get("resourceVersion") != obj["metadata"]["resourceVersion"]
                )
                known[uid] = _short(obj)
                if new:
                    take("ADDED", obj)
            self._judge()
        return str(found["metadata"]["resourceVersion"])

    def _watch(
        self, path: str, take: Callable[[str, dict[str, Any]], None], known: dict[str, dict[str, Any]], version: str
    ) -> str:
        connection, answer = self._open(f"{path}?watch=1&resourceVersion={version}&timeoutSeconds=10")
        try:
            while line := answer.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return ""
                obj = event["object"]
                with self._lock:
                    if event["type"] == "DELETED":
                        known.pop(obj["metadata"]["uid"], None)
                    else:
                        known[obj["metadata"]["uid"]] = _short(obj)
                    take(event["type"], obj)
                    self._judge()
                version = obj["metadata"]["resourceVersion"]
        finally:
            connection.close()
        return version


def _short(obj: dict[str, Any]) -> dict[str, Any]:
    """As much of an object as is needed when it is found to be gone."""
    return {key: obj[key] for key in ("metadata", "spec", "status", "reason") if key in obj}


def _milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
