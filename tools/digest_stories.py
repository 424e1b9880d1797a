"""Random clusters and what happens in them, as plain manifests, in Volcano's and in KAI's dialect.

A story is drawn from its number alone. It knows nothing of Pumice: objects are dicts as an API server gives them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Manifest = dict[str, Any]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
GPU = "nvidia.com/gpu"
GPU_MEMORY = 40_000
"""MiB of each GPU of KAI's nodes."""

UPPER: list[Any] = ["priority", "gang", "conformance"]
LOWER: list[Any] = ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"]
TREE = {"name": "capacity", "enableHierarchy": True}
SOFT_GANG, SOFT_DRF = ({"name": name, "enablePreemptable": False} for name in ("gang", "drf"))
ACTIONS = ("enqueue", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim")
TIERS: tuple[tuple[list[Any], ...], ...] = (
    (UPPER, LOWER),
    (["priority", "gang", "predicates", "binpack"],),
    (["priority", SOFT_GANG, "conformance"], ["overcommit", SOFT_DRF, *LOWER[2:]]),
    (UPPER, ["capacity", "predicates", "nodeorder"]),
    (UPPER, [TREE, "predicates", "nodeorder", "gpupack"]),
    (UPPER, ["sla", TREE, "predicates", "nodeorder", "gpuspread"]),
    ([*UPPER, *LOWER],),
    (UPPER, ["drf", "predicates", "proportion", "nodeorder", "resourcequota", "sjf"]),
    (UPPER, ["capacity", "predicates", "nodeorder", "network-topology-aware"]),
    (UPPER, ["proportion", "predicates", "resource-strategy-fit", "task-topology"]),
)
KAI_ACTIONS = "allocate, consolidation, reclaim, preempt, stalegangeviction"
CLASSES = {"low": 10, "middle": 100, "high": 1000}
KAI_CLASSES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}


@dataclass(slots=True)
class Step:
    """What happens before a cycle."""

    seconds: int = 1
    """How much time passes."""
    put: list[Manifest] = field(default_factory=list)
    gone: list[tuple[str, str]] = field(default_factory=list)
    """Objects that leave: (kind, key)."""
    ends: list[tuple[int, str]] = field(default_factory=list)
    """Running pods, by their place among those that run, and what becomes of each: Succeeded, Failed or deleted."""
    late: bool = False
    """Whether the binds of this step's cycle are seen only one cycle later."""
    fails: int = -1
    """Which bind of this step's cycle fails; -1: none."""


@dataclass(slots=True)
class Story:
    """A cluster, its configuration and its steps."""

    name: str
    conf: dict[str, Any]
    objects: list[Manifest]
    steps: list[Step]


def story(number: int, dialect: str) -> Story:
    """Draw the story of a number."""
    rng = random.Random(f"{dialect} {number}")
    draw = _KaiDraw(rng) if dialect == "kai" else _VolcanoDraw(rng)
    objects = draw.cluster()
    rng.shuffle(objects)
    return Story(f"{dialect}-{number}", draw.conf(), objects, list(draw.steps()))


def _time(minutes: int) -> str:
    return (BEGIN + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def _meta(name: str, minutes: int, *, namespace: str = "default", uid: str = "", **more: Any) -> Manifest:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "uid": uid or f"u-{name}", "creationTimestamp": _time(minutes), **more}


