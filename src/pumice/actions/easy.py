"""easybackfill: a reservation for the first job that must wait; others go first only where they do not delay it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pumice.framework.placing.serving import ASKS as SERVING_ASKS
from pumice.framework.placing.serving import WAITS_FOR_RELEASE, Server, bind_placed, place_job
from pumice.framework.placing.waiting_tasks import WaitingTasks
from pumice.framework.plugin import Action
from pumice.framework.points import table as points
from pumice.framework.run_times import declared_run_time, started_at
from pumice.framework.session.nominations import spared, that_give_way
from pumice.framework.session.outcome import Refusal, Stage, stage_of_invalid
from pumice.framework.session.pending_queue import QueueCursor, QueueLoop, first_waiting
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Operation, Statement
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task

Ints = npt.NDArray[np.int64]
S = TaskStatus


class EasyBackfill(Action):
    """EASY backfilling, in the place of ``allocate``. It plans with the run times that jobs declare.

    Jobs are served in the order of queues and jobs. The first that cannot start gets a reservation: the earliest time
    at which, by the declared run times of what runs, there is room for it. Jobs behind it start only if they will be
    over by then, or leave it its room. Something that runs without a declared run time never ends in this reckoning.
    """

    name = "easybackfill"
    asks = (points.JOB_VALID, *SERVING_ASKS)

    def execute(self, ssn: Session) -> None:
        """Try every waiting job once, best queue and best job first."""
        held: Reservation | None = None

        def place(queue: Queue, job: Job, tasks: WaitingTasks) -> bool:
            return _place(ssn, queue, job, held, tasks)

        server, loop = Server(ssn, place), QueueLoop(ssn)
        for queue, cursor in loop:
            job = _next(ssn, queue, cursor, held)
            if job is None:
                continue
            served = server.serve(queue, cursor, job)
            if not served and held is None and not job.is_ready:
                held = reserve(ssn, job)
            loop.put_back(queue)


def _next(ssn: Session, queue: Queue, cursor: QueueCursor, held: Reservation | None) -> Job | None:
    """The next job that is worth trying. Once there is a reservation, those that are known to be in vain are not."""
    while cursor:
        job = cursor.pop()
        if held is not None:
            if held.refuses(job):
                ssn.outcome.refusals.add(job, held.refusal)
                continue
            error = (
                ssn.search.chooser.why_not.hopeless(task)
                if (task := first_waiting(job)) is not None and cursor.shared
                else None
            )
            if error is not None and not that_give_way(ssn, queue, job) and not spared(ssn, job):
                refusal = Refusal(Stage.NODES, error=error)
                cursor.reject_group(ssn.outcome.refusals, job, refusal)
                continue
        valid = ssn.job_valid(job)
        if valid:
            return job
        ssn.outcome.refuse(job, stage_of_invalid(valid), valid)
    return None


def _place(ssn: Session, queue: Queue, job: Job, held: Reservation | None, tasks_left: WaitingTasks) -> bool:
    """Place what waits of a job; True if something was committed."""
    statement = place_job(ssn, queue, job, tasks_left, True)
    if statement is None:
        return False
    ready = ssn.job_ready(job)
    if not ready:
        statement.keep()
        ssn.outcome.refusals.add(job, Refusal.of(Stage.READY, ready, otherwise=WAITS_FOR_RELEASE))
        return False
    if held is not None and not held.admits(job, statement):
        statement.discard()
        ssn.outcome.refusals.add(job, held.refusal)
        return False
    return bind_placed(ssn, job, statement)


class Reservation:
    """Room for one job at a time to come."""

    def __init__(self, ssn: Session, job: Job, wanted: Sequence[tuple[Task, int]], at: float, free: Ints) -> None:
        self.job, self.at = job, at
        self._now, self._wanted, self._free = ssn.now, wanted, free
        self._nominations = ssn.runtime.nominations
        self._fits = _Fit(ssn, wanted)
        self._too_long: set[tuple[int, int]] = set()
        self.refusal = Refusal(Stage.NODES, f"would delay {job.uid}, which has a reservation")

    def _shape(self, job: Job) -> tuple[int, int]:
        first = first_waiting(job)
        return (first.klass.id if first is not None else 0, len(job.with_status(S.PENDING)))

    def ends_in_time(self, job: Job) -> bool:
        """Report whether the job would be over before the reservation begins."""
        return self._now + declared_run_time(job) <= self.at

    def refuses(self, job: Job) -> bool:
        """Report whether it is known, without looking at nodes, that the job would delay the reserved one."""
        if self.ends_in_time(job) or self._shape(job) not in self._too_long:
            return False
        return not any(uid in self._nominations for uid in job.with_status(S.PENDING))

    def admits(self, job: Job, placed: Statement) -> bool:
        """Report whether the job may start where it was placed. Its use beyond the reserved time is noted.

        Room that is held for the job is not among the reserved room, so it may always have that.
        """
        if not placed.operations or self.ends_in_time(job):
            return True
        shape = (placed.operations[0].task.klass.id, len(placed.operations) + len(job.with_status(S.PENDING)))
        taken = [op for op in placed.operations if not self._is_its_own(op)]
        for sign in (-1, 1):
            for op in taken:
                for d, v in op.task.klass.items:
                    if d < len(self._free):
                        self._free[d, op.node.row] += sign * v
            if sign < 0 and self._fits(self._free):
                return True
        self._too_long.add(shape)
        return False

    def _is_its_own(self, op: Operation) -> bool:
        """Report whether this room is held for the task that was placed."""
        nomination = self._nominations.get(op.task.uid)
        return nomination is not None and nomination.node == op.node.name


class _Fit:
    """Answers whether the tasks of a job have room, given what is free."""

    def __init__(self, ssn: Session, wanted: Sequence[tuple[Task, int]]) -> None:
        self._classes = []
        for task, count in wanted:
            klass = task.klass
            amounts = [(d, v) for d, v in zip(klass.fit_dims, klass.fit_values, strict=True) if v > 0]
            may = ssn.search.evaluator.view(task).code == 0
            self._classes.append((amounts, count, may & ssn.state.table.valid[: len(may)]))

    def __call__(self, free: Ints) -> bool:
        for amounts, count, may in self._classes:
            room = np.where(may, count, 0)
            for d, v in amounts:
                room = np.minimum(room, np.maximum(free[d, : len(may)], 0) // v)
            if int(room.sum()) < count:
                return False
            if len(self._classes) > 1:
                free = self._taken(free, amounts, count, room)
        return True

    @staticmethod
    def _taken(free: Ints, amounts: Sequence[tuple[int, int]], count: int, room: Ints) -> Ints:
        """The rest when *count* tasks have gone where they leave the least behind."""
        left = free.copy()
        for row in np.argsort(room, kind="stable").tolist():
            here = min(count, int(room[row]))
            if here:
                count -= here
                for d, v in amounts:
                    left[d, row] -= here * v
        return left


def reserve(ssn: Session, job: Job) -> Reservation | None:
    """The reservation of a job that cannot start now for lack of room; None if no time is known at which it could."""
    table = ssn.state.table
    needed = max(job.min_available - job.ready_count, 1)
    wanted: list[tuple[Task, int]] = []
    counts: Counter[int] = Counter()
    firsts: dict[int, Task] = {}
    for task in ssn.orders.sorted_tasks(t for t in job.with_status(S.PENDING).values() if not t.best_effort)[:needed]:
        firsts.setdefault(task.klass.id, task)
        counts[task.klass.id] += 1
    wanted = [(firsts[number], count) for number, count in counts.items()]
    wanted.sort(key=lambda pair: (-max(pair[0].klass.fit_values, default=0), pair[0].klass.id))
    if not wanted:
        return None
    ends = sorted(_ends(ssn), key=lambda end: end[0])
    fits = _Fit(ssn, wanted)
    idle = table.idle[:, : table.size].copy()
    for other, node in ssn.state.rooms.values():
        if other.job is not job and other.status is S.PENDING:
            for d, v in other.klass.items:
                idle[d, node.row] -= v

    def freed(count: int) -> Ints:
        free = idle.copy()
        for _, task in ends[:count]:
            for d, v in task.klass.items:
                free[d, task.row] += v
        return free

    low, high = 0, len(ends)
    if fits(idle) or not fits(freed(high)):
        return None  # it is not room that it lacks, or there will never be enough
    while low < high:
        middle = (low + high) // 2
        if fits(freed(middle)):
            high = middle
        else:
            low = middle + 1
    at = ends[low - 1][0] if low else ssn.now
    while low < len(ends) and ends[low][0] <= at:
        low += 1
    return Reservation(ssn, job, wanted, at, freed(low))


def _ends(ssn: Session) -> list[tuple[float, Task]]:
    """When what runs should be over, for everything that is known to end."""
    now = ssn.now
    out: list[tuple[float, Task]] = []
    for node in ssn.nodes.values():
        for task in node.tasks.values():
            if task.status is S.RELEASING:
                out.append((now, task))
                continue
            job = task.job
            length = declared_run_time(job) if job is not None else math.inf
            if length < math.inf and task.status is not S.PIPELINED:
                since = started_at(task)
                out.append((max(now, (now if since is None else since) + length), task))
    return out
