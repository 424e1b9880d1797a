"""The actions in their plain form, and what is left of a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import volcano_amounts as amounts
from volcano_gang_actions import gang_action
from volcano_placing import not_never, passing, room_and_filters, starving_jobs, valid, waiting
from volcano_plugins import PLUGINS
from volcano_session import Heap, Session, Statement
from volcano_world import ALLOCATED, OWN_GATE, Job, Node, NotModelled, Task, World


def decide(case: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """What one cycle decides, with the keys of a case's ``expect``."""
    world = World(case, seed)
    ssn = Session(world, case["conf"], PLUGINS)
    for name in ssn.actions:
        if name not in ACTIONS:
            raise NotModelled(f"action {name}")
        ACTIONS[name](ssn)
    for job in world.jobs.values():
        _close(ssn, job)
    statuses = ("Pending", "Allocated", "Pipelined", "Binding", "Releasing", "Running")
    promised = {j.uid: sorted({t.node for t in j.of("Pipelined")}) for j in world.jobs.values() if j.of("Pipelined")}
    return {
        "binds": ssn.bound,
        "evictions": sorted(ssn.evicted),
        "pipelined": promised,
        "podGroupPhases": {j.uid: j.phase for j in world.jobs.values()},
        "taskStatusCounts": {j.uid: {s: j.count(s) for s in statuses} for j in world.jobs.values()},
    }


def _close(ssn: Session, job: Job) -> None:
    gang = any(listed["name"] == "gang" for tier in ssn.tiers for listed, _ in tier)
    away = [t for t in job.of("Releasing") if t.node]
    scheduled = job.count("Running", "Bound", "Failed", "Succeeded") + len(away)
    if gang and job.tasks and not job.is_ready:
        settled = not job.count("Pending", "Pipelined") and away
        if not (settled and scheduled >= job.least) and job.count("Running"):
            job.phase = "Unknown"
            return
    if scheduled >= job.least:
        job.phase = "Completed" if scheduled == job.count("Failed", "Succeeded") else "Running"
    elif job.phase != "Inqueue":
        job.phase = "Pending"


def enqueue(ssn: Session) -> None:
    world = ssn.world
    busy = [q for q in world.queues.values() if world.queue_total[q.name]]
    waiting = {
        q.name: Heap(ssn.job_less, world.shuffled(j for j in world.queue_total[q.name] if j.phase == "Pending"))
        for q in busy
    }
    queues = Heap(ssn.queue_less, world.shuffled(busy))
    while queues:
        queue = queues.pop()
        if not waiting[queue.name]:
            continue
        job = waiting[queue.name].pop()
        if job.minimum is None or ssn.vote("enqueueable", job):
            for fn in ssn.asked("enqueued"):
                fn(job)
            job.phase = "Inqueue"
        queues.push(queue)


def allocate(ssn: Session) -> None:
    world = ssn.world
    left: dict[str, Heap[Task]] = {}
    by_queue: dict[str, Heap[Job]] = {}
    for job in world.shuffled(world.jobs.values()):
        if job.phase == "Pending":
            if "enqueue" in ssn.actions:
                continue
            job.phase = "Inqueue"
        if not valid(ssn, job):
            continue
        tasks = [t for t in job.of("Pending") if t.gates in ([], [OWN_GATE]) and not t.best_effort]
        if tasks:
            left[job.uid] = Heap(ssn.task_less, world.shuffled(tasks))
            by_queue.setdefault(job.queue, Heap(ssn.job_less)).push(job)
    queues = Heap(ssn.queue_less, world.shuffled(world.queues[name] for name in by_queue))
    while queues:
        queue = queues.pop()
        if any(fn(queue) for fn in ssn.asked("overused")) or not by_queue[queue.name]:
            continue
        job = by_queue[queue.name].pop()
        statement = _place(ssn, job, left[job.uid])
        if statement is not None and ssn.all_say("job_ready", job):
            statement.commit()
            if left[job.uid]:
                by_queue[queue.name].push(job)
        queues.push(queue)


