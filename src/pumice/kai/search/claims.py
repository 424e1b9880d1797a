"""What a queue asks to be served next: the claim of which the order of queues is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView


@dataclass(frozen=True, slots=True)
class Claim:
    """A queue with the job that it would place next or, where victims are taken, the jobs that would go."""

    queue: QueueView
    job: JobView | None
    victims: Sequence[JobView] = ()
