"""Go durations (``1m30s``, ``100ms``, ``-5s``, ``0``) as whole nanoseconds, both ways."""

from __future__ import annotations

import re
from typing import Final

from pumice.errors import InvalidInput

NANOSECOND: Final = 1
MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY

_UNITS: Final = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "µs": MICROSECOND,  # micro sign
    "μs": MICROSECOND,  # Greek small mu: looks the same, is another letter; Go takes both
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_LONG_UNITS: Final = {**_UNITS, "d": DAY, "w": WEEK}
_PART: Final = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^0-9.]*)", re.ASCII)
_MAX: Final = 2**63 - 1


def parse_duration(text: str, *, days: bool = False) -> int:
    """The nanoseconds that *text* stands for, by the rules of Go's ``time.ParseDuration``.

    A fraction of a nanosecond is cut off. With *days*, the units ``d`` and ``w`` are taken too (KAI's durations).
    :raises InvalidInput: no such duration, or one beyond 292 years (Go's range).
    """
    units = _LONG_UNITS if days else _UNITS
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise InvalidInput(_complaint(text, "it is empty", units))
    total = 0
    at = 0
    while at < len(rest):
        part = _PART.match(rest, at)
        assert part is not None  # every group may be empty
        whole, fraction, unit = part["whole"], part["fraction"] or "", part["unit"]
        if not whole and not fraction:
            raise InvalidInput(_complaint(text, f"a number must stand before {rest[at:]!r}", units))
        if not unit:
            raise InvalidInput(_complaint(text, f"the unit after {rest[at : part.end()]!r} is missing", units))
        if unit not in units:
            raise InvalidInput(_complaint(text, f"there is no unit {unit!r}", units))
        if len(whole) > 19:
            raise InvalidInput(_complaint(text, "it is longer than 292 years", units))
        scale = units[unit]
        fraction = fraction[:18]  # the smallest unit is far above 1e-18 of the greatest
        total += int(whole or "0") * scale + int(fraction or "0") * scale // 10 ** len(fraction)
        at = part.end()
    if total > (_MAX if sign > 0 else _MAX + 1):
        raise InvalidInput(_complaint(text, "it is longer than 292 years", units))
    return sign * total


def format_duration(nanoseconds: int) -> str:
    """The text that Go prints for a duration: ``1h30m0s``, ``1.5s``, ``100ms``, ``0s``."""
    if nanoseconds < 0:
        return "-" + format_duration(-nanoseconds)
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < MICROSECOND:
        return f"{nanoseconds}ns"
    if nanoseconds < MILLISECOND:
        return _decimal(nanoseconds, MICROSECOND) + "µs"
    if nanoseconds < SECOND:
        return _decimal(nanoseconds, MILLISECOND) + "ms"
    minutes, rest = divmod(nanoseconds, MINUTE)
    hours, minutes = divmod(minutes, 60)
    seconds = _decimal(rest, SECOND) + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    if minutes:
        return f"{minutes}m{seconds}"
    return seconds


def _decimal(value: int, unit: int) -> str:
    """*value* in *unit*s, exactly, without trailing zeros."""
    whole, rest = divmod(value, unit)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def _complaint(text: str, why: str, units: dict[str, int]) -> str:
    known = ", ".join(unit for unit in units if unit.isascii())
    return f"duration {text!r}: {why}; write numbers with units ({known}), such as 1m30s or 100ms"
