"""Random clusters of KAI: nodes with GPUs, departments with queues, jobs that run and jobs that wait."""

from __future__ import annotations

import random
from typing import Any

from pumice_conformance.cases import Case

NOW = "2026-01-01T00:00:00Z"
ALL = "allocate, consolidation, reclaim, preempt, stalegangeviction"
MEMORY = 40000
PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
_OPEN = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def random_case(seed: int, *, actions: str = ALL, big: int = 1, varied: bool = False, full: bool = False) -> Case:
    """One cluster; *big* times as many nodes and jobs.

    *varied*: with queues of three levels, parts of GPUs by memory and of several GPUs, MIG instances, times for which
    work is protected, delays, taints, terminating pods, and several kinds of limits. *full*: the same, and nearly
    everything is taken by work of low priority, so that others wait for its place.
    """
    made = (_FullCluster if full else _VariedCluster if varied else _Cluster)(random.Random(seed), big)
    packing = [{"name": "gpuspread"}, {"name": "nodeplacement", "arguments": {"cpu": "spread", "gpu": "spread"}}]
    conf: dict[str, Any] = {"actions": actions}
    if seed % 7 == 6:  # one in seven spreads
        kept = ("predicates", "proportion", "priority", "elastic", "nodeavailability", "resourcetype", "subgrouporder")
        names = (*kept, "taskorder", "minruntime", "topology", "sg-nodelocalgreedy", "sg-multinodegang")
        conf["tiers"] = [{"plugins": [*({"name": name} for name in names), *packing]}]
    params = {"maxNumberConsolidationPreemptees": -1, "globalDefaultStalenessGracePeriod": "0s"} if seed % 2 else {}
    environment = {"now": NOW, "schedulerParams": params}
    data = {"id": f"random/{seed}", "profile": "kai", "conf": conf, "environment": environment, "objects": made.objects}
    return Case(str(data["id"]), data)


