"""Random clusters for the laws, drawn as data: nodes, queues (flat or in a tree), jobs that run and jobs that wait."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec.structs import force_setattr

from pumice.model.api import (
    Affinity,
    AnyObject,
    ExactMatch,
    Guarantee,
    HyperNode,
    HyperNodeMember,
    HyperNodeSpec,
    LabelSelector,
    MemberSelector,
    Metadata,
    NetworkTopology,
    NodeObject,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodGroup,
    PodSpec,
    QueueObject,
    QueueStatus,
    RegexMatch,
    ResourceRequirements,
    SpreadConstraint,
    SubGroupPolicy,
    Toleration,
)
from pumice.model.task import ROLE_KEY
from pumice.testing import builders

ROLE_LABEL = "app"


OUTSIDE = 6
"""The zone of nodes that are in no hyper-node."""


@dataclass(frozen=True)
class NodeDraw:
    """A node: its size, its zone, whether a taint keeps most away."""

    cpu: int = 4
    memory: int = 8
    gpu: int = 0
    zone: int = 0
    tainted: bool = False
    pods: int = 110


@dataclass(frozen=True)
class QueueDraw:
    """A queue; -1 stands for a bound that is not set."""

    weight: int = 1
    priority: int = 0
    capability: int = -1
    deserved: int = -1
    guarantee: int = -1
    reclaimable: bool = True
    fifo: bool = False
    closed: bool = False
    below: int = -1
    """The queue it hangs below (modulo those before it); -1: below the root."""


@dataclass(frozen=True)
class JobDraw:
    """A job of equal tasks; the first *running* of them run where there was room when the story began."""

    tasks: int = 2
    needs: int = 2
    cpu: int = 1000
    memory: int = 0
    gpu: str = ""
    """Nothing, whole GPUs (``1``) or a part of one (``0.5``)."""
    queue: int = 0
    priority: int = 0
    running: int = 0
    preemptible: bool = True
    never: bool = False
    sized: bool = False
    """Does its PodGroup name minResources?"""
    rule: str = ""
    """Nothing, or a rule on places: zone, apart, spread, tolerates."""
    near: int = 0
    """The highest tier that it may span: 1 a zone, 2 a pair of them, 3 a row; -1: as near as may be; 0: it is free."""
    parts: int = 0
    """If above 0: every so many tasks are a sub-group that must be within one zone."""
    shape: str = ""
    """Nothing: all tasks are alike. *roles*: every second one asks for twice as much and both roles have a minimum;
    *beside*: the last one asks for nothing; *pairs*: sub-groups of two."""

    def role_minimums(self) -> dict[str, int]:
        """How many of each role it needs, where it has roles."""
        if self.shape != "roles":
            return {}
        needs = min(self.needs, self.tasks)
        return {"a": needs - needs // 2, "b": needs // 2}


@dataclass(frozen=True)
class WorldDraw:
    """A whole cluster."""

    nodes: tuple[NodeDraw, ...]
    queues: tuple[QueueDraw, ...]
    jobs: tuple[JobDraw, ...]
    shuffle: int = 0
    """In which order the objects come."""


@dataclass
class Drawn:
    """The objects of a drawn cluster, and what the laws need to know of them."""

    objects: list[AnyObject] = field(default_factory=list)
    jobs: dict[str, JobDraw] = field(default_factory=dict)
    queue_of: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Happening:
    """Something that happens between cycles: a pod ends or is deleted, a node gets another size."""

    what: str
    which: int


happenings = st.builds(
    Happening, what=st.sampled_from(["Succeeded", "delete", "Failed", "resize"]), which=st.integers(0, 9)
)
node_draws = st.builds(
    NodeDraw,
    cpu=st.sampled_from([4, 2, 8, 1]),
    memory=st.sampled_from([8, 4]),
    gpu=st.sampled_from([0, 0, 1, 2]),
    zone=st.integers(0, 1),
    tainted=st.sampled_from([False, False, False, True]),
    pods=st.sampled_from([110, 110, 2]),
)
queue_draws = st.builds(
    QueueDraw,
    weight=st.sampled_from([1, 2, 4]),
    priority=st.sampled_from([0, 0, 0, 1]),
    capability=st.sampled_from([-1, -1, 2, 4, 8]),
    deserved=st.sampled_from([-1, 1, 2, 4]),
    guarantee=st.sampled_from([-1, -1, -1, 1, 3]),
    reclaimable=st.sampled_from([True, True, True, False]),
    fifo=st.sampled_from([False, False, False, True]),
    closed=st.sampled_from([False] * 9 + [True]),
    below=st.sampled_from([-1, -1, 0, 1]),
)
job_draws = st.builds(
    JobDraw,
    tasks=st.sampled_from([2, 1, 3, 4, 6]),
    needs=st.sampled_from([1, 2, 3, 6, 0]),
    cpu=st.sampled_from([1000, 2000, 500, 4000, 0]),
    memory=st.sampled_from([0, 0, 1, 3]),
    gpu=st.sampled_from(["", "", "", "1", "0.5", "0.25"]),
    queue=st.integers(0, 3),
    priority=st.sampled_from([0, 1, 2]),
    running=st.sampled_from([0, 0, 6, 1, 2]),
    preemptible=st.sampled_from([True, True, True, True, False]),
    never=st.sampled_from([False] * 7 + [True]),
    sized=st.booleans(),
    rule=st.sampled_from(["", "", "", "", "zone", "apart", "spread", "tolerates"]),
    shape=st.sampled_from(["", "", "", "", "", "", "roles", "roles", "beside", "pairs"]),
)
worlds = st.builds(
    WorldDraw,
    nodes=st.lists(node_draws, min_size=1, max_size=4).map(tuple),
    queues=st.lists(queue_draws, min_size=1, max_size=4).map(tuple),
    jobs=st.lists(job_draws, min_size=1, max_size=6).map(tuple),
    shuffle=st.integers(0, 5),
)


def _jobs(**fixed: Any) -> st.SearchStrategy[JobDraw]:
    sizes, queues = st.sampled_from([1000, 2000]), st.integers(0, 1)
    return st.builds(JobDraw, tasks=st.integers(1, 4), needs=st.integers(1, 3), cpu=sizes, queue=queues, **fixed)


crowded_worlds = st.builds(
    WorldDraw,
    nodes=st.lists(st.builds(NodeDraw, cpu=st.sampled_from([2, 4])), min_size=1, max_size=3).map(tuple),
    queues=st.lists(st.builds(QueueDraw, deserved=st.sampled_from([1, 2])), min_size=1, max_size=2).map(tuple),
    jobs=st.tuples(
        st.lists(_jobs(running=st.just(6), priority=st.just(0)), min_size=3, max_size=5),
        st.lists(_jobs(running=st.just(0), priority=st.integers(1, 2)), min_size=1, max_size=3),
    ).map(lambda jobs: (*jobs[0], *jobs[1])),
    shuffle=st.integers(0, 5),
)
"""Clusters that are held by jobs of low priority, and pending jobs of high priority."""


zoned_nodes = st.builds(
    NodeDraw,
    cpu=st.sampled_from([4, 2, 8, 1]),
    gpu=st.sampled_from([0, 0, 1]),
    zone=st.sampled_from([0, 0, 1, 1, 2, 3, 4, 5, OUTSIDE]),
    pods=st.sampled_from([110, 110, 2]),
)
near_jobs = st.builds(
    JobDraw,
    tasks=st.sampled_from([2, 1, 3, 4, 6]),
    needs=st.sampled_from([1, 2, 3, 6]),
    cpu=st.sampled_from([1000, 2000, 500, 4000, 0]),
    gpu=st.sampled_from(["", "", "", "1"]),
    queue=st.integers(0, 3),
    priority=st.sampled_from([0, 1, 2]),
    running=st.sampled_from([0, 0, 6, 1, 2]),
    preemptible=st.sampled_from([True, True, True, False]),
    sized=st.booleans(),
    near=st.sampled_from([1, 1, 2, 3, -1, 0]),
    parts=st.sampled_from([0, 0, 0, 2]),
)
zoned_worlds = st.builds(
    WorldDraw,
    nodes=st.lists(zoned_nodes, min_size=2, max_size=6).map(tuple),
    queues=st.lists(queue_draws, min_size=1, max_size=3).map(tuple),
    jobs=st.lists(near_jobs, min_size=1, max_size=6).map(tuple),
    shuffle=st.integers(0, 5),
)


def made(draw: WorldDraw, *, tree: bool) -> Drawn:
    """The objects of a drawn cluster; *tree*: queues hang below each other and jobs are in leaves."""
    drawn = Drawn()
    drawn.objects += [node_object(n, node) for n, node in enumerate(draw.nodes)]
    drawn.objects += _queues(draw.queues, tree)
    drawn.objects += _hyper_nodes(draw.nodes) if any(job.near or job.parts for job in draw.jobs) else []
    leaves = leaf_names(draw.queues, tree)
    rooms = [_Room(n, node) for n, node in enumerate(draw.nodes)]
    for n, job in enumerate(draw.jobs):
        name = f"j{n}"
        queue = leaves[job.queue % len(leaves)]
        drawn.jobs[f"default/{name}"] = job
        drawn.queue_of[f"default/{name}"] = queue
        drawn.objects += _job(name, job, queue, rooms)
    random.Random(draw.shuffle).shuffle(drawn.objects)
    return drawn


def parent_name(queues: Sequence[QueueDraw], n: int, tree: bool) -> str:
    """The name of a queue's parent; nothing where queues stand side by side."""
    if not tree:
        return ""
    below = queues[n].below
    return f"q{below % n}" if below >= 0 and n else "root"


