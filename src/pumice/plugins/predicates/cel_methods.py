"""The methods of CEL's values, each of the type that it is there for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from pumice.errors import InvalidInput
from pumice.model.patterns import finder, matcher
from pumice.plugins.predicates.cel_functions import size
from pumice.plugins.predicates.cel_values import (
    LONGEST,
    OPERATORS,
    CelAmount,
    CelOptional,
    CelVersion,
    NoValue,
    equal,
    whole,
)


def _of(kind: type, method: Callable[..., Any], *arguments: type) -> Callable[..., Any]:
    """A method of values of one type, with arguments of given types."""

    def call(value: Any, *given: Any) -> Any:
        if type(value) is not kind or tuple(map(type, given)) != arguments:
            raise NoValue
        try:
            return whole(method(value, *given))
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


def _first(text: str, what: str, start: int = 0) -> int:
    if not 0 <= start <= len(text):
        raise NoValue
    return text.find(what, start)


def _last(text: str, what: str, start: int | None = None) -> int:
    if start is not None and not 0 <= start <= len(text):
        raise NoValue
    end = len(text) if start is None else min(start + len(what), len(text))
    found = text[:end][::-1].find(what[::-1])  # searching from the end takes the product of both lengths
    return found if found < 0 else end - found - len(what)


def _character(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise NoValue
    return text[at : at + 1]


def _joined(texts: list[Any], between: str = "") -> str:
    if not all(type(text) is str for text in texts) or sum(map(len, texts)) + len(texts) * len(between) > LONGEST:
        raise NoValue
    return between.join(texts)


def _split(text: str, at: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if at:
        return text.split(at, most - 1 if most > 0 else -1)
    parts = list(text)
    return parts if most < 0 or len(parts) <= most else [*parts[: most - 1], "".join(parts[most - 1 :])]


def _replaced(text: str, what: str, by: str, most: int = -1) -> str:
    times = text.count(what) if most < 0 else min(most, text.count(what))
    if len(text) + times * (len(by) - len(what)) > LONGEST:
        raise NoValue
    return text.replace(what, by, times)


def _part(text: str, first: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= first <= end <= len(text):
        raise NoValue
    return text[first:end]


def _ascii(text: str, change: Callable[[bytes], bytes]) -> str:
    """The text with its ASCII letters changed, as bytes change theirs."""
    return change(text.encode()).decode()


def _in_order(items: list[Any]) -> list[Any]:
    """The items, each of which can be compared with the next."""
    for a, b in itertools.pairwise(items):
        OPERATORS["<"](a, b)
    return items


def _extreme(items: list[Any], better: str) -> Any:
    if not items:
        raise NoValue
    best = items[0]
    for item in items[1:]:
        best = item if OPERATORS[better](item, best) else best
    return best


def _sum(items: list[Any]) -> Any:
    if not all(type(item) in (int, float) for item in items):
        raise NoValue
    total = items[0] if items else 0
    for item in items[1:]:
        total = OPERATORS["+"](total, item)
    return total


def _places(items: list[Any], what: Any) -> list[int]:
    return [n for n, item in enumerate(items) if equal(item, what)] or [-1]


def _value(optional: CelOptional) -> Any:
    if not optional.held:
        raise NoValue
    return optional.held[0]


METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "size": lambda value: size(value),
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
    "find": _of(str, lambda a, b: next(iter(finder(b)(a, 1)), ""), str),
    "findAll": _either(
        _of(str, lambda a, b: finder(b)(a, LONGEST), str),
        _of(str, lambda a, b, n: finder(b)(a, n if n >= 0 else LONGEST), str, int),
    ),
    "lowerAscii": _of(str, lambda a: _ascii(a, bytes.lower)),
    "upperAscii": _of(str, lambda a: _ascii(a, bytes.upper)),
    "trim": _of(str, str.strip),
    "charAt": _of(str, _character, int),
    "split": _either(_of(str, _split, str), _of(str, _split, str, int)),
    "join": _either(_of(list, _joined), _of(list, _joined, str)),
    "indexOf": _either(
        _of(str, _first, str), _of(str, _first, str, int), lambda a, b: _of(list, lambda c: _places(c, b)[0])(a)
    ),
    "lastIndexOf": _either(
        _of(str, _last, str), _of(str, _last, str, int), lambda a, b: _of(list, lambda c: _places(c, b)[-1])(a)
    ),
    "replace": _either(_of(str, _replaced, str, str), _of(str, _replaced, str, str, int)),
    "substring": _either(_of(str, _part, int), _of(str, _part, int, int)),
    "isSorted": _of(list, lambda a: all(not OPERATORS["<"](y, x) for x, y in zip(a, _in_order(a)[1:], strict=False))),
    "sum": _of(list, _sum),
    "min": _of(list, lambda a: _extreme(a, "<")),
    "max": _of(list, lambda a: _extreme(a, ">")),
    "hasValue": _of(CelOptional, lambda a: bool(a.held)),
    "value": _of(CelOptional, _value),
}
