"""When a job will likely start: the answer, as every caller gets it."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal["runs", "now", "range", "never", "unknown"]
"""``runs``: it has its places; ``now``: the next cycle places it; ``range``: it waits, see ``low`` and ``high``;
``never``: not with what is there; ``unknown``: no start can be told, see ``unknown``."""


class WhenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """When a job will likely start: a range, what it rests on, and what it assumes. Times are seconds from *now*."""

    job: str
    queue: str
    now: float
    verdict: Verdict
    why: str = ""
    """Why it does not start now."""
    runs: str = ""
    """How many of its pods run already (``8 of 10 pods``), if the answer is about the others; else nothing."""
    place: int = 0
    """Among the jobs that wait in its queue."""
    waiting: int = 0
    """How many wait in its queue."""
    low: float | None = None
    """It starts before this in one of ten cases."""
    likely: float | None = None
    """… and before this in one of two."""
    high: float | None = None
    """It starts after this in one of ten cases."""
    age: float = 0.0
    """Seconds ago the cluster was as this was played from; the times are from *now* all the same."""
    unknown: str = ""
    """Why no start is told, if the verdict is ``unknown``. A range is told only where past ranges of the queue held."""
    assumes: list[str] = []
    unseen: list[str] = []
