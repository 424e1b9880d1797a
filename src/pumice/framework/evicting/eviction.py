"""Making room for a task by evicting others: what preempt and reclaim share.

A search goes from cheap to exact. For all nodes at once: do the filters let the task there, and would it fit were every
permitted victim gone? Only then, node by node, best score first: ask the plugins who may go, evict one after the other
until the task fits, and let those stay that turn out not to be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.views import ClassView, same_class
from pumice.framework.evicting.eviction_plan import ASKS as PLAN_ASKS
from pumice.framework.evicting.eviction_plan import commit_plan, spare_more, spares
from pumice.framework.evicting.fitting import enough, most_first, roomy, shortage, worth_of
from pumice.framework.evicting.possible import FromQueue, PossibleVictims, Victims
from pumice.framework.evicting.victims import ASKS as VICTIM_ASKS
from pumice.framework.evicting.victims import victim_order, victim_queue, without_rounds
from pumice.framework.placing.node_search import keeps_failures, never_again, rows_named
from pumice.framework.points import table as points
from pumice.framework.points.table import RECLAIMABLE, VICTIM_FILTER
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
Index = npt.NDArray[np.intp]
Permits: TypeAlias = Callable[[Task], bool]
TryNodes: TypeAlias = Callable[[Task, Iterator[Node], Queue, Statement, Permits], bool]

ASKS = (points.VICTIM_FILTER, points.PRE_PREDICATE, *PLAN_ASKS, *VICTIM_ASKS)


class RoomMaker:
    """Makes room for tasks, for one action in one session.

    *point* is the question that says who may go (PREEMPTABLE or RECLAIMABLE). *asks_again*: once there is room, queue
    and filters must still let the task there. *anywhere*: a node without candidates will do when it fits as it is.
    *remember*: a node that objected for good to one task of a role is not looked at for the next (as Volcano does).
    """

    def __init__(
        self, ssn: Session, action: str, point: Victims, *, asks_again: bool, anywhere: bool, remember: bool = False
    ) -> None:
        self._ssn, self._action, self._point = ssn, action, point
        self._asks_again, self._anywhere = asks_again, anywhere
        self._refused: dict[tuple[str, str], Bools] | None = {} if remember and keeps_failures(ssn) else None
        self._spares = spares(ssn)
        self._settles = point is RECLAIMABLE and not ssn.compat.reclaim_in_turns
        self._at_once = self._settles and refusals_last(ssn)
        """Is it asked whether victims could come back when all are evicted, instead of one after the other?"""
        self.possible = PossibleVictims(ssn, point)
        self._filters = ssn.anybody(VICTIM_FILTER)
        self._failed: dict[tuple[str, Hashable, int, bool, bool], int] = {}
        self._thrifty: Callable[[Task], float] | None = None
        self._limits = _limits(ssn)

    def plan(self, job: Job, statement: Statement, make: Callable[[], None]) -> bool:
        """Let *make* make room for tasks of a job; True if that is enough, else all is taken back.

        Where budgets may be why it is not, they are left to those who make most of the room that the whole job needs.
        """
        make()
        if self._enough_for(job, statement):
            return True
        if not self._ssn.budgets.watched or len(job.with_status(S.PENDING)) < 2:
            return False
        need = [(d, int(v)) for d, v in job.pending.items() if v > 0]
        self._thrifty = partial(worth_of, need)
        try:
            make()
        finally:
            self._thrifty = None
        return self._enough_for(job, statement)

    def _enough_for(self, job: Job, statement: Statement) -> bool:
        if statement.operations and self._ssn.job_pipelined(job):
            return True
        statement.discard()
        return False

    # -- the search -------------------------------------------------------------------------------------------------
    def make(
        self, task: Task, queue: Queue, statement: Statement, permits: Permits, from_queue: FromQueue | None = None
    ) -> bool:
        """Pipeline the task somewhere, with the evictions that it takes; False with nothing changed if it cannot be.

        *permits* says which tasks may be candidates, *from_queue* from which queues they come; None: from its own job.
        """
        return self.search(task, queue, statement, permits, from_queue, self._first_fit)

    def search(
        self,
        task: Task,
        queue: Queue,
        statement: Statement,
        permits: Permits,
        from_queue: FromQueue | None,
        try_nodes: TryNodes,
    ) -> bool:
        """As `make`, with *try_nodes* to settle which of the nodes that are worth a closer look is taken."""
        ssn = self._ssn
        position = ssn.state.table.touched
        key = ssn.search.evaluator.key_of(task)
        known = (task.job_key, key, task.priority, from_queue is None, self._thrifty is not None)
        if self._failed.get(known) == position.position and not (self._refused is not None and task.role):
            return False
        with ssn.state.lifted(task):
            made = self._search(task, queue, statement, permits, from_queue, try_nodes)
        if not made:
            self._failed[known] = position.position
        return made

    def _search(
        self,
        task: Task,
        queue: Queue,
        statement: Statement,
        permits: Permits,
        from_queue: FromQueue | None,
        try_nodes: TryNodes,
    ) -> bool:
        view = self._ssn.search.evaluator.view(task)
        if self._spares and self._without_evictions(view, task, queue, statement):
            return True
        could = self.possible.could_fit(task, from_queue)
        return any(
            try_nodes(task, self.nodes(view, task, could, limit), queue, statement, permits) for limit in self._limits
        )

    def _first_fit(
        self, task: Task, nodes: Iterator[Node], queue: Queue, statement: Statement, permits: Permits
    ) -> bool:
        return any(self.on_node(task, node, queue, statement, permits) for node in nodes)

    def objects(self, task: Task, node: Node, plugins: Collection[str]) -> bool:
        """Does a filter of one of these plugins keep the task off the node as it is?"""
        rows = NodeRows(self._ssn.state.table, np.array([node.row], dtype=np.intp))
        evaluator = self._ssn.search.evaluator
        filters = [f for f in evaluator.filters if f.plugin in plugins and evaluator.guard.applies(f, task)]
        return any(evaluator.ask_filter(f, task, rows)[0] for f in filters)

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self._ssn.nodes)

    def nodes(self, view: ClassView, task: Task, could: Bools, limit: Bools | None) -> Iterator[Node]:
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
        ties = np.flatnonzero(scores == scores.max())
        best = int(ties[ranks[index[ties]].argmin()]) if len(ties) else 0
        nodes = ssn.state.table.nodes
        first = nodes[int(index[best])]
        if first is not None:
            yield first
        for at in np.lexsort((ranks[index], -scores)).tolist():
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
        """The rows within *limit* that objected for good to nobody of the task's role; objections to it are noted."""
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

    def _without_evictions(self, view: ClassView, task: Task, queue: Queue, statement: Statement) -> bool:
        """Pipeline the task where it fits once what is already leaving is gone; nobody need be evicted then."""
        ssn = self._ssn
        mask = (view.code == 0) & ssn.search.evaluator.future_ok(view)
        if not mask.any() or (self._asks_again and not ssn.allocatable(queue, task)):
            return False
        for limit in self._limits:
            for node in self.nodes(view, task, mask, limit):
                if self.fits(task, node, queue):
                    return not statement.pipeline(task, node)
        return False

    # -- one node ---------------------------------------------------------------------------------------------------
    def candidates(self, task: Task, node: Node, permits: Permits) -> list[Task]:
        """Tasks on the node that may be victims, before plugins are asked, first to go first."""
        found = [v for v in node.tasks.values() if v.preemptable and permits(v) and not v.job.together]
        if self._filters and found:
            job = task.job
            jobs = {v.job_key: v.job for v in found}
            allowed = {key for key, victim in jobs.items() if self._ssn.victim_filter(job, victim)}
            found = [v for v in found if v.job_key in allowed]
        return victim_order(self._ssn, without_rounds(self._ssn, task.job, found), task)

    def allowed(
        self, task: Task, candidates: Sequence[Task], worth: Callable[[Task], float] | None = None
    ) -> list[Task]:
        """Those of the candidates that the plugins let go; a budget for fewer of them is for those of most *worth*."""
        if not candidates:
            return []
        ssn = self._ssn
        on_node = {t.uid for t in candidates}
        return [t for t in ssn.evictable(self._point, task, candidates, worth) or () if t.uid in on_node]

    def on_node(self, task: Task, node: Node, queue: Queue, statement: Statement, permits: Permits) -> bool:
        """Evict on one node until the task fits, and pipeline it there; False with nothing changed if it does not."""
        mark = statement.checkpoint()
        evicted = self.clear(task, node, queue, statement, permits, spare=self._spares)
        if evicted is None:
            return False
        if statement.pipeline(task, node, bool(evicted)):
            statement.rollback(mark)
            return False
        return True

    def take(self, task: Task, node: Node, victims: Sequence[Task], statement: Statement) -> bool:
        """Evict exactly these and pipeline the task on their node; False with nothing changed if a plugin objects."""
        mark = statement.checkpoint()
        for victim in victims:
            statement.evict(victim, self._action, task)
        if statement.pipeline(task, node, True):
            statement.rollback(mark)
            return False
        return True

    def clear(
        self,
        task: Task,
        node: Node,
        queue: Queue,
        statement: Statement,
        permits: Permits,
        *,
        spare: bool,
        queue_decides: bool = True,
    ) -> list[Task] | None:
        """Evict on one node until the task fits; who had to go, or None with nothing changed if it never does.

        Without *queue_decides* it is enough that the node takes the task once all are gone.
        """
        ssn = self._ssn
        candidates = self.candidates(task, node, permits)
        if not candidates and not self._anywhere:
            return None
        thrifty = self._thrifty
        victims = self.allowed(task, candidates, thrifty)
        if not enough(ssn, task, node, victims):
            if not ssn.budgets.watched:
                return None
            worth = partial(worth_of, shortage(ssn, task, node))
            victims = self.allowed(task, ssn.budgets.together(candidates, worth), worth)
            if not enough(ssn, task, node, victims):
                return None
        mark = statement.checkpoint()
        at_once = self._at_once
        evicted = self._evict(task, node, queue, statement, victims, queue_decides, one_by_one=not at_once)
        if at_once and evicted and self._somebody_may_reclaim(evicted):
            self._at_once = False
            statement.rollback(mark)
            evicted = self._evict(task, node, queue, statement, victims, queue_decides, one_by_one=True)
        if evicted is None:
            statement.rollback(mark)
        elif spare:
            self._spare(task, node, queue, statement, evicted)
        return evicted

    def _evict(
        self,
        task: Task,
        node: Node,
        queue: Queue,
        statement: Statement,
        victims: Sequence[Task],
        queue_decides: bool,
        *,
        one_by_one: bool,
    ) -> list[Task] | None:
        """Evict victims until the task fits; who had to go, or None if it never does.

        *one_by_one*: whoever could come back at once is let stay before the next one is evicted.
        """
        thrifty = self._thrifty
        waiting = most_first(victims, thrifty) if thrifty else victim_queue(self._ssn, victims, task)
        evicted: list[Task] = []
        while not self.fits(task, node, queue):
            if not waiting:
                return evicted if not queue_decides and self.fits_node(task, node) else None
            victim = waiting.pop()
            statement.evict(victim, self._action, task)
            if one_by_one and self._settles and self._comes_back(task, node, victim, statement):
                statement.undo_of(victim)
            else:
                evicted.append(victim)
        return evicted

    def _somebody_may_reclaim(self, evicted: Sequence[Task]) -> bool:
        """May one of these queues, now that all are evicted, reclaim for its victim? If none, none could before."""
        kinds = {(victim.job.queue, victim.klass.id): victim for victim in evicted}
        queues = self._ssn.queues
        return any(name in queues and bool(self._ssn.preemptive(queues[name], [v])) for (name, _), v in kinds.items())

    def _comes_back(self, task: Task, node: Node, victim: Task, statement: Statement) -> bool:
        """Could the victim, now evicted, reclaim the place from the task at once? Then both would take turns."""
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

    def _spare(self, task: Task, node: Node, queue: Queue, statement: Statement, evicted: list[Task]) -> None:
        """Let those stay whose room the task turns out not to need, the most valuable first."""
        for victim in evicted[-2::-1]:
            if not roomy(self._ssn, task, node, victim):
                continue
            statement.undo_of(victim)
            if self.fits(task, node, queue):
                evicted.remove(victim)
            else:
                statement.evict(victim, self._action, task)

    def fits(self, task: Task, node: Node, queue: Queue) -> bool:
        """Would the task fit the node once what is leaving is gone, filters and queue included?"""
        if not roomy(self._ssn, task, node):
            return False
        return not self._asks_again or (bool(self._ssn.allocatable(queue, task)) and self.fits_node(task, node))

    def fits_node(self, task: Task, node: Node) -> bool:
        """Would the task fit the node once what is leaving is gone, filters included?"""
        ssn = self._ssn
        if not roomy(ssn, task, node):
            return False
        row = node.row
        gpu, devices = task.klass.gpu, ssn.state.devices
        if gpu is not None and not devices.fits_on(row, gpu, future=True):
            return False
        view = ssn.search.evaluator.view(task)
        if view.code[row]:
            return False
        if view.session_filters:
            only = np.zeros(view.size, dtype=np.bool_)
            only[row] = True
            return len(ssn.search.chooser.feasible(view, task, only)) > 0
        return True

    # -- the end ----------------------------------------------------------------------------------------------------
    def settle(self, statement: Statement, job: Job, task: Task | None = None) -> bool:
        """Commit the plan for a job if nobody refuses it, less the victims that it does not need; else take it back."""
        if self._spares:
            spare_more(self._ssn, statement)
        return commit_plan(self._ssn, self._action, statement, job, task)


def refusals_last(ssn: Session) -> bool:
    """Would a queue that may not reclaim for a task not do so, either, for any task of its class while it held more?"""
    asked = ssn.callbacks(points.PREEMPTIVE)
    return bool(asked) and all(c.key is same_class and c.monotone for c in asked)


def _limits(ssn: Session) -> list[Bools | None]:
    """The sets of rows to search one after the other."""
    if ssn.shard is None:
        return [None]
    own = rows_named(ssn, ssn.shard.nodes)
    return [own] if ssn.shard.hard else [own, ~own]
