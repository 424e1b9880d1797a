"""The ledger: the one way in which a task goes from one status and place to another.

`COUNTS` is the table of the sums in which a task of each status counts. `shift` moves one task, `place_many` and
`confirm_many` move equal tasks of one job. They write the columns of the node and the sums of the job, its queue and
its namespace; nothing else writes these sums. A task that enters or leaves the cluster moves from or to `OUT`. A job
that enters or leaves its queue brings its sums along (`count_job`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pumice.errors import IllegalMove, shown
from pumice.model.codes import ReasonCode
from pumice.model.job import Job, TaskGroup
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import EMPTY, Number, Resources
from pumice.model.status import MOVES, STATUS_COUNT, JobPhase, TaskStatus
from pumice.model.task import Task, TaskClass
from pumice.state import writing as w
from pumice.state.table import NodeTable
from pumice.state.writing import empty, find, put, put_all, take

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

_MOST_FAILURES: Final = 10
"""So many are kept; the rest would say the same."""
Contribution: TypeAlias = Callable[[Job], Resources]
Contributed: TypeAlias = tuple[str, Resources, Resources, Resources]
"""The queue of a job; what is still to come for it there, what it holds beyond its minimum, what will come in vain."""


class JobSum:
    """The sum of what jobs contribute, by a function of the job; it follows the jobs that change.

    If the function fails for a job, the job contributes nothing; the exception is kept for the owner of the sum.
    """

    __slots__ = ("_amounts", "_failures", "_parts", "contribution", "total")

    def __init__(self, contribution: Contribution, jobs: Iterable[Job]) -> None:
        self.contribution = contribution
        self._amounts: dict[int, Number] = {}
        self._parts: dict[str, Resources] = {}
        self._failures: list[BaseException] = []
        self.total = Resources(self._amounts)
        """As it is at each moment."""
        for job in jobs:
            self.follow(job)

    def follow(self, job: Job) -> None:
        """A job changed, came or went."""
        before = self._parts.get(job.uid, EMPTY)
        after = self._asked(job) if job.in_session else EMPTY
        if after is before:
            return
        _add(self._amounts, before, -1)
        _add(self._amounts, after, 1)
        if after is EMPTY:
            self._parts.pop(job.uid, None)
        else:
            self._parts[job.uid] = after

    def _asked(self, job: Job) -> Resources:
        try:
            part = self.contribution(job)
            if not isinstance(part, Resources):
                raise TypeError(f"the contribution of job {job.uid} must be a Resources, got {shown(part)}")
            return Resources(dict(part.items()))  # a sum of the job would change under our hands
        except KeyboardInterrupt:
            raise
        except BaseException as exc:
            if len(self._failures) < _MOST_FAILURES:
                self._failures.append(exc)
            return EMPTY

    def take_failures(self) -> list[BaseException]:
        """The exceptions since the last call."""
        taken, self._failures = self._failures, []
        return taken


def of_queue(job: Job) -> Contributed:
    """The contribution of a job to the sums of its queue."""
    if not job.in_session:
        return "", EMPTY, EMPTY, EMPTY
    minimum = job.min_resources
    if minimum is None and not job._allocated:
        return job.queue, EMPTY, EMPTY, EMPTY
    inqueue, held = EMPTY, job._allocated
    if minimum is not None and (job.phase == JobPhase.INQUEUE or is_running(job)):
        lacks = _lacking(held, minimum)
        inqueue = job.without_gated(lacks) if lacks is not EMPTY else EMPTY
    in_vain = inqueue if inqueue is not EMPTY and fits_nowhere(job) else EMPTY
    return job.queue, inqueue, _beyond(held, minimum), in_vain


def _lacking(held: Mapping[int, Number], minimum: Resources) -> Resources:
    """The amounts that a job lacks of its minimum; zero amounts are left out."""
    least = minimum._values
    if held == least:
        return EMPTY
    if not held and min(least.values(), default=1) > 0:
        return minimum
    lacks = {}
    for d, v in least.items():
        if d in held:
            v -= held[d]
        if v > 0:
            lacks[d] = v
    return Resources(lacks) if lacks else EMPTY


def _beyond(held: Mapping[int, Number], minimum: Resources | None) -> Resources:
    """The amounts that a job holds beyond its minimum; zero amounts are left out."""
    if not held:
        return EMPTY
    least = minimum._values if minimum is not None else EMPTY._values
    if held == least:
        return EMPTY
    more = {}
    for d, v in held.items():
        if d in least:
            v -= least[d]
        if v > 0:
            more[d] = v
    return Resources(more) if more else EMPTY


def fits_nowhere(job: Job) -> bool:
    """Report whether it was admitted, has its pods and holds nothing, and the last cycle found no place for it.

    The PodGroup shows it, so a new scheduler knows it too.
    """
    group = job.group
    told = group.status.conditions if group is not None else None
    if not told or job.phase != JobPhase.INQUEUE or len(job.tasks) < job.min_available or job.allocated_count():
        return False
    return any(
        c.type == "Unschedulable" and c.status == "True" and c.reason == ReasonCode.NOT_ENOUGH_RESOURCES for c in told
    )


def is_running(job: Job) -> bool:
    """Report whether it runs with as many tasks as it needs."""
    return job.phase == JobPhase.RUNNING and job.allocated_count() >= job.min_available


def contribute(queues: Mapping[str, Queue], before: Contributed, now: Contributed) -> bool:
    """Let a job contribute to its queue what it does now, and no longer what it did; False where that is the same."""
    if before[0] == now[0] and before[1] is now[1] and before[2] is now[2] and before[3] is now[3]:
        return False
    queue: Queue | None = None
    for (name, inqueue, elastic, in_vain), sign in ((before, -1), (now, 1)):
        if inqueue is elastic is in_vain is EMPTY or not name:
            continue
        if queue is None or queue.name != name:
            queue = find(queues, name)
        if queue is not None:
            _add(queue._inqueue, inqueue, sign)
            _add(queue._elastic, elastic, sign)
            _add(queue._in_vain, in_vain, sign)
    return True


def _add(into: dict[int, Number], what: Resources, sign: int) -> None:
    if what is EMPTY:
        return
    for d, v in what._values.items():
        into[d] = into[d] + sign * v if d in into else sign * v


S = TaskStatus
_PENDING: Final = S.PENDING
_RELEASING: Final = S.RELEASING
OUT: Final = STATUS_COUNT
"""The status of a task that is not in the cluster: before its pod is first seen and after its pod is gone."""
Items = tuple[tuple[int, int], ...]


# -- what a task counts in --------------------------------------------------------------------------------------------
class Counts(NamedTuple):
    """The sums that a task counts in, in units of its request."""

    idle: int = 0
    used: int = 0
    releasing: int = 0
    pipelined: int = 0
    there: int = 0
    """Whether it is one of its node's tasks and pods."""
    allocated: int = 0
    held: int = 0
    pending: int = 0
    total: int = 1


