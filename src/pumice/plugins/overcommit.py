"""overcommit: let in somewhat more than the cluster can hold, and no more."""

from __future__ import annotations

from collections.abc import Hashable

from pumice.framework.plugin import Arguments, Plugin
from pumice.framework.quota import added, lacking
from pumice.framework.session import Session
from pumice.model.job import Job
from pumice.model.reason import Verdict, reject
from pumice.model.resources import EMPTY, Number, Resources
from pumice.model.status import JobPhase

_DEFAULT_FACTOR = 1.2


class Overcommit(Plugin):
    """Rejects a job while it and what was let in exceed ``overcommit-factor`` times the cluster, less what runs.

    ``overcommit-factor``: a number of at least 1 (default 1.2; below 1 the default is taken).
    """

    name = "overcommit"
    arguments_read = ("overcommit-factor",)

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        factor = arguments.float("overcommit-factor", _DEFAULT_FACTOR)
        self._factor = factor if factor >= 1 else _DEFAULT_FACTOR
        self._inqueue: dict[int, Number] | None = None

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        total, used = ssn.state.total, ssn.state.used_total
        self._idle: dict[int, Number] = {d: v * self._factor - used.get(d, 0) for d, v in total.items()}
        self._twice = ssn.keep_sum("admitted", _admitted_twice) if ssn.compat.overcommit_double_count else None
        ssn.add_job_enqueueable_fn(self.name, self._enqueueable, key=_same_minimum, lasting=True)
        ssn.add_job_enqueued_fn(self.name, self._enqueued)

    def _admitted(self) -> dict[int, Number]:
        """What jobs that were let in have still to get."""
        if self._inqueue is None:
            state = self._ssn.state
            if self._twice is not None:
                self._inqueue = dict(self._twice.amounts)
            else:
                self._inqueue = {}
                for queue in state.queues.values():
                    added(self._inqueue, queue.inqueue.amounts.items())
        return self._inqueue

    def _enqueueable(self, job: Job) -> Verdict | bool:
        if job.min_resources is None:
            return True
        names = lacking(self._idle, self._admitted(), job.min_resources.items())
        if not names:
            return True
        return reject("resource in cluster is overused: " + ", ".join(f"overused {n}" for n in names))

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None:
            added(self._admitted(), job.without_gated(job.min_resources).items())


def _admitted_twice(job: Job) -> Resources:
    """What Volcano counts of a job that was let in: all of its minimum, whatever it holds of that already."""
    if job.min_resources is None:
        return EMPTY
    if job.phase == JobPhase.INQUEUE:
        return job.without_gated(job.min_resources)
    if job.phase == JobPhase.RUNNING and job.allocated_count() >= job.min_available:
        return job.without_gated(job.min_resources.exceeding(job.allocated).only(job.min_resources.amounts))
    return EMPTY


def _same_minimum(job: Job) -> Hashable:
    return job.min_resources
