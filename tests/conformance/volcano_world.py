"""The cluster of a conformance case, read anew and kept in plain objects: tasks, jobs, nodes, queues, a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any, TypeVar

import volcano_amounts as amounts
from volcano_amounts import Amounts

T = TypeVar("T")
GROUP = "scheduling.k8s.io/group-name"
PREEMPTABLE = "volcano.sh/preemptable"
OWN_GATE = "scheduling.volcano.sh/queue-allocation-gate"
ALLOCATED = ("Bound", "Binding", "Running", "Allocated")
YES = {"1", "t", "T", "TRUE", "true", "True"}


class NotModelled(Exception):
    """The case has something of which the model knows nothing."""


def seconds(text: str | None) -> float:
    """A time of an object."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


@dataclass(eq=False)
class Task:
    """A pod."""

    pod: Mapping[str, Any]
    uid: str
    key: str
    job: str
    role: str
    priority: int
    request: Amounts
    status: str
    node: str
    unresolvable: set[str] = field(default_factory=set)
    failed: bool = False

    @property
    def notes(self) -> Mapping[str, str]:
        return self.pod["metadata"].get("annotations") or {}

    @property
    def labels(self) -> Mapping[str, str]:
        return self.pod["metadata"].get("labels") or {}

    @property
    def creation(self) -> float:
        return seconds(self.pod["metadata"].get("creationTimestamp"))

    @property
    def best_effort(self) -> bool:
        return amounts.is_nothing(self.request)

    @property
    def preemptable(self) -> bool:
        said = self.notes.get(PREEMPTABLE, self.labels.get(PREEMPTABLE))
        return said is None or said in YES

    @property
    def gates(self) -> list[str]:
        return [g["name"] for g in self.pod["spec"].get("schedulingGates") or ()]


@dataclass(eq=False)
class Job:
    """A PodGroup with its pods."""

    uid: str
    queue: str
    least: int
    roles: dict[str, int]
    priority: int
    creation: float
    phase: str
    minimum: Amounts | None
    notes: Mapping[str, str]
    labels: Mapping[str, str]
    tasks: dict[str, Task] = field(default_factory=dict)
    unschedulable: bool = False

    def count(self, *statuses: str) -> int:
        return sum(t.status in statuses for t in self.tasks.values())

    def of(self, *statuses: str) -> list[Task]:
        return [t for t in self.tasks.values() if t.status in statuses]

    @property
    def allocated(self) -> Amounts:
        return amounts.total(t.request for t in self.of(*ALLOCATED))

    @property
    def ready(self) -> int:
        return self.count(*ALLOCATED, "Succeeded")

    @property
    def effortless(self) -> int:
        return sum(t.best_effort for t in self.of("Pending"))

    @property
    def is_ready(self) -> bool:
        return self.ready + self.effortless >= self.least

    @property
    def is_pipelined(self) -> bool:
        return self.count("Pipelined") + self.ready + self.effortless >= self.least

    @property
    def starves(self) -> bool:
        return self.count("Pipelined") + self.ready < self.least

    def roles_hold(self, *more: str, effortless: bool) -> bool:
        """Has every role that has a minimum as many as that, counting what is placed and *more*?"""
        if self.least < sum(self.roles.values()):
            return True
        for role, least in self.roles.items():
            mine = [t for t in self.tasks.values() if t.role == role]
            found = sum(t.status in (*ALLOCATED, "Succeeded", *more) for t in mine)
            if effortless and "Pending" not in more:
                found += sum(t.status == "Pending" and t.best_effort for t in mine)
            if found < least:
                return False
        return True

    @property
    def elastic(self) -> Amounts:
        return amounts.beyond(self.allocated, self.minimum or {})

    def without_gated(self, what: Amounts) -> Amounts:
        gated = amounts.total(t.request for t in self.tasks.values() if t.gates and t.gates != [OWN_GATE])
        return {n: max(v - gated.get(n, 0.0), 0.0) for n, v in what.items()}

    @property
    def promised(self) -> Amounts:
        """What it was let in for and has not got."""
        if self.minimum is None:
            return {}
        running = self.phase == "Running" and self.count(*ALLOCATED) >= self.least
        if self.phase != "Inqueue" and not running:
            return {}
        return self.without_gated(amounts.beyond(self.minimum, self.allocated))


@dataclass(eq=False)
class Node:
    """A node with its ledger."""

    name: str
    obj: Mapping[str, Any]
    offered: Amounts
    tasks: dict[str, str] = field(default_factory=dict)
    """uid -> the status that it counts with."""
    seen: set[str] = field(default_factory=set)
    """What filters and scores of Kubernetes see."""

    @property
    def labels(self) -> Mapping[str, str]:
        return self.obj["metadata"].get("labels") or {}


@dataclass(eq=False)
class Queue:
    """A queue."""

    name: str
    obj: Mapping[str, Any]

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.obj.get("spec") or {}

    @property
    def is_open(self) -> bool:
        return (self.obj.get("status") or {}).get("state", "Open") in ("", "Open")

    @property
    def priority(self) -> int:
        return self.spec.get("priority") or 0

    @property
    def reclaimable(self) -> bool:
        return self.spec.get("reclaimable") is not False

    @property
    def creation(self) -> float:
        return seconds(self.obj["metadata"].get("creationTimestamp"))

    def amounts(self, *path: str) -> Amounts:
        found: Any = self.spec
        for name in path:
            found = (found or {}).get(name)
        return amounts.read(found)


