"""The plugin: dominant shares of jobs, and of queues where the hierarchy is on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pumice import Job, Plugin, Session, Task, quota
from pumice.plugins.drf.hierarchy import Hierarchy

_SAME_SHARE = 1e-6


class Drf(Plugin):
    """Orders jobs by dominant share, smallest first; a job may be preempted by one that stays at or below its share.

    The dominant share is the largest part of any of the cluster's resources that a job holds. The flag
    ``enableHierarchy`` also orders queues, by the path and the weights that their annotations give.
    """

    name = "drf"
    persistent = True
    _seen: Mapping[int, quota.Number] | None = None
    """The offers of the cluster when the total was last sorted."""

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        if self._seen != ssn.state.total:
            self._seen = dict(ssn.state.total)
            self._total = [(d, v) for d, v in sorted(self._seen.items()) if v >= quota.TOLERANCE]
        ssn.orders.order_jobs_by(self.name, self._total)
        ssn.add_job_order_key_fn(self.name, self._share)
        ssn.add_preemptable_fn(self.name, self._preemptable)
        if ssn.flag("enableHierarchy"):
            self._hierarchy = self._current_hierarchy(ssn)
            ssn.add_queue_order_fn(self.name, self._hierarchy.compare)
            ssn.add_reclaimable_fn(self.name, self._reclaimable)

    def _current_hierarchy(self, ssn: Session) -> Hierarchy:
        active = [q for q in ssn.queues.values() if q.jobs]
        signature = (id(ssn.state), ssn.state.queue_version, active, self._total)
        memory = ssn.memory
        known: tuple[object, Hierarchy] | None = memory.get("_hierarchy")
        if known is not None and known[0] == signature:
            return known[1]
        hierarchy = Hierarchy(active, self._total)
        ssn.outcome.intents.extend(
            quota.queue_notes(known[1].problems if known is not None else {}, hierarchy.problems)
        )
        memory["_hierarchy"] = signature, hierarchy
        return hierarchy

    def _share(self, job: Job) -> float:
        return quota.largest_share(job.held.amounts, self._total)

    def _preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Candidates whose jobs, without them, would still hold at least as much as the preemptor's with it."""
        after = dict(preemptor.job.held.amounts)
        quota.added(after, preemptor.klass.items)
        wanted = quota.largest_share(after, self._total)
        left: dict[str, dict[int, quota.Number]] = {}
        victims = []
        for task in self._ssn.orders.victims(candidates, preemptor):
            if not task.job_key:
                continue
            job = task.job
            held = left.get(job.uid)
            if held is None:
                held = left[job.uid] = dict(job.held.amounts)
            quota.added(held, task.klass.items, -1)
            share = quota.largest_share(held, self._total)
            if wanted < share or abs(wanted - share) <= _SAME_SHARE:
                victims.append(task)
        return victims

    def _reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Candidates without which the reclaimer's queue, with the reclaimer, would still come before theirs."""
        queues, job = self._ssn.queues, reclaimer.job
        own, more = queues[job.queue], dict(reclaimer.klass.items)
        victims = []
        for task in self._ssn.orders.victims(candidates, reclaimer):
            victim = task.job
            if victim is None or victim.queue not in queues:
                continue
            if self._hierarchy.gains(own, job, more, queues[victim.queue], victim, dict(task.klass.items)):
                victims.append(task)
        return victims

    def on_session_close(self, ssn: Session) -> None:
        """Publish the shares of the jobs that changed."""
        if not ssn.metrics.wanted:
            return
        gauges = ssn.metrics.gauges  # written directly: at the start every job is new
        for job in ssn.changed_jobs():
            gauges["job_share", (("job_id", job.name), ("job_ns", job.namespace))] = self._share(job)
