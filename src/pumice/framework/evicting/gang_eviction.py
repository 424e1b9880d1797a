"""Making room for a whole job inside one hyper-node: what gangpreempt and gangreclaim share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pumice.engine.choose import NodeChoice
from pumice.engine.hypernodes import TopologyDomain
from pumice.framework.evicting.bundles import Bundle, allowed_only, bundles_of, in_order, sum_of
from pumice.framework.evicting.enough_places import EnoughPlaces
from pumice.framework.evicting.eviction_plan import ASKS as PLAN_ASKS
from pumice.framework.evicting.eviction_plan import commit_plan, spares
from pumice.framework.evicting.spending import affordable
from pumice.framework.evicting.starving import never_preempts
from pumice.framework.evicting.victims import ASKS as VICTIM_ASKS
from pumice.framework.evicting.victims import EvictionContext, without_rounds
from pumice.framework.placing.node_search import NodeSearch
from pumice.framework.placing.topology import ASKS as TOPOLOGY_ASKS
from pumice.framework.placing.topology import TasksBySubJob, drops_sub_groups, gradient, sub_job_queue
from pumice.framework.placing.waiting_tasks import waiting_tasks_of
from pumice.framework.points import table as points
from pumice.framework.points.table import VICTIM_FILTER
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
"""After a plan in vain, so large a part of the victims more is taken before the next; who is too many is spared."""
ASKS = (
    *(points.UNIFIED_EVICTABLE, points.VICTIM_FILTER, points.JOB_READY, points.SUB_JOB_READY, points.JOB_PIPELINED),
    *(points.SUB_JOB_PIPELINED, points.PRE_PREDICATE, points.TASK_ORDER, *PLAN_ASKS, *VICTIM_ASKS, *TOPOLOGY_ASKS),
)


@dataclass(frozen=True, slots=True)
class GangRules:
    """What the two gang actions do differently."""

    action: str
    kind: str
    """GangPreempt or GangReclaim, for `unified_evictable`."""
    statuses: tuple[TaskStatus, ...]
    """Those of possible victims."""
    others: Callable[[Job], Iterable[Job]]
    """The jobs whose tasks may go for a job."""
    by_queue: bool
    """Are victims ordered by queue (or by job)?"""


class GangEviction:
    """Looks for a domain in which a job fits once bundles of victims are gone, for one action in one session."""

    def __init__(self, ssn: Session, rules: GangRules, *, max_domains: int, whole: bool) -> None:
        self._ssn, self._rules = ssn, rules
        self._max_domains, self._whole = max_domains, whole
        self._spares = spares(ssn)
        self._all_or_none = drops_sub_groups(ssn)
        self._heeds_never = not ssn.compat.unasked_never
        self._remembers = ssn.action_arguments("allocate").bool("predicateErrorCacheEnable", True)

    def serve(self, queue: Queue, job: Job, may_evict: Callable[[Sequence[Task]], object] | None = None) -> bool:
        """Evict for the job and promise it its places, or nothing. *may_evict* is asked about what is to be placed."""
        ssn = self._ssn
        tasks_left = waiting_tasks_of(ssn, job)
        by_sub_job = tasks_left.sub_jobs if job.policies else {job.uid: tasks_left.tasks}
        ready = bool(ssn.job_ready(job))
        first = sub_job_queue(ssn, job, by_sub_job)
        if not first:
            return False
        wanted = list(by_sub_job[first.pop().uid])
        while first and not ready:
            wanted += by_sub_job[first.pop().uid]
        if not wanted or (may_evict is not None and not may_evict(wanted)):
            return False
        if self._heeds_never and any(never_preempts(t) for t in wanted):
            return False
        need = sum_of(wanted)
        with held_by_others(ssn, queue, job):
            for domain in self._domains(job):
                statement = ssn.statement()
                if self._in_domain(queue, job, wanted[0], by_sub_job, need, domain, statement):
                    return commit_plan(ssn, self._rules.action, statement, job)
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

    def _in_domain(
        self,
        queue: Queue,
        job: Job,
        task: Task,
        by_sub_job: TasksBySubJob,
        need: Resources,
        domain: TopologyDomain,
        statement: Statement,
    ) -> bool:
        """Evict as few bundles as it takes and promise the job its places in the domain."""
        free = self._free(domain)
        if self._spares and need.less_equal(free) and self._plan([], queue, job, task, by_sub_job, domain, statement):
            return True
        if next(self._candidates(job, domain), None) is None:
            return False
        waiting = (t for tasks in by_sub_job.values() for t in tasks)
        places = EnoughPlaces(self._ssn, waiting, domain, together=not job.policies)
        if self._spares and not places.on_empty_nodes():
            return False
        candidates = list(self._candidates(job, domain))
        if self._spares and not places.start(_at_most(candidates)):
            return False
        bundles = self._bundles(queue, job, task, need, domain, candidates)
        return any(
            self._with_some(some, need, free, queue, job, task, by_sub_job, domain, places, statement)
            for some in affordable(self._ssn.budgets, bundles, need)
        )

    def _with_some(
        self,
        bundles: Sequence[Bundle],
        need: Resources,
        free: Resources,
        queue: Queue,
        job: Job,
        task: Task,
        by_sub_job: TasksBySubJob,
        domain: TopologyDomain,
        places: EnoughPlaces,
        statement: Statement,
    ) -> bool:
        """Evict as few of these as it takes, in their order, and promise the job its places."""
        chosen: list[Bundle] = []
        room, due = free, 0
        places.start(())
        for bundle in bundles:
            chosen.append(bundle)
            room = room + sum_of(bundle.tasks)
            if self._spares and not places.without(bundle.tasks):
                continue
            if not need.less_equal(room) or (len(chosen) < due and bundle is not bundles[-1]):
                continue
            for some in self._first_to_try(chosen, places):
                if self._plan(some, queue, job, task, by_sub_job, domain, statement):
                    if self._spares:
                        self._spare(some, free, queue, job, task, by_sub_job, domain, statement)
                    return True
            due = len(chosen) + (len(chosen) // _PART if self._spares else 0)
        return False

    def _first_to_try(self, chosen: list[Bundle], places: EnoughPlaces) -> Iterator[list[Bundle]]:
        """Those who make room where somebody of the job could be placed; then all: others may matter to the queue."""
        if self._spares:
            some = [bundle for bundle in chosen if places.gains_by(bundle.tasks)]
            if len(some) < len(chosen):
                yield some
        yield chosen

    def _free(self, domain: TopologyDomain) -> Resources:
        """What is idle or being released in the domain."""
        table = self._ssn.state.table
        rows = [n.row for n in domain.nodes.values()]
        total = (table.idle[:, rows] + table.releasing[:, rows]).sum(axis=1)
        return Resources({d: int(v) for d, v in enumerate(total.tolist()) if v})

    def _bundles(
        self, queue: Queue, job: Job, task: Task, need: Resources, domain: TopologyDomain, candidates: list[Task]
    ) -> list[Bundle]:
        """Permitted victims in the domain, budgets aside, in the order in which they are taken."""
        ssn, rules = self._ssn, self._rules
        split = bundles_of(ssn, without_rounds(ssn, job, candidates))
        if self._spares:
            split = [b for b in split if b.safe or not self._begins(b.job)]
        ordered = in_order(ssn, split, need, queue, by_queue=rules.by_queue)
        context = EvictionContext(rules.kind, job, task, domain.name)
        asked = [t for b in ordered for t in b.tasks]
        said = ssn.ask(points.UNIFIED_EVICTABLE, context, ssn.budgets.open(asked)) if asked else None
        kept = allowed_only(ordered, said or (), whole=self._whole)
        known = {id(b) for b in ordered}
        if all(id(b) in known for b in kept):  # none became another, so they are still in order
            return kept
        return in_order(ssn, kept, need, queue, by_queue=rules.by_queue)

    def _begins(self, job: Job) -> bool:
        """Is a gang being bound in this cycle, so that half of it would stay, or have others just gone for it?"""
        return bool(job.count(S.ALLOCATED, S.BINDING) or places_held(self._ssn, job, now=True))

    def _candidates(self, job: Job, domain: TopologyDomain) -> Iterator[Task]:
        """Whom the rules permit to go for a job, jobs in order: what it costs follows from how many these are."""
        filters, nodes = self._ssn.anybody(VICTIM_FILTER), domain.nodes
        for other in self._rules.others(job):
            if not _gang_preemptable(other) or (filters and not self._ssn.victim_filter(job, other)):
                continue
            for status in self._rules.statuses:
                for victim in other.with_status(status).values():
                    if victim.preemptable and victim.node_name in nodes:
                        yield victim

    # -- simulation -------------------------------------------------------------------------------------------------
    def _plan(
        self,
        bundles: Sequence[Bundle],
        queue: Queue,
        job: Job,
        task: Task,
        by_sub_job: TasksBySubJob,
        domain: TopologyDomain,
        statement: Statement,
    ) -> bool:
        """Evict bundles and promise the job its places; False with nothing changed if it does not fit even then."""
        ssn = self._ssn
        mark = statement.checkpoint()
        was_ready = bool(ssn.job_ready(job))
        for victim in (t for b in bundles for t in b.tasks):
            statement.evict(victim, self._rules.action, task)
        waiting = sub_job_queue(ssn, job, by_sub_job)
        while waiting:
            sub_job = waiting.pop()
            served = self._sub_job(queue, job, sub_job, by_sub_job, domain, statement, bool(bundles))
            if not served and self._all_or_none:
                break
            if served and (was_ready or ssn.job_pipelined(job)):
                break
        if (served or not self._all_or_none) and ssn.job_pipelined(job) and statement.promises() > 0:
            return True
        statement.rollback(mark)
        return False

    def _sub_job(
        self,
        queue: Queue,
        job: Job,
        sub_job: SubJob,
        by_sub_job: TasksBySubJob,
        domain: TopologyDomain,
        statement: Statement,
        evicted: bool,
    ) -> bool:
        ssn = self._ssn
        own = sub_job if job.policies else None
        hypers = [domain]
        if ssn.hyper_nodes.sub_job_limit(sub_job) is not None:
            groups = gradient(ssn, sub_job, domain, "Evict")
            hypers = [h for group in groups for h in group]
        for hyper in hypers:
            mark = statement.checkpoint()
            if self._promise(queue, by_sub_job[sub_job.uid], hyper, statement, evicted) and (
                ssn.sub_job_ready(job, own) or ssn.sub_job_pipelined(job, own)
            ):
                return True
            statement.rollback(mark)
        return False

    def _promise(
        self, queue: Queue, tasks: Sequence[Task], hyper: TopologyDomain, statement: Statement, evicted: bool
    ) -> bool:
        """Pipeline every task inside a hyper-node."""
        ssn = self._ssn
        search = NodeSearch(ssn, self._remembers, ssn.hyper_nodes.rows(hyper, ssn.state.table.size))
        for task in tasks:
            if not ssn.allocatable(queue, task) or not ssn.pre_predicate(task):
                return False
            node = self._node(search, task)
            if node is None or statement.pipeline(task, node, evicted):
                return False
        return True

    def _node(self, search: NodeSearch, task: Task) -> Node | None:
        if not self._spares:
            return search.choose_despite(task)
        found = search.choose(task)
        return found.node if isinstance(found, NodeChoice) else None

    # -- sparing ----------------------------------------------------------------------------------------------------
    def _spare(
        self,
        chosen: list[Bundle],
        free: Resources,
        queue: Queue,
        job: Job,
        task: Task,
        by_sub_job: TasksBySubJob,
        domain: TopologyDomain,
        statement: Statement,
    ) -> None:
        """Let bundles stay that the plan does not need, and single tasks of safe ones; the last ones taken first."""
        kept = list(chosen)
        need = sum_of(
            t for tasks in by_sub_job.values() for t in tasks if t.status is S.PIPELINED
        )  # not all may have a place
        for without in _smaller(chosen):
            less = without(kept)
            if less == kept or not need.less_equal(free + sum_of(t for b in less for t in b.tasks)):
                continue
            statement.discard()
            if self._plan(less, queue, job, task, by_sub_job, domain, statement):
                kept = less
            elif not self._plan(kept, queue, job, task, by_sub_job, domain, statement):
                raise AssertionError(f"job {job.uid}: a plan that was made before can no longer be made")


def _smaller(chosen: Sequence[Bundle]) -> Iterator[Callable[[list[Bundle]], list[Bundle]]]:
    """Ways to leave somebody out: each whole bundle, then each task of a safe one; the last taken first."""
    for bundle in reversed(chosen):
        if not bundle.safe:
            yield lambda kept, out=bundle: [b for b in kept if b is not out]  # type: ignore[misc]
    for bundle in reversed(chosen):
        for task in reversed(bundle.tasks if bundle.safe else ()):
            yield lambda kept, out=task: [  # type: ignore[misc]
                left
                for left in (Bundle(b.job, [t for t in b.tasks if t is not out], b.safe) for b in kept)
                if left.tasks
            ]


def _at_most(candidates: Sequence[Task]) -> list[Task]:
    """All who could go for somebody: the candidates, and who goes with them wherever he is."""
    together = {task.job_key: task.job for task in candidates if task.job.together}
    others = [task for job in together.values() for task in job.tasks.values()]
    return [*(task for task in candidates if task.job_key not in together), *others]


def _gang_preemptable(job: Job) -> bool:
    """May the job be a victim as a gang? What its PodGroup says, else yes."""
    said = job.annotations.get(PREEMPTABLE_KEY, job.labels.get(PREEMPTABLE_KEY))
    return said is None or parse_bool(said)
