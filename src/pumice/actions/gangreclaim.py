"""gangreclaim: room for a whole starving job, in one hyper-node, at the cost of queues above their share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pumice.framework.evicting.eviction_plan import PendingPreemptors
from pumice.framework.evicting.gang_preemptor import ASKS as PREEMPTOR_ASKS
from pumice.framework.evicting.gang_preemptor import GangPreemptor, GangRules
from pumice.framework.plugin import Action, Argument
from pumice.framework.points import table as points
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.status import TaskStatus


class GangReclaim(Action):
    """Evicts bundles of running tasks of other, reclaimable queues: what their gangs can spare, then whole gangs."""

    name = "gangreclaim"
    max_domains = Argument(
        8, "In how many hyper-nodes it looks for victims.", name="maxDomains", minimum=1, lenient=True
    )
    whole = Argument(True, "Whole gangs may be evicted, too.", name="allowWholeBundle")
    asks = (points.OVERUSED, points.PREEMPTIVE, *PREEMPTOR_ASKS)

    def execute(self, ssn: Session) -> None:
        """Serve every starving job once, best queue and best job first."""

        def others(job: Job) -> Iterator[Job]:
            for queue in ssn.queues.values():
                if queue.name != job.queue and queue.reclaimable:
                    yield from queue.jobs.values()

        rules = GangRules(self.name, "GangReclaim", (TaskStatus.RUNNING,), others, by_queue=True)
        preemptor = GangPreemptor(ssn, rules, max_domains=self.max_domains, whole=self.whole)
        starving = PendingPreemptors(ssn, topology=True)
        queues = starving.queues()
        while queues:
            queue = queues.pop()
            if ssn.overused(queue):
                continue
            jobs = ssn.orders.job_heap(starving.of(queue))
            while jobs:
                preemptor.serve(queue, jobs.pop(), partial(ssn.preemptive, queue))
