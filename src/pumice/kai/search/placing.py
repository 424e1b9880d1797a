"""Placing the next piece of a job: sub-groups in order, sets of nodes in turn, tasks on the best node of a set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pumice.engine.diagnosis import FitError
from pumice.engine.rows import Columns, NodeRows
from pumice.engine.scope import SKIP
from pumice.engine.views import Scorer
from pumice.framework.points import table as t
from pumice.framework.points.guard import PluginRows
from pumice.framework.session.outcome import Stage
from pumice.framework.session.session import Session
from pumice.kai.view.jobs import GroupSet, JobView, Member, PodSet
from pumice.kai.view.nodes import WHOLE_GPU, NodeLedger
from pumice.kai.view.points import NodeRank
from pumice.kai.view.queues import GPU_NAMES
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.wording import JobError, lacks, no_capacity, pod_error, task_error
from pumice.kai.view.world import KaiWorld, is_ours, world_of
from pumice.model.node import Node
from pumice.model.reason import Reason, Verdict, reason_of
from pumice.model.resources import dim_name

Index = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]


class WorldRows(NodeRows):
    """Rows in the order of the nodes' names; a ledger holds what is free on them in mind."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: NodeLedger, rows: Bools | Index) -> None:
        self._ledger = ledger
        index = ledger.order[rows[ledger.order]] if rows.dtype == np.bool_ else rows
        super().__init__(ledger.table, index.astype(np.intp, copy=False))

    @property
    def idle(self) -> Columns:
        return Columns(self, self._part(self._ledger.idle), 0)

    @property
    def releasing(self) -> Columns:
        """Being given back, less what is promised of it."""
        return Columns(self, self._part(self._ledger.releasing), 0)


Floats = npt.NDArray[np.float64]


_MOST: Final = np.iinfo(np.int64).max