class _Draw:
    """What both dialects have in common: nodes, pods, steps."""

    dialect = ""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes: dict[str, Manifest] = {}
        self.free: dict[str, dict[str, int]] = {}
        self.leaves: list[str] = []
        self.jobs = 0
        self.crowded = rng.random() < 0.6
        """Whether most of the cluster is held by work that may be evicted."""

    def cluster(self) -> list[Manifest]:
        """Draw everything that is there at the beginning."""
        rng = self.rng
        made = [self.node(n) for n in range(rng.randint(1, 6))]
        made += self.queues()
        made += self.extras()
        for _ in range(rng.randint(4, 8) if self.crowded else 0):
            made += self.job(runs=True)
        for _ in range(rng.randint(2, 6)):
            made += self.job(runs=rng.random() < 0.3)
        return made

    def conf(self) -> dict[str, Any]:
        raise NotImplementedError

    def queues(self) -> list[Manifest]:
        raise NotImplementedError

    def extras(self) -> list[Manifest]:
        raise NotImplementedError

    def job(self, *, runs: bool) -> list[Manifest]:
        raise NotImplementedError

    def steps(self) -> Iterator[Step]:
        """Draw five cycles: the first on the cluster as it is, the others after something happened."""
        rng = self.rng
        yield Step(late=rng.random() < 0.2)
        for _ in range(4):
            step = Step(seconds=rng.choice((1, 1, 30, 700)), late=rng.random() < 0.15)
            kind = rng.random()
            if kind < 0.35:
                step.put += self.job(runs=False)
            elif kind < 0.65:
                outcomes = ("Succeeded", "Succeeded", "Failed", "deleted")
                step.ends += [(rng.randint(0, 50), rng.choice(outcomes)) for _ in range(rng.randint(1, 3))]
            elif kind < 0.75:
                step.put.append(self.changed_node())
            elif kind < 0.8 and len(self.nodes) > 1:
                name = rng.choice(sorted(self.nodes))
                del self.nodes[name], self.free[name]
                step.gone.append(("Node", name))
            elif kind < 0.88:
                step.put += self.queues()
            if rng.random() < 0.1:
                step.fails = rng.randint(0, 3)
            yield step

    def node(self, n: int) -> Manifest:
        """Draw one node."""
        rng, name = self.rng, f"n{n}"
        offers = {
            "cpu": rng.choice((4, 2, 8, 16)),
            "memory": rng.choice((8, 4, 32)),
            "gpu": rng.choice((0, 0, 1, 2, 4)),
        }
        labels = {"kubernetes.io/hostname": name, "zone": f"z{n % 2}", "rack": f"r{n // 2}"}
        if self.dialect == "kai":
            offers["gpu"] = rng.choice((0, 1, 2, 4, 4))
            labels |= {"nvidia.com/gpu.memory": str(GPU_MEMORY), "nvidia.com/gpu.count": str(offers["gpu"])}
        allocatable = {
            "cpu": str(offers["cpu"]),
            "memory": f"{offers['memory']}Gi",
            "pods": rng.choice(("110", "110", "3")),
        }
        if offers["gpu"]:
            allocatable[GPU] = str(offers["gpu"])
        spec: Manifest = {}
        if rng.random() < 0.15:
            spec["taints"] = [{"key": "kept", "effect": rng.choice(("NoSchedule", "PreferNoSchedule"))}]
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": allocatable, "capacity": dict(allocatable), "conditions": ready}
        meta = _meta(name, 0, namespace="", labels=labels)
        self.nodes[name] = {"kind": "Node", "metadata": meta, "spec": spec, "status": status}
        self.free[name] = {"cpu": offers["cpu"] * 1000, "gpu": offers["gpu"], "pods": int(allocatable["pods"])}
        return self.nodes[name]

    def changed_node(self) -> Manifest:
        """Draw another state of one of the nodes: cordoned or not, larger or smaller, or a new one."""
        rng = self.rng
        if not self.nodes or rng.random() < 0.25:
            return self.node(10 + rng.randint(0, 9))
        name = rng.choice(sorted(self.nodes))
        known = self.nodes[name]
        made = {**known, "spec": dict(known["spec"]), "status": {**known["status"]}}
        if rng.random() < 0.5:
            made["spec"]["unschedulable"] = not made["spec"].get("unschedulable", False)
        else:
            made["status"]["allocatable"] = {**known["status"]["allocatable"], "cpu": rng.choice(("1", "4", "12"))}
        self.nodes[name] = made
        return made

    def place(self, cpu: int, gpu: int) -> str:
        """Take room on a node for a running pod; empty if no node has it."""
        for name in self.rng.sample(sorted(self.free), len(self.free)):
            room = self.free[name]
            if room["cpu"] >= cpu and room["gpu"] >= gpu and room["pods"] > 0:
                room["cpu"] -= cpu
                room["gpu"] -= gpu
                room["pods"] -= 1
                return name
        return ""

    def next_job(self, runs: bool) -> tuple[str, int]:
        """Return the name and the age of the next job."""
        self.jobs += 1
        return f"{'r' if runs else 'w'}{self.jobs}", self.jobs


