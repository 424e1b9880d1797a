"""Making room for a whole job inside one hyper-node: what gangpreempt and gangreclaim share."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.hypernodes import TopologyDomain
from pumice.framework.evicting.bundles import Bundle, allowed_only, bundles_of, in_order, sum_of
from pumice.framework.evicting.enough_places import EnoughPlaces
from pumice.framework.evicting.eviction_plan import ASKS as PLAN_ASKS
from pumice.framework.evicting.eviction_plan import commit_plan, spares
from pumice.framework.evicting.gang_plan import GangPlans, Wanted
from pumice.framework.evicting.spending import affordable
from pumice.framework.evicting.starving import never_preempts
from pumice.framework.evicting.victims import ASKS as VICTIM_ASKS
from pumice.framework.evicting.victims import EvictionContext, without_rounds
from pumice.framework.placing.topology import ASKS as TOPOLOGY_ASKS
from pumice.framework.placing.topology import gradient, sub_job_queue
from pumice.framework.placing.waiting_tasks import waiting_tasks_of
from pumice.framework.points import table as points
from pumice.framework.points.table import VICTIM_FILTER
from pumice.framework.session.nominations import held_by_others, places_held
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Statement
from pumice.model.job import Job, parse_bool
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
        self._plans = GangPlans(ssn, rules.action, spares=self._spares)
        self._heeds_never = not ssn.compat.unasked_never
        self._free_in: dict[str, Resources] = {}
        """What domains have free, as long as no row changes."""
        self._free_at = -1

    def could_help(self, job: Job) -> bool:
        """Might somebody go for the job, or one of its waiting tasks find room as it is? A cheap test for `serve`."""
        if next(self._candidates(job, self._ssn.nodes), None) is not None:
            return True
        if not self._spares:
            return False
        free, waiting = self._free_anywhere(), job.with_status(S.PENDING).values()
        if any(task.invalid for task in waiting):  # which is told of them
            return True
        return any(sum_of([task]).less_equal(free) for task in {task.klass.id: task for task in waiting}.values())

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
        if self._heeds_never and any(never_preempts(t) for t in tasks):
            return False
        wanted = Wanted(queue, job, by_sub_job, tasks[0], sum_of(tasks))
        with held_by_others(ssn, queue, job):
            for domain in self._domains(job):
                statement = ssn.statement()
                if self._in_domain(wanted, domain, statement):
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

    def _in_domain(self, wanted: Wanted, domain: TopologyDomain, statement: Statement) -> bool:
        """Evict as few bundles as it takes and promise the job its places in the domain."""
        free, need, job = self._free(domain), wanted.need, wanted.job
        if self._spares and need.less_equal(free) and self._plans.make([], wanted, domain, statement):
            return True
        candidates = self._candidates(job, domain.nodes)
        first = next(candidates, None)
        if first is None:
            return False
        places = None
        if self._spares:
            places = EnoughPlaces(self._ssn, wanted.tasks(), domain, together=not job.policies)
            if not places.on_empty_nodes():
                return False
        possible = [first, *candidates]
        if places is not None and not places.start(_at_most(possible)):
            return False
        return any(
            self._with_some(some, free, wanted, domain, places, statement)
            for some in affordable(self._ssn.budgets, self._bundles(wanted, domain, possible), need)
        )

    def _with_some(
        self,
        bundles: Sequence[Bundle],
        free: Resources,
        wanted: Wanted,
        domain: TopologyDomain,
        places: EnoughPlaces | None,
        statement: Statement,
    ) -> bool:
        """Evict as few of these as it takes, in their order, and promise the job its places."""
        chosen: list[Bundle] = []
        room, due = free, 0
        if places is not None:
            places.start(())
        for bundle in bundles:
            chosen.append(bundle)
            room = room + sum_of(bundle.tasks)
            if places is not None and not places.without(bundle.tasks):
                continue
            if not wanted.need.less_equal(room) or (len(chosen) < due and bundle is not bundles[-1]):
                continue
            for some in _first_to_try(chosen, places):
                if self._plans.make(some, wanted, domain, statement):
                    if self._spares:
                        self._plans.spare(some, free, wanted, domain, statement)
                    return True
            due = len(chosen) + (len(chosen) // _PART if self._spares else 0)
        return False

    def _free(self, domain: TopologyDomain) -> Resources:
        """What is idle or being released in the domain."""
        known = self._known_free().get(domain.name)
        if known is None:
            table, rows = self._ssn.state.table, [n.row for n in domain.nodes.values()]
            known = _amounts((table.idle[:, rows] + table.releasing[:, rows]).sum(axis=1))
            self._free_in[domain.name] = known
        return known

    def _free_anywhere(self) -> Resources:
        """No less than what is idle or being released in any domain, whatever nodes hold more than they have."""
        known = self._known_free().get("")
        if known is None:
            table = self._ssn.state.table
            known = _amounts(np.maximum(table.idle + table.releasing, 0)[:, : table.size].sum(axis=1))
            self._free_in[""] = known
        return known

    def _known_free(self) -> dict[str, Resources]:
        """What is known of domains, by name; without one: of all nodes."""
        position = self._ssn.state.table.touched.position
        if self._free_at != position:
            self._free_at = position
            self._free_in.clear()
        return self._free_in

    def _bundles(self, wanted: Wanted, domain: TopologyDomain, candidates: list[Task]) -> list[Bundle]:
        """Permitted victims in the domain, budgets aside, in the order in which they are taken."""
        ssn, rules, job, queue, need = self._ssn, self._rules, wanted.job, wanted.queue, wanted.need
        split = bundles_of(ssn, without_rounds(ssn, job, candidates))
        if self._spares:
            split = [b for b in split if b.safe or not self._begins(b.job)]
        ordered = in_order(ssn, split, need, queue, by_queue=rules.by_queue)
        context = EvictionContext(rules.kind, job, wanted.first, domain.name)
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

    def _candidates(self, job: Job, nodes: Container[str]) -> Iterator[Task]:
        """Whom the rules permit to go for a job, jobs in order: what it costs follows from how many these are."""
        filters = self._ssn.anybody(VICTIM_FILTER)
        for other in self._rules.others(job):
            if not _gang_preemptable(other) or (filters and not self._ssn.victim_filter(job, other)):
                continue
            for status in self._rules.statuses:
                for victim in other.with_status(status).values():
                    if victim.preemptable and victim.node_name in nodes:
                        yield victim


def _amounts(sums: npt.NDArray[np.int64]) -> Resources:
    return Resources({d: v for d, v in enumerate(sums.tolist()) if v})


def _first_to_try(chosen: list[Bundle], places: EnoughPlaces | None) -> Iterator[list[Bundle]]:
    """Those who make room where somebody of the job could be placed; then all: others may matter to the queue."""
    if places is not None:
        some = [bundle for bundle in chosen if places.gains_by(bundle.tasks)]
        if len(some) < len(chosen):
            yield some
    yield chosen


def _at_most(candidates: Sequence[Task]) -> list[Task]:
    """All who could go for somebody: the candidates, and who goes with them wherever he is."""
    together = {task.job_key: task.job for task in candidates if task.job.together}
    others = [task for job in together.values() for task in job.tasks.values()]
    return [*(task for task in candidates if task.job_key not in together), *others]


def _gang_preemptable(job: Job) -> bool:
    """May the job be a victim as a gang? What its PodGroup says, else yes."""
    said = job.annotations.get(PREEMPTABLE_KEY, job.labels.get(PREEMPTABLE_KEY))
    return said is None or parse_bool(said)
