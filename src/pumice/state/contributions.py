"""Sums of what each job contributes: kept as jobs change, so that nobody adds up all jobs every cycle.

Two belong to every queue (still to come for jobs that were let in, and held beyond the minimum). A plugin may declare
others over all jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from pumice.errors import shown
from pumice.model.codes import ReasonCode
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.resources import EMPTY, Number, Resources
from pumice.model.status import JobPhase
from pumice.state.writing import find

_MOST_FAILURES: Final = 10
"""So many are kept; the rest would say the same."""
Contribution: TypeAlias = Callable[[Job], Resources]
Contributed: TypeAlias = tuple[str, Resources, Resources, Resources]
"""The queue of a job; what is still to come for it there, what it holds beyond its minimum, what will come in vain."""


class JobSum:
    """The sum of what jobs contribute, by a function of the job; it follows the jobs that change.

    If the function fails for a job, the job contributes nothing; the exception is kept for the owner of the sum.
    """

    __slots__ = ("_amounts", "_failures", "_parts", "contribution", "total")

    def __init__(self, contribution: Contribution, jobs: Iterable[Job]) -> None:
        self.contribution = contribution
        self._amounts: dict[int, Number] = {}
        self._parts: dict[str, Resources] = {}
        self._failures: list[BaseException] = []
        self.total = Resources(self._amounts)
        """As it is at each moment."""
        for job in jobs:
            self.follow(job)

    def follow(self, job: Job) -> None:
        """A job changed, came or went."""
        before = self._parts.get(job.uid, EMPTY)
        after = self._asked(job) if job.in_session else EMPTY
        if after is before:
            return
        _add(self._amounts, before, -1)
        _add(self._amounts, after, 1)
        if after is EMPTY:
            self._parts.pop(job.uid, None)
        else:
            self._parts[job.uid] = after

    def _asked(self, job: Job) -> Resources:
        try:
            part = self.contribution(job)
            if not isinstance(part, Resources):
                raise TypeError(f"the contribution of job {job.uid} must be a Resources, got {shown(part)}")
            return Resources(dict(part.items()))  # a sum of the job would change under our hands
        except KeyboardInterrupt:
            raise
        except BaseException as exc:
            if len(self._failures) < _MOST_FAILURES:
                self._failures.append(exc)
            return EMPTY

    def take_failures(self) -> list[BaseException]:
        """The exceptions since the last call."""
        taken, self._failures = self._failures, []
        return taken


def of_queue(job: Job) -> Contributed:
    """The contribution of a job to the sums of its queue."""
    if not job.in_session:
        return "", EMPTY, EMPTY, EMPTY
    minimum = job.min_resources
    if minimum is None and not job._allocated:
        return job.queue, EMPTY, EMPTY, EMPTY
    inqueue, held = EMPTY, job._allocated
    if minimum is not None and (job.phase == JobPhase.INQUEUE or is_running(job)):
        lacks = _lacking(held, minimum)
        inqueue = job.without_gated(lacks) if lacks is not EMPTY else EMPTY
    in_vain = inqueue if inqueue is not EMPTY and fits_nowhere(job) else EMPTY
    return job.queue, inqueue, _beyond(held, minimum), in_vain


def _lacking(held: Mapping[int, Number], minimum: Resources) -> Resources:
    """The amounts that a job lacks of its minimum; zero amounts are left out."""
    least = minimum._values
    if held == least:
        return EMPTY
    if not held and min(least.values(), default=1) > 0:
        return minimum
    lacks = {}
    for d, v in least.items():
        if d in held:
            v -= held[d]
        if v > 0:
            lacks[d] = v
    return Resources(lacks) if lacks else EMPTY


def _beyond(held: Mapping[int, Number], minimum: Resources | None) -> Resources:
    """The amounts that a job holds beyond its minimum; zero amounts are left out."""
    if not held:
        return EMPTY
    least = minimum._values if minimum is not None else EMPTY._values
    if held == least:
        return EMPTY
    more = {}
    for d, v in held.items():
        if d in least:
            v -= least[d]
        if v > 0:
            more[d] = v
    return Resources(more) if more else EMPTY


def fits_nowhere(job: Job) -> bool:
    """Was it let in, has its pods and holds nothing, and did the last cycle say that there is no place for it?

    The PodGroup shows it, so a new scheduler knows it too.
    """
    group = job.group
    told = group.status.conditions if group is not None else None
    if not told or job.phase != JobPhase.INQUEUE or len(job.tasks) < job.min_available or job.allocated_count():
        return False
    return any(
        c.type == "Unschedulable" and c.status == "True" and c.reason == ReasonCode.NOT_ENOUGH_RESOURCES for c in told
    )


def is_running(job: Job) -> bool:
    """Does it run with as many tasks as it needs?"""
    return job.phase == JobPhase.RUNNING and job.allocated_count() >= job.min_available


def contribute(queues: Mapping[str, Queue], before: Contributed, now: Contributed) -> bool:
    """Let a job contribute to its queue what it does now, and no longer what it did; False where that is the same."""
    if before[0] == now[0] and before[1] is now[1] and before[2] is now[2] and before[3] is now[3]:
        return False
    queue: Queue | None = None
    for (name, inqueue, elastic, in_vain), sign in ((before, -1), (now, 1)):
        if inqueue is elastic is in_vain is EMPTY or not name:
            continue
        if queue is None or queue.name != name:
            queue = find(queues, name)
        if queue is not None:
            _add(queue._inqueue, inqueue, sign)
            _add(queue._elastic, elastic, sign)
            _add(queue._in_vain, in_vain, sign)
    return True


def _add(into: dict[int, Number], what: Resources, sign: int) -> None:
    if what is EMPTY:
        return
    for d, v in what._values.items():
        into[d] = into[d] + sign * v if d in into else sign * v
