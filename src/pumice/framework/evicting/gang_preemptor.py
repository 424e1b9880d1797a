"""Room for a whole job inside one hyper-node, domain by domain: the search that gangpreempt and gangreclaim share.

For each domain: which groups of victims do the rules, the plugins and the budgets let go there? Then sets of them are
tried, each a group larger than the one before, from the smallest that the bound does not reject.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pumice.engine.choose import NodeChoice
from pumice.engine.hypernodes import TopologyDomain
from pumice.framework.evicting.eviction_plan import ASKS as PLAN_ASKS
from pumice.framework.evicting.eviction_plan import commit_plan, find_plan, never_preempts, spares
from pumice.framework.evicting.freed_capacity import FreedCapacity, Index, PlacementBound
from pumice.framework.evicting.victims import ASKS as VICTIM_ASKS
from pumice.framework.evicting.victims import (
    EvictionContext,
    VictimGroup,
    affordable,
    allowed_only,
    groups_of,
    in_order,
    sum_of,
    without_rounds,
)
from pumice.framework.placing.topology import ASKS as TOPOLOGY_ASKS
from pumice.framework.placing.topology import TasksBySubJob, drops_sub_groups, gradient, sub_job_queue
from pumice.framework.placing.waiting_tasks import NodeSearch, waiting_tasks_of
from pumice.framework.points import table as points
from pumice.framework.session.nominations import held_by_others, places_held
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Statement
from pumice.model.job import Job, SubJob, parse_bool
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import Resources
from pumice.model.status import TaskStatus
from pumice.model.task import PREEMPTABLE_KEY, Task

S = TaskStatus
_PART: Final = 8
"""After a set that fails, the next one is larger by this part of it: a search of all sets would be quadratic."""
ASKS = (
    *(points.UNIFIED_EVICTABLE, points.VICTIM_FILTER, points.JOB_READY, points.SUB_JOB_READY, points.JOB_PIPELINED),
    *(points.SUB_JOB_PIPELINED, points.PRE_PREDICATE, points.TASK_ORDER, *PLAN_ASKS, *VICTIM_ASKS, *TOPOLOGY_ASKS),
)


@dataclass(frozen=True, slots=True)
class GangRules:
    """The differences between the two gang actions."""

    action: str
    kind: str
    """GangPreempt or GangReclaim, for `unified_evictable`."""
    statuses: tuple[TaskStatus, ...]
    """Those of possible victims."""
    others: Callable[[Job], Iterable[Job]]
    """The jobs whose tasks may go for a job."""
    by_queue: bool
    """Victims are ordered by queue; else by job."""


@dataclass(frozen=True, slots=True)
class GangRequest:
    """The tasks of a job to place, and their nodes."""

    queue: Queue
    job: Job
    by_sub_job: TasksBySubJob
    first: Task
    """The task for which victims go."""
    need: Resources
    """The amounts needed together, at least."""
    domain: TopologyDomain
    rows: Index
    """Those of the domain's nodes."""
    statement: Statement

    @property
    def tasks(self) -> Iterator[Task]:
        """All pending tasks."""
        return (task for tasks in self.by_sub_job.values() for task in tasks)


