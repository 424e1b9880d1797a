"""Numbers as people read them: durations, shares, amounts. One wording for the page and for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pumice.sim.results.comparison import Change
from pumice.sim.results.metrics import Unit
from pumice.sim.results.statistics import Distribution, Statistic
from pumice.sim.results.summary import Summary
from pumice.words import counted

NOTHING = "–"
"""The text in place of a missing value."""
_SCALES = ((1, "s", 60, "min", 3600.0), (60, "min", 3600, "h", 86_400.0), (3600, "h", 86_400, "d", math.inf))
"""The unit that is rounded to, the one above it, and from where on the next scale is used."""
NO_CHANGE = "no change"
AT_LEAST = "≥ "
"""Stands before a lower bound."""


def duration(seconds: float | None) -> str:
    """Return a length of time in its two greatest units: ``4 h 12 min``, ``3 d 4 h``, ``42 s``, ``0.3 s``."""
    if seconds is None:
        return NOTHING
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    small_size, small, size, large, _ = next(
        scale for scale in _SCALES if round(seconds / scale[0]) * scale[0] < scale[-1]
    )
    whole, rest = divmod(round(seconds / small_size) * small_size, size)
    parts = [f"{whole:,} {large}"] if whole else []
    return " ".join([*parts, f"{rest // small_size} {small}"] if rest else parts)


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


def ratio(value: float | None) -> str:
    """Return a factor: ``1.00 ×``, ``12.5 ×``."""
    if value is None:
        return NOTHING
    return f"{value:,.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f} ×"


def machines(summary: Summary) -> str:
    """Return what a run was played on: ``12 nodes, 80 GPUs``."""
    nodes = counted(summary.nodes, "node")
    return f"{nodes}, {number(summary.gpus)} GPU{'' if summary.gpus == 1 else 's'}" if summary.gpus else nodes


def amount(value: float | None, unit: Unit, *, at_least: bool = False) -> str:
    """Return a value in the words of its *unit*; with *at_least* as a lower bound."""
    bound = AT_LEAST if at_least and value is not None else ""
    match unit:
        case "seconds":
            return bound + duration(value)
        case "share":
            return bound + percent(value)
        case "index":
            return bound + index(value)
        case "hours":
            return bound + (number(value) if value is None else f"{number(value)} h")
        case "ratio":
            return bound + ratio(value)
        case "count":
            return bound + number(value)


def of_spread(spread: Distribution | None, statistic: Statistic, unit: Unit = "seconds") -> str:
    """Return one figure of a distribution, marked where it is a lower bound."""
    if spread is None:
        return NOTHING
    return amount(getattr(spread, statistic), unit, at_least=statistic in spread.at_least)


def steps(changes: Sequence[Change | None], unit: Unit) -> list[str]:
    """Return the changes of one row in words, all in percent, or all as amounts where a percentage says little.

    A value that cannot be compared says so; the place of ``None`` stays empty.
    """
    known = [change for change in changes if change is not None and change.comparable]
    amounts = unit in ("count", "index", "share") or any(
        change.relative is None or abs(change.relative) >= 2 for change in known
    )
    return ["" if change is None else _step(change, unit, amounts) for change in changes]


def _step(change: Change, unit: Unit, amounts: bool) -> str:
    if not change.comparable:
        return "? not comparable"
    if change.absolute == 0:
        return NO_CHANGE
    if amounts or change.relative is None:
        return signed(change.absolute, unit)
    return signed_percent(change.relative)


def signed(value: float, unit: Unit) -> str:
    """Return a difference with its sign: ``+3 min``, ``−2.9 points``; ``±`` before what rounds to nothing."""
    size = abs(value)
    return _with_sign(value, f"{100 * size:.1f} points" if unit == "share" else amount(size, unit))


def signed_percent(part: float) -> str:
    """Return a relative difference with its sign: ``−40.2 %``; ``±0.0 %`` for what rounds to nothing."""
    return _with_sign(part, f"{100 * abs(part):.{0 if abs(part) >= 2 else 1}f} %")


def _with_sign(value: float, said: str) -> str:
    nothing = not any(digit in said for digit in "123456789")
    return ("±" if nothing else "+" if value > 0 else "−") + said
