"""The part of CEL that device selectors use: comparisons of a device's driver, attributes and capacity.

``compile_selector(text)`` gives a function of a `Device`. Known are ``device.driver``,
``device.attributes["domain"].name``, ``device.capacity["domain"].name``, strings, whole numbers, truth values, lists,
``== != < <= > >= && || ! in``, ``has(…)``, ``quantity("8Gi")``, ``semver("1.2.3")``, and of values ``compareTo``,
``isGreaterThan``, ``isLessThan``, ``startsWith``, ``endsWith``, ``contains``, ``matches``. What asks for an attribute
that a device does not have has no value: ``||`` and ``&&`` then go by their other side, and a selector without a value
selects nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pumice.errors import InvalidInput
from pumice.model import quantity
from pumice.model.api import Taint

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>\"[^\"]*\"|'[^']*')|(?P<number>-?\d+)|(?P<name>[A-Za-z_]\w*)|(?P<sign>==|!=|<=|>=|&&|\|\||[<>!().,\[\]]))"
)
_VERSION: Final = re.compile(
    r"(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)(?:-(?P<early>[0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "in": lambda a, b: a in b,
}
_METHODS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "compareTo": lambda a, b: (a > b) - (a < b),
    "isGreaterThan": lambda a, b: a > b,
    "isLessThan": lambda a, b: a < b,
    "startsWith": lambda a, b: a.startswith(b),
    "endsWith": lambda a, b: a.endswith(b),
    "contains": lambda a, b: b in a,
    "matches": lambda a, b: re.search(b, a) is not None,
}


Counter: TypeAlias = tuple[str, str, str, str]
"""Driver, pool, counter set and name of a counter that devices share."""


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A device of a slice; attributes and capacity by (domain, name)."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[tuple[str, str], Any]
    capacity: Mapping[tuple[str, str], int]
    taints: tuple[Taint, ...] = ()
    consumes: Mapping[Counter, int] = field(default_factory=dict)
    place: Mapping[str, Any] = field(default_factory=dict)
    """``nodeName`` or ``nodeSelector`` where it is not usable on all nodes."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Driver, pool and name: what allocations are written with."""
        return self.driver, self.pool, self.name


def version_key(text: str) -> tuple[Any, ...]:
    """A semantic version as something that compares as versions do: 1.10.0 above 1.9.0, and 1.0.0-rc.1 below 1.0.0.

    :raises InvalidInput: it is none.
    """
    found = _VERSION.fullmatch(text)
    if found is None:
        raise InvalidInput(f"version {text!r}: not MAJOR.MINOR.PATCH")
    numbers = tuple(int(found[part]) for part in ("major", "minor", "patch"))
    early = found["early"]
    parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in early.split(".")) if early else ()
    return (*numbers, not early, parts)


class _Missing(Exception):
    """A device has no such attribute."""


Value = Callable[[Device], Any]


def compile_selector(text: str) -> Callable[[Device], bool]:
    """The selector as a function of a device.

    :raises InvalidInput: it is no expression of the known part of CEL; names it.
    """
    parser = _Parser(text)
    value = parser.either()
    if parser.peek():
        raise parser.wrong()

    def selects(device: Device) -> bool:
        try:
            return value(device) is True
        except (_Missing, TypeError, AttributeError):
            return False

    return selects


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        self._at = 0
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.wrong()
            self._tokens.append(found.group().strip())
            at = found.end()

    def wrong(self) -> InvalidInput:
        return InvalidInput(f"device selector {self._text!r}: not an expression that is understood")

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise self.wrong()

    def either(self) -> Value:
        parts = [self._both()]
        while self.peek() == "||":
            self._next()
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else _joined(parts, True)

    def _both(self) -> Value:
        parts = [self._not()]
        while self.peek() == "&&":
            self._next()
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else _joined(parts, False)

    def _not(self) -> Value:
        if self.peek() == "!":
            self._next()
            inner = self._not()
            return lambda d: not inner(d)
        left = self._value()
        compare = _COMPARE.get(self.peek())
        if compare is None:
            return left
        self._next()
        right = self._value()
        return lambda d: compare(left(d), right(d))

    def _value(self) -> Value:
        value = self._atom()
        while self.peek() == ".":
            self._next()
            method = _METHODS.get(self._next())
            if method is None:
                raise self.wrong()
            self._expect("(")
            argument = self.either()
            self._expect(")")
            value = _called(method, value, argument)
        return value

    def _atom(self) -> Value:
        token = self._next()
        if token[:1] in ("'", '"'):
            return _constant(token[1:-1])
        if token.lstrip("-").isdigit():
            return _constant(int(token))
        match token:
            case "true" | "false":
                return _constant(token == "true")
            case "(":
                inner = self.either()
                self._expect(")")
                return inner
            case "[":
                items = [] if self.peek() == "]" else [self.either()]
                while self.peek() == ",":
                    self._next()
                    items.append(self.either())
                self._expect("]")
                return lambda d: [item(d) for item in items]
            case "quantity":
                self._expect("(")
                written = self._next()[1:-1]
                self._expect(")")
                return _constant(quantity.milli(written))
            case "semver":
                self._expect("(")
                written = self._next()[1:-1]
                self._expect(")")
                return _constant(version_key(written))
            case "has":
                self._expect("(")
                inner = self.either()
                self._expect(")")
                return lambda d: _is_there(inner, d)
            case "device":
                return self._device()
        raise self.wrong()

    def _device(self) -> Value:
        self._expect(".")
        what = self._next()
        if what == "driver":
            return lambda d: d.driver
        if what not in ("attributes", "capacity"):
            raise self.wrong()
        self._expect("[")
        domain = self._next()[1:-1]
        self._expect("]")
        self._expect(".")
        name = self._next()
        return _read(what, (domain, name))


def _joined(parts: list[Value], decides: bool) -> Value:
    """``||`` (a true side decides) or ``&&`` (a false side decides), whatever the other sides are."""

    def value(device: Device) -> bool:
        lost: _Missing | None = None
        for part in parts:
            try:
                answer: object = part(device)
                if answer is decides:
                    return decides
            except _Missing as exc:
                lost = exc
        if lost is not None:
            raise lost
        return not decides

    return value


def _constant(value: Any) -> Value:
    return lambda _: value


def _called(method: Callable[[Any, Any], Any], value: Value, argument: Value) -> Value:
    return lambda d: method(value(d), argument(d))


def _read(what: str, key: tuple[str, str]) -> Value:
    def read(device: Device) -> Any:
        found = (device.attributes if what == "attributes" else device.capacity).get(key)
        if found is None:
            raise _Missing(key)
        return found

    return read


def _is_there(value: Value, device: Device) -> bool:
    try:
        value(device)
    except _Missing:
        return False
    return True
