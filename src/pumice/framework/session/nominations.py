"""Nominations: room that was freed for a task is kept for it, by one rule.

When a plan with evictions is committed, every task that it promised a place is nominated for its node. A nomination
outlives the cycle. Each session opens by holding its room (`hold_rooms`), on the node and in the queue. It ends when
the task has a place or is gone, when its node is gone, or when it expires. The task itself looks for idle room first,
its nominated node before the others (`search.py`), with its own hold lifted.

A hold counts for every job that comes after its holder in order, and for every job that lost a pod for the holder. For
jobs before the holder it is free room (`giving_way`): they look at other room first, and a job that takes it ends the
nomination. So no job waits behind a hold of a later job. No job is evicted twice for the same pending one, so evictions
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from pumice.framework.session.rounds import note_lost
from pumice.model.intents import Nominate
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass

if TYPE_CHECKING:
    from pumice.framework.session.session import Session


@dataclass(slots=True)
class Nomination:
    """Room on a node that is kept for a task until a time."""

    node: str
    """Nothing where it ended while the task waits: then only who was evicted for it is remembered."""
    until: float
    evicted: frozenset[str] = frozenset()
    """The jobs that lost tasks for the task's job since it waits."""


HOLD_SECONDS: Final = 120.0
"""How long freed room is held: four times the default grace that a pod has to terminate."""


def holds(ssn: Session) -> bool:
    """Report whether freed room is kept for the task that it was freed for."""
    return not ssn.compat.hold_freed_room


def nominate(ssn: Session, placed: Iterable[tuple[Task, Node]], evicted: Iterable[str]) -> None:
    """Hold room on nodes for tasks in the cycles to come; *evicted*: the jobs that lost somebody for them."""
    if not holds(ssn):
        return
    known, until = ssn.runtime.nominations, ssn.state.now + HOLD_SECONDS
    lost: dict[str, frozenset[str]] = {}
    for task, node in placed:
        job = task.job
        mine = lost.get(job.uid)
        if mine is None:
            before = (known[uid].evicted for uid in job.tasks if uid in known)
            mine = lost[job.uid] = frozenset(evicted).union(*before)
        known[task.uid] = Nomination(node.name, until, mine)


def hold_rooms(ssn: Session) -> None:
    """Hold the room of every nomination that still stands; forget the others."""
    nominations = ssn.runtime.nominations
    for uid in sorted(nominations):
        nomination = nominations[uid]
        task = ssn.state.tasks.get(uid)
        node = ssn.nodes.get(nomination.node)
        waits = task is not None and _waits(task)
        if task is not None and waits and node is not None and ssn.state.now < nomination.until:
            ssn.state.hold(task, node)
            ssn.wake_at(nomination.until)
        elif waits and not nomination.node:
            continue
        else:
            del nominations[uid]
            if task is not None:
                ssn.state.nominate(task, task.pod.status.nominated_node_name)


def end_nomination(ssn: Session, task: Task) -> None:
    """Hold nothing for the task any more, and tell it; who was evicted for it is remembered while it waits."""
    known = ssn.runtime.nominations
    known[task.uid] = Nomination("", 0.0, known[task.uid].evicted)
    ssn.state.nominate(task, "")
    ssn.outcome.intents.append(Nominate(task.key, task.uid, ""))


def places_held(ssn: Session, job: Job, *, now: bool = False) -> int:
    """For how many waiting tasks of a job others were evicted, and their places are held; *now*: in this session."""
    if not ssn.runtime.nominations:
        return 0
    of = [ssn.runtime.nominations[uid] for uid in job.tasks if uid in ssn.runtime.nominations]
    return sum(1 for n in of if n.node and (not now or n.until >= ssn.state.now + HOLD_SECONDS))


def _waits(task: Task) -> bool:
    """Report whether the task still waits for a place, in a job that can be scheduled."""
    return task.status is TaskStatus.PENDING and task.job is not None and task.job.in_session


@contextmanager
def held_by_others(ssn: Session, queue: Queue, job: Job) -> Iterator[None]:
    """Within the block room that is held for other jobs counts in their queues, as it does on its nodes.

    In those that have anything to say about this one: the queue itself, and every queue where some stand below others.
    """
    state = ssn.state
    if not state.held_rooms:
        yield
        return
    in_a_tree = ssn.view(_in_a_tree)
    with ExitStack() as counted:
        for name in list(state.held_rooms) if in_a_tree else (queue.name,):
            other = ssn.queues.get(name)
            if other is not None:
                counted.enter_context(state.also_held(other, state.held_for_others(other, job)))
        yield


