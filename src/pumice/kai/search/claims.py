"""What a queue asks to be served next: the claim of which the order of queues is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pumice.kai.view.amounts import NOTHING, Amounts, plus, total
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.stage import ALLOCATED


class QueueClaim(NamedTuple):
    """A queue with the job that it would place next or, where victims are taken, the jobs that would go."""

    queue: QueueView
    job: JobView | None
    victim: JobView | None = None
    """The one that would go next."""
    gone: Sequence[JobView] = ()
    """Those that went before it; more may be added later."""
    gone_held: Amounts = NOTHING
    """What these hold."""

    def translated(self, real: Callable[[object], Any]) -> QueueClaim:
        """The same of the cluster's own jobs and queues, for plugins of others."""
        gone = [real(job) for job in self.gone]
        return QueueClaim(real(self.queue), real(self.job), real(self.victim), gone, self.gone_held)

    @property
    def victims(self) -> list[JobView]:
        """All that would go."""
        return [*self.gone, self.victim] if self.victim is not None else []

    @property
    def released(self) -> Amounts:
        """What the victims hold."""
        return plus(self.gone_held, held_by(self.victim)) if self.victim is not None else NOTHING


def held_by(job: JobView) -> Amounts:
    """What the tasks of a job count in its queue."""
    only = job.only
    if only is not None:
        return only.accepted if only.stage in ALLOCATED else NOTHING
    return total(x.accepted for x in job.tasks.values() if x.stage in ALLOCATED)