_PLACED: Final = Counts(idle=-1, used=1, there=1, allocated=1, held=1)
COUNTS: Final[dict[int, Counts]] = {
    S.PENDING: Counts(pending=1),
    S.ALLOCATED: _PLACED,
    S.PIPELINED: Counts(pipelined=1, there=1, held=1),
    S.BINDING: _PLACED,
    S.BOUND: _PLACED,
    S.RUNNING: _PLACED,
    S.RELEASING: Counts(idle=-1, used=1, releasing=1, there=1),
    S.SUCCEEDED: Counts(),
    S.FAILED: Counts(),
    S.UNKNOWN: Counts(idle=-1, used=1, there=1),
    OUT: Counts(total=0),
}
"""The table: what a task of each status counts in. The first five hold where its node is known."""

_EVERY: Final = range(STATUS_COUNT + 1)
_THERE: Final = tuple(bool(COUNTS[s].there) for s in _EVERY)
_ON: Final = tuple(tuple(COUNTS[s][:4]) for s in _EVERY)
_COLUMNS: Final = tuple(
    tuple(tuple(b - a for a, b in zip(_ON[x], _ON[y], strict=True)) for y in _EVERY) for x in _EVERY
)
"""[before][after]: what a move on one node does to its idle, used, releasing and pipelined."""
_SUMS: Final = tuple(
    tuple(tuple(b - a for a, b in zip(COUNTS[x][5:], COUNTS[y][5:], strict=True)) for y in _EVERY) for x in _EVERY
)
"""[before][after]: what a move does to allocated, held, pending and total."""
_HOLDS: Final = tuple(COUNTS[s] is _PLACED for s in _EVERY)
"""Whether a task of that status holds its place and is seen there."""
_NOTHING: Final = (0, 0, 0, 0)
_ALLOWED: Final = tuple(tuple((x, y) in MOVES for y in S) for x in S)
"""[before][after]: whether a session may do that."""