def leaf_names(queues: Sequence[QueueDraw], tree: bool) -> list[str]:
    """Queues that have none below them."""
    parents = {parent_name(queues, n, tree) for n in range(len(queues))}
    return [f"q{n}" for n in range(len(queues)) if f"q{n}" not in parents]


class _Room:
    """What is left of a node while the running jobs are laid out."""

    def __init__(self, n: int, node: NodeDraw) -> None:
        self.name, self.node = f"n{n}", node
        self.cpu, self.memory, self.gpu, self.pods = node.cpu * 1000, node.memory, node.gpu, node.pods

    def take(self, job: JobDraw) -> bool:
        gpu = int(job.gpu) if job.gpu.isdigit() else 0
        if self.node.tainted or "." in job.gpu or job.rule in ("apart", "spread"):
            return False
        if (job.rule == "zone" and self.node.zone) or self.pods < 1:
            return False
        if job.cpu > self.cpu or job.memory > self.memory or gpu > self.gpu:
            return False
        self.cpu, self.memory, self.gpu, self.pods = (
            self.cpu - job.cpu,
            self.memory - job.memory,
            self.gpu - gpu,
            self.pods - 1,
        )
        return True


def node_object(n: int, draw: NodeDraw) -> NodeObject:
    """The object of a node."""
    return builders.node(
        f"n{n}",
        cpu=draw.cpu,
        memory=f"{draw.memory}Gi",
        gpu=draw.gpu,
        pods=draw.pods,
        labels={"zone": str(draw.zone), "kubernetes.io/hostname": f"n{n}", "nvidia.com/gpu.memory": "16000"},
        taints=["kept=for:NoSchedule"] if draw.tainted else (),
    )