class KaiChoice:
    """Asks filters and scores about nodes.

    The best node of a class is known without scores if all filters and scores are *steady*: they answer by class, and
    the order of nodes follows from numbers of rows (`KaiWorld.steady`, `KaiWorld.ranks`).
    """

    def __init__(self, ssn: Session) -> None:
        self._world: KaiWorld = world_of(ssn)
        self._guard = PluginRows(ssn.failures)
        self._filters, self._scorers = ssn.search.filters(), ssn.search.scorers()
        self._steady: dict[int, bool] = {}
        """Class -> whether all filters that its tasks meet are steady, and all scores among them."""
        self._unsteady = [s for s in self._scorers if s.call not in self._world.steady]
        """Scores that are asked about every task that they apply to."""
        self._applies = [_applying(self._guard, s) for s in self._unsteady]
        self._orders: dict[int, tuple[Bools, list[NodeRank]] | None] = {}
        """Class -> the nodes to which nobody objects, and the order of nodes, the widest band first; None: the order is
        not known without scores."""
        self._masked: tuple[Bools | None, npt.NDArray[np.intp]] = (None, np.empty(0, dtype=np.intp))

    # -- choosing ---------------------------------------------------------------------------------------------------
    def _is_steady(self, task: TaskView) -> bool:
        known = self._steady.get(task.task.klass.id)
        if known is None:
            request, world = task.request, self._world
            called = [_written(f.call) for f in self._filters]
            called += [s.call for s in self._scorers if s not in self._unsteady]
            known = request.shared is None and not request.claimed
            known = known and all(fn in world.steady and world.steady[fn](task) for fn in called)
            self._steady[task.task.klass.id] = known
        return known

    def is_asked_about(self, task: TaskView) -> bool:
        """Report whether a score that is not steady applies to the task."""
        for applies in self._applies:  # noqa: SIM110 - asked for every task
            if applies(task):
                return True
        return False

    def in_order(self, task: TaskView, nodes: Bools) -> Iterator[Node]:
        """The nodes with room to which nobody objects, the best first; by name among equals."""
        ledger = self._world.nodes
        fitting = ledger.room.fits(task.request, now=False)
        first = self._first(task, nodes & fitting)
        if first is not None:
            yield first
        rows = WorldRows(ledger, self._index(nodes))
        fits = fitting[rows.index]
        if not fits.any():
            return
        for at in _best_first(self.scores(task, rows), fits):
            node = self._world.state.table.nodes[int(rows.index[at])]
            if node is not None and node is not first and not self.objects(task, node):
                yield node

    def _first(self, task: TaskView, fitting: Bools) -> Node | None:
        """The best of some nodes with room, where the order is known without scores."""
        klass = task.task.klass.id
        if klass not in self._orders:
            self._orders[klass] = self._order_of(task)
        known = self._orders[klass]
        if known is None or not fitting.size or self.is_asked_about(task):
            return None
        suited, ranks = known
        left, ledger = fitting & suited, self._world.nodes
        for rank in ranks:
            numbers = rank.of(task)
            if numbers.dtype == np.bool_:
                better: Bools = left & ~numbers.view(np.bool_)
                left = better if better[better.argmax()] else left
            else:
                among = np.where(left, numbers, _MOST)
                left = among == among[among.argmin()]
        row = int(left.argmax() if ledger.rows_by_name else ledger.order[left[ledger.order].argmax()])
        return ledger.table.nodes[row] if (fitting & suited)[row] else None

    def _order_of(self, task: TaskView) -> tuple[Bools, list[NodeRank]] | None:
        if not self._is_steady(task):
            return None
        ledger, ranks = self._world.nodes, []
        for s in self._scorers:
            if s in self._unsteady or not self._guard.applies(s, task):
                continue
            rank = self._world.ranks.get(s.call)
            if rank is None or not rank.applies(task):
                return None
            ranks.append(rank)
        everything = WorldRows(ledger, np.arange(len(ledger.there), dtype=np.intp))
        return self.objections(task, everything) == 0, sorted(ranks, key=lambda rank: -rank.band)

    def _index(self, nodes: Bools) -> npt.NDArray[np.intp]:
        """The rows of some nodes by name, kept as long as the same nodes are asked for."""
        if self._masked[0] is not nodes:
            self._masked = (nodes, WorldRows(self._world.nodes, nodes).index)
        return self._masked[1]

    # -- asking -----------------------------------------------------------------------------------------------------
    def scores(self, task: TaskView, rows: WorldRows) -> Floats:
        """The answer of all plugins together about the nodes."""
        guard, asked = self._guard, task
        given = [
            (s, guard.scores(s, asked, rows, rows.nodes if not s.batch else ()))
            for s in self._scorers
            if guard.applies(s, asked)
        ]
        total: Floats = np.zeros(len(rows))
        for _, answer in given:
            total += answer
        if np.isfinite(total).all():
            return total
        total = np.zeros(len(rows))
        for s, answer in given:
            total += guard.finite(s, asked, answer)
        return total

    def objects(self, task: TaskView, node: Node) -> bool:
        """Report whether a filter rejects the node (room aside)."""
        one = WorldRows(self._world.nodes, np.array([node.row], dtype=np.intp))
        guard, asked = self._guard, task
        return any(bool(guard.objections(f, asked, one, [node])[0]) for f in self._filters if guard.applies(f, asked))

    def objections(self, task: TaskView, rows: WorldRows) -> npt.NDArray[np.int32]:
        """The first objection to each node, as a number; 0: there is none."""
        out = np.zeros(len(rows), dtype=np.int32)
        guard, asked = self._guard, task
        for f in self._filters:
            if guard.applies(f, asked):
                out = np.where(out, out, guard.objections(f, asked, rows, rows.nodes))
        return out


def _written(fn: Callable[..., object]) -> Callable[..., object]:
    """The registration of the plugin, below the translation of the question."""
    written: Callable[..., object] = getattr(fn, "__wrapped__", fn)
    return written if getattr(fn, "translates", False) else fn


def _applying(guard: PluginRows, scorer: Scorer) -> Callable[[TaskView], bool]:
    """Does a score apply to a task? KAI's own are asked without a guard."""
    key = scorer.key
    if key is None:
        return lambda task: True
    if is_ours(scorer.call):
        return lambda task: key(cast(Any, task)) is not SKIP
    return lambda task: guard.applies(scorer, task)


def _best_first(scores: Floats, fits: Bools) -> Iterator[int]:
    """Positions of those that fit, highest score first, in their order among equals."""
    found = np.flatnonzero(fits & np.isfinite(scores))
    if not len(found):
        return
    of_them = scores[found]
    first = int(of_them.argmax())
    yield int(found[first])
    of_them[first] = np.inf  # mostly the first is taken, so the others are put in order only when it is not
    yield from found[np.argsort(-of_them, kind="stable")][1:].tolist()


