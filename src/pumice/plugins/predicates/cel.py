"""The CEL of device selectors: an expression over a device's driver, attributes and capacity.

``compile_selector(text)`` gives a function of a `Device`. The supported language is the legal one: ``device.driver``,
``device.attributes["domain"].name``, ``device.capacity["domain"].name``, texts, numbers, truth values, lists and maps,
``?:``, ``|| && !``, comparisons, ``in``, arithmetic, ``has``, the macros ``all``, ``exists``, ``exists_one``,
``filter``, ``map`` and ``cel.bind``, optional values (``.?name``, ``[?key]``), the functions of `cel_functions` and the
methods of `cel_methods`. A missing attribute or an impossible comparison has no value. ``||`` and ``&&`` then go by
their other side, and a selector without a value selects nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from pumice.errors import InvalidInput, shown
from pumice.model.patterns import matcher
from pumice.plugins.predicates.cel_functions import FUNCTIONS, MORE_STEPS
from pumice.plugins.predicates.cel_methods import METHODS
from pumice.plugins.predicates.cel_parts import (
    CelBudget,
    CelScope,
    TooCostly,
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
    opt_map,
    or_value,
    other_sign,
    with_name,
)
from pumice.plugins.predicates.cel_tokens import number_of, text_of, tokens
from pumice.plugins.predicates.cel_values import LARGEST, OPERATORS, TYPES, CelType, NoValue
from pumice.plugins.predicates.offered_device import Device

_LONGEST: Final = 10_240
"""Characters of an expression: the API's limit."""
STEPS: Final = 10_000
"""The budget of a claim's selectors, and STEPS_PER_DEVICE more for each offered device: some 5 ms."""
STEPS_PER_DEVICE: Final = 64
"""A condition costs 5 to 10 steps."""
_DEEPEST: Final = 50
"""How deep an expression may be nested."""
_LEVELS: Final = (("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
_MACROS: Final = ("all", "exists", "exists_one", "filter", "map")
_PACKAGES: Final = frozenset(name.partition(".")[0] for name in FUNCTIONS if "." in name)


class DeviceSelector(Protocol):
    """Reports whether a device is selected. The cost is taken from *budget*; beyond it nothing is selected."""

    def __call__(self, device: Device, budget: CelBudget | None = None) -> bool: ...


def compile_selector(text: str) -> DeviceSelector:
    """Return the selector as a function of a device, and of a budget if one counts for several devices or selectors.

    :raises InvalidInput: it is no expression that is understood; names it.
    """
    parser = _Parser(text)
    value = parser.expression()
    if parser.peek():
        raise parser.wrong()

    def selects(device: Device, budget: CelBudget | None = None) -> bool:
        scope = CelScope({"device": device.shown_to_cel()}, budget or CelBudget(STEPS))
        try:
            return value(scope) is True
        except (NoValue, TooCostly, RecursionError):
            return False

    return selects


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._depth = 0
        self._names = ["device"]
        self._fields: dict[Value, tuple[Value, str]] = {}
        """The parts of ``of.name``: for `has`."""
        if len(text) > _LONGEST:
            raise self.wrong(f"must have at most {_LONGEST} characters, has {len(text)}")
        found = tokens(text)
        if found is None:
            raise self.wrong()
        self._tokens = found

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
            value = negated(value) if sign == "!" else other_sign(value)
        return value

    def _member(self, value: Value) -> Value:
        while self.peek() in (".", "["):
            opening = self._next()
            optional = self._found("?")
            if opening == "[":
                value = index(value, self.expression(), optional=optional)
                self._expect("]")
                continue
            name = self._name()
            if optional or not self._found("("):
                of, value = value, index(value, constant(name), optional=optional)
                if not optional:
                    self._fields[value] = (of, name)
            elif name in _MACROS:
                value = self._macro(name, value)
            elif name in ("optMap", "optFlatMap"):
                variable, body = self._variable_and_body()
                self._expect(")")
                value = opt_map(value, variable, body, flat=name == "optFlatMap")
            else:
                value = self._method(name, value)
        return value

    def _name(self) -> str:
        name = self._next()
        if not name.isidentifier():
            raise self.wrong()
        return name

    def _method(self, name: str, value: Value) -> Value:
        arguments = self._list(")")
        if name in ("orValue", "or") and len(arguments) == 1:
            return or_value(value, arguments[0], optional=name == "or")
        method = METHODS.get(name)
        if method is None:
            raise self.wrong(f"has no method {name!r} that is understood")
        if name == "matches" and len(arguments) == 1 and arguments[0].__name__ == "written":
            pattern = arguments[0](CelScope({}, CelBudget(STEPS)))
            if isinstance(pattern, str):
                matcher(pattern)  # what cannot be read is told now
        return call(method, [value, *arguments], MORE_STEPS.get(name))

    def _macro(self, name: str, value: Value) -> Value:
        variable, body = self._variable_and_body()
        bodies = [body]
        if name == "map" and self._found(","):
            bodies.append(self._with(variable))
        self._expect(")")
        return comprehension(name, variable, value, bodies)

    def _variable_and_body(self) -> tuple[str, Value]:
        """``name, expression``, in which the name means something."""
        variable = self._name()
        self._expect(",")
        return variable, self._with(variable)

    def _with(self, variable: str) -> Value:
        self._names.append(variable)
        body = self.expression()
        self._names.pop()
        return body

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
            said = text_of(token)
            if said is None:
                raise self.wrong("has an escape that does not exist")
            return constant(said)
        if token[:1].isdigit() or (token[:1] == "." and token[1:2].isdigit()):
            number = number_of(token)
            if type(number) is int and number >= LARGEST + (self._tokens[self._at - 2 : self._at - 1] == ["-"]):
                raise self.wrong("has a number that is too large")
            return constant(number)
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
                field_of = self._fields.get(self.expression())
                self._expect(")")
                if field_of is None:
                    raise self.wrong("has(...) needs a field, such as has(a.b)")
                return is_there(*field_of)
            case "cel":
                return self._bound()
        if token in self._names:
            return named(token)
        if token in _PACKAGES and self._found("."):
            token = f"{token}.{self._next()}"
        if token in FUNCTIONS and self._found("("):
            return call(FUNCTIONS[token], self._list(")"), MORE_STEPS.get(token))
        if token in TYPES.values():
            return constant(CelType(token))
        raise self.wrong()

    def _map(self) -> Value:
        keys: list[Value] = []
        values: list[Value] = []
        while not self._found("}"):
            if keys:
                self._expect(",")
                if self._found("}"):
                    break
            keys.append(self.expression())
            self._expect(":")
            values.append(self.expression())
        return mapping(keys, values)

    def _bound(self) -> Value:
        """``cel.bind(name, value, expression)``."""
        for token in (".", "bind", "("):
            self._expect(token)
        name = self._name()
        self._expect(",")
        value = self.expression()
        self._expect(",")
        body = self._with(name)
        self._expect(")")
        return lambda scope: with_name(scope, name, value(scope), body)
