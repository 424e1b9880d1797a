"""KAI's own benchmarks: the scale scenarios that are one cycle of deciding, and those whose figures are published."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pumice.model import api
from pumice_bench.objects import EPOCH, GIB, node, pod, queue, requests
from pumice_bench.shape import Objects, Shape, gang, running

ACTIONS: Final = "allocate, consolidation, reclaim, preempt, stalegangeviction"
GPUS: Final = 8
"""Of a node."""
ONE: Final = requests(1000, GIB, 1)
WHOLE_NODE: Final = requests(1000, GIB, GPUS)
LEVELS: Final = {"zone": 4, "block": 8, "rack": 8}
"""Level -> how many of it the one above has."""


def _queue(name: str, quota: float = -1, *, limit: float = -1, weight: float = 1, parent: str = "") -> api.AnyObject:
    """A queue with a quota of GPUs; of the rest it may have what it likes."""
    from pumice.model import kai  # here: commits that do not have it yet can borrow the other shapes

    free = kai.QueueResource(quota=-1, limit=-1, over_quota_weight=1)
    gpu = kai.QueueResource(quota=quota, limit=limit, over_quota_weight=weight)
    return kai.KaiQueueObject(
        metadata=api.Metadata(name=name, uid=name, creation_timestamp=EPOCH),
        spec=kai.KaiQueueSpec(parent=parent, resources=kai.QueueResources(cpu=free, memory=free, gpu=gpu)),
    )


def _shape(name: str, objects: Iterable[api.AnyObject], arriving: Iterable[api.AnyObject], tasks: int) -> Shape:
    """One cycle under KAI's own conf in which nobody is evicted, unless more is said."""
    return Shape(
        name,
        list(objects),
        [(list(arriving), [])],
        tasks,
        ACTIONS,
        ("", ""),
        evictions=0,
        per_cycle=True,
        dialect="kai",
    )


def _alone(jobs: int, first: int = 0, queue: str = "default", prefix: str = "w") -> Objects:
    """Jobs of one pod with one GPU."""
    return [obj for j in range(jobs) for obj in gang(f"{prefix}{j}", 1, ONE, first + j, queue=queue)]


# -- allocation ---------------------------------------------------------------------------------------------------
def fill(nodes: int = 500) -> Shape:
    """An empty cluster, and as many jobs with one GPU as it has GPUs."""
    shape = _shape("kai fill", [_queue("default"), *map(node, range(nodes))], _alone(nodes * GPUS), nodes * GPUS)
    shape.binds = nodes * GPUS
    return shape


def fill_beside(nodes: int = 500, hopeless: int = 400) -> Shape:
    """The same beside older jobs of a queue that may have no GPU."""
    shape = fill(nodes)
    shape.name = "kai fill beside hopeless"
    shape.objects += [_queue("nothing", 0, limit=0, weight=0), *_alone(hopeless, -hopeless, "nothing", "h")]
    return shape