def _queues(draws: Sequence[QueueDraw], tree: bool) -> list[AnyObject]:
    out: list[AnyObject] = [builders.queue("root")] if tree else []
    for n, draw in enumerate(draws):
        made = builders.queue(
            f"q{n}",
            weight=draw.weight,
            priority=draw.priority,
            parent=parent_name(draws, n, tree),
            capability=_cpu(draw.capability),
            deserved=_cpu(draw.deserved),
            reclaimable=None if draw.reclaimable else False,
            dequeue_strategy="fifo" if draw.fifo else "",
        )
        guarantee = _cpu(draw.guarantee)
        if guarantee is not None:
            spec = msgspec.structs.replace(made.spec, guarantee=Guarantee(resource=guarantee))
            made = QueueObject(metadata=made.metadata, spec=spec, status=made.status)
        if draw.closed:
            made = msgspec.structs.replace(made, status=QueueStatus(state="Closed"))
        out.append(made)
    return out


def domain_of(zone: int, tier: int) -> int:
    """The number of the domain of a tier that a zone is in: a zone, a pair of them, a row of four."""
    return zone // (1, 2, 4)[tier - 1]


def _hyper_nodes(nodes: Sequence[NodeDraw]) -> list[AnyObject]:
    """Six zones, the pairs of them, and two rows; members of every kind, and some that are not there."""
    made: list[AnyObject] = []
    for zone in range(OUTSIDE):
        names = [f"n{n}" for n, node in enumerate(nodes) if node.zone == zone]
        selectors = [MemberSelector(label_match=LabelSelector(match_labels={"zone": str(zone)}))]
        if zone % 3 == 1:
            selectors = [MemberSelector(exact_match=ExactMatch(name=name)) for name in (*names, "gone")]
        elif zone % 3 == 2:
            selectors = [MemberSelector(regex_match=RegexMatch(pattern=f"^({'|'.join(names) or 'none'})$"))]
        made.append(_hyper_node(f"zone{zone}", 1, "Node", selectors))
    for name, tier, below in (("pair", 2, "zone"), ("row", 3, "pair")):
        for domain in range(3 if tier == 2 else 2):
            inside = [f"{below}{n}" for n in (2 * domain, 2 * domain + 1)]
            made.append(_hyper_node(f"{name}{domain}", tier, "HyperNode", [_exactly(one) for one in inside]))
    return made  # the second row has a member that is not there


