"""The CEL of device selectors: an expression over a device's driver, attributes and capacity.

``compile_selector(text)`` gives a function of a `Device`. Known is what is legal there: ``device.driver``,
``device.attributes["domain"].name``, ``device.capacity["domain"].name``, texts, numbers, truth values, lists and maps,
``?:``, ``|| && !``, comparisons, ``in``, arithmetic, ``has``, the macros ``all``, ``exists``, ``exists_one``,
``filter``, ``map`` and ``cel.bind``, and the functions and methods of `cel_values`. What asks for an attribute that a
device does not have, or compares what cannot be compared, has no value: ``||`` and ``&&`` then go by their other side,
and a selector without a value selects nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pumice.errors import InvalidInput, shown
from pumice.model.api import Taint
from pumice.model.patterns import matcher
from pumice.plugins.predicates.cel_parts import (
    CelDomains,
    CelScope,
    Value,
    all_of,
    call,
    choice,
    comprehension,
    constant,
    index,
    is_there,
    logic,
    mapping,
    named,
    negated,
    operator,
    with_name,
)
from pumice.plugins.predicates.cel_values import FUNCTIONS, METHODS, OPERATORS, CelAmount, CelVersion, NoValue

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>r?(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))|(?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|0x[0-9a-fA-F]+|\d+u?)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign>==|!=|<=|>=|&&|\|\||[-<>!().,\[\]?:+*/%{}]))",
    re.ASCII,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_LONGEST: Final = 10_240
"""Characters of an expression: the API's limit."""
_DEEPEST: Final = 50
"""How deep an expression may be nested."""
_LEVELS: Final = (("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
_MACROS: Final = ("all", "exists", "exists_one", "filter", "map")

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


def _shown_to_cel(device: Device) -> dict[str, Any]:
    attributes, capacity = CelDomains(), CelDomains()
    for (domain, name), held in device.attributes.items():
        attributes.setdefault(domain, {})[name] = CelVersion(held) if isinstance(held, tuple) else held
    for (domain, name), milli in device.capacity.items():
        capacity.setdefault(domain, {})[name] = CelAmount(milli)
    return {"driver": device.driver, "attributes": attributes, "capacity": capacity}


def compile_selector(text: str) -> Callable[[Device], bool]:
    """The selector as a function of a device.

    :raises InvalidInput: it is no expression that is understood; names it.
    """
    parser = _Parser(text)
    value = parser.expression()
    if parser.peek():
        raise parser.wrong()

    def selects(device: Device) -> bool:
        try:
            return value(CelScope({"device": _shown_to_cel(device)})) is True
        except (NoValue, RecursionError):
            return False

    return selects


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        self._at = self._depth = 0
        self._names = ["device"]
        at = 0
        if len(text) > _LONGEST:
            raise self.wrong(f"must have at most {_LONGEST} characters, has {len(text)}")
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.wrong()
            self._tokens.append(found.group().strip())
            at = found.end()

    def wrong(self, why: str = "not an expression that is understood") -> InvalidInput:
        return InvalidInput(f"device selector {shown(self._text)}: {why}")

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def _found(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._found(token):
            raise self.wrong()

    def expression(self) -> Value:
        """``a ? b : c``, or what binds more closely."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self.wrong(f"must not be nested deeper than {_DEEPEST}")
        value = self._joined("||", self._both, True)
        if self._found("?"):
            yes = self._joined("||", self._both, True)
            self._expect(":")
            value = choice(value, yes, self.expression())
        self._depth -= 1
        return value

    def _both(self) -> Value:
        return self._joined("&&", lambda: self._binary(0), False)

    def _joined(self, sign: str, part: Callable[[], Value], decides: bool) -> Value:
        parts = [part()]
        while self._found(sign):
            parts.append(part())
        return parts[0] if len(parts) == 1 else logic(parts, decides)

    def _binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self._unary()
        value = self._binary(level + 1)
        while self.peek() in _LEVELS[level]:
            value = operator(OPERATORS[self._next()], value, self._binary(level + 1))
        return value

    def _unary(self) -> Value:
        signs = []
        while self.peek() in ("!", "-"):
            signs.append(self._next())
        value = self._member(self._atom())
        for sign in reversed(signs):
            value = (
                negated(value) if sign == "!" else operator(lambda a, b: OPERATORS["-"](type(b)(0), b), value, value)
            )
        return value

    def _member(self, value: Value) -> Value:
        while self.peek() in (".", "["):
            if self._next() == "[":
                value = index(value, self.expression())
                self._expect("]")
                continue
            name = self._next()
            if not name.isidentifier():
                raise self.wrong()
            if not self._found("("):
                value = index(value, constant(name))
            elif name in _MACROS:
                value = self._macro(name, value)
            else:
                value = self._method(name, value)
        return value

    def _method(self, name: str, value: Value) -> Value:
        arguments = self._list(")")
        method = METHODS.get(name)
        if method is None:
            raise self.wrong(f"has no method {name!r} that is understood")
        if name == "matches" and len(arguments) == 1 and arguments[0].__name__ == "written":
            pattern = arguments[0](CelScope({}))
            if isinstance(pattern, str):
                matcher(pattern)  # what cannot be read is told now
        return call(method, [value, *arguments])

    def _macro(self, name: str, value: Value) -> Value:
        variable = self._next()
        self._expect(",")
        self._names.append(variable)
        bodies = [self.expression()]
        if name == "map" and self._found(","):
            bodies.append(self.expression())
        self._names.pop()
        self._expect(")")
        return comprehension(name, variable, value, bodies)

    def _list(self, end: str) -> list[Value]:
        items: list[Value] = []
        while not self._found(end):
            if items:
                self._expect(",")
                if self._found(end):
                    break
            items.append(self.expression())
        return items

    def _atom(self) -> Value:
        token = self._next()
        if token[-1:] in ("'", '"'):
            return constant(_text(token))
        if token[:1].isdigit():
            return constant(_number(token))
        match token:
            case "true" | "false":
                return constant(token == "true")
            case "null":
                return constant(None)
            case "(":
                inner = self.expression()
                self._expect(")")
                return inner
            case "[":
                return all_of(self._list("]"))
            case "{":
                return self._map()
            case "has":
                self._expect("(")
                inner = self.expression()
                self._expect(")")
                return is_there(inner)
            case "cel":
                return self._bound()
        if token in self._names:
            return named(token)
        if token in FUNCTIONS and self._found("("):
            arguments = self._list(")")
            if len(arguments) == 1:
                return call(FUNCTIONS[token], arguments)
        raise self.wrong()

    def _map(self) -> Value:
        keys: list[Value] = []
        values: list[Value] = []
        while not self._found("}"):
            if keys:
                self._expect(",")
            keys.append(self.expression())
            self._expect(":")
            values.append(self.expression())
        return mapping(keys, values)

    def _bound(self) -> Value:
        """``cel.bind(name, value, expression)``."""
        for token in (".", "bind", "("):
            self._expect(token)
        name = self._next()
        self._expect(",")
        value = self.expression()
        self._expect(",")
        self._names.append(name)
        body = self.expression()
        self._names.pop()
        self._expect(")")
        return lambda scope: with_name(scope, name, value(scope), body)


def _text(token: str) -> str:
    if token.startswith("r"):
        return token[2:-1]
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), token[1:-1])


def _number(token: str) -> int | float:
    if "." in token:
        return float(token)
    return int(token.rstrip("u"), 16) if token.startswith("0x") else int(token.rstrip("u"))
