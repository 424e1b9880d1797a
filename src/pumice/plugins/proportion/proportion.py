"""The plugin: what queues deserve, made into orders, vetoes and victims."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pumice import Job, Plugin, Queue, Session, Task, Verdict, quota, same_class
from pumice.plugins.proportion.filling import Filling, StandsNow


class Proportion(Plugin):
    """Shares the cluster between queues with work, by weight.

    A queue deserves its part by weight, at most its capability and what it asks for, at least its guarantee. It is
    served while it holds less, and gives back what it holds beyond when another queue is short.
    """

    name = "proportion"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        self._begin(ssn)
        ssn.add_queue_order_key_fn(self.name, self._order)
        ssn.add_overused_fn(self.name, self._overused)
        ssn.add_allocatable_fn(self.name, self._allocatable, max_tasks=self._max_tasks)
        ssn.add_preemptive_fn(self.name, self._preemptive, key=same_class)
        ssn.add_reclaimable_fn(self.name, self._reclaimable)
        ssn.add_job_enqueueable_fn(self.name, self._enqueueable, key=self._same_question)
        ssn.add_job_enqueued_fn(self.name, self._enqueued)

    def _begin(self, ssn: Session) -> None:
        self._ssn = ssn
        self._admitted: dict[str, dict[int, quota.Number]] = {}
        self._shares: dict[str, tuple[int, float]] = {}
        self._refused: tuple[object, Verdict] = (None, Verdict(True))
        memory = ssn.memory
        filling: Filling | None = memory.get("_filling")
        if filling is None:
            filling = memory["_filling"] = Filling(guarantee_first=ssn.compat.guarantee_first)
        self._filling = filling
        before = filling.problems
        filling.refresh(ssn.queues, ssn.state.queue_version, ssn.state.total)
        if filling.problems is not before:
            ssn.outcome.intents.extend(quota.queue_notes(before, filling.problems))
        self._admission = quota.Admission(ssn)

    # -- order ----------------------------------------------------------------------------------------------------
    def _share(self, queue: Queue) -> float:
        """How much of what it deserves the queue holds now, in the resource of which it holds most."""
        known = self._shares.get(queue.name)
        if known is None or known[0] != queue.version:
            deserved = [(d, v) for d, v in self._filling.deserved(queue).items() if v >= quota.TOLERANCE]
            known = self._shares[queue.name] = queue.version, quota.largest_share(queue.held.amounts, deserved)
        return known[1]

    def _order(self, queue: Queue) -> tuple[int, float]:
        return -queue.priority, self._share(queue)

    # -- vetoes ---------------------------------------------------------------------------------------------------
    def _overused(self, queue: Queue) -> Verdict | bool:
        deserved, held = self._filling.deserved(queue), queue.held.amounts
        if not quota.within(deserved, held):
            return False
        limits = StandsNow(queue, self._filling, held).all_deserved()
        advice = "; ".join(dict.fromkeys(short.advice for short in limits))
        return Verdict(True, f"queue {queue.name} holds all that it deserves", advice=advice, limits=limits)

    def _allocatable(self, queue: Queue, task: Task) -> Verdict | bool:
        if not quota.is_open(queue) and not self._ssn.simulates:
            return quota.not_open(queue)
        if quota.fits(self._filling.deserved(queue), queue.held.amounts, task.klass.items):
            return True
        asked = (queue.name, queue.version, task.klass, task.job, self._ssn.state.table.touched.position)
        if self._refused[0] != asked:  # the rest of a gang is told the same
            own = quota.just_placed(task)
            self._refused = asked, self._insufficient(queue, task.klass.items, own)
        return self._refused[1]

    def _preemptive(self, queue: Queue, tasks: Sequence[Task]) -> Verdict | bool:
        if not quota.is_open(queue):
            return quota.not_open(queue)
        request = list(quota.summed(tasks).items())
        if quota.fits(self._filling.deserved(queue), queue.held.amounts, request):
            return True
        return self._insufficient(queue, request, {})

    def _insufficient(self, queue: Queue, request: quota.Items, own: quota.Ledger) -> Verdict:
        return StandsNow(queue, self._filling, queue.held.amounts).insufficient(request, own)

    def _max_tasks(self, queue: Queue, task: Task) -> int:
        if not quota.is_open(queue):
            return 0
        return quota.room(self._filling.deserved(queue), queue.held.amounts, task.klass.items)

    # -- victims --------------------------------------------------------------------------------------------------
    def _reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Candidates whose queues hold more than they deserve, taken while they do."""
        left: dict[str, dict[int, quota.Number]] = {}
        victims = []
        for task in self._ssn.orders.victims(candidates, reclaimer):
            job = task.job
            queue = self._ssn.queues.get(job.queue) if job is not None else None
            if queue is None:
                continue
            held = left.get(queue.name)
            if held is None:
                held = left[queue.name] = dict(queue.held.amounts)
            if not quota.within(held, self._filling.deserved(queue)):
                quota.added(held, task.klass.items, -1)
                victims.append(task)
        return victims

    # -- admission ------------------------------------------------------------------------------------------------
    def _enqueueable(self, job: Job) -> Verdict | bool:
        queue = self._ssn.queues[job.queue]
        if not quota.is_open(queue):
            return quota.not_open(queue)
        if job.min_resources is None:
            return True
        promises = self._admission.promises(queue)
        promises += (self._admitted.get(queue.name, {}), 1), (queue.elastic.amounts, -1)
        parts = [(queue.held.amounts, 1), *promises, (self._admission.for_the_taking(job), -1)]
        most = self._filling.limits.get(queue.name, {})
        if quota.fits_beside(most, parts, job.min_resources.items()):
            return True
        bound, coming, used = StandsNow(queue, self._filling, {}).most, quota.added_up(promises), quota.added_up(parts)
        return quota.insufficient(
            quota.lacking(f"queue {queue.name}", most, used, job.min_resources.items(), bound, promised=coming)
        )

    def _same_question(self, job: Job) -> Hashable:
        return job.queue, job.min_resources, self._admission.kind(job)

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None:
            admitted = self._admitted.setdefault(job.queue, {})
            quota.added(admitted, job.without_gated(job.min_resources).items())

    # -- metrics --------------------------------------------------------------------------------------------------
    def on_session_close(self, ssn: Session) -> None:
        """Publish the figures of the queues that changed since they were last published."""
        if not ssn.metrics.wanted:
            return
        filling, metrics = self._filling, ssn.metrics
        published: dict[str, tuple[int, object, object]] = ssn.memory.setdefault("_published", {})
        for queue in filling.ordered:
            deserved, request = filling.deserved(queue), filling.request(queue)
            known, stamp = published.get(queue.name), (queue.version, request, deserved)
            if known == stamp:
                continue
            published[queue.name] = stamp
            quota.publish(metrics, queue.name, "deserved", deserved)
            if known is None or known[:2] != stamp[:2]:
                quota.publish(metrics, queue.name, "allocated", queue.held.amounts)
                quota.publish(metrics, queue.name, "request", request)
                quota.publish(metrics, queue.name, "inqueue", queue.inqueue.amounts)
            metrics.gauge("queue_share", self._share(queue), queue_name=queue.name)
            metrics.gauge("queue_weight", queue.weight, queue_name=queue.name)
            overused = quota.within(deserved, queue.held.amounts)
            metrics.gauge("queue_overused", float(overused), queue_name=queue.name)
        for name in published.keys() - filling.limits.keys():
            del published[name]
