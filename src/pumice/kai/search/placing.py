"""Placing the next piece of a job: sub-groups in order, sets of nodes in turn, tasks on the best node of a set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pumice.engine.fit_error import FitError
from pumice.framework.points import table as t
from pumice.framework.points.rows import PluginRows
from pumice.framework.session.refusals import Stage
from pumice.framework.session.session import Session
from pumice.kai.search.rows import WorldRows
from pumice.kai.view.jobs import JobView
from pumice.kai.view.nodes import WHOLE_GPU
from pumice.kai.view.standins import as_job, as_part, as_task, as_tasks
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.subgroups import GroupSet, Member, PodSet
from pumice.kai.view.tasks import GPU_NAMES, TaskView
from pumice.kai.view.wording import JobError, lacks, no_capacity, pod_error, task_error
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.node import Node
from pumice.model.reason import Reason, Verdict, reason_of
from pumice.model.resources import dim_name

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
ASKS: Final = (
    *(t.PRE_JOB_ALLOCATION, t.JOB_WITHIN_CAPACITY, t.TASK_WITHIN_CAPACITY, t.SUBSET_NODES, t.PRE_PREDICATE),
    *(t.PREDICATE, t.BATCH_PREDICATE, t.NODE_ORDER, t.BATCH_NODE_ORDER, t.GPU_ORDER, t.BIND_REQUEST_MUTATE),
)


class _Stuck(NamedTuple):
    """A task that found no node, among how many, and why."""

    task: TaskView
    reasons: dict[Reason, int]
    nodes: int
    error: JobError


class Placer:
    """Places jobs in a world, for real or (*promises*) only on room that is being released."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._world: KaiWorld = world_of(ssn)
        self._guard = PluginRows(ssn.failures)
        self._filters, self._scorers = ssn.search.filters(), ssn.search.scorers()
        self._pre = cast(Callable[[TaskView], Verdict], ssn.pre_predicate)
        self._capacity = cast(Callable[[TaskView, Node], Verdict], ssn.task_within_capacity)
        self._by_score_alone = ssn.compat.kai_waiting_gpus
        self._full: dict[int, bool] = {}
        self._lacks: dict[int, tuple[Bools, dict[Reason, int], Counter[str]]] = {}
        self._stuck: _Stuck | None = None
        """The task that found no node last."""
        self._full_of = -1
        self._subset = ssn.subset_nodes if ssn.anybody(t.SUBSET_NODES) else None
        self._by_topology = self._world.only_kai(t.SUBSET_NODES)
        """Are nodes divided only where a member of a job wants a topology?"""
        self._masked: tuple[Bools | None, npt.NDArray[np.intp]] = (None, np.empty(0, dtype=np.intp))

    # -- jobs -------------------------------------------------------------------------------------------------------
    def place(self, plan: ChangePlan, nodes: Bools, job: JobView, *, promises: bool) -> bool:
        """Place the next piece of a job within some nodes; False with the plan as it was where it cannot be."""
        ssn, world = self._ssn, self._world
        ssn.pre_job_allocation(as_job(job))
        chunk = world.chunk(job, real=not promises)
        if not chunk or (promises and self._fits_nowhere(chunk[0])):
            return False
        said = ssn.job_within_capacity(as_job(job), as_tasks(chunk))
        if not said:
            if not promises:
                world.refuse(job, Stage.QUEUE, said)
            return False
        mark = plan.checkpoint()
        self._stuck = None
        world.imagines = promises
        try:
            done = self._all(plan, nodes, job, chunk, promises, mark)
        finally:
            world.imagines = False
        if not done and not promises:
            self._tell(job)
        return done

    def _all(
        self, plan: ChangePlan, nodes: Bools, job: JobView, chunk: Sequence[TaskView], promises: bool, mark: int
    ) -> bool:
        world = self._world
        held = world.held_against(job) if not promises and world.state.rooms else ()
        with world.nodes.promised(held):
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

    def _why_not(self, task: TaskView, nodes: Bools) -> tuple[dict[Reason, int], Counter[str]]:
        """Nodes by what is in the way of a task, as reasons and in KAI's words."""
        found, words = Counter[Reason](), Counter[str]()
        room = self._world.nodes.fits(task.request, now=False)
        if not (nodes & room).any():
            return self._lacking(task, nodes)
        self._count_lacking(task, np.flatnonzero(nodes & ~room), found, words)
        rows = WorldRows(self._world.nodes, nodes & room)
        objections = self._objections(task, rows)
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
        """As `_why_not`, where there is no room anywhere; kept until something changes."""
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

    def _fits_nowhere(self, task: TaskView) -> bool:
        """Is there no node with room for a task, whatever else is asked of it? Kept until something changes."""
        world, request = self._world, task.request
        self._forget()
        known = self._full.get(id(request))
        if known is None:
            known = self._full[id(request)] = not world.nodes.fits(request, now=False).any()
        return known

    def _forget(self) -> None:
        """What is kept of a world that has changed since is kept no more."""
        if self._full_of != self._world.version:
            self._full, self._lacks, self._full_of = {}, {}, self._world.version

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
                    self._member(plan, within, job, m, mine, promises) for m in self._world.sort_members(member.members)
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
        """Are the nodes not divided for a sub-group?"""
        return self._subset is None or (self._by_topology and member.topology is None)

    def _subsets(self, job: JobView, member: Member, tasks: Sequence[TaskView], nodes: Bools) -> Sequence[Bools]:
        subset = self._subset
        if subset is None or self._undivided(member):
            return (nodes,)
        table = self._world.state.table
        listed = [n for n in (table.nodes[r] for r in np.flatnonzero(nodes).tolist()) if n is not None]
        sets = subset(as_job(job), as_part(member), as_tasks(tasks), listed)
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
        world = self._world
        said = self._pre(task)
        if not said:
            if not promises:
                reasons = {Reason(said.plugin, said.text): int(nodes.sum())}
                error = pod_error(task, said.text, self._set_of(job, task), before)
                self._stuck = _Stuck(task, reasons, int(nodes.sum()), error)
            return False
        ledger = world.nodes
        rows = WorldRows(ledger, self._index(nodes))
        fits = ledger.fits(task.request, now=False)[rows.index]
        for at in _best_first(self.scores(task, rows), fits) if fits.any() else ():
            row = int(rows.index[at])
            node = world.state.table.nodes[row]
            if node is None or self.objects(task, node) or not self._capacity(task, node):
                continue
            if self._put(plan, task, node, promises):
                return True
        if not promises:
            reasons, words = self._why_not(task, nodes)
            error = pod_error(task, task_error(words), self._set_of(job, task), before)
            self._stuck = _Stuck(task, reasons, int(nodes.sum()), error)
        return False

    def _index(self, nodes: Bools) -> npt.NDArray[np.intp]:
        """The rows of some nodes by name, kept as long as the same nodes are asked for."""
        if self._masked[0] is not nodes:
            self._masked = (nodes, WorldRows(self._world.nodes, nodes).index)
        return self._masked[1]

    def _put(self, plan: ChangePlan, task: TaskView, node: Node, promises: bool) -> bool:
        ledger = self._world.nodes
        shared = task.request.shared
        if shared is None:
            if not promises and ledger.fits_on(node.row, task.request, now=True):
                plan.allocate(task, node)
            else:
                plan.pipeline(task, node)
            return True
        picked, waits = self._pick_gpus(task, node, promises)
        if picked is None:
            return False
        if waits or promises or not ledger.fits_on(node.row, task.request, now=True):
            plan.pipeline(task, node, picked)
        else:
            plan.allocate(task, node, picked)
        return True

    def _pick_gpus(self, task: TaskView, node: Node, promises: bool) -> tuple[tuple[str, ...] | None, bool]:
        """The GPUs that a task shares on a node, best first, and whether it has to wait for one of them.

        Those with room at once go before the others, where it could start at once.
        """
        ledger, request = self._world.nodes, task.request.shared
        assert request is not None
        order, idle = self._ssn.gpu_order, ledger.idle_gpus(node.row)
        scored: list[tuple[bool, float, int, str, bool]] = []
        for position, name in enumerate(ledger.fitting_gpus(node.row, request)):
            score = order(as_task(task), node, name)
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

    # -- asking -----------------------------------------------------------------------------------------------------
    def scores(self, task: TaskView, rows: WorldRows) -> Floats:
        """What all plugins together say of the nodes."""
        guard, asked = self._guard, as_task(task)
        given = [
            (s, guard.scores(s, asked, rows, rows.nodes if not s.batch else ()))
            for s in self._scorers
            if s.applies is None or guard.applies(s, asked)
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
        """Has somebody an objection to the node (room aside)?"""
        one = WorldRows(self._world.nodes, np.array([node.row], dtype=np.intp))
        return any(bool(self._guard.objections(f, as_task(task), one, [node])[0]) for f in self._filters)

    def _objections(self, task: TaskView, rows: WorldRows) -> npt.NDArray[np.int32]:
        """The first objection to each node, as a number; 0: there is none."""
        out = np.zeros(len(rows), dtype=np.int32)
        for f in self._filters:
            out = np.where(out, out, self._guard.objections(f, as_task(task), rows, rows.nodes))
        return out


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
