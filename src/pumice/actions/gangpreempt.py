"""gangpreempt: room for a whole starving job, in one hyper-node, at the cost of lesser jobs in its queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile

from pumice.framework.evicting.eviction_plan import PendingPreemptors
from pumice.framework.evicting.gang_preemptor import ASKS as PREEMPTOR_ASKS
from pumice.framework.evicting.gang_preemptor import GangPreemptor, GangRules
from pumice.framework.plugin import Action, Argument
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.status import TaskStatus

S = TaskStatus


class GangPreempt(Action):
    """Evicts bundles of tasks of jobs of lower priority: first what their gangs can spare, then whole gangs."""

    name = "gangpreempt"
    max_domains = Argument(
        8, "In how many hyper-nodes it looks for victims.", name="maxDomains", minimum=1, lenient=True
    )
    whole = Argument(True, "Whole gangs may be evicted, too.", name="allowWholeBundle")
    asks = PREEMPTOR_ASKS

    def execute(self, ssn: Session) -> None:
        """Serve every starving job once, best queue and best job first."""
        rules = GangRules(self.name, "GangPreempt", (S.BOUND, S.RUNNING), _lesser(ssn), by_queue=False)
        preemptor = GangPreemptor(ssn, rules, max_domains=self.max_domains, whole=self.whole)
        starving = PendingPreemptors(ssn, topology=True, feasible=lambda job, _: preemptor.may_help(job), as_queue=True)
        queues = starving.queues()
        while queues:
            queue = queues.pop()
            jobs = ssn.orders.job_heap(starving.of(queue))
            while jobs:
                job = jobs.pop()
                if preemptor.may_help(job):
                    preemptor.serve(queue, job)


def _lesser(ssn: Session) -> Callable[[Job], Iterator[Job]]:
    """Gives the jobs of lower priority in a job's queue, the lowest first."""
    ranked: dict[str, list[Job]] = {}

    def of(job: Job) -> Iterator[Job]:
        known = ranked.get(job.queue)
        if known is None:
            placed = (other for other in ssn.queues[job.queue].jobs.values() if other.count(S.BOUND, S.RUNNING))
            known = ranked[job.queue] = sorted(placed, key=lambda other: (other.priority, other.uid))
        return takewhile(lambda other: other.priority < job.priority, known)

    return of
