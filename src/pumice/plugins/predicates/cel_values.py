"""What the values of CEL can do: operators, functions and methods, each over the types that it is there for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pumice.errors import InvalidInput
from pumice.model import quantity
from pumice.model.patterns import matcher

_VERSION: Final = re.compile(
    r"(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)(?:-(?P<early>[0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
_LARGEST: Final = 2**63
"""Whole numbers have 64 bits: what goes beyond has no value."""
_LONGEST: Final = 10_000
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


def _same_types(a: Any, b: Any, *allowed: type) -> bool:
    return type(a) in allowed and type(b) in allowed and (type(a) is type(b) or {type(a), type(b)} == {int, float})


def _equal(a: Any, b: Any) -> bool:
    """Values of different types are not equal; numbers are compared as numbers."""
    if type(a) is list and type(b) is list:
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is not type(b) and {type(a), type(b)} != {int, float}:
        return False
    return bool(a == b)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def both(a: Any, b: Any) -> bool:
        if not _same_types(a, b, int, float, str, bool, CelAmount, CelVersion):
            raise NoValue
        return compare(a, b)

    return both


def _within(a: Any, b: Any) -> bool:
    if type(b) is list:
        return any(_equal(a, item) for item in b)
    if isinstance(b, Mapping):
        return a in b if isinstance(a, str) else False
    raise NoValue


def _whole(value: Any) -> Any:
    if type(value) is int and not -_LARGEST <= value < _LARGEST:
        raise NoValue
    return value


def _plus(a: Any, b: Any) -> Any:
    if _same_types(a, b, int, float) and type(a) is type(b):
        return _whole(a + b)
    if _same_types(a, b, str, list) and len(a) + len(b) <= _LONGEST:
        return a + b
    raise NoValue


def _arithmetic(work: Callable[[Any, Any], Any], *types: type) -> Callable[[Any, Any], Any]:
    def both(a: Any, b: Any) -> Any:
        if type(a) is not type(b) or type(a) not in types:
            raise NoValue
        try:
            return _whole(work(a, b))
        except (ZeroDivisionError, OverflowError):
            raise NoValue from None

    return both


def _divide(a: Any, b: Any) -> Any:
    """Whole numbers are cut towards zero."""
    if type(a) is float:
        return a / b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": _equal,
    "!=": lambda a, b: not _equal(a, b),
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


def _size(of: Any) -> int:
    if type(of) in (str, list) or isinstance(of, Mapping):
        return len(of)
    raise NoValue


def _read(reads: Callable[[str], Any]) -> Callable[[Any], Any]:
    """A function of a text that says what it means; what cannot be read has no value."""

    def function(text: Any) -> Any:
        if type(text) is not str:
            raise NoValue
        try:
            return reads(text)
        except (InvalidInput, ValueError, OverflowError):
            raise NoValue from None

    return function


def _can(function: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def asks(text: Any) -> bool:
        try:
            function(text)
        except NoValue:
            return False
        return True

    return asks


def _int(value: Any) -> int:
    if type(value) in (int, float):
        try:
            return int(_whole(int(value)))
        except (ValueError, OverflowError):
            raise NoValue from None
    return int(_whole(_read(int)(value)))


def _double(value: Any) -> float:
    return float(value) if type(value) in (int, float) else float(_read(float)(value))


def _string(value: Any) -> str:
    if type(value) is bool:
        return str(value).lower()
    if type(value) in (str, int, float):
        return str(value)
    raise NoValue


_amount = _read(lambda text: CelAmount(quantity.milli(text)))
_version = _read(lambda text: CelVersion(version_key(text)))

FUNCTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "size": _size,
    "quantity": _amount,
    "isQuantity": _can(_amount),
    "semver": _version,
    "isSemver": _can(_version),
    "int": _int,
    "double": _double,
    "string": _string,
}


def _of(kind: type, method: Callable[..., Any], *arguments: type) -> Callable[..., Any]:
    """A method of values of one type, with arguments of given types."""

    def call(value: Any, *given: Any) -> Any:
        if type(value) is not kind or tuple(map(type, given)) != arguments:
            raise NoValue
        try:
            return _whole(method(value, *given))
        except InvalidInput:
            raise NoValue from None

    return call


def _either(*methods: Callable[..., Any]) -> Callable[..., Any]:
    """The first of several methods that the value has."""

    def call(value: Any, *given: Any) -> Any:
        for method in methods:
            try:
                return method(value, *given)
            except NoValue:
                continue
        raise NoValue

    return call


def _compared(method: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return _either(_of(CelAmount, method, CelAmount), _of(CelVersion, method, CelVersion))


def _as_integer(amount: CelAmount) -> int:
    if amount.milli % 1000:
        raise NoValue
    return amount.milli // 1000


METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "size": lambda value: _size(value),
    "compareTo": _compared(lambda a, b: (a > b) - (a < b)),
    "isGreaterThan": _compared(lambda a, b: a > b),
    "isLessThan": _compared(lambda a, b: a < b),
    "add": _either(
        _of(CelAmount, lambda a, b: CelAmount(a.milli + b.milli), CelAmount),
        _of(CelAmount, lambda a, b: CelAmount(a.milli + 1000 * b), int),
    ),
    "sub": _either(
        _of(CelAmount, lambda a, b: CelAmount(a.milli - b.milli), CelAmount),
        _of(CelAmount, lambda a, b: CelAmount(a.milli - 1000 * b), int),
    ),
    "sign": _of(CelAmount, lambda a: (a.milli > 0) - (a.milli < 0)),
    "isInteger": _of(CelAmount, lambda a: a.milli % 1000 == 0),
    "asInteger": _of(CelAmount, _as_integer),
    "asApproximateFloat": _of(CelAmount, lambda a: a.milli / 1000),
    "major": _of(CelVersion, lambda a: a.key[0]),
    "minor": _of(CelVersion, lambda a: a.key[1]),
    "patch": _of(CelVersion, lambda a: a.key[2]),
    "startsWith": _of(str, str.startswith, str),
    "endsWith": _of(str, str.endswith, str),
    "contains": _of(str, lambda a, b: b in a, str),
    "matches": _of(str, lambda a, b: matcher(b)(a), str),
    "lowerAscii": _of(str, str.lower),
    "upperAscii": _of(str, str.upper),
    "trim": _of(str, str.strip),
    "split": _of(str, lambda a, b: a.split(b) if b else list(a), str),
    "indexOf": _of(str, str.find, str),
    "replace": _of(str, lambda a, b, c: a.replace(b, c)[:_LONGEST], str, str),
    "substring": _either(
        _of(str, lambda a, b: a[max(b, 0) :], int), _of(str, lambda a, b, c: a[max(b, 0) : c], int, int)
    ),
}