def _place(ssn: Session, job: Job, tasks: Heap[Task]) -> Statement | None:
    world, statement = ssn.world, Statement(ssn)
    remembers = ssn.argument("allocate", "predicateErrorCacheEnable", True)
    refused: dict[str, dict[str, str]] = {}
    while tasks:
        task = tasks.pop()
        if not ssn.all_say("allocatable", world.queues[job.queue], task) or task.gates:
            continue
        if task.role and any(t.failed and t.role == task.role for t in job.tasks.values()):
            task.failed = True
            continue
        named = (task.pod.get("status") or {}).get("nominatedNodeName")
        found: list[Node] = []
        if named in world.nodes and amounts.fits(task.request, world.future(world.nodes[named])):
            found = passing(ssn, task, [world.nodes[named]], refused, remembers, room_and_filters)
        if not found:
            found = passing(ssn, task, [*world.nodes.values()], refused, remembers, room_and_filters)
        if not found:
            task.failed = True
            if _go_on(job):
                continue
            break
        now = [n for n in found if amounts.fits(task.request, world.idle(n))]
        node = ssn.best(task, now or found)
        statement.put(task, node, "Allocated" if now else "Pipelined")
        if ssn.all_say("job_ready", job):
            break
    if ssn.all_say("job_ready", job) or ssn.vote("job_pipelined", job):
        return statement
    statement.discard()
    return None


def _go_on(job: Job) -> bool:
    if job.least >= len(job.tasks):
        return False
    failed = {t.role for t in job.tasks.values() if t.failed}
    if job.least < sum(job.roles.values()):
        others = [t for t in job.of("Pending") if t.role not in failed]
        return job.ready + len(others) >= job.least
    for role in failed:
        mine = [t for t in job.tasks.values() if t.role == role]
        have = sum(t.status in (*ALLOCATED, "Succeeded") or (t.status == "Pending" and t.best_effort) for t in mine)
        if job.roles.get(role, 0) > have:
            return False
    return True


def backfill(ssn: Session) -> None:
    world = ssn.world
    queues = Heap(ssn.queue_less, world.shuffled(q for q in world.queues.values() if world.queue_total[q.name]))
    order: list[Task] = []
    while queues:
        queue = queues.pop()
        jobs = [j for j in world.queue_total[queue.name] if j.phase != "Pending" and valid(ssn, j)]
        for task in [t for j in jobs for t in j.of("Pipelined") if t.best_effort]:
            ssn.take_off(task)
        heap = Heap(ssn.job_less, world.shuffled(jobs))
        while heap:
            tasks = [t for t in heap.pop().of("Pending") if t.best_effort and not t.gates]
            waiting = Heap(ssn.task_less, world.shuffled(tasks))
            while waiting:
                order.append(waiting.pop())
    for task in order:
        found = [n for n in world.nodes.values() if not ssn.predicate(task, n)]
        if not found:
            continue
        node, job = ssn.best(task, world.shuffled(found)), world.jobs[task.job]
        if not amounts.fits(task.request, world.idle(node)):
            raise NotModelled("a node that is full")
        ssn.put(task, node, "Allocated")
        if ssn.all_say("job_ready", job):
            for other in job.of("Allocated"):
                other.status = world.nodes[other.node].tasks[other.uid] = "Binding"
                ssn.bound[other.key] = other.node


def preempt(ssn: Session) -> None:
    world = ssn.world
    if ssn.argument("preempt", "enableTopologyAwarePreemption", False):
        raise NotModelled("dry runs")
    remembers = ssn.argument("preempt", "predicateErrorCacheEnable", True)
    refused: dict[str, dict[str, str]] = {}
    starving = starving_jobs(ssn)
    tasks = {j.uid: waiting(ssn, j) for jobs in starving.values() for j in jobs}
    queues = Heap(ssn.queue_less, world.shuffled(world.queues[name] for name in starving))
    order = []
    while queues:
        order.append(queues.pop())
    for queue in order:
        jobs = Heap(ssn.job_less, starving[queue.name])
        while jobs:
            job, statement = jobs.pop(), Statement(ssn)
            while ssn.starving(job) and tasks[job.uid]:
                _make_room(ssn, tasks[job.uid].pop(), statement, refused, remembers, same_job=False)
            (statement.commit if ssn.vote("job_pipelined", job) else statement.discard)()
        for job in starving[queue.name]:
            again = waiting(ssn, job)
            while again:
                statement = Statement(ssn)
                if not _make_room(ssn, again.pop(), statement, refused, remembers, same_job=True):
                    statement.discard()
                    break
                statement.commit()