def _in_a_tree(ssn: Session) -> bool:
    """Report whether any queue stands below another."""
    return any(queue.object.spec.parent for queue in ssn.queues.values())


def that_give_way(ssn: Session, queue: Queue, job: Job) -> list[Task]:
    """The tasks whose held room is free to the job: it comes before them, and lost no pod for them.

    Nobody's, where no node has idle room for any of its waiting tasks, held or not: nothing of it could start.
    """
    rooms, nominations = ssn.state.rooms, ssn.runtime.nominations
    if not rooms or not _finds_idle_room(ssn, job):
        return []
    less = ssn.orders.job_less()
    first: dict[str, bool] = {}
    found = []
    for uid, (task, _) in rooms.items():
        other = task.job
        if other is job or task.status is not TaskStatus.PENDING or job.uid in nominations[uid].evicted:
            continue
        name = other.queue
        if name not in first:
            first[name] = name == queue.name or ssn.orders.queue_less(queue, ssn.queues[name])
        if first[name] and (name != queue.name or less(job, other)):
            found.append(task)
    return found


def _finds_idle_room(ssn: Session, job: Job) -> bool:
    """Report whether any node has idle room for one of the job's pending tasks, with any holder. Filters aside.

    A task that is promised room which is still being released waits too.
    """
    waiting = (*job.with_status(TaskStatus.PENDING).values(), *job.with_status(TaskStatus.PIPELINED).values())
    return any(ssn.view(IdleRoom).of(klass) for klass in {t.klass.id: t.klass for t in waiting}.values())


class IdleRoom:
    """Says whether any node has idle room for a class. If none had, only rows that changed since are looked at."""

    def __init__(self, ssn: Session) -> None:
        self._table = ssn.state.table
        self._full: dict[int, int] = {}
        """Class -> where the log of touched rows stood when no node had room for it."""

    def of(self, klass: TaskClass) -> bool:
        """Report whether a node has idle room for the class."""
        table, at = self._table, self._full.get(klass.id)
        rows = table.touched.since(at) if at is not None else None
        index = np.arange(table.size) if rows is None else np.fromiter(rows, dtype=np.intp, count=len(rows))
        found = table.valid[index]
        for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
            found = found & (table.idle[d, index] >= v)
        if found.any():
            self._full.pop(klass.id, None)
            return True
        self._full[klass.id] = table.touched.position
        return False


def spared(ssn: Session, job: Job) -> bool:
    """Report whether room that is held for a later job does not give way to this one, because it was evicted for that
    job."""
    if not ssn.state.rooms or job.uid not in ssn.view(_evicted_for_holders):
        return False
    nominations = ssn.runtime.nominations
    return any(job.uid in nominations[uid].evicted for uid in ssn.state.rooms)


def _evicted_for_holders(ssn: Session) -> frozenset[str]:
    """The jobs that lost a pod for any task that is nominated when this is first asked."""
    return frozenset().union(*(known.evicted for known in ssn.runtime.nominations.values()))


@contextmanager
def giving_way(ssn: Session, job: Job, tasks: Iterable[Task]) -> Iterator[None]:
    """Within the block nothing is held for these tasks; afterwards it is again, where the room is still there.

    Otherwise they lost it to the *job*, and so did the jobs that lost pods for them.
    """
    state = ssn.state
    lifted = [(task, state.lift(task)) for task in tasks]
    try:
        yield
    finally:
        for task, node in lifted:
            if _still_there(ssn, task, node):
                state.hold(task, node)
            else:
                lost = (task.job_key, *ssn.runtime.nominations[task.uid].evicted)
                note_lost(ssn, ((loser, job.uid) for loser in lost))
                end_nomination(ssn, task)


def _still_there(ssn: Session, task: Task, node: Node) -> bool:
    """Report whether the task would have its room on the node after all releases, and its queue may still take it."""
    table, row, klass = ssn.state.table, node.row, task.klass
    for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
        if table.free_soon(d, row) < v:
            return False
    if klass.gpu is not None and not ssn.state.devices.fits(np.array([row], dtype=np.intp), klass.gpu, future=True)[0]:
        return False
    queue = ssn.queues.get(task.job.queue)
    return queue is not None and bool(ssn.allocatable(queue, task))
