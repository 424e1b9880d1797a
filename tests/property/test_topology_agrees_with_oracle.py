"""With `compat: volcano` a cycle places by network topology exactly as the rules of Volcano say, read literally."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from topology_oracle import Oracle, OracleDomain, OracleJob, OracleNode, OracleTask

from effort import examples
from pumice.model.api import decode
from pumice.testing import Scenario, node

Json = dict[str, Any]


@dataclass
class TopologyWorld:
    """A random cluster: a tree of one to three tiers, nodes outside of it, jobs of every kind, some of it in use."""

    depth: int
    nodes: list[OracleNode] = field(default_factory=list)
    domains: list[OracleDomain] = field(default_factory=list)
    jobs: list[OracleJob] = field(default_factory=list)
    modes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Of each job its own mode and that of its sub-groups."""
    others: list[tuple[str, bool]] = field(default_factory=list)
    """Nodes on which somebody else is, and whether he is leaving."""


def drawn(seed: int) -> TopologyWorld:
    luck = random.Random(seed)
    world = TopologyWorld(luck.choice([1, 2, 2, 3]))
    names = iter(f"n{n}" for n in range(100))

    def grow(tier: int, parent: str) -> list[str]:
        domain = OracleDomain(f"h{tier}-{len(world.domains)}", tier, parent, [])
        world.domains.append(domain)
        for _ in range(luck.randint(1, 3)):
            domain.nodes += [next(names)] if tier == 1 else grow(tier - 1, domain.name)
        return domain.nodes

    inside = [n for _ in range(luck.randint(1, 2) + (world.depth == 1)) for n in grow(world.depth, "")]
    for name in [*inside, *(next(names) for _ in range(luck.randint(0, 2)))]:
        offers = {"cpu": luck.choice([2, 4, 4, 8]), "memory": luck.choice([4, 8, 8, 16])}
        world.nodes.append(OracleNode(name, offers, dict(offers)))
    for n, priority in enumerate(luck.sample(range(1, 100), luck.randint(1, 5))):
        _draw_job(luck, world, n, priority)
    for there in world.nodes:
        if luck.random() < 0.3 and min(there.idle.values()) > 0:
            leaves = luck.random() < 0.5
            there.idle = {r: v - 1 for r, v in there.idle.items()}
            there.releasing = dict.fromkeys(there.idle, int(leaves))
            world.others.append((there.name, leaves))
    return world


def _limit(luck: random.Random, mode: str, depth: int, outer: int | None = None) -> int | None:
    if mode == "soft":
        return outer if outer is not None else depth + 1
    return luck.randint(1, depth) if mode == "hard" else None


def _draw_job(luck: random.Random, world: TopologyWorld, n: int, priority: int) -> None:
    modes = ["", "hard", "hard", "soft"]
    mode, part_mode = luck.choice(modes), luck.choice(modes)
    job = OracleJob(f"j{n}", priority, 0, _limit(luck, mode, world.depth), [], parted=luck.random() < 0.4)
    world.modes[job.name] = (mode, part_mode)
    world.jobs.append(job)
    if job.parted:
        job.part_size, parts = luck.choice([1, 2, 2, 3]), luck.randint(1, 3)
        job.part_limit = _limit(luck, part_mode, world.depth, job.limit)
        for part in range(parts):
            asks = {"cpu": luck.choice([1, 1, 2]), "memory": luck.choice([1, 1, 2])}
            for _ in range(job.part_size + luck.choice([0, 0, 1])):
                job.tasks.append(OracleTask(f"j{n}-w-{len(job.tasks)}", str(part), asks))
        job.least_parts = luck.randint(0, parts)
        job.least = min(luck.choice([0, 99, job.part_size * max(job.least_parts, 1)]), len(job.tasks))
    else:
        asks = {"cpu": luck.choice([1, 1, 2, 4]), "memory": luck.choice([1, 1, 2, 3])}
        job.tasks = [OracleTask(f"j{n}-w-{at}", "", asks) for at in range(luck.randint(1, 6))]
        job.least = luck.choice([len(job.tasks), len(job.tasks), luck.randint(0, len(job.tasks))])
        if luck.random() < 0.3:
            _let_run(luck, world, job)
    if luck.random() < 0.5 and not any(t.held for t in job.tasks):
        job.min_resources = {r: sum(t.asks[r] for t in job.tasks[: job.least]) for r in ("cpu", "memory")}


def _let_run(luck: random.Random, world: TopologyWorld, job: OracleJob) -> None:
    allowed = [d.nodes for d in world.domains if job.limit is not None and d.tier <= job.limit]
    where = luck.choice(allowed) if allowed else [n.name for n in world.nodes]
    for task in job.tasks[: luck.randint(1, len(job.tasks))]:
        roomy = [n for n in world.nodes if n.name in where and all(n.idle[r] >= v for r, v in task.asks.items())]
        if roomy:
            there = luck.choice(roomy)
            task.node, task.held = there.name, "running"
            there.idle = {r: v - task.asks[r] for r, v in there.idle.items()}