def spread(per_rack: int = 2, *, near: bool = False) -> Shape:
    """A gang of as many pods as there are nodes, two GPUs each, over zones, blocks and racks.

    *near*: it would like to be in one rack. The least that holds it is a zone.
    """
    from pumice.model import kai

    topology = api.Topology(
        metadata=api.Metadata(name="tree"),
        spec=api.TopologySpec(levels=tuple(api.TopologyLevel(node_label=level) for level in LEVELS)),
    )
    objects: Objects = [topology, _queue("default")]
    paths: list[dict[str, str]] = [{}]
    for level, count in LEVELS.items():
        paths = [path | {level: f"{level}-{n}"} for path in paths for n in range(count)]
    objects += [node(i, labels=paths[i // per_rack]) for i in range(len(paths) * per_rack)]
    pods = len(paths) * per_rack
    wants = kai.TopologyConstraint(topology="tree", preferred_topology_level="rack") if near else None
    group = kai.KaiPodGroup(
        metadata=api.Metadata(name="wide", namespace="bench", uid="u-wide", creation_timestamp=EPOCH),
        spec=kai.KaiPodGroupSpec(min_member=pods, queue="default", topology_constraint=wants),
    )
    arriving: Objects = [group, *(pod("wide", i, requests(1000, GIB, 2)) for i in range(pods))]
    shape = _shape("kai topology" if near else "kai topology, anywhere", objects, arriving, pods)
    shape.binds = pods
    return shape


# -- reclaim ------------------------------------------------------------------------------------------------------
def reclaim(nodes: int = 1000) -> Shape:
    """A gang of full nodes, a tenth of all, over a cluster full of jobs with one GPU each, by scenario search."""
    tenth = nodes * GPUS // 10
    objects: Objects = [
        queue("a", deserved={"cpu": str(tenth), "memory": f"{tenth}Gi", "nvidia.com/gpu": str(tenth)}),
        queue("b", deserved={"cpu": str(39 * tenth), "memory": f"{250 * tenth}Gi", "nvidia.com/gpu": str(9 * tenth)}),
        *map(node, range(nodes)),
        *running(nodes, GPUS, ONE, "a"),
    ]
    pods = nodes // 10
    shape = _shape("kai reclaim", objects, gang("need", pods, WHOLE_NODE, nodes * GPUS, queue="b"), pods)
    shape.binds, shape.evictions, shape.pipelined = 0, pods * GPUS, pods
    return shape


def reclaim_in_vain(nodes: int = 1000) -> Shape:
    """The same cluster, and a gang that asks for more than its queue may have: nobody is to be evicted for it."""
    shape = reclaim(nodes)
    shape.name = "kai reclaim in vain"
    pods = nodes * 95 // 100
    shape.cycles = [(list(gang("need", pods, WHOLE_NODE, nodes * GPUS, queue="b")), [])]
    shape.tasks, shape.evictions, shape.pipelined = pods, 0, 0
    return shape


def _over(name: str, nodes: int, each: int, arriving: Objects, tasks: int, quota: float = 0) -> Shape:
    """Running jobs fill all nodes, *each* on every one, beyond the *quota* of their queue; another's come."""
    wants = requests(1000, GIB, GPUS // each)
    queues = [_queue("holds", quota, weight=0), _queue("wants")]
    shape = _shape(name, [*queues, *map(node, range(nodes)), *running(nodes, each, wants, "holds")], arriving, tasks)
    shape.binds, shape.evictions, shape.pipelined = 0, nodes * each, tasks
    return shape


def reclaim_half(nodes: int = 500) -> Shape:
    """A gang of full nodes takes half of the cluster from jobs with one GPU."""
    arriving = list(gang("need", nodes // 2, WHOLE_NODE, nodes * GPUS, queue="wants"))
    shape = _over("kai reclaim half", nodes, GPUS, arriving, nodes // 2)
    shape.evictions = nodes // 2 * GPUS
    return shape


def reclaim_last(nodes: int = 500, pods: int = 10, each: int = GPUS, short: int = 1) -> Shape:
    """A gang of full nodes that could have all but one GPU (or what is *short*) of what its last pod needs.

    A queue above its quota may lose a whole job, and be below it then.
    """
    arriving = list(gang("need", pods, WHOLE_NODE, nodes * GPUS, queue="wants"))
    shape = _over("kai reclaim, last pod in vain", nodes, each, arriving, pods, (nodes - pods) * GPUS + short)
    helped = short < GPUS // each
    shape.evictions, shape.pipelined = (pods * each, pods) if helped else (0, 0)
    return shape


def reclaim_singles(nodes: int = 500) -> Shape:
    """As many jobs with one GPU as run come to take the place of all of them."""
    tasks = nodes * GPUS
    return _over("kai reclaim, singles", nodes, GPUS, _alone(tasks, tasks, "wants"), tasks)


def reclaim_gangs(nodes: int = 500) -> Shape:
    """Gangs of ten pods with five GPUs each, one pod for every node, over jobs with one GPU.

    Each gang empties nine nodes and takes five jobs from a tenth, as KAI chooses victims; some only move.
    """
    arriving: Objects = []
    for j in range(nodes // 10):
        arriving += gang(f"w{j}", 10, requests(1000, GIB, 5), nodes * GPUS + j, queue="wants")
    shape = _over("kai reclaim, gangs", nodes, GPUS, arriving, nodes // 10 * 10)
    shape.evictions = nodes // 10 * (9 * GPUS + 5)
    return shape


def reclaim_full(nodes: int = 500) -> Shape:
    """One gang of full nodes takes all nodes from jobs that each hold one."""
    return _over("kai reclaim, all", nodes, 1, list(gang("need", nodes, WHOLE_NODE, nodes, queue="wants")), nodes)


# -- consolidation ------------------------------------------------------------------------------------------------
def consolidation(nodes: int = 100) -> Shape:
    """Two GPUs are free on every node, and a gang of ten pods with six each needs them together."""
    objects: Objects = [queue("default", deserved={"nvidia.com/gpu": str(nodes * GPUS)}), *map(node, range(nodes))]
    objects += running(nodes, 6, ONE)
    shape = _shape("kai consolidation", objects, gang("need", 10, requests(1000, GIB, 6), nodes * GPUS), 10)
    shape.binds, shape.evictions, shape.pipelined = 0, None, 10
    return shape


# -- one action, as its figures are published ---------------------------------------------------------------------
def _published(action: str, nodes: int, jobs: int, waits: Callable[[int], bool]) -> Shape:
    """Jobs with one GPU of four queues in two departments, each queue with a quarter of the cluster for quota."""
    quota = nodes * GPUS / 4
    objects: Objects = [_queue(f"dept-{d}", 2 * quota) for d in range(2)]
    objects += [_queue(f"queue-{q}", quota, parent=f"dept-{q // 2}") for q in range(4)]
    objects += map(node, range(nodes))
    arriving: Objects = []
    for j in range(jobs):
        at = "" if waits(j) else f"node-{j % nodes:05d}"
        one = gang(f"j{j}", 1, ONE, j, queue=f"queue-{j % 4}", node=at, phase="Running" if at else "Pending")
        (objects if at else arriving).extend(one)
    tasks = sum(map(waits, range(jobs))) or jobs
    shape = _shape(f"kai {action}", objects, arriving, tasks)
    shape.actions, shape.binds, shape.pipelined = action, 0, 0
    return shape


def allocate(nodes: int = 100, jobs: int = 500) -> Shape:
    """Jobs on an empty cluster."""
    shape = _published("allocate", nodes, jobs, lambda j: True)
    shape.binds = jobs
    return shape


def reclaim_idle(nodes: int = 50, jobs: int = 200) -> Shape:
    """Everybody runs; there is nothing to reclaim for."""
    return _published("reclaim", nodes, jobs, lambda j: False)


def preempt(nodes: int = 50, jobs: int = 200) -> Shape:
    """Every other job waits beside free GPUs, and none that runs is of its queue: there is nobody to preempt."""
    return _published("preempt", nodes, jobs, lambda j: j % 2 == 1)


def consolidation_half(nodes: int = 50, jobs: int = 200) -> Shape:
    """The same; whoever waits gets a place as soon as somebody moves."""
    shape = _published("consolidation", nodes, jobs, lambda j: j % 2 == 1)
    shape.evictions, shape.pipelined = None, jobs // 2
    return shape


def idle(nodes: int = 2000, gangs: int = 0, cycles: int = 6) -> Shape:
    """A cluster of running jobs with one GPU. Each cycle brings so many jobs that find room, or nothing."""
    each = GPUS - 1 if gangs else GPUS
    objects = [_queue("default"), *map(node, range(nodes)), *running(nodes, each, ONE)]
    shape = _shape("kai steady" if gangs else "kai idle", objects, [], max(gangs, 1))
    shape.cycles = [(_alone(gangs, nodes * GPUS + c * gangs, prefix=f"c{c}-"), []) for c in range(cycles)]
    shape.binds, shape.warm = gangs, 1
    return shape


KAI_SHAPES: Final[dict[str, Callable[[], Shape]]] = {
    "kai-allocate": allocate,
    "kai-reclaim-idle": reclaim_idle,
    "kai-preempt": preempt,
    "kai-consolidation-half": consolidation_half,
    "kai-fill": fill,
    "kai-fill-beside": fill_beside,
    "kai-topology": lambda: spread(near=True),
    "kai-topology-anywhere": spread,
    "kai-reclaim": reclaim,
    "kai-reclaim-in-vain": reclaim_in_vain,
    "kai-reclaim-half": reclaim_half,
    "kai-reclaim-last": reclaim_last,
    "kai-reclaim-singles": reclaim_singles,
    "kai-reclaim-gangs": reclaim_gangs,
    "kai-reclaim-full": reclaim_full,
    "kai-consolidation": consolidation,
    "kai-idle": idle,
    "kai-steady": lambda: idle(gangs=20),
}
