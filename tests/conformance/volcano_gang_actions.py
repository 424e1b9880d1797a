"""gangpreempt and gangreclaim in their plain form, on clusters without hyper-nodes: one domain has every node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key, partial

import volcano_amounts as amounts
from volcano_amounts import Amounts
from volcano_placing import not_never, passing, starving_jobs
from volcano_session import Heap, Session, Statement
from volcano_world import PREEMPTABLE, YES, Job, Node, Task


@dataclass(eq=False)
class Bundle:
    """Tasks of a job that go together: what its gang can spare, or the rest of it."""

    job: Job
    tasks: list[Task]
    whole: bool

    def worth(self, need: Amounts) -> float:
        """How much of what is needed it brings for how much that is lost."""
        if not self.whole:
            return float("inf")
        here = amounts.total(t.request for t in self.tasks)
        lost = amounts.total(t.request for t in self.job.tasks.values())
        brings = sum(min(here.get(n, 0.0), v) / v for n, v in need.items() if v > 0)
        costs = sum(lost.get(n, 0.0) / v for n, v in need.items() if v > 0)
        return brings / costs if costs else float("inf")


def gang_action(name: str, ssn: Session) -> None:
    """*name*: gangpreempt or gangreclaim."""
    world, starving = ssn.world, starving_jobs(ssn)
    queues = Heap(ssn.queue_less, world.shuffled(world.queues[q] for q in starving))
    while queues:
        queue = queues.pop()
        if name == "gangreclaim" and any(fn(queue) for fn in ssn.asked("overused")):
            continue
        jobs = Heap(ssn.job_less, starving[queue.name])
        while jobs:
            job = jobs.pop()
            tasks = [t for t in job.of("Pending") if not t.gates and not t.best_effort]
            if not tasks or (name == "gangreclaim" and not ssn.all_say("preemptive", queue, tasks)):
                continue
            statement = Statement(ssn)
            _serve(ssn, name, job, tasks, statement)
            (statement.commit if ssn.vote("job_pipelined", job) else statement.discard)()


def _serve(ssn: Session, name: str, job: Job, tasks: Sequence[Task], statement: Statement) -> None:
    need = amounts.total(t.request for t in tasks)
    line = _bundles(ssn, name, job, need)
    going: list[Task] = []
    free = amounts.total(
        amounts.added(ssn.world.idle(n), ssn.world.sum_of(n, "Releasing".__eq__)) for n in ssn.world.nodes.values()
    )
    for bundle in line:
        going += bundle.tasks
        if amounts.fits(need, amounts.total([free, *(t.request for t in going)])):
            for task in going:
                statement.evict(task)
            if _place(ssn, job, statement) and ssn.vote("job_pipelined", job):
                return
            statement.discard()


def _bundles(ssn: Session, name: str, job: Job, need: Amounts) -> list[Bundle]:
    world, by_job = ssn.world, dict[str, list[Task]]()
    for node in world.nodes.values():
        for uid, status in node.tasks.items():
            task = world.tasks[uid]
            other = world.jobs.get(task.job)
            if other is None or not task.preemptable:
                continue
            said = other.notes.get(PREEMPTABLE, other.labels.get(PREEMPTABLE))
            if said is not None and said not in YES:
                continue
            if name == "gangpreempt":
                fits = status in ("Bound", "Running") and other.queue == job.queue and other.priority < job.priority
            else:
                fits = status == "Running" and other.queue != job.queue and world.queues[other.queue].reclaimable
            if fits:
                by_job.setdefault(other.uid, []).append(task)
    found = [b for uid, tasks in by_job.items() for b in _split(world.jobs[uid], tasks)]
    order = cmp_to_key(partial(_compare, ssn, name, job, need))
    listed = [t for b in sorted(found, key=order) for t in b.tasks]
    allowed = _allowed(ssn, name, job, listed)
    kept = []
    for bundle in found:
        mine = [t for t in bundle.tasks if t in allowed]
        if mine and (not bundle.whole or len(mine) == len(bundle.tasks)):
            kept.append(Bundle(bundle.job, mine, bundle.whole))
    if not ssn.argument(name, "allowWholeBundle", True):
        kept = [b for b in kept if not b.whole]
    return sorted(kept, key=order)


def _split(job: Job, tasks: Sequence[Task]) -> list[Bundle]:
    surplus = job.ready - job.least
    enforced = job.least >= sum(job.roles.values())
    spare = {r: sum(t.role == r and t.status in _COUNTED for t in job.tasks.values()) - n for r, n in job.roles.items()}
    safe, rest = list[Task](), list[Task]()
    for task in sorted(tasks, key=lambda t: (t.priority, t.uid)):
        free = not enforced or task.role not in spare or spare[task.role] > 0
        if job.ready < job.least or (surplus > 0 and free):
            safe.append(task)
            surplus -= 1
            if task.role in spare:
                spare[task.role] -= 1
        else:
            rest.append(task)
    return [Bundle(job, t, w) for t, w in ((safe, False), (rest, True)) if t]


def _compare(ssn: Session, name: str, job: Job, need: Amounts, left: Bundle, right: Bundle) -> int:
    if left.whole != right.whole:
        return 1 if left.whole else -1
    if name == "gangpreempt":
        if left.job is not right.job and (said := ssn.compare("job_order", left.job, right.job)):
            return 1 if said < 0 else -1
    elif left.job.queue != right.job.queue:
        return -1 if _queue_first(ssn, left.job.queue, right.job.queue, job.queue) else 1
    if left.worth(need) != right.worth(need):
        return 1 if left.worth(need) < right.worth(need) else -1
    a = (left.job.uid, left.tasks[0].uid, len(left.tasks))
    b = (right.job.uid, right.tasks[0].uid, len(right.tasks))
    return (a > b) - (a < b)


def _queue_first(ssn: Session, left: str, right: str, own: str) -> bool:
    queues = ssn.world.queues
    for fn in ssn.asked("victim_queue_order"):
        if said := fn(queues[left], queues[right], queues[own]):
            return bool(said < 0)
    return not ssn.queue_less(queues[left], queues[right])


def _allowed(ssn: Session, name: str, job: Job, tasks: Sequence[Task]) -> list[Task]:
    """What the plugins allow; unlike in the other actions they are given an order, and keep to it."""
    chosen: list[Task] | None = None
    for tier in ssn.by_tier("evictable"):
        for fn in tier:
            said = fn(name, job, list(tasks))
            if not said:
                chosen = None
                break
            chosen = said if chosen is None else [t for t in chosen if t in said] or None
        if chosen is not None:
            return chosen
    return []


def _place(ssn: Session, job: Job, statement: Statement) -> bool:
    """Promise every waiting task of the job a place."""
    world, queue = ssn.world, ssn.world.queues[job.queue]
    line = Heap(ssn.task_less, [t for t in job.of("Pending") if not t.gates and not t.best_effort])
    refused: dict[str, dict[str, str]] = {}
    remembers = ssn.argument("allocate", "predicateErrorCacheEnable", True)
    ask: Callable[[Session, Task, Node], str] = _room_despite
    while line:
        task = line.pop()
        if not ssn.all_say("allocatable", queue, task):
            return False
        found = passing(ssn, task, [*world.nodes.values()], refused, remembers, ask)
        if not found:
            return False
        now = [n for n in found if amounts.fits(task.request, world.idle(n))]
        statement.put(task, ssn.best(task, now or found), "Pipelined")
    return True


def _room_despite(ssn: Session, task: Task, node: Node) -> str:
    return "no" if not amounts.fits(task.request, ssn.world.future(node)) else not_never(ssn, task, node)


_COUNTED = ("Bound", "Binding", "Running", "Allocated", "Succeeded")
