"""A plan for a whole job in one hyper-node: who goes, where its tasks are promised places, and who may stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pumice.engine.choose import NodeChoice
from pumice.engine.hypernodes import TopologyDomain
from pumice.framework.evicting.bundles import Bundle, sum_of
from pumice.framework.placing.node_search import NodeSearch
from pumice.framework.placing.topology import TasksBySubJob, drops_sub_groups, gradient, sub_job_queue
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Statement
from pumice.model.job import Job, SubJob
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import Resources
from pumice.model.status import TaskStatus
from pumice.model.task import Task


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be placed of a job."""

    queue: Queue
    job: Job
    by_sub_job: TasksBySubJob
    first: Task
    """The task for whom somebody goes."""
    need: Resources
    """What is needed together, at least."""

    def tasks(self) -> Iterator[Task]:
        """Everybody who waits for a place."""
        return (task for tasks in self.by_sub_job.values() for task in tasks)


class GangPlans:
    """Makes plans for jobs in domains, for one action in one session. *spares*: nobody goes who need not."""

    def __init__(self, ssn: Session, action: str, *, spares: bool) -> None:
        self._ssn, self._action, self._spares = ssn, action, spares
        self._all_or_none = drops_sub_groups(ssn)
        self._remembers = ssn.action_arguments("allocate").bool("predicateErrorCacheEnable", True)

    def make(self, bundles: Sequence[Bundle], wanted: Wanted, domain: TopologyDomain, statement: Statement) -> bool:
        """Evict bundles and promise the job its places; False with nothing changed if it does not fit even then."""
        ssn, job = self._ssn, wanted.job
        mark = statement.checkpoint()
        was_ready = bool(ssn.job_ready(job))
        for victim in (t for b in bundles for t in b.tasks):
            statement.evict(victim, self._action, wanted.first)
        waiting = sub_job_queue(ssn, job, wanted.by_sub_job)
        while waiting:
            sub_job = waiting.pop()
            served = self._sub_job(wanted, sub_job, domain, statement, bool(bundles))
            if not served and self._all_or_none:
                break
            if served and (was_ready or ssn.job_pipelined(job)):
                break
        if (served or not self._all_or_none) and ssn.job_pipelined(job) and statement.promises() > 0:
            return True
        statement.rollback(mark)
        return False

    def _sub_job(
        self, wanted: Wanted, sub_job: SubJob, domain: TopologyDomain, statement: Statement, evicted: bool
    ) -> bool:
        ssn, job = self._ssn, wanted.job
        own = sub_job if job.policies else None
        hypers = [domain]
        if ssn.hyper_nodes.sub_job_limit(sub_job) is not None:
            groups = gradient(ssn, sub_job, domain, "Evict")
            hypers = [h for group in groups for h in group]
        for hyper in hypers:
            mark = statement.checkpoint()
            if self._promise(wanted.queue, wanted.by_sub_job[sub_job.uid], hyper, statement, evicted) and (
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

    def spare(
        self, chosen: list[Bundle], free: Resources, wanted: Wanted, domain: TopologyDomain, statement: Statement
    ) -> None:
        """Let bundles stay that the plan does not need, and single tasks of safe ones; the last ones taken first.

        *free*: what the domain has without them.
        """
        kept = list(chosen)
        need = sum_of(t for t in wanted.tasks() if t.status is TaskStatus.PIPELINED)  # not all may have a place
        for without in _smaller(chosen):
            less = without(kept)
            if less == kept or not need.less_equal(free + sum_of(t for b in less for t in b.tasks)):
                continue
            statement.discard()
            if self.make(less, wanted, domain, statement):
                kept = less
            elif not self.make(kept, wanted, domain, statement):
                raise AssertionError(f"job {wanted.job.uid}: a plan that was made before can no longer be made")


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
