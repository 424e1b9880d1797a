"""A slow, obvious scheduler: ask every callback about every pair, every time, and keep nothing.

It shares the session's chains (who is asked, in which order) with the real one, and nothing of the engine: no views, no
classes, no bulk placement, no memory of failures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any

import numpy as np

from pumice import SKIP, Event, Job, Node, NodeRows, Queue, Session, Task, Unfit
from pumice.framework.placing.waiting_tasks import placeable
from pumice.framework.points.callback import Callback
from pumice.framework.session.runtime import Runtime
from pumice.model.api import AnyObject
from pumice.model.events import Seen
from pumice.model.status import JobPhase, TaskStatus
from pumice.scheduler.assembly import Assembly
from pumice.state.cluster import ClusterState

S = TaskStatus


@dataclass
class Decision:
    """What a cycle would bind, and what would wait for room that is being released."""

    binds: dict[str, str] = field(default_factory=dict)
    pipelined: dict[str, str] = field(default_factory=dict)


def decide(objects: Sequence[AnyObject], assembly: Assembly) -> Decision:
    """One cycle of the allocate action on a cluster of these objects."""
    state = ClusterState()
    for obj in objects:
        state.apply(Seen(obj))
    ssn = Session(state, tiers=assembly.tiers(), actions=("allocate",), compat=assembly.compat, runtime=Runtime())
    return Oracle(ssn.open()).run()


class Oracle:
    """One cycle."""

    def __init__(self, ssn: Session) -> None:
        self.ssn = ssn
        self.decision = Decision()

    def run(self) -> Decision:
        ssn = self.ssn
        for job in ssn.jobs.values():
            if job.is_pending:
                ssn.state.set_phase(job, JobPhase.INQUEUE)
        for queue in sorted(ssn.queues.values(), key=lambda q: (q.creation, q.name)):
            waiting = {
                job.uid: (job, self.tasks(job)) for job in queue.jobs.values() if ssn.job_valid(job) and self.tasks(job)
            }
            while waiting:
                job, tasks = min(waiting.values(), key=lambda one: self.place(one[0]))
                if not (self.serve(queue, job, tasks) and tasks):
                    del waiting[job.uid]
        return self.decision

    @property
    def place(self) -> Callable[[Job], Any]:
        """What sorts jobs by comparing each with each."""
        return cmp_to_key(self.compare)

    @property
    def task_place(self) -> Callable[[Task], Any]:
        return cmp_to_key(self.compare_tasks)

    def compare_tasks(self, left: Task, right: Task) -> int:
        return -1 if self.ssn.orders.task_less(left, right) else 1

    def compare(self, left: Job, right: Job) -> int:
        said = self.ssn.job_order(left, right)
        if said:
            return said
        a, b = (left.creation, left.uid), (right.creation, right.uid)
        return (a > b) - (a < b)

    def tasks(self, job: Job) -> list[Task]:
        waiting = [t for t in job.tasks.values() if t.status is S.PENDING and not t.best_effort and placeable(t)]
        return sorted(waiting, key=self.task_place)

    def serve(self, queue: Queue, job: Job, tasks: list[Task]) -> bool:
        """One visit of a job: place tasks until it is ready; was anything committed?"""
        ssn = self.ssn
        placed: list[Task] = []
        while tasks:
            task = tasks.pop(0)
            if not ssn.allocatable(queue, task):
                continue
            node, idle = self.best(task)
            if node is None:
                if job.min_available >= len(job.tasks):
                    break
                continue
            ssn.state.set_status(task, S.ALLOCATED if idle else S.PIPELINED, node)
            if self.objection(task):
                ssn.state.set_status(task, S.PENDING, None)
                continue
            placed.append(task)
            if ssn.job_ready(job):
                break
        ready = bool(ssn.job_ready(job))
        if not ready and not ssn.job_pipelined(job):
            for task in placed:
                ssn.state.set_status(task, S.PENDING, None)
            return False
        for task in placed:
            if task.status is S.PIPELINED:
                self.decision.pipelined[task.key] = task.node_name
            elif ready:
                self.decision.binds[task.key] = task.node_name
        return ready

    def objection(self, task: Task) -> bool:
        objections = []
        for handler in self.ssn.handlers:
            event = Event(task)
            if handler.allocate is not None:
                handler.allocate(event)
            objections.append(event.err)
        return any(objections)

    # -- nodes --------------------------------------------------------------------------------------------------------
    def best(self, task: Task) -> tuple[Node | None, bool]:
        """The best node with room now (that is not promised away), else the best once something is released."""
        future = [n for n in self.ssn.nodes.values() if self.fits(task, n) and self.room(task, n.future_idle.get)]
        idle = [n for n in future if self.room(task, n.idle.get)]
        if idle:
            return self.choose(task, idle), True
        return (self.choose(task, future), False) if future else (None, False)

    def room(self, task: Task, free: Callable[[int], Any]) -> bool:
        return all(free(d) >= v for d, v in task.requests.items())

    def fits(self, task: Task, node: Node) -> bool:
        row = NodeRows(self.ssn.state.table, np.array([node.row]))
        for callback in self.asked("predicate", task):
            try:
                callback.fn(task, node)
            except (Unfit, RuntimeError):
                return False
        for callback in self.asked("batch_predicate", task):
            answer = np.asarray(callback.fn(task, row))
            if not (answer[0] if answer.dtype == np.bool_ else answer[0] == 0):
                return False
        return True

    def asked(self, point: str, task: Task) -> list[Callback]:
        """Everybody who has something to say about the task."""
        callbacks = [c for tier in self.ssn.chain(point) for c in tier]
        return [c for c in callbacks if c.key is None or c.key(task) is not SKIP]

    def choose(self, task: Task, nodes: list[Node]) -> Node:
        scores = {n.name: 0.0 for n in nodes}
        for callback in self.asked("node_order", task):
            for n in nodes:
                score = float(callback.fn(task, n))
                scores[n.name] += 0.0 if math.isnan(score) else score
        for callback in self.asked("batch_node_order", task):
            one = [NodeRows(self.ssn.state.table, np.array([n.row])) for n in nodes]
            raw = np.array([float(callback.fn(task, row)[0]) for row in one])
            if callback.normalize is not None:
                raw = callback.normalize(raw, np.ones(len(nodes), dtype=np.bool_))
            for n, score in zip(nodes, raw.tolist(), strict=True):
                scores[n.name] += score
        for tier in self.ssn.chain("best_node"):
            for callback in tier:
                return self.ssn.nodes[callback.fn(task, scores)]
        return self.ssn.nodes[min(scores, key=lambda name: (-scores[name], name.encode()))]
