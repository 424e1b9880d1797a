"""Times that repeat, as cron writes them: minute, hour, day, month and day of week, or @daily and its like. UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from pumice.errors import InvalidInput

_FIELDS: Final = {"minute": (0, 59), "hour": (0, 23), "day of month": (1, 31), "month": (1, 12), "day of week": (0, 6)}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WORDS: Final = {
    "month": {name: n for n, name in enumerate(_MONTHS, 1)},
    "day of week": {name: n for n, name in enumerate(_DAYS)},
}
_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FARTHEST: Final = 8 * 366
"""Days that are looked back: between two 29ths of February there may be eight years."""


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The minutes at which something happens."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    """Whether a day is given by its number or by its name. Else it must be meant by both."""

    @classmethod
    def parse(cls, text: str) -> CronSchedule:
        """Read what is written; a schedule that never comes is none."""
        parts = _NAMED.get(text.strip(), text).split()
        if len(parts) != len(_FIELDS):
            names = ", ".join(_FIELDS)
            raise InvalidInput(f"must be five fields ({names}) or one of {', '.join(_NAMED)}, got {text!r}")
        minutes, hours, days, months, weekdays = map(_field, parts, _FIELDS)
        either = not {"*", "?"} & {parts[2], parts[4]}
        found = cls(minutes, hours, days, months, weekdays, either)
        if found.last(datetime(2024, 12, 31, 23, 59, tzinfo=UTC).timestamp()) is None:
            raise InvalidInput(f"{text!r} names no day that there is")
        return found

    def last(self, at: float) -> float | None:
        """The latest such minute that is not after a time, in seconds since 1970; None where there is none."""
        moment = datetime.fromtimestamp(at, UTC)
        hour, minute = moment.hour, moment.minute
        day = moment.date()
        for _ in range(_FARTHEST):
            if self._means(day):
                earlier = [h for h in self.hours if h < hour]
                now = max((m for m in self.minutes if m <= minute), default=None) if hour in self.hours else None
                if now is not None:
                    return _seconds(day, hour, now)
                if earlier:
                    return _seconds(day, max(earlier), max(self.minutes))
            day -= timedelta(days=1)
            hour, minute = 24, 0
        return None

    def _means(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_number, by_name = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_number or by_name if self.either else by_number and by_name


def _seconds(day: date, hour: int, minute: int) -> float:
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC).timestamp()


def _field(text: str, name: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, last = _span(span, name, to_the_end=bool(slash))
        if slash and (not step.isascii() or not step.isdigit() or not 0 < int(step[:9]) <= 1000):
            raise InvalidInput(f"{name}: a step must be a whole number above 0, got {part!r}")
        found.update(range(first, last + 1, int(step) if slash else 1))
    return frozenset(found)


def _span(text: str, name: str, *, to_the_end: bool) -> tuple[int, int]:
    """The first and the last of a range. *to_the_end*: what names no end goes as far as it can."""
    least, most = _FIELDS[name]
    if text in ("*", "?"):
        return least, most
    begin, dash, end = text.partition("-")
    first = _number(begin, name)
    last = _number(end, name) if dash else most if to_the_end else first
    if not least <= first <= last <= most:
        raise InvalidInput(f"{name}: must lie between {least} and {most}, got {text!r}")
    return first, last


def _number(text: str, name: str) -> int:
    known = _WORDS.get(name, {}).get(text.lower())
    if known is not None:
        return known
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        raise InvalidInput(f"{name}: must be a number, got {text!r}")
    return int(text)