def _amounts(asks: dict[str, int]) -> Json:
    return {"cpu": str(asks["cpu"]), "memory": f"{asks['memory']}Gi"}


def scenario_of(world: TopologyWorld) -> Scenario:
    """The same as objects of an API server."""
    scenario = Scenario(
        *(node(n.name, cpu=n.offers["cpu"], memory=f"{n.offers['memory']}Gi", pods=1000) for n in world.nodes)
    )
    for domain in world.domains:
        below = [("HyperNode", d.name) for d in world.domains if d.parent == domain.name]
        listed = below or [("Node", name) for name in domain.nodes]
        members = [{"type": kind, "selector": {"exactMatch": {"name": name}}} for kind, name in listed]
        spec = {"tier": domain.tier, "members": members}
        scenario.add(decode("HyperNode", {"metadata": {"name": domain.name}, "spec": spec}))
    _add_group(scenario, "old", {"minMember": 0}, running=True)
    for n, (name, leaves) in enumerate(world.others):
        leaving = {"deletionTimestamp": "2024-01-01T00:00:00Z"} if leaves else {}
        _add_pod(scenario, "old", OracleTask(f"old-{n}", "", {"cpu": 1, "memory": 1}, name, "running"), leaving)
    for job in world.jobs:
        mode, part_mode = world.modes[job.name]
        spec = {"minMember": job.least, "priorityClassName": job.name, **_topology(mode, job.limit)}
        if job.min_resources:
            spec["minResources"] = _amounts(job.min_resources)
        if job.parted:
            policy = {"name": "part", "subGroupSize": job.part_size, "matchLabelKeys": ["part"]}
            limit = _topology(part_mode, job.part_limit)
            spec["subGroupPolicy"] = [{**policy, "minSubGroups": job.least_parts, **limit}]
        scenario.add(decode("PriorityClass", {"metadata": {"name": job.name}, "value": job.priority}))
        _add_group(scenario, job.name, spec, running=any(t.held for t in job.tasks))
        for task in job.tasks:
            _add_pod(scenario, job.name, task, {"labels": {"part": task.part} if task.part else {}})
    return scenario


def _topology(mode: str, limit: int | None) -> Json:
    if not mode:
        return {}
    return {"networkTopology": {"mode": mode, **({"highestTierAllowed": limit} if mode == "hard" else {})}}


def _add_group(scenario: Scenario, name: str, spec: Json, *, running: bool) -> None:
    meta, phase = {"name": name, "namespace": "default"}, "Running" if running else "Inqueue"
    scenario.add(
        decode("PodGroup", {"metadata": meta, "spec": {"queue": "default", **spec}, "status": {"phase": phase}})
    )


def _add_pod(scenario: Scenario, group: str, task: OracleTask, more: Json) -> None:
    notes = {"scheduling.k8s.io/group-name": group}
    meta = {"name": task.name, "namespace": "default", "uid": task.name, "annotations": notes, **more}
    container = {"name": "c", "resources": {"requests": _amounts(task.asks)}}
    spec = {"nodeName": task.node, "schedulerName": "volcano", "containers": [container]}
    status = {"phase": "Running" if task.held else "Pending"}
    scenario.add(decode("Pod", {"metadata": meta, "spec": spec, "status": status}))


@pytest.mark.law
def test_a_cycle_binds_what_the_rules_bind_written_down_literally() -> None:
    bound = 0
    for seed in range(examples(120)):
        world, luck = drawn(seed), random.Random(-seed)
        weights = {"cpu": luck.choice([1, 5]), "memory": luck.choice([1, 2, 0])}
        fading = luck.choice(["0.8", "0.5", "0", "1"])
        arguments: Json = {f"hypernode.binpack.{name}": weight for name, weight in weights.items()}
        arguments |= {"weight": luck.choice([1, 10]), "hypernode.binpack.normal-pod.fading": float(fading)}
        plugins = ["priority", "gang", ("network-topology-aware", arguments)]
        done = scenario_of(copy.deepcopy(world)).run(actions=["allocate"], plugins=plugins, compat="volcano")
        Oracle(world.nodes, world.domains, weights, Fraction(fading)).run(world.jobs)
        tasks = [t for job in world.jobs if job.ready() for t in job.tasks if t.held == "placed"]
        assert done.binds == {f"default/{t.name}": t.node for t in tasks}, f"seed {seed}"
        bound += len(tasks)
    assert bound > 40
