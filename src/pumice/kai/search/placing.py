"""Placing the next piece of a job: sub-groups in order, sets of nodes in turn, tasks on the best node of a set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from pumice.engine.fit_error import FitError
from pumice.framework.points import table as t
from pumice.framework.session.refusals import Stage
from pumice.framework.session.session import Session
from pumice.kai.search.choice import KaiChoice
from pumice.kai.search.hopeless import HopelessTasks, Stuck
from pumice.kai.view.jobs import JobView
from pumice.kai.view.nodes import WHOLE_GPU
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.subgroups import GroupSet, Member, PodSet
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.wording import pod_error, task_error
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.node import Node
from pumice.model.reason import Reason, Verdict

Bools = npt.NDArray[np.bool_]
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
        """Are nodes divided only where a member of a job wants a topology?"""
        self._implied = all(map(self._world.only_kai, (t.JOB_WITHIN_CAPACITY, t.TASK_WITHIN_CAPACITY)))
        """What a queue may have of a whole piece it may have of each of its tasks; GPU memory depends on the node."""
        self._prepared = self._world.only_kai(t.PRE_JOB_ALLOCATION)
        """Is nothing to be done before a job is placed that has no topology?"""
        self.best = KaiChoice(ssn)
        self._why_not = HopelessTasks(self._world, self.best, self._capacity)

    # -- jobs -------------------------------------------------------------------------------------------------------
    def place(self, plan: ChangePlan, nodes: Bools, job: JobView, *, promises: bool) -> bool:
        """Place the next piece of a job within some nodes; False with the plan as it was where it cannot be."""
        ssn, world = self._ssn, self._world
        if not (self._prepared and job.anywhere):
            ssn.pre_job_allocation(job)
        chunk = world.chunk(job, real=not promises)
        if not chunk or (promises and len(chunk) > 1 and self._why_not.fits_nowhere(chunk[0])):
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
        """Is one task all that there is to place, on any of the nodes, with nothing to be left alone for others?"""
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
        """Are the nodes not divided for a sub-group?"""
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
    """Does what it counts in its queue depend on the node?"""
    return task.request.shared is not None and task.request.shared.memory > 0