# -- one task ---------------------------------------------------------------------------------------------------------
def check(task: Task, status: TaskStatus) -> None:
    """:raises IllegalMove: a session may not take the task from its status to this one."""
    if not _ALLOWED[task.status][status]:
        raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to {status.title}")


def shift(
    state: ClusterState,
    task: Task,
    before: int,
    after: int,
    node: Node | None,
    *,
    devices: Sequence[int] = (),
    evicted: bool = False,
) -> None:
    """Take a task from one status to another and to its place there, with everything that counts it.

    *before* is its status, or `OUT` if nothing counts it yet.
    """
    old, place = task.node, node if _THERE[after] else None
    stays = old is place and (before == OUT or _COLUMNS[before][after] == _NOTHING)
    if old is not place:
        if old is not None:
            _leave(state, task, before, old)
        if place is not None:
            _arrive(state, task, after, place, evicted)
    elif place is not None:
        _stay(state, task, _COLUMNS[before][after], place, evicted)
    holds = state.rooms and task.uid in state.rooms and (before == _PENDING) is not (after == _PENDING)
    if holds and after != _PENDING:
        state._hold_follows(task, -1)
    if evicted is not task.evicted:
        w.set_evicted(task, evicted)
    if after != OUT:
        w.set_status(task, after)  # type: ignore[arg-type]
    if place is not old:
        w.set_node(task, place)
    if not stays and task.klass.requires_gpu:
        state.devices.follow(task, before, after, old, place, devices)
    if holds and after == _PENDING:
        state._hold_follows(task, 1)
    if task.job is not None:
        if before == _RELEASING:
            state.leaving.pop(task.uid, None)
        if after == _RELEASING:
            state.leaving[task.uid] = task
        count(task.job, task, before, after)
        if task.sub_job is not None:
            count(task.sub_job, task, before, after)
        _add_move(state, task.job, task, before, after, 1)


def confirm(task: Task) -> None:
    """Let an allocated task be one that is being bound. It counts in the same sums, only its status changes.

    :raises IllegalMove: it is not allocated.
    """
    if task.status is not S.ALLOCATED:
        raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to {S.BINDING.title}")
    w.set_status(task, S.BINDING)
    for group in (task.job, task.sub_job):
        if group is not None:
            count(group, task, S.ALLOCATED, S.BINDING)


def forget_eviction(state: ClusterState, task: Task) -> None:
    """Count a task that this session evicted as one that is simply terminating."""
    w.set_evicted(task, False)
    if task.node is not None:
        _evict(state.table, task.node.row, task.klass.items, -1)
        _show(state.table, task.node.row, task.klass, 1)
        state.table.touched.add(task.node.row)


def _leave(state: ClusterState, task: Task, before: int, node: Node) -> None:
    """Count a task no longer on a node."""
    table, row, klass = state.table, node.row, task.klass
    take(node.tasks, task.uid, None)
    if used := _ON[before][1]:
        add(state.used_total, klass.items, -used)
    if _HOLDS[before] and not task.evicted:
        table.place(row, klass, -1)
        return
    table.book(row, klass.items, *_COLUMNS[before][OUT])
    if task.evicted:
        _evict(table, row, klass.items, -1)
    else:
        _show(table, row, klass, -1)
    table.touched.add(row)


