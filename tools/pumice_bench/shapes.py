"""The shapes that are measured, exactly: nodes, running work, what arrives, and what a right answer is."""

from __future__ import annotations

import random
from collections.abc import Callable

from pumice.framework.plugin import Plugin
from pumice.model import api
from pumice_bench.kai_shapes import KAI_SHAPES
from pumice_bench.objects import GIB, MIB, group, hyper_node, node, pod, queue, requests, total
from pumice_bench.policies import OwnPolicy, guide_policy, scoped_guide_policy
from pumice_bench.shape import PLUGINS_1, PLUGINS_2, Objects, Shape, base, gang, running


def singles(nodes: int = 5000, jobs: int = 10000) -> Shape:
    """Many jobs of one task in 50 classes."""
    arriving: Objects = []
    for j in range(jobs):
        c = j % 50
        arriving += gang(f"s{j}", 1, requests(500 + 100 * (c % 10), 512 * MIB + 256 * MIB * (c // 10)), j)
    return Shape("singles", base(nodes), [(arriving, [])], jobs, binds=jobs)


def gangs(nodes: int = 5000, jobs: int = 100, name: str = "gangs") -> Shape:
    """Gangs of 100 equal tasks."""
    arriving: Objects = []
    for j in range(jobs):
        arriving += gang(f"g{j}", 100, requests(1000, GIB), j)
    return Shape(name, base(nodes), [(arriving, [])], jobs * 100, binds=jobs * 100)


def big(nodes: int = 10000, jobs: int = 1000) -> Shape:
    """A hundred thousand tasks at once."""
    return gangs(nodes, jobs, "big")


def many_classes(nodes: int = 5000, jobs: int = 100) -> Shape:
    """Every task differs from every other."""
    arriving: Objects = []
    for j in range(jobs):
        name = f"m{j}"
        wants = [requests(500 + 10 * k, 512 * MIB + 8 * MIB * j) for k in range(100)]
        minimum = {
            "cpu": f"{sum(500 + 10 * k for k in range(100))}m",
            "memory": str(100 * (512 * MIB + 8 * MIB * j)),
        }
        arriving.append(group(name, 100, order=j, minimum=dict(minimum), roles={f"r{k}": 1 for k in range(100)}))
        arriving += [pod(name, k, wants[k], role=f"r{k}", order=j) for k in range(100)]
    return Shape("many classes", base(nodes), [(arriving, [])], jobs * 100, binds=jobs * 100)


def affinity(nodes: int = 5000, jobs: int = 50) -> Shape:
    """Gangs that want one task a node and an even spread over zones."""
    arriving: Objects = []
    for j in range(jobs):
        app = f"a{j}"
        selector = api.LabelSelector(match_labels={"app": app})
        spec = {
            "affinity": api.Affinity(
                pod_anti_affinity=api.PodAffinity(
                    required=(api.PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=selector),)
                )
            ),
            "topology_spread_constraints": (
                api.SpreadConstraint(
                    max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule", label_selector=selector
                ),
            ),
        }
        arriving += gang(app, 100, requests(1000, GIB), j, labels={"app": app}, spec=spec)
    zoned = base(nodes, zone=lambda i: f"z{i % 10}")
    return Shape("affinity", zoned, [(arriving, [])], jobs * 100, binds=jobs * 100)


def topology(nodes: int = 5000, jobs: int = 750) -> Shape:
    """Gangs of four that must each be within one of fifty racks."""
    racks = [f"rack-{r:02d}" for r in range(nodes // 100)]
    objects = base(nodes)
    for r, rack in enumerate(racks):
        objects.append(hyper_node(rack, 1, "Node", (f"node-{i:05d}" for i in range(r * 100, r * 100 + 100))))
    for s in range(0, len(racks), 10):
        objects.append(hyper_node(f"spine-{s // 10}", 2, "HyperNode", racks[s : s + 10]))
    wants = requests(1000, GIB)
    near = api.NetworkTopology(mode="hard", highest_tier_allowed=1)
    arriving: Objects = []
    for j in range(jobs):
        arriving.append(group(f"t{j}", 4, order=j, minimum=total(wants, 4), topology=near))
        arriving += [pod(f"t{j}", i, wants, order=j) for i in range(4)]
    tiers = (PLUGINS_1, f"{PLUGINS_2} network-topology-aware")
    return Shape("topology", objects, [(arriving, [])], jobs * 4, tiers=tiers, binds=jobs * 4)


def steady(nodes: int = 10000, running_per_node: int = 10, cycles: int = 6) -> Shape:
    """A busy cluster in which each cycle brings one gang."""
    objects = base(nodes)
    wants = requests(1000, GIB)
    jobs = nodes * running_per_node // 100
    for j in range(jobs):
        objects.append(group(f"r{j}", 100, order=j, minimum=total(wants, 100), phase="Running"))
        for i in range(100):
            objects.append(pod(f"r{j}", i, wants, order=j, node=f"node-{(j * 100 + i) % nodes:05d}"))
    rounds: list[tuple[Objects, list[tuple[str, str]]]] = []
    for c in range(cycles):
        rounds.append((list(gang(f"n{c}", 100, wants, jobs + c)), []))
    return Shape("steady", objects, rounds, 100, per_cycle=True, warm=1, binds=100)


def _fragmented(nodes: int) -> Objects:
    objects = base(nodes)
    wants = requests(31500, GIB)
    for j in range(nodes // 100):
        objects.append(group(f"f{j}", 100, order=j, minimum=total(wants, 100), phase="Running"))
        for i in range(100):
            objects.append(pod(f"f{j}", i, wants, order=j, node=f"node-{j * 100 + i:05d}"))
    return objects


def fragmented_gangs(nodes: int = 5000, jobs: int = 100) -> Shape:
    """Half a CPU free everywhere, gangs that want whole ones."""
    arriving: Objects = []
    for j in range(jobs):
        arriving += gang(f"w{j}", 100, requests(1000, GIB), 1000 + j, phase="Inqueue")
    return Shape("fragmented, gangs", _fragmented(nodes), [(arriving, [])], jobs * 100, binds=0, per_cycle=True)


def fragmented_singles(nodes: int = 5000, jobs: int = 1000) -> Shape:
    """As above with jobs of one task."""
    arriving: Objects = []
    for j in range(jobs):
        arriving += gang(f"w{j}", 1, requests(1000, GIB), 1000 + j, phase="Inqueue")
    return Shape("fragmented, jobs of 1", _fragmented(nodes), [(arriving, [])], jobs, binds=0)


def reclaim(nodes: int = 1000) -> Shape:
    """One queue holds everything; a gang of another deserves most of it."""
    objects: Objects = [
        queue("a", deserved={"cpu": "800", "memory": "800Gi", "nvidia.com/gpu": "800"}),
        queue("b", deserved={"cpu": "31200", "memory": "200000Gi", "nvidia.com/gpu": "7200"}),
        *(node(i) for i in range(nodes)),
    ]
    wants = requests(1000, GIB, 1)
    objects += running(nodes, 8, wants, "a")
    arriving = list(gang("need", 100, requests(1000, GIB, 8), nodes * 8, queue="b"))
    return Shape(
        "reclaim",
        objects,
        [(arriving, [])],
        100,
        actions="enqueue, allocate, preempt, reclaim",
        tiers=(PLUGINS_1, PLUGINS_2.replace("proportion", "capacity")),
        binds=0,
        evictions=800,
        pipelined=100,
        per_cycle=True,
    )


def preempt(nodes: int = 5000, preemptors: int = 500) -> Shape:
    """Full nodes, and jobs of higher priority that each need one."""
    objects: Objects = [
        api.PriorityClass(metadata=api.Metadata(name="low"), value=10),
        api.PriorityClass(metadata=api.Metadata(name="high"), value=1000),
        *base(nodes),
    ]
    wants = requests(32000, GIB)
    for j in range(nodes):
        objects.append(group(f"r{j}", 1, order=j, minimum=total(wants, 1), phase="Running", priority_class="low"))
        objects.append(pod(f"r{j}", 0, wants, order=j, node=f"node-{j:05d}", priority=10))
    arriving: Objects = []
    for j in range(preemptors):
        arriving.append(group(f"p{j}", 1, order=nodes + j, phase="Inqueue", priority_class="high"))
        arriving.append(pod(f"p{j}", 0, wants, order=nodes + j, priority=1000))
    return Shape(
        "preempt",
        objects,
        [(arriving, [])],
        preemptors,
        actions="enqueue, allocate, preempt",
        flags={"gang": {"enablePreemptable": False}, "drf": {"enablePreemptable": False}},
        binds=0,
        evictions=preemptors,
        pipelined=preemptors,
        per_cycle=True,
    )


def own_policy(nodes: int = 5000, jobs: int = 100) -> Shape:
    """Gangs, with a user's scalar plugin."""
    shape = gangs(nodes, jobs, "own policy")
    shape.objects = base(nodes, pool=lambda i: "batch")
    shape.policy = OwnPolicy
    return shape


def guide_singles(policy: type[Plugin], nodes: int = 5000, jobs: int = 2000) -> Shape:
    """Many jobs of one task in 50 classes, with the guide's first plugin; all nodes have the label it asks for."""
    shape = singles(nodes, jobs)
    shape.name, shape.policy = "guide policy", policy
    shape.objects = base(nodes, **{"my-label": lambda i: "true"})
    return shape


def backlog(nodes: int = 5000, jobs: int = 10000, cycles: int = 6) -> Shape:
    """Everything is full and ten thousand jobs wait; each cycle one pod ends and one job takes its place."""
    objects: Objects = [*(queue(f"q{q}") for q in range(4)), *(node(i) for i in range(nodes))]
    wants = requests(1000, GIB, 8)
    for j in range(nodes):
        objects.append(group(f"r{j}", 1, order=j, minimum=total(wants, 1), queue=f"q{j % 4}", phase="Running"))
        objects.append(pod(f"r{j}", 0, wants, order=j, node=f"node-{j:05d}"))
    for j in range(jobs):
        c = j % 50
        asks = requests(500 + 100 * (c % 10), 512 * MIB + 256 * MIB * (c // 10), 8)
        objects += gang(f"w{j}", 1, asks, nodes + j, queue=f"q{j % 4}", phase="Inqueue")
    rounds: list[tuple[Objects, list[tuple[str, str]]]] = [([], []), ([], [])]
    rounds += [([], [("Pod", f"bench/r{c}-worker-0"), ("PodGroup", f"bench/r{c}")]) for c in range(cycles)]
    return Shape("backlog", objects, rounds, 1, per_cycle=True, warm=2, binds=1)


def small_cycle(nodes: int = 70, jobs: int = 200, cycles: int = 40) -> Shape:
    """A small cluster, half full; waiting jobs that do not fit; one pod ends."""
    objects = base(nodes)
    running = requests(1000, GIB, 4)
    for j in range(nodes):
        objects.append(group(f"r{j}", 1, order=j, minimum=total(running, 1), phase="Running"))
        objects.append(pod(f"r{j}", 0, running, order=j, node=f"node-{j:05d}"))
    small = requests(1000, GIB, 1)
    for j in range(cycles):
        objects.append(group(f"e{j}", 1, order=j, minimum=total(small, 1), phase="Running"))
        objects.append(pod(f"e{j}", 0, small, order=j, node=f"node-{j:05d}"))
    for j in range(jobs):
        objects += gang(f"w{j}", 1, requests(1000, GIB, 8), 1000 + j, phase="Inqueue")
    rounds: list[tuple[Objects, list[tuple[str, str]]]] = [([], []), ([], [])]
    rounds += [([], [("Pod", f"bench/e{c}-worker-0"), ("PodGroup", f"bench/e{c}")]) for c in range(cycles)]
    return Shape("small cycle", objects, rounds, 1, per_cycle=True, warm=2, binds=0)


def take_in(nodes: int = 10000, jobs: int = 1000) -> Shape:
    """A hundred thousand pods become known, as when a scheduler starts: half of them run, half wait."""
    wants = requests(1000, GIB)
    arriving: Objects = []
    for j in range(jobs):
        runs = j % 2 == 0
        arriving.append(group(f"t{j}", 100, order=j, minimum=total(wants, 100), phase="Running" if runs else "Inqueue"))
        for i in range(100):
            arriving.append(pod(f"t{j}", i, wants, order=j, node=f"node-{(j * 100 + i) % nodes:05d}" if runs else ""))
    return Shape("take-in", base(nodes), [(arriving, [])], jobs * 100, events_only=True)


def differing(shape: Shape) -> Shape:
    """The same shape on nodes that differ, as in a real cluster: each runs a pod of a random size."""
    rng = random.Random(1)
    named = [obj.metadata.name for obj in shape.objects if isinstance(obj, api.NodeObject)]
    for n, name in enumerate(named):
        wants = requests(rng.randint(1, 80) * 100, rng.randint(1, 256) * 256 * MIB)
        shape.objects.append(group(f"differ{n}", 1, order=n, minimum=total(wants, 1), phase="Running"))
        shape.objects.append(pod(f"differ{n}", 0, wants, order=n, node=name))
    shape.name += ", nodes differ"
    return shape


SHAPES: dict[str, Callable[[], Shape]] = {
    "singles": singles,
    "gangs": gangs,
    "big": big,
    "many-classes": many_classes,
    "affinity": affinity,
    "topology": topology,
    "steady": steady,
    "fragmented-gangs": fragmented_gangs,
    "fragmented-singles": fragmented_singles,
    "reclaim": reclaim,
    "preempt": preempt,
    **KAI_SHAPES,
    "own-policy": own_policy,
    "guide-policy": lambda: guide_singles(guide_policy(), jobs=300),
    "guide-policy-scoped": lambda: guide_singles(scoped_guide_policy()),
    "backlog": backlog,
    "small-cycle": small_cycle,
    "take-in": take_in,
    "singles-differ": lambda: differing(singles()),
    "gangs-differ": lambda: differing(gangs()),
    "many-classes-differ": lambda: differing(many_classes()),
}
