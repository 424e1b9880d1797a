"""Who may be let in: what counts as taken, for the plugins that vote on it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

from pumice.framework.quota import Ledger, added, added_up
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.resources import Number

if TYPE_CHECKING:
    from pumice.framework.session.session import Session

_PREEMPTING: Final = frozenset({"preempt", "gangpreempt"})


class Admission:
    """What was promised to jobs that were let in, and what a job could take from lesser ones, in one session.

    A job that was let in and fits nowhere does not keep others out: what it waits for counts no longer, until it has
    a place. And where an action preempts, a job may be let in for what it could take: else the pods for which room
    would be made are never there.
    """

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._locks = ssn.compat.lasting_admission
        self._preempts = not _PREEMPTING.isdisjoint(ssn.actions) and not ssn.compat.blind_admission
        self._lesser: dict[tuple[str, int], dict[int, Number]] = {}
        self._at = -1

    def promises(self, queue: Queue) -> list[tuple[Ledger, int]]:
        """What jobs of a queue that were let in have still to get, in parts that count so many times."""
        known = (queue.inqueue.amounts, 1)
        return [known] if self._locks else [known, (queue.in_vain.amounts, -1)]

    def promised(self, queue: Queue) -> dict[int, Number]:
        """The same in one."""
        return added_up(self.promises(queue))

    def for_the_taking(self, job: Job) -> dict[int, Number]:
        """What preemptible jobs of less priority hold in the job's queue; nothing where nobody preempts."""
        if not self._preempts:
            return {}
        table = self._ssn.state.table
        if self._at != table.touched.position:
            self._lesser, self._at = {}, table.touched.position
        key = (job.queue, job.priority)
        known = self._lesser.get(key)
        if known is None:
            known = self._lesser[key] = {}
            for other in self._ssn.queues[job.queue].jobs.values():
                if other.priority < job.priority and other.held.amounts and other.preemptible:
                    added(known, other.held.amounts.items())
        return known

    def kind(self, job: Job) -> Hashable:
        """What of a job decides what it could take."""
        return (job.queue, job.priority) if self._preempts else None