def _arrive(state: ClusterState, task: Task, after: int, node: Node, evicted: bool) -> None:
    """Count a task on a node."""
    table, row, klass = state.table, node.row, task.klass
    put(node.tasks, task.uid, task)
    if used := _ON[after][1]:
        add(state.used_total, klass.items, used)
    if _HOLDS[after] and not evicted:
        table.place(row, klass, 1)
        return
    table.book(row, klass.items, *_ON[after])
    table.touched.add(row)
    if evicted:
        _evict(table, row, klass.items, 1)
        state.evicted_now.append(task)
    else:
        _show(table, row, klass, 1)


def _stay(state: ClusterState, task: Task, moved: tuple[int, ...], node: Node, evicted: bool) -> None:
    """Count a task in another status on the node where it is."""
    table, row, klass = state.table, node.row, task.klass
    if moved != _NOTHING:
        table.book(row, klass.items, *moved)
        if used := moved[1]:
            add(state.used_total, klass.items, used)
    if evicted is not task.evicted:
        _show(table, row, klass, -1 if evicted else 1)
        _evict(table, row, klass.items, 1 if evicted else -1)
        if evicted:
            state.evicted_now.append(task)
    table.touched.add(row)


def _show(table: NodeTable, row: int, klass: TaskClass, sign: int) -> None:
    """Count (+1) or no longer count (-1) a pod where kube-scheduler would see it."""
    table.show(row, klass.nonzero_cpu, klass.nonzero_memory, sign)


def _evict(table: NodeTable, row: int, items: Items, sign: int) -> None:
    for d, v in items:
        table.evicted[d, row] += sign * v


# -- many equal tasks of one job --------------------------------------------------------------------------------------
def place_many(state: ClusterState, tasks: Sequence[Task], nodes: Sequence[Node], status: TaskStatus) -> None:
    """Give equal, pending tasks of one job their places, with the result of one `shift` a task.

    :raises IllegalMove: one of them is not pending; nothing was changed.
    """
    for task in tasks:
        if task.status is not _PENDING:
            raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to {status.title} with others")
    first = tasks[0]
    klass, job, k = first.klass, first.job, len(tasks)
    state.table.book_many(Counter([node.row for node in nodes]), klass, _ON[status])
    if used := _ON[status][1]:
        add(state.used_total, klass.items, used * k)
    set_status, set_node = w.set_status, w.set_node
    for task, node in zip(tasks, nodes, strict=True):
        set_status(task, status)
        set_node(task, node)
        put(node.tasks, task.uid, task)
        if task.sub_job is not None:
            count(task.sub_job, task, _PENDING, status)
    _count_many(job, tasks, _PENDING, status)
    if first.best_effort:
        for role, n in Counter([task.role for task in tasks]).items():
            job._role_counts[role][STATUS_COUNT] -= n
        w.set_pending_best_effort(job, job.pending_best_effort_count - k)
    _add_move(state, job, first, _PENDING, status, k)


def confirm_many(tasks: Sequence[Task]) -> None:
    """Let allocated tasks of one job without sub-jobs be bound, with the result of one `confirm` a task.

    :raises IllegalMove: one of them is not allocated; nothing was changed.
    """
    for task in tasks:
        if task.status is not S.ALLOCATED:
            raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to Binding")
    set_status = w.set_status
    for task in tasks:
        set_status(task, S.BINDING)
    _count_many(tasks[0].job, tasks, S.ALLOCATED, S.BINDING)


# -- what jobs, queues and namespaces hold ----------------------------------------------------------------------------
def count(group: TaskGroup, task: Task, before: int, after: int) -> None:
    """Count a task of a job or sub-job in another status. It came from `OUT` or went to `OUT` if it is new or gone."""
    uid, best_effort = task.uid, task.best_effort
    counts = group._role_counts.get(task.role)
    if counts is None:
        counts = group._role_counts[task.role] = [0] * (STATUS_COUNT + 1)
    pending = 0
    if before != OUT:
        take(group._by_status[before], uid)
        counts[before] -= 1
        if best_effort and before == _PENDING:
            pending -= 1
    if after != OUT:
        put(group._by_status[after], uid, task)
        counts[after] += 1
        if best_effort and after == _PENDING:
            pending += 1
    if pending:
        counts[STATUS_COUNT] += pending
        w.set_pending_best_effort(group, group.pending_best_effort_count + pending)
    w.set_group_version(group, group.version + 1)