class World:
    """What a session works on."""

    def __init__(self, case: Mapping[str, Any], seed: int) -> None:
        objects, environment = case["objects"], case.get("environment") or {}
        known = {"nodes", "pods", "podGroups", "queues", "priorityClasses", "resourceQuotas", "podDisruptionBudgets"}
        if any(objects[kind] for kind in objects if kind not in known) or environment.get("shard"):
            raise NotModelled("objects")
        self.seed, self.random, self.case = seed, Random(seed), case
        self.usage = environment.get("nodeUsage") or {}
        self.nodes = {o["metadata"]["name"]: _node(o) for o in objects.get("nodes") or ()}
        self.queues = {o["metadata"]["name"]: Queue(o["metadata"]["name"], o) for o in objects.get("queues") or ()}
        classes = {o["metadata"]["name"]: o for o in objects.get("priorityClasses") or ()}
        self.jobs = {j.uid: j for o in objects.get("podGroups") or () if (j := _job(o, classes)).queue in self.queues}
        self.tasks = {t.uid: t for o in objects.get("pods") or () if (t := _task(o)) is not None}
        times = [o["metadata"].get("creationTimestamp") for kind in objects.values() for o in kind or ()]
        self.now = seconds(environment.get("now") or max((t for t in times if t), default=None))
        for task in self.tasks.values():
            if task.job in self.jobs:
                self.jobs[task.job].tasks[task.uid] = task
            if task.node in self.nodes and task.status not in ("Succeeded", "Failed"):
                self.nodes[task.node].tasks[task.uid] = task.status
                self.nodes[task.node].seen.add(task.uid)
        self.total = amounts.total(n.offered for n in self.nodes.values())
        self.queue_total = {q: [j for j in self.jobs.values() if j.queue == q] for q in self.queues}

    def shuffled(self, things: Iterable[T]) -> list[T]:
        """In an order that nobody can rely on."""
        out = list(things)
        self.random.shuffle(out)
        return out

    def sum_of(self, node: Node, counts: Callable[[str], bool]) -> Amounts:
        return amounts.total(self.tasks[uid].request for uid, status in node.tasks.items() if counts(status))

    def idle(self, node: Node) -> Amounts:
        return amounts.added(node.offered, self.sum_of(node, lambda s: s != "Pipelined"), -1)

    def used(self, node: Node) -> Amounts:
        return self.sum_of(node, lambda s: s != "Pipelined")

    def future(self, node: Node) -> Amounts:
        freed = amounts.added(self.idle(node), self.sum_of(node, "Releasing".__eq__))
        return amounts.added(freed, self.sum_of(node, "Pipelined".__eq__), -1)


def _node(obj: Mapping[str, Any]) -> Node:
    if (obj.get("status") or {}).get("images") or "volcano.sh/oversubscription" in str(obj["metadata"]):
        raise NotModelled("images, oversubscription")
    return Node(obj["metadata"]["name"], obj, amounts.read(obj["status"].get("allocatable")))


def _job(obj: Mapping[str, Any], classes: Mapping[str, Any]) -> Job:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    if spec.get("networkTopology") or spec.get("subGroupPolicy"):
        raise NotModelled("topology")
    usual = next((c["value"] for c in classes.values() if c.get("globalDefault")), 0)
    named = classes.get(spec.get("priorityClassName") or "")
    return Job(
        *(f"{meta.get('namespace', 'default')}/{meta['name']}", spec.get("queue") or "default"),
        *(spec.get("minMember") or 0, spec.get("minTaskMember") or {}),
        *(named["value"] if named else usual, seconds(meta.get("creationTimestamp"))),
        *((obj.get("status") or {}).get("phase") or "Pending",),
        amounts.read(spec["minResources"]) if spec.get("minResources") is not None else None,
        *(meta.get("annotations") or {}, meta.get("labels") or {}),
    )


def _status(obj: Mapping[str, Any]) -> str:
    phase, leaving = (obj.get("status") or {}).get("phase"), obj["metadata"].get("deletionTimestamp")
    if phase in ("Succeeded", "Failed"):
        return str(phase)
    if phase not in ("Running", "Pending"):
        return "Unknown"
    if leaving:
        return "Releasing"
    return "Running" if phase == "Running" else "Bound" if obj["spec"].get("nodeName") else "Pending"


def _task(obj: Mapping[str, Any]) -> Task | None:
    meta, spec = obj["metadata"], obj["spec"]
    if spec.get("volumes") or spec.get("resourceClaims") or spec.get("resources"):
        raise NotModelled("volumes, claims")
    affinity = spec.get("affinity") or {}
    if affinity.get("podAffinity") or affinity.get("podAntiAffinity") or spec.get("topologySpreadConstraints"):
        raise NotModelled("neighbours")
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    namespace = meta.get("namespace", "default")
    priority = spec.get("priority", 1)
    if "volcano.sh/task-priority" in notes:
        priority = int(notes["volcano.sh/task-priority"])
    return Task(
        *(obj, meta.get("uid", meta["name"]), f"{namespace}/{meta['name']}"),
        f"{namespace}/{notes[GROUP]}" if notes.get(GROUP) else "",
        notes.get("volcano.sh/task-spec", labels.get("volcano.sh/task-spec", "")),
        priority,
        _request(spec),
        _status(obj),
        spec.get("nodeName") or "",
    )


def _request(spec: Mapping[str, Any]) -> Amounts:
    def asked(container: Mapping[str, Any]) -> Amounts:
        return amounts.read((container.get("resources") or {}).get("requests"))

    regular = amounts.total(asked(c) for c in spec.get("containers") or ())
    staying, most = amounts.read({}), amounts.read({})
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            regular, staying = amounts.added(regular, asked(container)), amounts.added(staying, asked(container))
            now = staying
        else:
            now = amounts.added(staying, asked(container))
        most = amounts.larger(most, now)
    out = amounts.added(amounts.larger(regular, most), {"pods": 1.0})
    return amounts.added(out, amounts.read(spec.get("overhead"))) if spec.get("overhead") else out