class Stuck(NamedTuple):
    """A task that found no node, among how many, and why."""

    task: TaskView
    reasons: dict[Reason, int]
    nodes: int
    error: JobError


class HopelessTasks:
    """Finds out what is in the way of tasks. The result for one is kept for equal ones until something changes."""

    def __init__(self, world: KaiWorld, best: KaiChoice, capacity: Callable[[TaskView, Node], Verdict]) -> None:
        """*capacity*: whether the queue of a task may have it on a node."""
        self._world, self._best, self._capacity = world, best, capacity
        self._lacks: dict[int, tuple[Bools, dict[Reason, int], Counter[str]]] = {}
        self._version = -1

    def _forget(self) -> None:
        """What is kept of a world that has changed since is kept no more."""
        if self._version != self._world.version:
            self._lacks, self._version = {}, self._world.version

    def reasons(self, task: TaskView, nodes: Bools) -> tuple[dict[Reason, int], Counter[str]]:
        """Nodes by what is in the way of a task, as reasons and in KAI's words."""
        found, words = Counter[Reason](), Counter[str]()
        room = self._world.nodes.room.fits(task.request, now=False)
        if not (nodes & room).any():
            return self._lacking(task, nodes)
        self._count_lacking(task, np.flatnonzero(nodes & ~room), found, words)
        rows = WorldRows(self._world.nodes, nodes & room)
        objections = self._best.objections(task, rows)
        for number, count in zip(*np.unique(objections, return_counts=True), strict=True):
            if number:
                found[reason_of(int(number))] += int(count)
                words[reason_of(int(number)).text] += int(count)
        for node, objected in zip(rows.nodes, objections.tolist(), strict=True):
            if not objected and not (said := self._capacity(task, node)):
                found[Reason("", said.text)] += 1
                words[no_capacity(said.reason, said.text)] += 1
        return dict(found), words

    def _lacking(self, task: TaskView, nodes: Bools) -> tuple[dict[Reason, int], Counter[str]]:
        """As `reasons`, where there is no room anywhere; kept until something changes."""
        self._forget()
        known = self._lacks.get(id(task.request))
        if known is None or known[0] is not nodes:
            found, words = Counter[Reason](), Counter[str]()
            self._count_lacking(task, np.flatnonzero(nodes), found, words)
            known = self._lacks[id(task.request)] = (nodes, dict(found), words)
        return known[1], known[2]

    def _count_lacking(
        self, task: TaskView, index: npt.NDArray[np.intp], found: Counter[Reason], words: Counter[str]
    ) -> None:
        """Count the resources of which nodes have too little; GPUs, where it is nothing else.

        KAI finds no words for GPUs that are asked for by their memory or by claims.
        """
        ledger, request = self._world.nodes, task.request
        left = np.ones(len(index), dtype=np.bool_)
        for d, v in (*request.items, *([(ledger.gpu, request.gpus)] if request.gpus else ())):
            free = ledger.idle[d, index] + ledger.releasing[d, index] if d < len(ledger.idle) else np.zeros(len(index))
            short = free < v
            if short.any():
                words[lacks(dim_name(d))] += int(short.sum())
                found[Reason("", f"Insufficient {dim_name(d)}")] += int((short & left).sum())
                left &= ~short
        if left.any():
            found[Reason("", f"Insufficient {GPU_NAMES[0]}")] += int(left.sum())
            if request.shared is not None and not request.shared.memory:
                words[lacks(GPU_NAMES[0])] += int(left.sum())


ASKS: Final = (
    *(t.PRE_JOB_ALLOCATION, t.JOB_WITHIN_CAPACITY, t.TASK_WITHIN_CAPACITY, t.SUBSET_NODES, t.PRE_PREDICATE),
    *(t.PREDICATE, t.BATCH_PREDICATE, t.NODE_ORDER, t.BATCH_NODE_ORDER, t.GPU_ORDER, t.BIND_REQUEST_MUTATE),
)