def _count_many(job: Job, tasks: Sequence[Task], before: TaskStatus, after: TaskStatus) -> None:
    """Count different tasks of a job in another status."""
    uids = [task.uid for task in tasks]
    were = job._by_status[before]
    if len(were) == len(tasks):
        empty(were)
    else:
        for uid in uids:
            take(were, uid)
    put_all(job._by_status[after], zip(uids, tasks, strict=True))
    for role, n in Counter([task.role for task in tasks]).items():
        counts = job._role_counts[role]
        counts[before] -= n
        counts[after] += n
    w.set_group_version(job, job.version + 1)


def _add_move(state: ClusterState, job: Job, task: Task, before: int, after: int, times: int) -> None:
    """Move *times* equal requests of a job from the sums of one status to those of another."""
    moved = _SUMS[before][after]
    if moved != _NOTHING:
        _add_sums(state, job, task, moved, times)
    if task.best_effort:
        if job.pending_best_effort_count:
            state.best_effort[job.uid] = job
        else:
            state.best_effort.pop(job.uid, None)
    state.mark(job)


def _add_sums(state: ClusterState, job: Job, task: Task, moved: tuple[int, ...], times: int) -> None:
    """Add what a move changes to the sums of job, namespace and queue."""
    allocated, held, pending, total = moved
    queue: Queue | None = find(state.queues, job.queue) if job.in_session else None
    sums: list[tuple[dict[int, Number], int]] = []
    if allocated:
        sums += (job._allocated, allocated), (state.namespace(task.namespace)._allocated, allocated)
        if queue is not None:
            sums.append((queue._allocated, allocated))
    if held:
        sums.append((job._held, held))
        if queue is not None:
            sums.append((queue._held, held))
    if pending:
        sums.append((job._pending, pending))
        if queue is not None:
            sums.append((queue._pending, pending))
            _list_pending(queue, job)
    if total:
        sums.append((job._total, total))
    items = task.klass.items
    for amounts, sign in sums:
        by = sign * times
        if by == 1 and not amounts:
            amounts.update(items)
            continue
        for d, v in items:
            amounts[d] = amounts[d] + by * v if d in amounts else by * v
    if queue is not None:
        w.set_queue_version(queue, queue.version + 1)


def _list_pending(queue: Queue, job: Job) -> None:
    """Keep the queue's list of jobs with pending tasks."""
    if job._by_status[_PENDING]:
        put(queue.waiting, job.uid, job)
    else:
        take(queue.waiting, job.uid, None)


def count_job(queue: Queue, job: Job, sign: int) -> None:
    """Let a job with all that it counts enter (+1) or leave (-1) its queue."""
    if sign > 0:
        put(queue._jobs, job.uid, job)
        _list_pending(queue, job)
    else:
        take(queue._jobs, job.uid, None)
        take(queue.waiting, job.uid, None)
    for into, what in ((queue._allocated, job._allocated), (queue._held, job._held), (queue._pending, job._pending)):
        if what and (sign > 0 or any(what.values())):  # of a job that leaves, nothing is left most often
            add(into, tuple(what.items()), sign)
    w.set_queue_version(queue, queue.version + 1)


def count_in_queue(queue: Queue, items: Sequence[tuple[int, Number]], sign: int) -> None:
    """Count (+1) or no longer count (-1) amounts as held by a queue while a question is put."""
    add(queue._held, items, sign)
    w.set_queue_version(queue, queue.version + 1)


def add(into: dict[int, Number], items: Sequence[tuple[int, Number]], times: int) -> None:
    """Add amounts so many times, in place."""
    for d, v in items:
        into[d] = into[d] + times * v if d in into else times * v