class _Cluster:
    def __init__(self, rng: random.Random, big: int) -> None:
        self._rng = rng
        self._free: dict[str, int] = {}
        self._shares: dict[tuple[str, str], int] = {}
        self._groups = 0
        self.objects: dict[str, list[dict[str, Any]]] = {k: [] for k in ("nodes", "queues", "podGroups", "pods")}
        self.objects["priorityClasses"] = [{"metadata": {"name": n}, "value": v} for n, v in PRIORITIES.items()]
        levels = [{"nodeLabel": label} for label in ("zone", "rack", "kubernetes.io/hostname")]
        self.objects["topologies"] = [{"metadata": {"name": "net"}, "spec": {"levels": levels}}]
        for n in range(rng.randint(2, 6) * big):
            self._node(n)
        leaves = self._queues(sum(self._free.values()))
        self._jobs(rng, leaves, big)

    def _jobs(self, rng: random.Random, leaves: list[str], big: int) -> None:
        for n in range(rng.randint(4, 15) * big):
            self._job(n, rng.choice(leaves), runs=n < rng.randint(0, 6) * big)

    def _node(self, n: int) -> None:
        name, gpus = f"node-{n}", self._rng.choice((0, 1, 2, 4, 4))
        self._free[name] = gpus
        labels = {"zone": f"z{n % 2}", "rack": f"r{n // 2}", "kubernetes.io/hostname": name}
        labels |= {"nvidia.com/gpu.memory": str(MEMORY), "nvidia.com/gpu.count": str(gpus)}
        offered = {"cpu": self._rng.choice(("16", "32")), "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": offered, "conditions": ready}
        self.objects["nodes"].append({"metadata": {"name": name, "labels": labels}, "status": status})

    def _queues(self, gpus: int) -> list[str]:
        rng, leaves, minute = self._rng, [], 0
        for d in range(rng.randint(1, 2)):
            for q in range(-1, rng.randint(1, 3)):
                name, parent = (f"q-{d}-{q}", f"dept-{d}") if q >= 0 else (f"dept-{d}", "")
                limit = -1 if q < 0 or rng.random() < 0.7 else rng.randint(1, max(gpus, 1))
                gpu = {"quota": rng.randint(0, max(gpus // 2, 1)), "overQuotaWeight": rng.randint(0, 3), "limit": limit}
                spec: dict[str, Any] = {"resources": {"gpu": gpu, "cpu": _OPEN, "memory": _OPEN}, "parentQueue": parent}
                if rng.random() < 0.15:
                    spec["priority"] = 150
                meta = {"name": name, "creationTimestamp": f"2025-12-31T21:{minute:02d}:00Z"}
                self.objects["queues"].append({"apiVersion": "scheduling.run.ai/v2", "metadata": meta, "spec": spec})
                minute += 1
                leaves += [name] if q >= 0 else []
        return leaves

    def _job(self, n: int, queue: str, runs: bool) -> None:
        rng, name = self._rng, f"{'r' if runs else 'p'}{n}"
        pods = rng.choice((1, 1, 2, 2, 3, 4))
        fraction = rng.choice(("0.25", "0.3", "0.5", "0.7")) if rng.random() < 0.3 else ""
        gpus = 0 if fraction or rng.random() < 0.15 else rng.choice((1, 1, 1, 2, 4))
        spec: dict[str, Any] = {"queue": queue, "priorityClassName": rng.choice(("train", "train", *PRIORITIES))}
        split = pods > 2 and rng.random() < 0.3
        if split:
            spec["subGroups"] = [{"name": "a", "minMember": 1}, {"name": "b", "minMember": rng.randint(1, pods - 1)}]
        else:
            spec["minMember"] = rng.randint(1, pods) if rng.random() < 0.4 else pods
        if rng.random() < 0.2:
            spec["preemptibility"] = rng.choice(("preemptible", "non-preemptible"))
        if rng.random() < 0.25:
            way = rng.choice(("requiredTopologyLevel", "preferredTopologyLevel"))
            spec["topologyConstraint"] = {"topology": "net", way: rng.choice(("zone", "rack"))}
        meta: dict[str, Any] = {"name": name, "namespace": "default", "creationTimestamp": _minute(n)}
        group = {"apiVersion": "scheduling.run.ai/v2alpha2", "metadata": meta, "spec": spec}
        self.objects["podGroups"].append(group)
        for i in range(pods):
            place = self._place(gpus, fraction) if runs else None
            self._pod(name, i, n, place, gpus, fraction, ("a" if i == 0 else "b") if split else "")
            if place is not None:
                meta["annotations"] = {"kai.scheduler/last-start-timestamp": "2025-12-31T23:59:00Z"}

    def _place(self, gpus: int, fraction: str) -> tuple[str, str] | None:
        """A node with room, and the shared GPU."""
        if not fraction:
            fitting = [name for name, free in self._free.items() if free >= gpus]
            if not fitting:
                return None
            name = self._rng.choice(fitting)
            self._free[name] -= gpus
            return name, ""
        m = int(float(fraction) * MEMORY)
        joins = [key for key, used in self._shares.items() if used + m <= MEMORY]
        if joins and self._rng.random() < 0.7:
            self._shares[joins[0]] += m
            return joins[0]
        whole = [name for name, free in self._free.items() if free]
        if not whole:
            return None
        name, group = whole[0], f"g{self._groups}"
        self._groups += 1
        self._free[name] -= 1
        self._shares[name, group] = m
        return name, group

    def _pod(
        self, job: str, i: int, n: int, place: tuple[str, str] | None, gpus: int, fraction: str, subgroup: str
    ) -> None:
        notes = {"pod-group-name": job, **({"gpu-fraction": fraction} if fraction else {})}
        labels = {"kai.scheduler/subgroup-name": subgroup} if subgroup else {}
        if place is not None and place[1]:
            labels["runai-gpu-group"] = place[1]
        requests = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
        spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
        if place is not None:
            spec["nodeName"] = place[0]
        named = {"name": f"{job}-{i}", "namespace": "default", "uid": f"{job}-{i}", "creationTimestamp": _minute(n)}
        meta = {**named, "annotations": notes, "labels": labels}
        status = {"phase": "Running" if place is not None else "Pending"}
        self.objects["pods"].append({"metadata": meta, "spec": spec, "status": status})


def _minute(n: int) -> str:
    return f"2025-12-31T{22 + n // 60:02d}:{n % 60:02d}:00Z"


class _VariedCluster(_Cluster):
    """As the other, with more of what KAI's objects can say."""

    def _node(self, n: int) -> None:
        super()._node(n)
        rng, made = self._rng, self.objects["nodes"][-1]
        if rng.random() < 0.2 and not int(made["status"]["allocatable"]["nvidia.com/gpu"]):
            made["metadata"]["labels"]["nvidia.com/mig.strategy"] = "mixed"
            made["status"]["allocatable"]["nvidia.com/mig-1g.5gb"] = str(rng.randint(1, 4))
            made["status"]["allocatable"]["nvidia.com/mig-2g.10gb"] = str(rng.randint(0, 2))
        if rng.random() < 0.1:
            made["spec"] = {"taints": [{"key": "kept", "effect": "NoSchedule"}]}

    def _queues(self, gpus: int) -> list[str]:
        rng, leaves = self._rng, super()._queues(gpus)
        found: list[str] = []
        for leaf in leaves:
            split = rng.random() < 0.4
            found += [f"{leaf}-{i}" for i in range(2)] if split else [leaf]
            for i in range(2 if split else 0):
                gpu = {"quota": rng.randint(0, 2), "overQuotaWeight": rng.randint(0, 2), "limit": rng.choice((-1, 3))}
                cpu = {"quota": rng.choice((-1, 2000)), "overQuotaWeight": 1, "limit": rng.choice((-1, 8000))}
                spec = {"resources": {"gpu": gpu, "cpu": cpu, "memory": _OPEN}, "parentQueue": leaf}
                meta = {"name": f"{leaf}-{i}", "creationTimestamp": "2025-12-31T20:00:00Z"}
                self.objects["queues"].append({"apiVersion": "scheduling.run.ai/v2", "metadata": meta, "spec": spec})
        for made in self.objects["queues"]:
            for key in ("preemptMinRuntime", "reclaimMinRuntime"):
                if rng.random() < 0.15:
                    made["spec"][key] = rng.choice(("30s", "5m"))
        return found

    def _job(self, n: int, queue: str, runs: bool) -> None:
        before = len(self.objects["pods"])
        super()._job(n, queue, runs)
        rng, group, pods = self._rng, self.objects["podGroups"][-1], self.objects["pods"][before:]
        if rng.random() < 0.15:
            group["spec"]["preemptionDelay"] = rng.choice(("1s", "10m"))
        if rng.random() < 0.1:
            group["spec"]["stalenessGracePeriod"] = rng.choice(("-1s", "5m"))
        for pod in pods:
            if rng.random() < 0.3:
                pod["metadata"]["labels"]["kai.scheduler/task-priority"] = str(rng.randint(0, 2))
            if runs and pod["spec"].get("nodeName") and rng.random() < 0.08:
                pod["metadata"]["deletionTimestamp"] = rng.choice((NOW, "2025-12-31T23:50:00Z"))
        waits = all(not pod["spec"].get("nodeName") for pod in pods)
        kind, times = rng.random(), rng.choice((1, 2))
        for pod in pods if waits else ():
            notes, asked = pod["metadata"]["annotations"], pod["spec"]["containers"][0]["resources"]["requests"]
            if kind < 0.15:
                notes.pop("gpu-fraction", None)
                asked.pop("nvidia.com/gpu", None)
                notes["gpu-memory"] = "15000"
            elif kind < 0.25 and "gpu-fraction" in notes:
                notes["gpu-fraction-num-devices"] = str(times)
            elif kind < 0.35 and "gpu-fraction" not in notes:
                asked.pop("nvidia.com/gpu", None)
                asked["nvidia.com/mig-1g.5gb"] = str(times)
            if rng.random() < 0.5:
                pod["spec"]["tolerations"] = [{"key": "kept", "operator": "Exists"}]


class _FullCluster(_VariedCluster):
    """As the varied one, full of work that may be evicted."""

    def _jobs(self, rng: random.Random, leaves: list[str], big: int) -> None:
        greedy = rng.sample(leaves, max(1, len(leaves) // 2))
        number = 0
        while any(self._free.values()) and number < 40 * big:
            self._job(number, rng.choice(greedy), runs=True)
            spec = self.objects["podGroups"][-1]["spec"]
            spec["priorityClassName"] = "train"
            spec.pop("preemptibility", None)
            number += 1
        for n in range(number, number + rng.randint(3, 8) * big):
            self._job(n, rng.choice(leaves), runs=False)
