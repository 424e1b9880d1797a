"""When a job will likely start: the answer, as every caller gets it."""

from __future__ import annotations

import math
from typing import Final, Literal

import msgspec
from msgspec import structs

Verdict = Literal["runs", "now", "range", "never", "unknown"]
"""``runs``: it has its places; ``now``: the next cycle places it; ``range``: it waits, see ``low`` and ``high``;
``never``: it cannot start on this cluster; ``unknown``: no start can be given, see ``unknown``."""


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


_STEPS: Final = (
    *((60, 10), (600, 60), (3600, 300), (14_400, 900)),
    *((172_800, 3600), (math.inf, 86_400)),
)
"""Below so many seconds a range is told to so many: nobody knows more than that."""


def start_in_words(when: WhenAnswer, clock: str = "") -> str:
    """When it will likely start, in one line; *clock*: the same by the time of day, if that is known."""
    if when.runs:
        others = structs.replace(when, runs="")
        then = "when other work ends" if when.verdict == "never" else start_in_words(others, clock)
        return f"runs with {when.runs}; the others: {then}"
    match when.verdict:
        case "runs":
            return "has its places already"
        case "now":
            return "starts now: the next cycle places it"
        case "never":
            return "will not start on this cluster as it is"
        case "range" if when.low is not None and when.high is not None:
            return f"likely starts {span(when.low, when.high)}{clock} (holds in 8 of 10 cases)"
        case _:
            return f"unknown: {when.unknown}"


def span(low: float, high: float) -> str:
    """A range of time from now: ``in 10 min to 4 h 15 min``; its ends are rounded outwards."""
    early = roughly(low, up=False)
    return f"in {early} to {roughly(high, up=True)}" if early else f"within {roughly(high, up=True)}"


def roughly(seconds: float, *, up: bool) -> str:
    """A length of time as precise as a forecast is; nothing where it is rounded to none."""
    step = next(step for below, step in _STEPS if seconds < below)
    whole = int((math.ceil if up else math.floor)(seconds / step)) * step
    days, rest = divmod(whole, 86_400) if whole >= 172_800 else (0, whole)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    parts = (days, "d"), (hours, "h"), (minutes, "min"), (left, "s")
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
