"""The functions of CEL: what texts and numbers mean, what a value is, and sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pumice.errors import InvalidInput
from pumice.model import quantity
from pumice.model.patterns import matcher, program_size
from pumice.plugins.predicates.cel_values import (
    LONGEST,
    OPERATORS,
    TYPES,
    CelAmount,
    CelOptional,
    CelType,
    CelVersion,
    NoValue,
    version_key,
    weight,
    whole,
)

_LOOSE: Final = re.compile(
    r"v?(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:\.(?P<patch>\d+))?(?P<rest>[-+][0-9A-Za-z.+-]+)?", re.ASCII
)
_DIGITS: Final = re.compile(
    r"[-+]?(?:\d{1,400}(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?|[-+]?(?:[iI]nf|[nN]a[nN])", re.ASCII
)
_UNREADABLE: Final = 10_000
"""Steps that a pattern costs which cannot be compiled: finding that out takes milliseconds."""
_within = OPERATORS["in"]


def size(of: Any) -> int:
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


def _can(function: Callable[..., Any]) -> Callable[..., bool]:
    def asks(*given: Any) -> bool:
        try:
            function(*given)
        except NoValue:
            return False
        return True

    return asks


def _int(value: Any) -> int:
    if type(value) in (int, float):
        try:
            return int(whole(int(value)))
        except (ValueError, OverflowError):
            raise NoValue from None
    return int(whole(_read(_plain(int))(value)))


def _plain(reads: Callable[[str], Any]) -> Callable[[str], Any]:
    """As *reads*, but without what Python alone takes for a number."""

    def function(text: str) -> Any:
        if not _DIGITS.fullmatch(text):
            raise ValueError
        return reads(text)

    return function


def _uint(value: Any) -> int:
    found = _int(value)
    if found < 0:
        raise NoValue
    return found


def _double(value: Any) -> float:
    return float(value) if type(value) in (int, float) else float(_read(_plain(float))(value))


def _bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is not str or value not in ("true", "false", "t", "f", "TRUE", "FALSE", "True", "False", "1", "0"):
        raise NoValue
    return value in ("true", "t", "TRUE", "True", "1")


def _type(value: Any) -> CelType:
    return CelType(TYPES.get(type(value)) or ("map" if isinstance(value, Mapping) else type(value).__name__))


def _matches(text: Any, pattern: Any) -> bool:
    if type(text) is not str or type(pattern) is not str:
        raise NoValue
    try:
        return matcher(pattern)(text)
    except InvalidInput:
        raise NoValue from None


def _string(value: Any) -> str:
    if type(value) is bool:
        return str(value).lower()
    if type(value) is float and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if type(value) in (str, int, float):
        return str(value)
    raise NoValue


_amount = _read(lambda text: CelAmount(quantity.milli(text)))


def _version(text: Any, normalise: Any = False) -> CelVersion:
    if type(normalise) is not bool or type(text) is not str:
        raise NoValue
    return CelVersion(_read(lambda t: version_key(_normal(t) if normalise else t))(text))


def _normal(text: str) -> str:
    """A version as people write it: with a v, without minor and patch, with zeros in front."""
    found = _LOOSE.fullmatch(text)
    if found is None:
        return text
    numbers = [str(int(found[part] or 0)) for part in ("major", "minor", "patch")]
    return ".".join(numbers) + (found["rest"] or "")


def _sets(contained: Callable[[list[Any], list[Any]], bool]) -> Callable[[Any, Any], bool]:
    def function(a: Any, b: Any) -> bool:
        if type(a) is not list or type(b) is not list or len(a) * len(b) > LONGEST:
            raise NoValue
        return contained(a, b)

    return function


def _contains(a: list[Any], b: list[Any]) -> bool:
    return all(_within(item, a) for item in b)


def _search_steps(text: Any, pattern: Any, *_: Any) -> int:
    """The cost of a regular expression: its states at every character, at worst."""
    if type(text) is not str or type(pattern) is not str:
        return 0
    try:
        states = program_size(pattern)
    except InvalidInput:
        return _UNREADABLE
    return (states >> 2) + (len(text) * states >> 6)


def _all_found_steps(text: Any, pattern: Any, *_: Any) -> int:
    """The cost of finding every match: there may be one at every character."""
    return _search_steps(text, pattern) + (4 * len(text) if type(text) is str else 0)


def _pair_steps(a: Any, b: Any) -> int:
    """The cost of comparing every item of one list with every item of another."""
    if type(a) is not list or type(b) is not list:
        return 0
    return len(b) * (1 + weight(a, LONGEST)) + len(a) * (1 + weight(b, LONGEST))


MORE_STEPS: Final[Mapping[str, Callable[..., int]]] = {
    "matches": _search_steps,
    "find": _search_steps,
    "findAll": _all_found_steps,
    "sets.contains": _pair_steps,
    "sets.equivalent": _pair_steps,
    "sets.intersects": _pair_steps,
}
"""The costs of functions and methods that do more than look at each part of their values once."""

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "size": size,
    "matches": _matches,
    "quantity": _amount,
    "isQuantity": _can(_amount),
    "semver": _version,
    "isSemver": _can(_version),
    "int": _int,
    "uint": _uint,
    "double": _double,
    "string": _string,
    "bool": _bool,
    "dyn": lambda value: value,
    "type": _type,
    "sets.contains": _sets(_contains),
    "sets.equivalent": _sets(lambda a, b: _contains(a, b) and _contains(b, a)),
    "sets.intersects": _sets(lambda a, b: any(_within(item, a) for item in b)),
    "optional.of": lambda value: CelOptional((value,)),
    "optional.none": lambda: CelOptional(),
    "optional.ofNonZeroValue": lambda value: CelOptional((value,) if value or type(value) is CelAmount else ()),
}