class _VolcanoDraw(_Draw):
    """Volcano's objects: Queue, PodGroup, HyperNode."""

    count = 0
    parents: Mapping[int, int] = {}

    def conf(self) -> dict[str, Any]:
        rng = self.rng
        others = rng.sample(ACTIONS, rng.randint(2 if self.crowded else 0, 5))
        actions = [rng.choice(("allocate", "allocate", "allocate", "easybackfill")), *others]
        if rng.random() < 0.7:
            actions.sort(key=("enqueue", "allocate", "easybackfill", *ACTIONS[1:]).index)
        else:
            rng.shuffle(actions)
        tiers = [[{"name": p} if isinstance(p, str) else p for p in tier] for tier in self.tiers]
        return {"actions": ", ".join(actions), "tiers": [{"plugins": tier} for tier in tiers]}

    def queues(self) -> list[Manifest]:
        rng = self.rng
        tree = any(isinstance(p, dict) and p.get("enableHierarchy") for tier in self.tiers for p in tier)
        made: list[Manifest] = []
        self.leaves = []
        if not self.jobs:
            self.count = rng.randint(1, 4)
            self.parents = {n: rng.randrange(n) for n in range(1, self.count) if tree and n % 2}
        parents = self.parents
        for n in range(self.count):
            spec: Manifest = {"weight": rng.choice((1, 2, 4)), "reclaimable": rng.random() < 0.8}
            if rng.random() < 0.3:
                spec["capability"] = {"cpu": rng.choice(("2", "4", "8"))}
            if rng.random() < 0.5:
                spec["deserved"] = {"cpu": rng.choice(("1", "2", "4"))}
            if rng.random() < 0.1:
                spec["guarantee"] = {"resource": {"cpu": "1"}}
            if rng.random() < 0.15:
                spec["priority"] = 1
            if rng.random() < 0.15:
                spec["dequeueStrategy"] = "fifo"
            if tree:
                spec["parent"] = f"q{parents[n]}" if n in parents else "root"
            state = "Closed" if rng.random() < 0.05 else "Open"
            meta = _meta(f"q{n}", 0, namespace="")
            made.append({"kind": "Queue", "metadata": meta, "spec": spec, "status": {"state": state}})
            if n not in parents.values():
                self.leaves.append(f"q{n}")
        if not self.jobs:
            made.append(_volcano_queue("default", {"weight": 1, **({"parent": "root"} if tree else {})}))
        return made

    def extras(self) -> list[Manifest]:
        made: list[Manifest] = [
            {"kind": "PriorityClass", "metadata": _meta(name, 0, namespace=""), "value": value}
            for name, value in CLASSES.items()
        ]
        racks: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            racks.setdefault(node["metadata"]["labels"]["rack"], []).append(name)
        made += [_hyper_node(rack, 1, "Node", names) for rack, names in sorted(racks.items())]
        return [*made, _hyper_node("spine", 2, "HyperNode", sorted(racks))]

    @property
    def tiers(self) -> tuple[list[Any], ...]:
        """The tiers of this story."""
        if not hasattr(self, "_tiers"):
            self._tiers = self.rng.choice(TIERS)
        return self._tiers

    def job(self, *, runs: bool) -> list[Manifest]:
        rng = self.rng
        name, age = self.next_job(runs)
        tasks = rng.choice((2, 1, 1, 3, 4, 6))
        cpu, gpu = rng.choice((1000, 2000, 500, 4000, 0)), rng.choice((0, 0, 0, 1))
        memory = rng.choice((0, 0, 1, 3))
        rank = rng.choice(sorted(CLASSES))
        minimum = rng.choice((tasks, tasks, 1, max(tasks - 1, 1), 0))
        if runs and self.crowded:
            rank, minimum, cpu = "low", rng.choice((1, 1, tasks)), rng.choice((500, 1000, 2000))
        spec: Manifest = {"minMember": minimum, "queue": rng.choice(self.leaves), "priorityClassName": rank}
        wants = {"cpu": f"{cpu}m", "memory": f"{memory}Gi", **({GPU: str(gpu)} if gpu else {})}
        wants = {k: v for k, v in wants.items() if v not in ("0m", "0Gi")}
        roles = rng.random() < 0.2 and tasks > 1
        if roles:
            spec["minTaskMember"] = {"a": 1, "b": 1}
        if rng.random() < 0.4:
            spec["minResources"] = {"cpu": f"{cpu * minimum}m"}
        if rng.random() < 0.15:
            spec["networkTopology"] = {"mode": rng.choice(("hard", "soft")), "highestTierAllowed": rng.choice((1, 2))}
        parts = rng.random() < 0.1 and tasks > 3
        if parts:
            match = {"labelSelector": {"matchLabels": {"job": name}}, "matchLabelKeys": ["part"]}
            spec["subGroupPolicy"] = [{"name": "p", "subGroupSize": 2, "minSubGroups": 1, **match}]
        notes = {} if rng.random() < 0.8 else {"volcano.sh/preemptable": "false"}
        if rng.random() < 0.1:
            notes["volcano.sh/sla-waiting-time"] = "10m"
        phase = "Running" if runs else rng.choice(("Pending", "Inqueue"))
        group = {"kind": "PodGroup", "apiVersion": "scheduling.volcano.sh/v1beta1"}
        made: list[Manifest] = [
            {**group, "metadata": _meta(name, age, annotations=notes), "spec": spec, "status": {"phase": phase}}
        ]
        rule = self.rule(name)
        for i in range(tasks):
            node = self.place(cpu, gpu) if runs and (self.crowded or i < max(minimum, 1)) else ""
            pod_spec: Manifest = {**rule, "priority": CLASSES[rank], "schedulerName": "pumice"}
            beside = rng.random() < 0.05
            pod_spec["containers"] = [
                {"name": "main", "image": "i", "resources": {"requests": {} if beside else wants}}
            ]
            if node:
                pod_spec["nodeName"] = node
            marks = {"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": "ab"[i % 2] if roles else "main"}
            labels = {"job": name, "part": str(i // 2)}
            meta = _meta(f"{name}-{i}", age, annotations=marks, labels=labels)
            status = {"phase": "Running" if node else "Pending"}
            made.append({"kind": "Pod", "metadata": meta, "spec": pod_spec, "status": status})
        return made

    def rule(self, job: str) -> Manifest:
        """Draw a rule on places for the pods of a job."""
        own = {"matchLabels": {"job": job}}
        match self.rng.randrange(12):
            case 0:
                return {"nodeSelector": {"zone": "z0"}}
            case 1:
                term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": own}
                return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
            case 2:
                spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                return {"topologySpreadConstraints": [{**spread, "labelSelector": own}]}
            case 3:
                return {"tolerations": [{"key": "kept", "operator": "Exists"}]}
            case 4:
                term = {"topologyKey": "zone", "labelSelector": own}
                return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
            case 5:
                wants = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}
                preferred = [{"weight": 10, "preference": wants}]
                return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
        return {}


def _volcano_queue(name: str, spec: Manifest) -> Manifest:
    return {"kind": "Queue", "metadata": _meta(name, 0, namespace=""), "spec": spec, "status": {"state": "Open"}}


def _hyper_node(name: str, tier: int, kind: str, members: list[str]) -> Manifest:
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return {"kind": "HyperNode", "metadata": _meta(name, 0, namespace=""), "spec": {"tier": tier, "members": listed}}


class _KaiDraw(_Draw):
    """KAI's objects: a tree of queues with quotas, PodGroups with sub-groups, fractions of GPUs."""

    dialect = "kai"
    OPEN = {"quota": -1, "limit": -1, "overQuotaWeight": 1}

    def conf(self) -> dict[str, Any]:
        rng = self.rng
        params: dict[str, Any] = {}
        if rng.random() < 0.5:
            params = {"maxNumberConsolidationPreemptees": -1, "globalDefaultStalenessGracePeriod": "0s"}
        return {"dialect": "kai", "actions": KAI_ACTIONS, "schedulerParams": params}

    def queues(self) -> list[Manifest]:
        rng, made, self.leaves = self.rng, [], []
        if not self.jobs:
            self.shape = [rng.randint(1, 3) for _ in range(rng.randint(1, 2))]
        gpus = max(sum(room["gpu"] for room in self.free.values()), 1)
        for d, count in enumerate(self.shape):
            made.append(self.queue(f"dept-{d}", "", gpus, limited=False))
            for q in range(count):
                made.append(self.queue(f"q-{d}-{q}", f"dept-{d}", gpus, limited=rng.random() < 0.3))
                self.leaves.append(f"q-{d}-{q}")
        return made

    def queue(self, name: str, parent: str, gpus: int, *, limited: bool) -> Manifest:
        """Draw one queue."""
        rng = self.rng
        limit = rng.randint(1, gpus) if limited else -1
        gpu = {"quota": rng.randint(0, max(gpus // 2, 1)), "overQuotaWeight": rng.randint(0, 3), "limit": limit}
        spec: Manifest = {"resources": {"gpu": gpu, "cpu": self.OPEN, "memory": self.OPEN}}
        if parent:
            spec["parentQueue"] = parent
        if rng.random() < 0.1:
            spec["priority"] = 150
        if rng.random() < 0.1:
            spec[rng.choice(("preemptMinRuntime", "reclaimMinRuntime"))] = rng.choice(("30s", "5m"))
        meta = _meta(name, 0, namespace="")
        return {"kind": "Queue", "apiVersion": "scheduling.run.ai/v2", "metadata": meta, "spec": spec}

    def extras(self) -> list[Manifest]:
        made: list[Manifest] = [
            {"kind": "PriorityClass", "metadata": _meta(name, 0, namespace=""), "value": value}
            for name, value in KAI_CLASSES.items()
        ]
        levels = [{"nodeLabel": label} for label in ("zone", "rack", "kubernetes.io/hostname")]
        meta = _meta("net", 0, namespace="")
        return [
            *made,
            {"kind": "Topology", "apiVersion": "kai.scheduler/v1alpha1", "metadata": meta, "spec": {"levels": levels}},
        ]

    def job(self, *, runs: bool) -> list[Manifest]:
        rng = self.rng
        name, age = self.next_job(runs)
        pods = rng.choice((1, 1, 2, 2, 3, 4))
        part = "" if runs or rng.random() < 0.7 else rng.choice(("0.25", "0.5", "0.7"))
        gpus = 0 if part or rng.random() < 0.15 else rng.choice((1, 1, 1, 2, 4))
        rank = rng.choice(("train", "train", *(() if runs and self.crowded else KAI_CLASSES)))
        spec: Manifest = {"queue": rng.choice(self.leaves), "priorityClassName": rank}
        split = pods > 2 and rng.random() < 0.3
        if split:
            spec["subGroups"] = [{"name": "a", "minMember": 1}, {"name": "b", "minMember": rng.randint(1, pods - 1)}]
        else:
            spec["minMember"] = rng.randint(1, pods) if rng.random() < 0.4 else pods
        if rng.random() < 0.2:
            spec["preemptibility"] = rng.choice(("preemptible", "non-preemptible"))
        if rng.random() < 0.2:
            way = rng.choice(("requiredTopologyLevel", "preferredTopologyLevel"))
            spec["topologyConstraint"] = {"topology": "net", way: rng.choice(("zone", "rack"))}
        marks = {"kai.scheduler/last-start-timestamp": _time(-1)} if runs else {}
        group = {"kind": "PodGroup", "apiVersion": "scheduling.run.ai/v2alpha2"}
        made: list[Manifest] = [{**group, "metadata": _meta(name, age, annotations=marks), "spec": spec}]
        for i in range(pods):
            node = self.place(1000, gpus) if runs else ""
            notes = {"pod-group-name": name, **({"gpu-fraction": part} if part else {})}
            labels = {"kai.scheduler/subgroup-name": "a" if i == 0 else "b"} if split else {}
            wants = {"cpu": "1", "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
            pod_spec: Manifest = {"schedulerName": "kai-scheduler"}
            pod_spec["containers"] = [{"name": "main", "image": "i", "resources": {"requests": wants}}]
            if node:
                pod_spec["nodeName"] = node
            meta = _meta(f"{name}-{i}", age, annotations=notes, labels=labels)
            status = {"phase": "Running" if node else "Pending"}
            made.append({"kind": "Pod", "metadata": meta, "spec": pod_spec, "status": status})
        return made