def _make_room(
    ssn: Session,
    task: Task,
    statement: Statement,
    refused: dict[str, dict[str, str]],
    remembers: bool,
    *,
    same_job: bool,
) -> bool:
    world, queue = ssn.world, world_queue(ssn, task)
    if task.pod["spec"].get("preemptionPolicy") == "Never":
        return False
    if (task.pod.get("status") or {}).get("nominatedNodeName"):
        raise NotModelled("nominations")
    nodes = [n for n in world.nodes.values() if n.name not in task.unresolvable]
    found = passing(ssn, task, nodes, refused, remembers, not_never)
    scores = ssn.scores(task, found)
    for node in sorted(world.shuffled(found), key=lambda n: -round(scores[n.name], 9)):
        candidates = []
        for uid, status in node.tasks.items():
            other = world.tasks[uid]
            job = world.jobs.get(other.job)
            if status not in ("Bound", "Running") or (task.best_effort and not other.best_effort):
                continue
            if not other.preemptable or job is None or job.queue != queue.name or (other.job == task.job) != same_job:
                continue
            candidates.append(other)
        victims = ssn.victims("preemptable", task, candidates)
        freed = amounts.total([world.future(node), *(v.request for v in victims)])
        if not amounts.fits(task.request, freed):
            continue
        trial, line = Statement(ssn), Heap(ssn.victim_less(task), victims)

        def fits(node: Node = node) -> bool:
            return (
                ssn.all_say("allocatable", queue, task)
                and amounts.fits(task.request, world.future(node))
                and not ssn.predicate(task, node)
            )

        while not (done := fits()) and line:
            trial.evict(line.pop())
        if done:
            trial.put(task, node, "Pipelined")
            statement.done += trial.done
            return True
        trial.discard()
    return False


def world_queue(ssn: Session, task: Task) -> Any:
    return ssn.world.queues[ssn.world.jobs[task.job].queue]


def reclaim(ssn: Session) -> None:
    world = ssn.world
    starving = starving_jobs(ssn)
    tasks = {j.uid: waiting(ssn, j) for jobs in starving.values() for j in jobs}
    queues = Heap(ssn.queue_less, world.shuffled(world.queues[name] for name in starving))
    jobs = {name: Heap(ssn.job_less, mine) for name, mine in starving.items()}
    while queues:
        queue = queues.pop()
        if any(fn(queue) for fn in ssn.asked("overused")):
            continue
        while jobs[queue.name]:
            job, statement = jobs[queue.name].pop(), Statement(ssn)
            while ssn.starving(job) and tasks[job.uid]:
                task = tasks[job.uid].pop()
                if task.pod["spec"].get("preemptionPolicy") == "Never" or not ssn.all_say("preemptive", queue, [task]):
                    continue
                _reclaim_for(ssn, task, statement)
            (statement.commit if ssn.vote("job_pipelined", job) else statement.discard)()


def _reclaim_for(ssn: Session, task: Task, statement: Statement) -> None:
    world, queue = ssn.world, world_queue(ssn, task)
    nodes = [n for n in world.nodes.values() if n.name not in task.unresolvable]
    for node in passing(ssn, task, nodes, {}, False, not_never):
        candidates = []
        for uid, status in node.tasks.items():
            other = world.tasks[uid]
            job = world.jobs.get(other.job)
            if status != "Running" or not other.preemptable or job is None or job.queue == queue.name:
                continue
            if world.queues[job.queue].reclaimable:
                candidates.append(other)
        if not candidates:
            continue
        victims = ssn.victims("reclaimable", task, candidates)
        if not amounts.fits(task.request, amounts.total([world.future(node), *(v.request for v in victims)])):
            continue
        trial, line, free = Statement(ssn), Heap(ssn.victim_less(task), victims), world.future(node)
        while not amounts.fits(task.request, free) and line:
            victim = line.pop()
            trial.evict(victim)
            free = amounts.added(free, victim.request)
        if amounts.fits(task.request, free):
            trial.put(task, node, "Pipelined")
            statement.done += trial.done
            return
        trial.discard()


ACTIONS: Mapping[str, Callable[[Session], None]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
    "gangpreempt": partial(gang_action, "gangpreempt"),
    "gangreclaim": partial(gang_action, "gangreclaim"),
}
