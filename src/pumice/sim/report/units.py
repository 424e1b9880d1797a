"""Numbers as people read them: durations, shares, amounts. One wording for the page and for the terminal."""

from __future__ import annotations

import itertools

from pumice.sim.results.comparison import Change
from pumice.sim.results.metrics import Unit

NOTHING = "–"
"""What stands where there is no value."""
_STEPS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float | None) -> str:
    """Return a length of time in its two greatest units: ``4 h 12 min``, ``3 d 4 h``, ``42 s``, ``0.3 s``."""
    if seconds is None:
        return NOTHING
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    small = _rounded(seconds)
    for (size, unit), (next_size, next_unit) in itertools.pairwise(_STEPS):
        if small >= size:
            rest = small % size // next_size
            return f"{small // size:,} {unit}" + (f" {rest} {next_unit}" if rest else "")
    return f"{small} s"


def _rounded(seconds: float) -> int:
    """Seconds rounded to the smaller of the two units that are shown."""
    for (size, _), (next_size, _) in itertools.pairwise(_STEPS):
        if seconds >= size - next_size / 2:
            return round(seconds / next_size) * next_size
    return round(seconds)


def number(value: float | None) -> str:
    """Return a plain number with about three digits that matter: ``12,480``, ``53.5``, ``0.07``."""
    if value is None:
        return NOTHING
    size = abs(value)
    if size >= 100 or value == int(value):
        text = f"{value:,.0f}"
    elif size >= 10:
        text = f"{value:.1f}"
    else:
        text = f"{value:.2f}"
    return text.replace("-", "−")


def percent(share: float | None) -> str:
    """Return a part of one as a percentage."""
    if share is None:
        return NOTHING
    return f"{100 * share:.1f} %".replace("-", "−")


def index(value: float | None) -> str:
    """Return a value between 0 and 1 with three digits."""
    return NOTHING if value is None else f"{value:.3f}"


def amount(value: float | None, unit: Unit) -> str:
    """Return a value in the words of its *unit*."""
    match unit:
        case "seconds":
            return duration(value)
        case "share":
            return percent(value)
        case "index":
            return index(value)
        case "hours":
            return number(value) if value is None else f"{number(value)} h"
        case "ratio":
            return number(value) if value is None else f"{number(value)} ×"
        case "count":
            return number(value)


def step(change: Change, unit: Unit) -> str:
    """Return a change in words: relative where that says more, else absolute; ``no change`` where there is none."""
    if change.verdict == "same":
        return "no change"
    sign = "+" if change.absolute > 0 else "−"
    size = abs(change.absolute)
    if unit == "share":
        return f"{sign}{100 * size:.1f} points"
    if unit == "index":
        return f"{sign}{size:.3f}"
    if change.relative is None or unit == "count":
        return f"{sign}{amount(size, unit)}"
    if abs(change.relative) >= 2:
        return f"{sign}{amount(size, unit)}"
    return f"{sign}{100 * abs(change.relative):.1f} %"
