"""Room for single tasks, node by node: the search that preempt and reclaim share.

It goes from cheap to exact. For all nodes at once: do the filters let the task there, and would it fit if every
possible victim were gone? Only then, node by node, best score first: ask the plugins which tasks may go, evict one
after the other until the task fits, and let those stay that turn out not to be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.engine.heap import GoHeap
from pumice.engine.rows import NodeRows
from pumice.engine.views import ClassView
from pumice.framework.evicting.eviction_plan import ASKS as PLAN_ASKS
from pumice.framework.evicting.eviction_plan import commit_plan, find_plan, spare_more, spares
from pumice.framework.evicting.freed_capacity import EvictableCapacity, FromQueue, VictimQuestion, shortage
from pumice.framework.evicting.victims import ASKS as VICTIM_ASKS
from pumice.framework.evicting.victims import victim_queue, without_rounds
from pumice.framework.placing.waiting_tasks import keeps_failures, never_again, rows_named
from pumice.framework.points import table as points
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Statement
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import Unfit
from pumice.model.status import TaskStatus
from pumice.model.task import Task

S = TaskStatus
Bools = npt.NDArray[np.bool_]
Short: TypeAlias = Sequence[tuple[int, int]]
"""Amounts that are missing, by resource."""

ASKS = (points.VICTIM_FILTER, points.PRE_PREDICATE, *PLAN_ASKS, *VICTIM_ASKS)


@dataclass(frozen=True, slots=True)
class RoomRequest:
    """A task that needs room, the statement of its plan, and the tasks that may be victims."""

    task: Task
    queue: Queue
    statement: Statement
    permits: Callable[[Task], bool]
    """Report whether a task may be a candidate."""
    from_queue: FromQueue | None
    """Report whether tasks of a queue may be; None: tasks of the same job."""


@dataclass(frozen=True, slots=True)
class CandidateNodes:
    """On how many nodes evictions are tried before one is chosen: a percentage of the nodes, within limits."""

    percentage: int
    least: int
    most: int

    def of(self, nodes: int) -> int:
        """The number of candidates for so many nodes."""
        return min(max(min(max(nodes * self.percentage // 100, self.least), self.most), 1), nodes)


class Preemptor:
    """Makes room for tasks, for one action in one session.

    *question*: preemptable or reclaimable. *asks_again*: once there is room, queue and filters must still let the task
    there. *anywhere*: a node without candidates will do if the task fits there as it is. *remember*: a node that
    rejected one task of a role for good is not looked at for the next (as Volcano does). *compares*: victims are found
    on so many nodes, and the node is taken on which they matter least; without it, the first node is taken.
    """

    def __init__(
        self,
        ssn: Session,
        action: str,
        question: VictimQuestion,
        *,
        asks_again: bool,
        anywhere: bool,
        remember: bool = False,
        compares: CandidateNodes | None = None,
    ) -> None:
        self._ssn, self._action, self._question = ssn, action, question
        self._asks_again, self._anywhere, self._compares = asks_again, anywhere, compares
        self._refused: dict[tuple[str, str], Bools] | None = {} if remember and keeps_failures(ssn) else None
        self._spares = spares(ssn)
        self._settles = question is points.RECLAIMABLE and not ssn.compat.reclaim_in_turns
        self.capacity = EvictableCapacity(ssn, question)
        self._filters = ssn.anybody(points.VICTIM_FILTER)
        self._failed: dict[tuple[str, Hashable, int, bool, Short], int] = {}
        """Job, class, priority and way of a task that found no room -> the log position at which it found none."""
        self._most_of: Short = ()
        """The needs of the job at work, if budgets are left to the victims that free most of it; else nothing."""
        self._limits = _limits(ssn)

    # -- a job ------------------------------------------------------------------------------------------------------
    def make_room_for_job(self, job: Job, statement: Statement, serve: Callable[[], None]) -> bool:
        """Let *serve* make room for tasks of a job; True if that is enough, else nothing is changed.

        If it is not, budgets may be the reason: then they are left to the victims that free most of what the job needs.
        """

        def place(most_of: Short) -> bool:
            self._most_of = most_of
            serve()
            return bool(statement.operations)

        try:
            return find_plan(statement, self._ways(job), place, lambda _: self._ssn.job_pipelined(job)) is not None
        finally:
            self._most_of = ()

    def _ways(self, job: Job) -> Iterator[Short]:
        yield ()
        if self._ssn.budgets.watched and len(job.with_status(S.PENDING)) >= 2:
            yield tuple((d, int(v)) for d, v in job.pending.items() if v > 0)

    def settle(self, statement: Statement, job: Job, task: Task | None = None) -> bool:
        """Commit the plan for a job if no plugin rejects it, less the victims that it does not need; else undo it."""
        if self._spares:
            spare_more(self._ssn, statement)
        return commit_plan(self._ssn, self._action, statement, job, task)

    # -- a task -----------------------------------------------------------------------------------------------------
    def make_room(self, request: RoomRequest) -> bool:
        """Pipeline the task somewhere, with the evictions that it takes; False with nothing changed if it cannot be."""
        ssn, task = self._ssn, request.task
        log = ssn.state.table.touched
        key, own = ssn.search.evaluator.key_of(task), request.from_queue is None
        known = (task.job_key, key, task.priority, own, self._most_of)
        if self._failed.get(known) == log.position and not (self._refused is not None and task.role):
            return False
        with ssn.state.lifted(task):
            made = self._find(request)
        if not made:
            self._failed[known] = log.position
        return made

    def _find(self, request: RoomRequest) -> bool:
        task = request.task
        view = self._ssn.search.evaluator.view(task)
        if self._spares and self._without_evictions(view, request):
            return True
        could = self.capacity.freed_for(task, request.from_queue).fits(task.klass)
        find = self._first if self._compares is None else partial(self._least_harm, self._compares)
        return any(find(request, self._nodes(view, task, could, limit)) for limit in self._limits)

    def _first(self, request: RoomRequest, nodes: Iterator[Node]) -> bool:
        def place(node: Node) -> bool:
            victims = self._clear(request, node, spare=self._spares)
            return victims is not None and not request.statement.pipeline(request.task, node, bool(victims))

        return find_plan(request.statement, nodes, place, lambda _: True) is not None

    def _nodes(self, view: ClassView, task: Task, could: Bools, limit: Bools | None) -> Iterator[Node]:
        """Nodes worth a closer look, best score first, ties by name."""
        ssn = self._ssn
        mask: Bools = view.severity <= 1
        if limit is not None:
            mask &= limit[: view.size]
        never = never_again(ssn, task)
        if never is not None:
            mask &= ~never
        if self._refused is not None and task.role:
            mask &= self._untried(view, task, limit, never, self._refused)
        hoped = mask & could
        if not hoped.any():
            return
        whole = ssn.search.chooser.needs_table(view)
        index = ssn.search.chooser.feasible(view, task, mask if whole else hoped, severity=1)
        worth = could[index] if whole else None
        if not (len(index) if worth is None else np.count_nonzero(worth)):
            return
        try:
            scores = ssn.search.chooser.scores(view, task, index)
        except Unfit:
            return
        if worth is not None:
            index, scores = index[worth], scores[worth]
        ranks = ssn.state.table.ranks()
        places = ranks[index]
        best = int(np.where(scores == scores.max(), places, len(ranks)).argmin())
        nodes = ssn.state.table.nodes
        first = nodes[int(index[best])]
        if first is not None:
            yield first
        for at in np.lexsort((places, -scores)).tolist():
            node = nodes[int(index[at])]
            if at != best and node is not None:
                yield node

    def _untried(
        self,
        view: ClassView,
        task: Task,
        limit: Bools | None,
        never: Bools | None,
        refused: dict[tuple[str, str], Bools],
    ) -> Bools:
        """The rows within *limit* that rejected no task of the task's role for good; rejections of it are noted."""
        mask = np.ones(view.size, dtype=np.bool_) if limit is None else limit[: view.size]
        if never is not None:
            mask = mask & ~never
        role = (task.job_key, task.role)
        known = refused.get(role)
        left = mask if known is None else mask & ~known
        failing = left.copy()
        failing[self._ssn.search.chooser.feasible(view, task, left & (view.severity <= 1), severity=1)] = False
        refused[role] = failing if known is None else known | failing
        return left & ~failing

    def _without_evictions(self, view: ClassView, request: RoomRequest) -> bool:
        """Pipeline the task where it fits once all that is leaving is gone; then no task need be evicted."""
        ssn, task = self._ssn, request.task
        mask = (view.code == 0) & ssn.search.evaluator.future_ok(view)
        if not mask.any() or (self._asks_again and not ssn.allocatable(request.queue, task)):
            return False
        for limit in self._limits:
            for node in self._nodes(view, task, mask, limit):
                if self._fits(request, node):
                    return not request.statement.pipeline(task, node)
        return False

    # -- one node ---------------------------------------------------------------------------------------------------
    def _clear(self, request: RoomRequest, node: Node, *, spare: bool) -> list[Task] | None:
        """Evict on one node until the task fits; the victims, or None if it does not fit even then."""
        victims = self._victims(request, node)
        if victims is None:
            return None
        evicted = self._evict(request, node, victims)
        if evicted and spare:
            self._spare(request, node, evicted)
        return evicted

    def _victims(self, request: RoomRequest, node: Node) -> list[Task] | None:
        """The victims that the plugins let go on a node, first to go first; None if they would not make room enough."""
        ssn, task, budgets = self._ssn, request.task, self._ssn.budgets
        candidates = self._candidates(request, node)
        if not candidates and not self._anywhere:
            return None
        table, klass, row = ssn.state.table, task.klass, node.row
        worth = partial(worth_of, self._most_of) if self._most_of else None
        victims = self._allowed(task, candidates, worth)
        if not shortage(table, klass, row, without=victims):
            return victims
        if not budgets.watched:
            return None
        worth = partial(worth_of, shortage(table, klass, row))
        victims = self._allowed(task, budgets.together(candidates, worth), worth)
        return None if shortage(table, klass, row, without=victims) else victims

    def _candidates(self, request: RoomRequest, node: Node) -> list[Task]:
        """Tasks on the node that may be victims, before plugins are asked, first to go first."""
        ssn, task = self._ssn, request.task
        found = [v for v in node.tasks.values() if v.preemptable and request.permits(v) and not v.job.together]
        if self._filters and found:
            jobs = {v.job_key: v.job for v in found}
            allowed = {key for key, victim in jobs.items() if ssn.victim_filter(task.job, victim)}
            found = [v for v in found if v.job_key in allowed]
        return ssn.orders.victims(without_rounds(ssn, task.job, found), task)

    def _allowed(self, task: Task, candidates: Sequence[Task], worth: Callable[[Task], float] | None) -> list[Task]:
        """The candidates that the plugins let go; a budget for fewer of them is for those of most *worth*."""
        if not candidates:
            return []
        on_node = {t.uid for t in candidates}
        return [t for t in self._ssn.evictable(self._question, task, candidates, worth) or () if t.uid in on_node]

    def _evict(self, request: RoomRequest, node: Node, victims: Sequence[Task]) -> list[Task] | None:
        """Evict victims until the task fits; those that had to go, or None if it never does.

        A victim that could come back at once is let stay before the next one is evicted. If several nodes are compared
        in Volcano's way, the queue does not decide: the task must fit the node once all are gone.
        """
        statement, task = request.statement, request.task
        if self._most_of:
            worth = partial(worth_of, self._most_of)
            waiting = GoHeap(lambda a, b: worth(a) > worth(b), victims)
        else:
            waiting = victim_queue(self._ssn, victims, task)
        evicted: list[Task] = []
        while not self._fits(request, node):
            if not waiting:
                if not self._ssn.simulates or shortage(self._ssn.state.table, task.klass, node.row):
                    return None
                return evicted if self._passes(task, node) else None
            victim = waiting.pop()
            statement.evict(victim, self._action, task)
            if self._settles and self._comes_back(task, node, victim, statement):
                statement.undo_of(victim)
            else:
                evicted.append(victim)
        return evicted

    def _comes_back(self, task: Task, node: Node, victim: Task, statement: Statement) -> bool:
        """Report whether the victim, now evicted, could reclaim the place from the task at once: an endless round."""
        ssn = self._ssn
        queue, own = ssn.queues.get(victim.job.queue), ssn.queues.get(task.job.queue)
        if queue is None or own is None or not own.reclaimable or not task.preemptable:
            return False
        if ssn.overused(queue) or not ssn.preemptive(queue, [victim]):
            return False
        mark = statement.checkpoint()
        if statement.pipeline(task, node):
            return False
        takes = ssn.reclaimable(victim, [task]) or ()
        statement.rollback(mark)
        return any(t is task for t in takes)

    def _spare(self, request: RoomRequest, node: Node, evicted: list[Task]) -> None:
        """Let those stay whose room the task turns out not to need, the most valuable first."""
        statement, task, table = request.statement, request.task, self._ssn.state.table
        for victim in evicted[-2::-1]:
            if shortage(table, task.klass, node.row, less=victim):
                continue
            statement.undo_of(victim)
            if self._fits(request, node):
                evicted.remove(victim)
            else:
                statement.evict(victim, self._action, task)

    def _fits(self, request: RoomRequest, node: Node) -> bool:
        """Report whether the task fits the node once all that is leaving is gone, filters and queue included."""
        ssn, task = self._ssn, request.task
        if shortage(ssn.state.table, task.klass, node.row):
            return False
        if not self._asks_again:
            return True
        return bool(ssn.allocatable(request.queue, task)) and self._passes(task, node)

    def _passes(self, task: Task, node: Node) -> bool:
        """Report whether the task passes the filters, and has its devices, once all that is leaving is gone."""
        ssn, row, gpu = self._ssn, node.row, task.klass.gpu
        if gpu is not None and not ssn.state.devices.fits_on(row, gpu, future=True):
            return False
        view = ssn.search.evaluator.view(task)
        if view.code[row]:
            return False
        if view.session_filters:
            only = np.zeros(view.size, dtype=np.bool_)
            only[row] = True
            return len(ssn.search.chooser.feasible(view, task, only)) > 0
        return True

    # -- several nodes ----------------------------------------------------------------------------------------------
    def _least_harm(self, compares: CandidateNodes, request: RoomRequest, nodes: Iterator[Node]) -> bool:
        """Find victims on several nodes, then take the node on which they matter least (topology-aware preemption)."""
        ssn = self._ssn
        ssn.simulates = ssn.compat.dry_run
        try:
            found = self._harms(compares.of(len(ssn.nodes)), request, nodes)
        finally:
            ssn.simulates = False
        now, task, statement = ssn.state.now, request.task, request.statement

        def place(candidate: tuple[Node, list[Task]]) -> bool:
            node, victims = candidate
            for victim in reversed(victims):
                statement.evict(victim, self._action, task)
            return not statement.pipeline(task, node, True)

        ranked = sorted(found, key=lambda one: (_harm(one[1], now), one[0].name.encode()))
        return find_plan(statement, ranked, place, lambda _: True) is not None

    def _harms(self, most: int, request: RoomRequest, nodes: Iterator[Node]) -> list[tuple[Node, list[Task]]]:
        """Nodes that could take the task, with their victims, the last first; nothing is changed.

        A node on which no task has to go is none of them.
        """
        ssn, statement = self._ssn, request.statement
        blind = ssn.plugins_without("enablePreemptable", "enabledAllocatable") if ssn.simulates else frozenset()
        found: list[tuple[Node, list[Task]]] = []
        mark = statement.checkpoint()
        for node in nodes:
            if blind and self._rejects(request.task, node, blind):
                continue
            victims = self._clear(request, node, spare=True)
            statement.rollback(mark)
            if victims:
                found.append((node, victims[::-1]))
                if len(found) >= most:
                    break
        return found

    def _rejects(self, task: Task, node: Node, plugins: Collection[str]) -> bool:
        """Report whether a filter of one of these plugins keeps the task off the node as it is."""
        rows = NodeRows(self._ssn.state.table, np.array([node.row], dtype=np.intp))
        evaluator = self._ssn.search.evaluator
        filters = [f for f in evaluator.filters if f.plugin in plugins and evaluator.guard.applies(f, task)]
        return any(evaluator.ask_filter(f, task, rows)[0] for f in filters)


def worth_of(short: Short, victim: Task) -> float:
    """Return how much of what is short a victim would leave, as parts of each resource."""
    return sum(min(int(victim.klass.requests.get(d)) / missing, 1.0) for d, missing in short)


def _harm(victims: Sequence[Task], now: float) -> tuple[int, int, int, float]:
    """Least first: highest priority of a victim, sum of priorities, number, and how long the oldest has run."""
    priorities = [v.pod.spec.priority or 0 for v in victims]
    highest = max(priorities)
    earliest = min(_started(v, now) for v, p in zip(victims, priorities, strict=True) if p == highest)
    return priorities[0], sum(p + 2**31 for p in priorities), len(victims), -earliest


def _started(victim: Task, now: float) -> float:
    """Since when a task runs; one that does not yet begins now."""
    since = victim.pod.status.start_time
    return since.timestamp() if since is not None else now


def _limits(ssn: Session) -> list[Bools | None]:
    """The sets of rows to search one after the other."""
    if ssn.shard is None:
        return [None]
    own = rows_named(ssn, ssn.shard.nodes)
    return [own] if ssn.shard.hard else [own, ~own]
