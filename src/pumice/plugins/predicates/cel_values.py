"""The operations on CEL values: operators, each over the types that it supports."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pumice.errors import InvalidInput

_VERSION: Final = re.compile(
    r"(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)(?:-(?P<early>[0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
LARGEST: Final = 2**63
"""Whole numbers have 64 bits: what goes beyond has no value."""
LONGEST: Final = 10_000
"""Texts and lists that are put together have at most so many parts."""


class NoValue(Exception):
    """An expression has no value: it asks for what is not there, or for what its values cannot do."""


def version_key(text: str) -> tuple[Any, ...]:
    """A semantic version as something that compares as versions do: 1.10.0 above 1.9.0, and 1.0.0-rc.1 below 1.0.0.

    :raises InvalidInput: it is none.
    """
    found = _VERSION.fullmatch(text)
    if found is None or len(text) > 256:
        raise InvalidInput(f"version {text!r}: not MAJOR.MINOR.PATCH")
    numbers = tuple(int(found[part]) for part in ("major", "minor", "patch"))
    early = found["early"]
    parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in early.split(".")) if early else ()
    return (*numbers, not early, parts)


@dataclass(frozen=True, slots=True, order=True)
class CelAmount:
    """A quantity, in thousandths."""

    milli: int


@dataclass(frozen=True, slots=True, order=True)
class CelVersion:
    """A semantic version."""

    key: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CelType:
    """The result of `type` for a value."""

    name: str


@dataclass(frozen=True, slots=True)
class CelOptional:
    """A value that may be missing."""

    held: tuple[Any, ...] = ()
    """The value, or nothing."""


TYPES: Final[Mapping[type, str]] = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    list: "list",
    dict: "map",
    type(None): "null_type",
}


def _same_types(a: Any, b: Any, *allowed: type) -> bool:
    return type(a) in allowed and type(b) in allowed and (type(a) is type(b) or {type(a), type(b)} == {int, float})


def equal(a: Any, b: Any) -> bool:
    """Values of different types are not equal; numbers are compared as numbers."""
    if type(a) is list and type(b) is list:
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if type(a) is CelOptional and type(b) is CelOptional:
        return equal([*a.held], [*b.held])
    if type(a) is not type(b) and {type(a), type(b)} != {int, float}:
        return False
    return bool(a == b)


_SIMPLE: Final = frozenset({int, float, bool, type(None), CelAmount, CelVersion, CelType})


def weight(value: Any, most: int) -> int:
    """The parts of a value: items of lists and maps all the way down, and sixteen characters of a text as one.

    Lists may share their items, so that there are more parts than memory holds: nothing is counted above *most*.
    """
    found, waiting = 0, [value]
    while waiting and found <= most:
        one = waiting.pop()
        kind = type(one)
        if kind is str:
            found += len(one) >> 4
        elif kind is list or kind is CelOptional:
            inside = one if kind is list else one.held
            found += len(inside)
            waiting += inside
        elif kind not in _SIMPLE and isinstance(one, Mapping):
            found += 2 * len(one)
            waiting += [*one.keys(), *one.values()]
    return found


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def both(a: Any, b: Any) -> bool:
        if not _same_types(a, b, int, float, str, bool, CelAmount, CelVersion):
            raise NoValue
        return compare(a, b)

    return both


def _within(a: Any, b: Any) -> bool:
    if type(b) is list:
        return any(equal(a, item) for item in b)
    if isinstance(b, Mapping):
        return a in b if type(a) in (str, int) else False
    raise NoValue


def whole(value: Any) -> Any:
    if type(value) is int and not -LARGEST <= value < LARGEST:
        raise NoValue
    return value


def _plus(a: Any, b: Any) -> Any:
    if _same_types(a, b, int, float) and type(a) is type(b):
        return whole(a + b)
    if _same_types(a, b, str, list) and len(a) + len(b) <= LONGEST:
        return a + b
    raise NoValue


def _arithmetic(work: Callable[[Any, Any], Any], *types: type) -> Callable[[Any, Any], Any]:
    def both(a: Any, b: Any) -> Any:
        if type(a) is not type(b) or type(a) not in types:
            raise NoValue
        try:
            return whole(work(a, b))
        except (ZeroDivisionError, OverflowError):
            raise NoValue from None

    return both


def _divide(a: Any, b: Any) -> Any:
    """Whole numbers are cut towards zero; others know the infinite."""
    if type(a) is float:
        if b:
            return a / b
        return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": equal,
    "!=": lambda a, b: not equal(a, b),
    "<": _ordered(lambda a, b: a < b),
    "<=": _ordered(lambda a, b: a <= b),
    ">": _ordered(lambda a, b: a > b),
    ">=": _ordered(lambda a, b: a >= b),
    "in": _within,
    "+": _plus,
    "-": _arithmetic(lambda a, b: a - b, int, float),
    "*": _arithmetic(lambda a, b: a * b, int, float),
    "/": _arithmetic(_divide, int, float),
    "%": _arithmetic(lambda a, b: a - b * _divide(a, b), int),
}


def negative(value: Any) -> Any:
    """The number with the other sign."""
    if type(value) not in (int, float):
        raise NoValue
    return whole(-value)
