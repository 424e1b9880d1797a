"""Why a job waits: the answer, as everybody gets it."""

from __future__ import annotations

import msgspec

from pumice.answers.queues import Source, Standing
from pumice.answers.when.answer import WhenAnswer
from pumice.framework.explaining.explain import Explanation


class WhyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits, where it stands, and what would let it start sooner."""

    explanation: Explanation
    now: float
    """When it was asked, in seconds."""
    since: float | None = None
    """When the job was made."""
    standing: Standing | None = None
    """How its queue stands; None where that cannot be seen."""
    when: WhenAnswer | None = None
    """When it will likely start; None where nobody can say."""
    source: Source = "scheduler"
    unseen: list[str] = []
    """The parts that could not be looked at, and why."""


class TriedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one job in the next cycle."""

    job: str
    queue: str
    starts: bool
    """Whether it would have all that it needs to run."""
    tasks: int
    min_available: int
    placed: dict[str, str]
    """Pod -> the node that it would be bound to."""
    promised: dict[str, str] = {}
    """Pod -> the node on which room is being released, or made, for it."""
    why: Explanation | None = None
    """Why it would not start; None if it would."""
    when: WhenAnswer | None = None
    """When it would likely start; None if it would now, or nobody was asked."""


class Evicted(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that would have to go."""

    pod: str
    job: str
    node: str
    action: str
    """Which action would evict it."""
    beneficiary: str
    """The job for whose good it would be."""


class QueueEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A queue after the cycle, and how much of what it holds these jobs would hold."""

    after: Standing
    by_them: dict[str, float]
    """Resource -> amount."""


class TryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions if these jobs existed and nothing else happened."""

    jobs: list[TriedJob]
    evicted: list[Evicted]
    """For the good of these jobs."""
    queues: list[QueueEffect]
    """Those of these jobs."""
    now: float
    source: Source = "scheduler"
    milliseconds: float = 0.0
    unseen: list[str] = []
