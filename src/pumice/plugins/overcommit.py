"""overcommit: let in somewhat more than the cluster can hold, and no more."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from pumice.framework import quota
from pumice.framework.arguments import Argument
from pumice.framework.plugin import Plugin
from pumice.framework.quota import added, fits, lacking
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.limit import Bound, Limit, shown
from pumice.model.reason import Verdict, reject
from pumice.model.resources import EMPTY, Number, Resources, asked_dim, dim_name, unit
from pumice.model.status import JobPhase
from pumice.state.cluster import ClusterState

_MOST_NAMED = 3


class Overcommit(Plugin):
    """Rejects a job while it and what was let in exceed ``overcommit-factor`` times the cluster, less what runs."""

    name = "overcommit"
    persistent = True
    factor = Argument(1.2, "How many times the cluster.", name="overcommit-factor", minimum=1, lenient=True)
    _seen: dict[int, Number] | None = None

    def on_session_open(self, ssn: Session) -> None:
        self._begin(ssn)
        ssn.add_job_enqueueable_fn(self.name, self._enqueueable, key=self._same_question)
        ssn.add_job_enqueued_fn(self.name, self._enqueued)

    def _begin(self, ssn: Session) -> None:
        self._ssn = ssn
        self._inqueue: dict[int, Number] | None = None
        self._used = dict(ssn.state.used_total)
        if self._seen != ssn.state.total:
            self._seen = dict(ssn.state.total)
            self._budget = {d: v * self.factor for d, v in self._seen.items()}
        self._idle: dict[int, Number] | None = None
        self._twice = ssn.keep_sum("admitted", _admitted_twice) if ssn.compat.overcommit_double_count else None
        self._admission = quota.Admission(ssn)

    def _admitted(self) -> dict[int, Number]:
        """The outstanding amounts of admitted jobs."""
        if self._inqueue is None:
            state = self._ssn.state
            if self._twice is not None:
                self._inqueue = dict(self._twice.amounts)
            else:
                self._inqueue = {}
                for queue in state.queues.values():
                    added(self._inqueue, self._admission.promised(queue).items())
        return self._inqueue

    def _enqueueable(self, job: Job) -> Verdict | bool:
        if job.min_resources is None:
            return True
        if self._idle is None:
            self._idle = {d: v - self._used.get(d, 0) for d, v in self._budget.items()}
        if fits(self._idle, self._admitted(), job.min_resources.items()):
            return True
        used = dict(self._used)
        added(used, self._admission.for_the_taking(job).items(), -1)
        added(used, self._admitted().items())
        limits = lacking(
            *("the cluster", self._budget, used, job.min_resources.items(), self._bound), promised=self._admitted()
        )
        if not limits:
            return True
        text = "resource in cluster is overused: " + ", ".join(f"overused {short.resource}" for short in limits)
        return reject(text, advice=partial(_advice, self._ssn.state, job.uid, limits), limits=limits)

    def _same_question(self, job: Job) -> Hashable:
        return job.min_resources, self._admission.kind(job)

    def _bound(self, d: int) -> tuple[Bound, str]:
        total = self._ssn.state.total.get(d, 0) / unit(d)
        return Bound.OVERCOMMIT, f"{shown(dim_name(d), total)} × {self.factor:g}"

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None:
            added(self._admitted(), job.without_gated(job.min_resources).items())


def _admitted_twice(job: Job) -> Resources:
    """Volcano's amount for an admitted job: all of its minimum, whatever it holds already."""
    if job.min_resources is None:
        return EMPTY
    if job.phase == JobPhase.INQUEUE:
        return job.without_gated(job.min_resources)
    if job.phase == JobPhase.RUNNING and job.allocated_count() >= job.min_available:
        return job.without_gated(job.min_resources.exceeding(job.allocated).only(job.min_resources.amounts))
    return EMPTY


def _advice(state: ClusterState, asking: str, limits: tuple[Limit, ...]) -> str:
    """The jobs that would have to end or start to make room: those that hold most of the lacking resource, largest
    first."""
    short = limits[0]
    d = asked_dim(short.resource)
    holders = []
    for queue in state.queues.values():
        for job in queue.jobs.values():
            minimum = job.min_resources.get(d) if job.min_resources is not None and not job.is_pending else 0
            amount = max(minimum, job.held.get(d))
            if amount > 0 and job.uid != asking:
                holders.append((-amount, job.uid, job.held.get(d) < amount))
    holders.sort()
    named = [
        f"{uid} ({shown(short.resource, -amount / unit(d))}{', let in and not yet placed' if waits else ''})"
        for amount, uid, waits in holders[:_MOST_NAMED]
    ]
    more = f" and {len(holders) - _MOST_NAMED} more" if len(holders) > _MOST_NAMED else ""
    who = f"jobs that hold {short.resource} end: {', '.join(named)}{more}; or " if named else ""
    return f"{who}more nodes, a higher overcommit-factor, or a smaller minResources"
