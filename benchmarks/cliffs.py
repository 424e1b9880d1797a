"""What a cycle costs in which little or nothing happened, at one size and at twice that: it should be next to nothing.

    python benchmarks/cliffs.py [CASE ...]

Prints CPU milliseconds at both sizes and their ratio: above 2 it grows faster than the work, and far above there is a
cliff. *idle*: nothing happened since the last cycle. *stirred*: a pod of a queue that nobody waits in has ended or
come, on a node of its own that is too small for whoever waits. *node*: an annotation of that node has changed.
*queue*: a controller has counted anew what that queue holds. *freed*: a pod has ended whose room everybody would take
who waits, and one gets it. Prints, never fails: the machine may be noisy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import tools_path  # noqa: F401
from msgspec.structs import replace
from pumice_bench import shapes
from pumice_bench.objects import GIB, MIB, group, node, pod, queue, requests, total
from pumice_bench.run import measure
from pumice_bench.shape import Objects, Shape

MEASURED = 5
"""Cycles that are measured, after two that are not; the median counts."""
IDLE, STIRRED, NODE, QUEUE, FREED = "idle", "stirred", "node", "queue", "freed"
FAR = (IDLE, STIRRED, NODE, QUEUE)
happening = IDLE
"""What happens in each cycle, far from those who wait."""


def idle(name: str, objects: Objects, arriving: Objects | None = None, **kw: object) -> Shape:
    """A cluster, a cycle in which something may arrive, and cycles in which nothing or next to nothing happens."""
    little = requests(100, MIB)
    own = node(99_999, cpu="200m", memory="1Gi", gpus=0)
    its = queue("aside")
    objects = [*objects, its, own]
    objects.append(group("aside", 1, order=1, minimum=total(little, 1), queue="aside", phase="Running"))
    aside = [pod("aside", i, little, order=1, node="node-99999") for i in range(2)]
    objects.append(aside[0])
    happens: list[tuple[Objects, list[tuple[str, str]]]] = [([], []), ([], [])]
    if happening == STIRRED:
        happens = [([aside[1]], []), ([], [("Pod", aside[1].key)])]
    elif happening == NODE:
        noted = replace(own, metadata=replace(own.metadata, annotations={"seen": "later"}))
        happens = [([noted], []), ([own], [])]
    elif happening == QUEUE:
        counted = [replace(its, status=replace(its.status, allocated={"cpu": f"{n}00m"})) for n in (1, 2)]
        happens = [([obj], []) for obj in counted]
    cycles = [(arriving or [], []), *(happens[n % 2] for n in range(MEASURED + 1))]
    return Shape(name, objects, cycles, 1, per_cycle=True, warm=2, **kw)  # type: ignore[arg-type]


def _full(nodes: int, free: int, queues: int) -> Objects:
    """Nodes whose GPUs are all taken but for *free* nodes."""
    objects: Objects = [*(queue(f"q{q}") for q in range(queues)), *(node(i) for i in range(nodes))]
    wants = requests(1000, GIB, 8)
    for j in range(nodes - free):
        objects.append(group(f"r{j}", 1, order=j, minimum=total(wants, 1), queue=f"q{j % queues}", phase="Running"))
        objects.append(pod(f"r{j}", 0, wants, order=j, node=f"node-{j:05d}"))
    return objects


def stopped_gangs(gangs: int) -> Shape:
    """Gangs of four nodes each in four queues; four nodes are free, and no queue may take all of a gang."""
    objects = _full(200, 4, 4)
    wants = requests(1000, GIB, 8)
    for j in range(gangs):
        objects.append(group(f"w{j}", 4, order=1000 + j, minimum=total(wants, 4), queue=f"q{j % 4}", phase="Inqueue"))
        objects += [pod(f"w{j}", i, wants, order=1000 + j) for i in range(4)]
    return idle("stopped gangs", objects)


def waiting_classes(classes: int) -> Shape:
    """Jobs of one task, each of a class of its own, that fit nowhere: more classes than views are kept."""
    objects = shapes.fragmented_singles(1000, 0).objects
    for j in range(classes):
        wants = requests(1000, GIB + j * MIB)
        objects.append(group(f"w{j}", 1, order=2000 + j, minimum=total(wants, 1), phase="Inqueue"))
        objects.append(pod(f"w{j}", 0, wants, order=2000 + j))
    return idle("waiting classes", objects)


def refused_classes(classes: int) -> Shape:
    """The same where their queue, which holds all that it deserves, is what refuses them."""
    objects = _full(1000, 0, 1)
    for j in range(classes):
        wants = requests(1000 + j, GIB, 8)
        objects.append(group(f"w{j}", 1, order=2000 + j, minimum=total(wants, 1), queue="q0", phase="Inqueue"))
        objects.append(pod(f"w{j}", 0, wants, order=2000 + j))
    return idle("refused classes", objects)


def waiting_jobs(jobs: int) -> Shape:
    """Jobs of one task in 50 classes and four full queues."""
    objects = _full(1000, 0, 4)
    for j in range(jobs):
        wants = requests(1000 + j % 50, GIB, 8)
        objects.append(group(f"w{j}", 1, order=2000 + j, minimum=total(wants, 1), queue=f"q{j % 4}", phase="Inqueue"))
        objects.append(pod(f"w{j}", 0, wants, order=2000 + j))
    return idle("waiting jobs", objects)


def promised_jobs(jobs: int) -> Shape:
    """Jobs for which others were evicted, while those terminate."""
    made = shapes.preempt(4 * jobs, jobs)
    return idle("promised jobs", made.objects, made.cycles[0][0], actions=made.actions, flags=made.flags)


def promised_beside(jobs: int) -> Shape:
    """The same beside a job for which there is no room anywhere: so every job has to be looked at."""
    made = shapes.preempt(4 * jobs, jobs)
    wants = requests(640_000, GIB)
    too_big = [
        group("big", 1, order=99_999, minimum=total(wants, 1), phase="Inqueue"),
        pod("big", 0, wants, order=99_999),
    ]
    arriving = [*made.cycles[0][0], *too_big]
    return idle("promised beside", made.objects, arriving, actions=made.actions, flags=made.flags)


def waiting_queues(queues: int) -> Shape:
    """A waiting job in each of many queues, all of one class that fits nowhere."""
    objects = _full(200, 0, queues)
    wants = requests(1000, GIB, 8)
    for j in range(queues):
        objects.append(group(f"w{j}", 1, order=2000 + j, minimum=total(wants, 1), queue=f"q{j}", phase="Inqueue"))
        objects.append(pod(f"w{j}", 0, wants, order=2000 + j))
    return idle("waiting queues", objects)


def all_at_once(jobs: int) -> Shape:
    """Waiting jobs in a tenth as many classes and a fiftieth as many queues, all of them full."""
    queues = jobs // 50
    objects = _full(1000, 0, queues)
    for j in range(jobs):
        wants = requests(1000 + j % (jobs // 10), GIB, 8)
        objects.append(
            group(f"w{j}", 1, order=2000 + j, minimum=total(wants, 1), queue=f"q{j * 7 % queues}", phase="Inqueue")
        )
        objects.append(pod(f"w{j}", 0, wants, order=2000 + j))
    return idle("all at once", objects)


def other_pool(classes: int) -> Shape:
    """Jobs, each of a class of its own, for nodes of a pool that is full; where something happens there is room."""
    wants = requests(32_000, GIB)
    objects: Objects = [queue("q0"), *(node(i, labels={"pool": "full"}) for i in range(200))]
    for j in range(200):
        objects.append(group(f"r{j}", 1, order=j, minimum=total(wants, 1), queue="q0", phase="Running"))
        objects.append(pod(f"r{j}", 0, wants, order=j, node=f"node-{j:05d}"))
    for j in range(classes):
        wants = requests(50, MIB + j)
        objects.append(group(f"w{j}", 1, order=1000 + j, minimum=total(wants, 1), queue="q0", phase="Inqueue"))
        objects.append(pod(f"w{j}", 0, wants, order=1000 + j, spec={"node_selector": {"pool": "full"}}))
    return idle("other pool", objects)


def no_victims(jobs: int) -> Shape:
    """Jobs that differ and wait in a full queue, where nobody may be evicted for them."""
    objects = _full(1000, 0, 1)
    for j in range(jobs):
        wants = requests(1000 + j, GIB, 8)
        objects.append(group(f"w{j}", 1, order=2000 + j, minimum=total(wants, 1), queue="q0", phase="Inqueue"))
        objects.append(pod(f"w{j}", 0, wants, order=2000 + j))
    return idle("no victims", objects, actions="enqueue, allocate, gangpreempt, gangreclaim, preempt, reclaim")


def room_for_one(classes: int) -> Shape:
    """Jobs, each of a class of its own, that wait for a whole node; in each cycle one becomes free."""
    nodes, whole = 200, 32_000
    objects: Objects = [queue("q0"), *(node(i) for i in range(nodes))]
    wants = requests(whole, GIB)
    for j in range(nodes):
        objects.append(group(f"r{j}", 1, order=j, minimum=total(wants, 1), queue="q0", phase="Running"))
        objects.append(pod(f"r{j}", 0, wants, order=j, node=f"node-{j:05d}"))
    for j in range(classes):
        wants = requests(whole, GIB + j * MIB)
        objects.append(group(f"w{j}", 1, order=1000 + j, minimum=total(wants, 1), queue="q0", phase="Inqueue"))
        objects.append(pod(f"w{j}", 0, wants, order=1000 + j))
    gone = [[("Pod", f"bench/r{n}-worker-0"), ("PodGroup", f"bench/r{n}")] for n in range(MEASURED + 1)]
    cycles: list[tuple[Objects, list[tuple[str, str]]]] = [([], []), *(([], keys) for keys in gone)]
    return Shape("room for one", objects, cycles, 1, per_cycle=True, warm=2)


CASES: dict[str, tuple[Callable[[int], Shape], int, tuple[str, ...]]] = {
    "stopped-gangs": (stopped_gangs, 300, FAR),
    "waiting-classes": (waiting_classes, 3250, FAR),
    "refused-classes": (refused_classes, 3250, FAR),
    "waiting-jobs": (waiting_jobs, 10_000, FAR),
    "promised-jobs": (promised_jobs, 250, FAR),
    "promised-beside": (promised_beside, 250, FAR),
    "waiting-queues": (waiting_queues, 1000, FAR),
    "other-pool": (other_pool, 1000, FAR),
    "no-victims": (no_victims, 150, FAR),
    "all-at-once": (all_at_once, 50_000, FAR),
    "room-for-one": (room_for_one, 1000, (FREED,)),
}


def main(names: list[str]) -> None:
    """Print the table."""
    global happening
    print(f"{'case':<16} {'size':>7} {'':<8} {'once':>10} {'at twice':>11} {'ratio':>6}")
    for name in names or list(CASES):
        make, size, happenings = CASES[name]
        for happening in happenings:
            once, twice = (measure(make(n)).cpu for n in (size, 2 * size))
            figures = f"{once * 1e3:>7.2f} ms {twice * 1e3:>8.2f} ms {twice / once:>6.2f}"
            print(f"{name:<16} {size:>7,} {happening:<8} {figures}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