class Placer:
    """Places jobs in a world, for real or (*promises*) only on room that is being released."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._world: KaiWorld = world_of(ssn)
        self._pre = cast(Callable[[TaskView], Verdict], ssn.pre_predicate)
        self._capacity = cast(Callable[[TaskView, Node], Verdict], ssn.task_within_capacity)
        self._by_score_alone = ssn.compat.kai_waiting_gpus
        self._stuck: Stuck | None = None
        """The task that found no node last."""
        self._subset = ssn.subset_nodes if ssn.anybody(t.SUBSET_NODES) else None
        self._by_topology = self._world.only_kai(t.SUBSET_NODES)
        """Report whether nodes are divided only for members of a job that want a topology."""
        self._implied = all(map(self._world.only_kai, (t.JOB_WITHIN_CAPACITY, t.TASK_WITHIN_CAPACITY)))
        """If a queue may have a whole piece, it may have each of its tasks; GPU memory depends on the node."""
        self._prepared = self._world.only_kai(t.PRE_JOB_ALLOCATION)
        """Report whether a job without a topology can be placed without preparation."""
        self.best = KaiChoice(ssn)
        self._why_not = HopelessTasks(self._world, self.best, self._capacity)

    # -- jobs -------------------------------------------------------------------------------------------------------
    def place(self, plan: ChangePlan, nodes: Bools, job: JobView, *, promises: bool) -> bool:
        """Place the next piece of a job within some nodes; False with the plan as it was where it cannot be."""
        ssn, world = self._ssn, self._world
        if not (self._prepared and job.anywhere):
            ssn.pre_job_allocation(job)
        chunk = world.chunk(job, real=not promises)
        if not chunk:
            return False
        said = ssn.job_within_capacity(job, chunk)
        if not said:
            if not promises:
                world.refuse(job, Stage.QUEUE, said)
            return False
        self._stuck = None
        world.imagines = promises
        try:
            if self._is_alone(job, promises):
                done = self._task(plan, nodes, job, chunk[0], promises, 0)
            else:
                done = self._all(plan, nodes, job, chunk, promises, plan.checkpoint())
        finally:
            world.imagines = False
        if not done and not promises:
            self._tell(job)
        return done

    def _is_alone(self, job: JobView, promises: bool) -> bool:
        """Report whether a single task is to be placed, on any of the nodes, with no node reserved."""
        only = job.only
        if only is None or not (promises or not self._world.state.rooms):
            return False
        if self._by_topology and job.anywhere:
            return True
        return self._undivided(job.root) and self._undivided(only.podset)

    def _all(
        self, plan: ChangePlan, nodes: Bools, job: JobView, chunk: Sequence[TaskView], promises: bool, mark: int
    ) -> bool:
        world = self._world
        held = world.held_against(job) if not promises and world.state.rooms else ()
        with world.nodes.promised(held) if held else nullcontext():
            if self._all_of(plan, nodes, job, job.root, chunk, promises):
                return True
            plan.rollback(mark)
        return False

    def _tell(self, job: JobView) -> None:
        """Remember why the task that was tried last has no place: nodes by reason."""
        stuck, self._stuck = self._stuck, None
        if stuck is not None:
            self._ssn.outcome.unfit(job.job, stuck.task.task, FitError(stuck.reasons, stuck.nodes))
            self._world.refuse(job, Stage.NODES, stuck.error)

    def _member(
        self, plan: ChangePlan, nodes: Bools, job: JobView, member: Member, tasks: Sequence[TaskView], promises: bool
    ) -> bool:
        """Place the tasks that a sub-group has among *tasks*, in the first set of nodes that takes them all."""
        own = {id(p) for p in member.pod_sets()}
        mine = [task for task in tasks if id(self._set_of(job, task)) in own]
        return self._all_of(plan, nodes, job, member, mine, promises) if mine else True

    def _all_of(
        self, plan: ChangePlan, nodes: Bools, job: JobView, member: Member, mine: Sequence[TaskView], promises: bool
    ) -> bool:
        """Place all tasks, which are of one sub-group."""
        while isinstance(member, GroupSet) and len(member.members) == 1 and self._undivided(member):
            member = member.members[0]
        for within in self._subsets(job, member, mine, nodes):
            mark = plan.checkpoint()
            if isinstance(member, GroupSet):
                done = all(
                    self._member(plan, within, job, m, mine, promises)
                    for m in self._world.orders.members(member.members)
                )
            else:
                done = all(self._task(plan, within, job, task, promises, n) for n, task in enumerate(mine))
            if done:
                return True
            plan.rollback(mark)
        return False

    def _set_of(self, job: JobView, task: TaskView) -> PodSet:
        if job.whole is job:
            return task.podset
        return next(p for p in job.pod_sets() if any(t is task for t in p.tasks))

    def _undivided(self, member: Member) -> bool:
        """Report whether the nodes are not divided for a sub-group."""
        return self._subset is None or (self._by_topology and member.topology is None)

    def _subsets(self, job: JobView, member: Member, tasks: Sequence[TaskView], nodes: Bools) -> Sequence[Bools]:
        subset = self._subset
        if subset is None or self._undivided(member):
            return (nodes,)
        table = self._world.state.table
        listed = [n for n in (table.nodes[r] for r in np.flatnonzero(nodes).tolist()) if n is not None]
        sets = subset(job, member, tasks, listed)
        if sets is None:
            return (nodes,)
        found = []
        for one in sets:
            mask = np.zeros(len(nodes), dtype=np.bool_)
            mask[[n.row for n in one]] = True
            found.append(mask)
        return found

    # -- tasks ------------------------------------------------------------------------------------------------------
    def _task(self, plan: ChangePlan, nodes: Bools, job: JobView, task: TaskView, promises: bool, before: int) -> bool:
        """Place a task; *before*: so many of its set were placed in this attempt."""
        said = self._pre(task)
        if not said:
            if not promises:
                reasons = {Reason(said.plugin, said.text): int(nodes.sum())}
                error = pod_error(task, said.text, self._set_of(job, task), before)
                self._stuck = Stuck(task, reasons, int(nodes.sum()), error)
            return False
        best = self.best
        for node in best.in_order(task, nodes):
            if not (self._implied and not _by_memory(task)) and not self._capacity(task, node):
                continue
            if self._put(plan, task, node, promises):
                return True
            if plan.objected:
                plan.objected = False
                return False
        if not promises:
            reasons, words = self._why_not.reasons(task, nodes)
            error = pod_error(task, task_error(words), self._set_of(job, task), before)
            self._stuck = Stuck(task, reasons, int(nodes.sum()), error)
        return False

    def _put(self, plan: ChangePlan, task: TaskView, node: Node, promises: bool) -> bool:
        ledger = self._world.nodes
        shared = task.request.shared
        if shared is None:
            if not promises and ledger.room.fits_on(node.row, task.request, now=True):
                return plan.allocate(task, node)
            return plan.pipeline(task, node)
        picked, waits = self._pick_gpus(task, node, promises)
        if picked is None:
            return False
        if waits or promises or not ledger.room.fits_on(node.row, task.request, now=True):
            return plan.pipeline(task, node, picked)
        return plan.allocate(task, node, picked)

    def _pick_gpus(self, task: TaskView, node: Node, promises: bool) -> tuple[tuple[str, ...] | None, bool]:
        """The GPUs that a task shares on a node, best first, and whether it has to wait for one of them.

        Those with room at once go before the others, where it could start at once.
        """
        ledger, request = self._world.nodes, task.request.shared
        assert request is not None
        order, idle = self._ssn.gpu_order, ledger.idle_gpus(node.row)
        scored: list[tuple[bool, float, int, str, bool]] = []
        for position, name in enumerate(ledger.fitting_gpus(node.row, request)):
            score = order(task, node, name)
            if score is None:
                continue
            if name == WHOLE_GPU:
                later, idle = promises or idle < 1, idle - 1
            else:
                later = not ledger.takes_at_once(node.row, name, request)
            last = later and not promises and not self._by_score_alone
            scored.append((last, -score, position, name, later))
        chosen = sorted(scored)[: request.devices]
        if len(chosen) < request.devices:
            return None, False
        names = tuple(ledger.mint(node) if name == WHOLE_GPU else name for *_, name, _ in chosen)
        return names, any(later for *_, later in chosen)


def _by_memory(task: TaskView) -> bool:
    """Report whether the amount that counts in its queue depends on the node."""
    return task.request.shared is not None and task.request.shared.memory > 0
