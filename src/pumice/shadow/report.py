"""What a shadow saw: what agrees, who would have started sooner or later, who would have been evicted."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal["same", "elsewhere", "sooner", "later"]
"""What the candidate would have done with pods that the running scheduler placed: the same; at the same time on another
node; sooner; or not yet."""
VERDICTS: tuple[Verdict, ...] = ("same", "elsewhere", "sooner", "later")


class ComparedPlacement(msgspec.Struct, kw_only=True):
    """Pods of a job that the running scheduler placed in one go, and what the candidate would have done."""

    at: float
    job: str
    queue: str
    pods: int
    verdict: Verdict
    seconds: float = 0.0
    """How much sooner; 0 for the other verdicts."""
    elsewhere: int = 0
    """Pods that the candidate would have put on another node."""
    nodes: dict[str, int] = {}
    """Node -> pods, as they were placed."""
    wished: dict[str, int] = {}
    """Node -> pods, as the candidate would have placed them."""
    running_says: str = ""
    """Why the job had waited, as its objects say it."""
    candidate_says: str = ""
    """Why the candidate would have let it wait."""


class StillWaiting(msgspec.Struct, kw_only=True):
    """A job that still waits, and that the candidate would have started."""

    job: str
    queue: str
    since: float
    seconds: float
    pods: int
    wished: dict[str, int] = {}
    running_says: str = ""


class Eviction(msgspec.Struct, kw_only=True):
    """Pods that one of the two would evict, and the other not."""

    at: float
    by: Literal["running", "candidate", "both"]
    pods: list[str]
    job: str = ""
    """Whose pods they are."""
    beneficiary: str = ""
    action: str = ""


Difference = ComparedPlacement | StillWaiting | Eviction


class ShadowTally(msgspec.Struct, kw_only=True):
    """Sums over a time."""

    jobs: dict[Verdict, int]
    """How many placements of jobs had each verdict."""
    pods: dict[Verdict, int]
    sooner_seconds: float = 0.0
    """All that jobs would have waited less, those that still wait not counted."""
    evicted: int = 0
    """Pods that the running scheduler evicted."""
    evicted_by_both: int = 0
    """... that the candidate would have evicted too."""
    would_evict: int = 0
    """Pods that the candidate would have evicted, and the running scheduler did not. A beneficiary counts once."""


def empty() -> ShadowTally:
    """Nothing yet."""
    return ShadowTally(jobs=dict.fromkeys(VERDICTS, 0), pods=dict.fromkeys(VERDICTS, 0))


class Day(msgspec.Struct, kw_only=True):
    """One day, or what there was of it."""

    began: float
    ended: float
    tally: ShadowTally
    sooner: list[ComparedPlacement]
    """Who gains most."""
    later: list[ComparedPlacement]
    """Who would have waited, the largest first."""
    evictions: list[Eviction]


class Report(msgspec.Struct, kw_only=True):
    """Everything that a shadow has to say."""

    candidate: str
    """The digest of the candidate conf."""
    beside: str
    """Beside whom: the schedulers' names, or the simulated configuration."""
    began: float
    ended: float
    cycles: int
    cpu_seconds: float
    """What deciding cost."""
    total: ShadowTally
    waiting: list[StillWaiting]
    """Who still waits, the longest first."""
    days: list[Day]
    recent: list[ComparedPlacement]
    """The last differences, the newest first."""

    @property
    def share_of_core(self) -> float:
        """The part of a core that deciding took."""
        return self.cpu_seconds / (self.ended - self.began) if self.ended > self.began else 0.0

    @property
    def agreement(self) -> float | None:
        """The part of the placements that are the same, None if there was none."""
        jobs = sum(self.total.jobs.values())
        return self.total.jobs["same"] / jobs if jobs else None