def _exactly(name: str) -> MemberSelector:
    return MemberSelector(exact_match=ExactMatch(name=name))


def _hyper_node(name: str, tier: int, kind: str, selectors: Sequence[MemberSelector]) -> HyperNode:
    members = tuple(HyperNodeMember(type=kind, selector=selector) for selector in selectors)
    return HyperNode(metadata=Metadata(name=name), spec=HyperNodeSpec(tier=tier, members=members))


def _cpu(amount: int) -> dict[str, int | str | float] | None:
    return None if amount < 0 else {"cpu": amount}


def _job(name: str, draw: JobDraw, queue: str, rooms: Sequence[_Room]) -> list[AnyObject]:
    needs = min(draw.needs, draw.tasks)
    places: list[str] = []
    if draw.near or draw.parts:  # what runs is in one zone
        first = next((r for r in rooms if r.cpu >= draw.cpu), None)
        rooms = [r for r in rooms if first is not None and r.node.zone == first.node.zone != OUTSIDE]
    if draw.running >= needs and not draw.shape:
        for _ in range(min(draw.running, draw.tasks)):
            room = next((r for r in rooms if r.take(draw)), None)
            if room is None:
                break
            places.append(room.name)
    options: dict[str, Any] = {}
    if draw.gpu:
        whole = draw.gpu.isdigit()
        options = {"gpu": int(draw.gpu)} if whole else {"task_annotations": {"gpu-fraction": draw.gpu}}
    least: Mapping[str, Any] | None = {"cpu": f"{draw.cpu * needs}m"} if draw.sized else None
    objects = builders.job(
        name,
        tasks=draw.tasks,
        min_available=needs,
        queue=queue,
        priority=draw.priority,
        preemptible=draw.preemptible,
        on=places,
        phase="Running" if places and len(places) >= needs else "Pending",
        min_resources=least,
        task_labels={ROLE_LABEL: name},
        cpu=f"{draw.cpu}m" if draw.cpu else 0,
        memory=f"{draw.memory}Gi" if draw.memory else 0,
        spec=_spec(name, draw),
        **options,
    )
    for n, obj in enumerate(objects):
        if isinstance(obj, PodGroup):
            _ask_for_topology(obj, draw)
            continue
        if draw.parts:
            force_setattr(obj.metadata, "labels", {**(obj.metadata.labels or {}), "part": str(n // draw.parts)})
        if isinstance(obj, Pod) and not draw.preemptible:
            notes = {**(obj.metadata.annotations or {}), "volcano.sh/preemptable": "false"}
            force_setattr(obj.metadata, "annotations", notes)
    return [_shaped(obj, draw) for obj in objects]


def _shaped(obj: AnyObject, draw: JobDraw) -> AnyObject:
    """A PodGroup or pod of a job whose tasks are not all alike."""
    if isinstance(obj, PodGroup):
        if draw.shape == "roles":
            roles = msgspec.structs.replace(obj.spec, min_task_member=draw.role_minimums())
            return msgspec.structs.replace(obj, spec=roles)
        if draw.shape == "pairs":
            pairs = SubGroupPolicy(
                name="pairs", match_label_keys=("pair",), sub_group_size=2, min_sub_groups=max(draw.needs // 2, 1)
            )
            return msgspec.structs.replace(obj, spec=msgspec.structs.replace(obj.spec, sub_group_policy=(pairs,)))
        return obj
    if not isinstance(obj, Pod):
        return obj
    n = int(obj.metadata.name.rpartition("-")[2])
    meta, spec = obj.metadata, obj.spec
    if draw.shape == "roles":
        notes = {**(meta.annotations or {}), ROLE_KEY: "ab"[n % 2]}
        meta = msgspec.structs.replace(meta, annotations=notes)
        if n % 2 and draw.cpu:
            spec = _asking(spec, f"{2 * draw.cpu}m")
    elif draw.shape == "pairs":
        meta = msgspec.structs.replace(meta, labels={**(meta.labels or {}), "pair": str(n // 2)})
    elif draw.shape == "beside" and n == draw.tasks - 1:
        spec = _asking(spec, "")
    return msgspec.structs.replace(obj, metadata=meta, spec=spec)


def _asking(spec: PodSpec, cpu: str) -> PodSpec:
    """The same, asking for so much CPU and nothing else."""
    requests = ResourceRequirements(requests={"cpu": cpu} if cpu else {})
    return msgspec.structs.replace(
        spec, containers=tuple(msgspec.structs.replace(c, resources=requests) for c in spec.containers or ())
    )


def _ask_for_topology(group: PodGroup, draw: JobDraw) -> None:
    if draw.near:
        mode = "hard" if draw.near > 0 else "soft"
        limit = draw.near if draw.near > 0 else None
        force_setattr(group.spec, "network_topology", NetworkTopology(mode=mode, highest_tier_allowed=limit))
    if draw.parts:
        near = NetworkTopology(mode="hard", highest_tier_allowed=1)
        policy = SubGroupPolicy(
            name="part", sub_group_size=draw.parts, match_label_keys=("part",), network_topology=near
        )
        force_setattr(group.spec, "sub_group_policy", (policy,))


def _spec(name: str, draw: JobDraw) -> PodSpec:
    spec = PodSpec(preemption_policy="Never" if draw.never else None)
    mine = LabelSelector(match_labels={ROLE_LABEL: name})
    match draw.rule:
        case "zone":
            force_setattr(spec, "node_selector", {"zone": "0"})
        case "apart":
            term = PodAffinityTerm(label_selector=mine, topology_key="kubernetes.io/hostname")
            force_setattr(spec, "affinity", Affinity(pod_anti_affinity=PodAffinity(required=(term,))))
        case "spread":
            force_setattr(spec, "topology_spread_constraints", [SpreadConstraint(1, "zone", "DoNotSchedule", mine)])
        case "tolerates":
            force_setattr(spec, "tolerations", [Toleration(key="kept", operator="Exists")])
        case _:
            pass
    return spec
