"""Orders by sort key. A key that fails, or that cannot be compared, sorts last; kinds sort by kind.

Keys are plain values as long as they can be compared with each other. When two of them turn out not to be (None for one
job, 3 for the next), the order is made anew of `Ranked` keys, in which numbers come before text before tuples before
everything else: whatever was in order before still is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import total_ordering
from typing import Any, Final

from pumice.errors import shown
from pumice.framework.points.guard import FAILS, Call, Failures, about

_NUMBER, _BYTES, _TEXT, _TUPLE, _LAST = range(5)


_ALWAYS: Final = frozenset({int, float, str, bytes, bool})
"""Kinds whose values can be compared with each other, NaN aside."""


@total_ordering
class Ranked:
    """A key that can be compared with any other."""

    __slots__ = ("rank", "value")

    def __init__(self, rank: int, value: Any) -> None:
        self.rank, self.value = rank, value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranked) and (self.rank, self.value) == (other.rank, other.value)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Ranked):
            return False
        return (self.rank, self.value) < (other.rank, other.value)

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, Ranked) or (self.rank, self.value) > (other.rank, other.value)

    __hash__ = None  # type: ignore[assignment]


LAST: Final = Ranked(_LAST, 0)
"""Comes after every other key."""


def ranked(value: Any) -> Ranked:
    """A key with its kind before it."""
    if isinstance(value, Ranked):
        return value
    if isinstance(value, (int, float)):
        return Ranked(_NUMBER, value)
    if isinstance(value, bytes):
        return Ranked(_BYTES, value)
    if isinstance(value, str):
        return Ranked(_TEXT, value)
    if isinstance(value, (tuple, list)):
        return Ranked(_TUPLE, tuple([ranked(part) for part in value]))
    return LAST


def guarded_key(failures: Failures, plugin: str, point: str, fn: Call, kinds: dict[str, int] | None) -> Call:
    """A sort key that never raises; with *kinds* its answers are `Ranked`, and more than one kind is a failure."""

    def key(thing: Any) -> Any:
        try:
            value = fn(thing)
            if value.__class__ not in _ALWAYS or value != value:
                check(value)
        except FAILS as exc:
            failures.contain(plugin, point, exc, *about((thing,)), fn=fn)
            return LAST
        return value if kinds is None else of_kind(thing, value, kinds)

    def of_kind(thing: Any, value: Any, kinds: dict[str, int]) -> Ranked:
        made = ranked(value)
        if made is LAST or kinds.setdefault(plugin, made.rank) != made.rank:
            odd = TypeError(f"sort keys of one order must be of one kind that can be compared, got {shown(value)}")
            failures.contain(plugin, point, odd, *about((thing,)), fn=fn)
        return made

    return key


def check(value: Any) -> None:
    """Returns if a value can be compared with its like.

    :raises TypeError: it cannot.
    """
    if isinstance(value, tuple):
        for part in value:
            if part.__class__ not in _ALWAYS or part != part:
                check(part)
    elif (value < value) is not False or value != value:
        raise TypeError(f"a sort key must be comparable, got {shown(value)}")


def joined(keys: list[Call], fallback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One key of several, with what settles ties at the end."""
    if not keys:
        return fallback
    if len(keys) == 1:
        only = keys[0]
        return lambda x: (only(x), fallback(x))
    if len(keys) == 3:  # as in the usual configuration; written out, because it is made for every job
        first, second, third = keys
        return lambda x: (first(x), second(x), third(x), fallback(x))
    return lambda x: (*[k(x) for k in keys], fallback(x))


def compared(key: Call) -> Call:
    """A comparison of two things by their keys."""

    def compare(left: Any, right: Any, *_: Any) -> int:
        a, b = key(left), key(right)
        try:
            return int(a > b) - int(a < b)
        except TypeError:
            a, b = ranked(a), ranked(b)
            return int(a > b) - int(a < b)

    return compare