class GangPreemptor:
    """Looks for a domain in which a job fits once groups of victims are gone, for one action in one session."""

    def __init__(self, ssn: Session, rules: GangRules, *, max_domains: int, whole: bool) -> None:
        self._ssn, self._rules = ssn, rules
        self._max_domains, self._whole = max_domains, whole
        self._spares = spares(ssn)
        self._all_or_none = drops_sub_groups(ssn)
        self._remembers = ssn.action_arguments("allocate").bool("predicateErrorCacheEnable", True)

    def may_help(self, job: Job) -> bool:
        """Report whether tasks may go for the job, or one of its own may find room as it is. Cheaper than `serve`."""
        if next(self._candidates(job, self._ssn.nodes), None) is not None:
            return True
        if not self._spares:
            return False
        pending = job.with_status(S.PENDING).values()
        if any(task.invalid for task in pending):  # a message says so
            return True
        return PlacementBound(self._ssn, pending, 0).met(FreedCapacity(self._ssn.state.table))

    def serve(self, queue: Queue, job: Job, may_evict: Callable[[Sequence[Task]], object] | None = None) -> bool:
        """Evict for the job and promise it its places, or nothing. *may_evict* is asked about what is to be placed."""
        ssn = self._ssn
        tasks_left = waiting_tasks_of(ssn, job)
        by_sub_job = tasks_left.sub_jobs if job.policies else {job.uid: tasks_left.tasks}
        first = sub_job_queue(ssn, job, by_sub_job)
        if not first:
            return False
        tasks = list(by_sub_job[first.pop().uid])
        if first and not ssn.job_ready(job):
            while first:
                tasks += by_sub_job[first.pop().uid]
        if not tasks or (may_evict is not None and not may_evict(tasks)):
            return False
        if not ssn.compat.unasked_never and any(never_preempts(t) for t in tasks):
            return False
        with held_by_others(ssn, queue, job):
            for domain in self._domains(job):
                rows = np.array([node.row for node in domain.nodes.values()], dtype=np.intp)
                request = GangRequest(queue, job, by_sub_job, tasks[0], sum_of(tasks), domain, rows, ssn.statement())
                if self._in_domain(request):
                    return commit_plan(ssn, self._rules.action, request.statement, job)
        return False

    def _domains(self, job: Job) -> list[TopologyDomain]:
        ssn = self._ssn
        tree = ssn.hyper_nodes
        if job.has_topology and tree.problem:
            return []
        groups = gradient(ssn, job, tree.top, "Evict")
        unique = {h.name: h for group in groups for h in group}
        found = list(unique.values())[: self._max_domains]
        return found or ([] if tree.job_limit(job) is not None else [tree.top])

    # -- one domain -------------------------------------------------------------------------------------------------
    def _in_domain(self, request: GangRequest) -> bool:
        """Evict as few groups as it takes and promise the job its places in the domain."""
        ssn, free = self._ssn, self._free(request)
        if self._spares and request.need.less_equal(free) and self._plan(request, [[]]) is not None:
            return True
        possible = list(self._candidates(request.job, request.domain.nodes))
        if not possible:
            return False
        bound = None
        if self._spares:
            bound = PlacementBound(ssn, request.tasks, 0 if request.job.policies else None, request.rows)
            if not bound.met(self._without(request, _with_their_gangs(possible))):
                return False
        for groups in affordable(ssn.budgets, self._groups(request, possible), request.need):
            chosen = self._plan(request, self._sets(request, groups, free, bound))
            if chosen is not None:
                if self._spares:
                    self._spare(request, chosen, free)
                return True
        return False

    def _sets(
        self, request: GangRequest, groups: Sequence[VictimGroup], free: Resources, bound: PlacementBound | None
    ) -> Iterator[list[VictimGroup]]:
        """Sets of groups that might make room enough, the smallest first. Each is tried before the next is made."""

        def enough(many: int) -> bool:
            """Report whether the bound accepts the first groups. If it does, it accepts more."""
            if bound is None:
                return True
            return bound.met(self._without(request, [t for g in groups[:many] for t in g.tasks]))

        sizes = range(1, len(groups) + 1)
        least = bisect_left(sizes, True, key=enough)
        due = 0
        room = free + sum_of(task for group in groups[:least] for task in group.tasks)
        for many in sizes[least:]:
            room = room + sum_of(groups[many - 1].tasks)
            if not request.need.less_equal(room) or (many < due and many < len(groups)):
                continue
            chosen = list(groups[:many])
            if bound is not None:  # first those that make room where a task could be; the others matter to the queue
                rows = bound.useful_rows(self._without(request, [t for g in chosen for t in g.tasks]))
                useful = [group for group in chosen if any(task.row in rows for task in group.tasks)]
                if len(useful) < many:
                    yield useful
            yield chosen
            due = many + (many // _PART if self._spares else 0)

    def _free(self, request: GangRequest) -> Resources:
        """The idle and releasing amounts in the domain."""
        table, rows = self._ssn.state.table, request.rows
        sums = (table.idle[:, rows] + table.releasing[:, rows]).sum(axis=1)
        return Resources({d: v for d, v in enumerate(sums.tolist()) if v})

    def _without(self, request: GangRequest, victims: Iterable[Task]) -> FreedCapacity:
        return FreedCapacity(self._ssn.state.table, request.rows, victims)

    # -- victims ----------------------------------------------------------------------------------------------------
    def _groups(self, request: GangRequest, candidates: list[Task]) -> list[VictimGroup]:
        """Permitted victims in the domain, budgets aside, in the order in which they are taken."""
        ssn, rules, job, queue, need = self._ssn, self._rules, request.job, request.queue, request.need
        split = groups_of(ssn, without_rounds(ssn, job, candidates))
        if self._spares:
            split = [group for group in split if group.safe or not self._begins(group.job)]
        ordered = in_order(ssn, split, need, queue, by_queue=rules.by_queue)
        context = EvictionContext(rules.kind, job, request.first, request.domain.name)
        asked = [task for group in ordered for task in group.tasks]
        said = ssn.ask(points.UNIFIED_EVICTABLE, context, ssn.budgets.open(asked)) if asked else None
        kept = allowed_only(ordered, said or (), whole=self._whole)
        known = {id(group) for group in ordered}
        if all(id(group) in known for group in kept):  # none became another, so they are still in order
            return kept
        return in_order(ssn, kept, need, queue, by_queue=rules.by_queue)

    def _begins(self, job: Job) -> bool:
        """Report whether a gang is being bound in this cycle, or others went for it: half of it would stay."""
        return bool(job.count(S.ALLOCATED, S.BINDING) or places_held(self._ssn, job, now=True))

    def _candidates(self, job: Job, nodes: Container[str]) -> Iterator[Task]:
        """The tasks that the rules permit to go for a job, jobs in order."""
        filters = self._ssn.anybody(points.VICTIM_FILTER)
        for other in self._rules.others(job):
            if not _gang_preemptable(other) or (filters and not self._ssn.victim_filter(job, other)):
                continue
            for status in self._rules.statuses:
                for victim in other.with_status(status).values():
                    if victim.preemptable and victim.node_name in nodes:
                        yield victim

    # -- placing ----------------------------------------------------------------------------------------------------
    def _plan(self, request: GangRequest, sets: Iterable[list[VictimGroup]]) -> list[VictimGroup] | None:
        """Evict the first set with which the job has its places, and promise them; the set, or None."""
        ssn, job, statement = self._ssn, request.job, request.statement

        def valid(_: object) -> bool:
            return bool(ssn.job_pipelined(job)) and statement.promises() > 0

        return find_plan(statement, sets, lambda groups: self._place(request, groups), valid)

    def _place(self, request: GangRequest, groups: Sequence[VictimGroup]) -> bool:
        """Evict groups, then promise places to one sub-job after the other."""
        ssn, job, statement = self._ssn, request.job, request.statement
        was_ready = bool(ssn.job_ready(job))
        for victim in (task for group in groups for task in group.tasks):
            statement.evict(victim, self._rules.action, request.first)
        waiting = sub_job_queue(ssn, job, request.by_sub_job)
        served = False
        while waiting:
            served = self._place_sub_job(request, waiting.pop(), bool(groups))
            if not served and self._all_or_none:
                return False
            if served and (was_ready or ssn.job_pipelined(job)):
                break
        return served or not self._all_or_none

    def _place_sub_job(self, request: GangRequest, sub_job: SubJob, evicted: bool) -> bool:
        ssn, job = self._ssn, request.job
        own = sub_job if job.policies else None
        domains = [request.domain]
        if ssn.hyper_nodes.sub_job_limit(sub_job) is not None:
            domains = [domain for group in gradient(ssn, sub_job, request.domain, "Evict") for domain in group]

        def place(domain: TopologyDomain) -> bool:
            return self._promise(request, request.by_sub_job[sub_job.uid], domain, evicted)

        def valid(_: object) -> bool:
            return bool(ssn.sub_job_ready(job, own) or ssn.sub_job_pipelined(job, own))

        return find_plan(request.statement, domains, place, valid) is not None

    def _promise(self, request: GangRequest, tasks: Sequence[Task], domain: TopologyDomain, evicted: bool) -> bool:
        """Pipeline every task inside a domain."""
        ssn = self._ssn
        search = NodeSearch(ssn, self._remembers, ssn.hyper_nodes.rows(domain, ssn.state.table.size))
        for task in tasks:
            if not ssn.allocatable(request.queue, task) or not ssn.pre_predicate(task):
                return False
            node = self._node(search, task)
            if node is None or request.statement.pipeline(task, node, evicted):
                return False
        return True

    def _node(self, search: NodeSearch, task: Task) -> Node | None:
        if not self._spares:
            return search.choose_despite(task)
        found = search.choose(task)
        return found.node if isinstance(found, NodeChoice) else None

    def _spare(self, request: GangRequest, chosen: list[VictimGroup], free: Resources) -> None:
        """Let groups stay that the plan does not need, and single tasks of safe ones; the last ones taken first."""
        kept = list(chosen)
        need = sum_of(t for t in request.tasks if t.status is S.PIPELINED)  # not all may have a place
        for without in _smaller(chosen):
            less = without(kept)
            if less == kept or not need.less_equal(free + sum_of(t for group in less for t in group.tasks)):
                continue
            request.statement.discard()
            found = self._plan(request, (less, kept))
            if found is None:
                raise AssertionError(f"job {request.job.uid}: a plan that was made before can no longer be made")
            kept = found


def _smaller(chosen: Sequence[VictimGroup]) -> Iterator[Callable[[list[VictimGroup]], list[VictimGroup]]]:
    """Ways to leave some out: each whole group, then each task of a safe one; the last taken first."""
    for group in reversed(chosen):
        if not group.safe:
            yield lambda kept, out=group: [g for g in kept if g is not out]  # type: ignore[misc]
    for group in reversed(chosen):
        for task in reversed(group.tasks if group.safe else ()):
            yield lambda kept, out=task: [  # type: ignore[misc]
                left
                for left in (VictimGroup(g.job, [t for t in g.tasks if t is not out], g.safe) for g in kept)
                if left.tasks
            ]


def _with_their_gangs(candidates: Sequence[Task]) -> list[Task]:
    """The candidates, and the tasks that go with them because their jobs are evicted as a whole."""
    together = {task.job_key: task.job for task in candidates if task.job.together}
    others = [task for job in together.values() for task in job.tasks.values()]
    return [*(task for task in candidates if task.job_key not in together), *others]


def _gang_preemptable(job: Job) -> bool:
    """Report whether the job may be a victim as a gang: what its PodGroup says, else yes."""
    said = job.annotations.get(PREEMPTABLE_KEY, job.labels.get(PREEMPTABLE_KEY))
    return said is None or parse_bool(said)
