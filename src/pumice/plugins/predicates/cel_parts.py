"""The values of the parts of a CEL expression: functions of the names that are known at their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from pumice.plugins.predicates.cel_values import CelOptional, NoValue, negative, weight


class TooCostly(Exception):
    """The selectors of a claim would cost more than their budget."""


class CelBudget:
    """Steps that are left for the selectors of a claim. All that an operation touches is paid for before it works."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Take *steps* off.

        :raises TooCostly: so many are not left, nor will they be.
        """
        self.left -= steps
        if self.left < 0:
            raise TooCostly

    def spend_on(self, values: Iterable[Any]) -> None:
        """Pay for an operation that looks at all parts of these values."""
        self.spend(1)
        for value in values:
            self.spend(weight(value, self.left))


class CelScope:
    """The names that an expression may use, and what is left to spend."""

    __slots__ = ("budget", "names", "spend")

    def __init__(self, names: dict[str, Any], budget: CelBudget) -> None:
        self.names, self.budget, self.spend = names, budget, budget.spend


Value: TypeAlias = Callable[[CelScope], Any]


class CelDomains(dict[str, dict[str, Any]]):
    """Attributes by domain; a domain that a device says nothing of is empty."""

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


def logic(parts: list[Value], decides: bool) -> Value:
    """``||`` (a true side decides) or ``&&`` (a false side decides), whatever the other sides are."""

    def value(scope: CelScope) -> bool:
        lost = False
        for part in parts:
            scope.spend(1)
            try:
                answer: object = part(scope)
                if answer is decides:
                    return decides
                lost |= answer is not (not decides)
            except NoValue:
                lost = True
        if lost:
            raise NoValue
        return not decides

    return value


def choice(condition: Value, yes: Value, no: Value) -> Value:
    def value(scope: CelScope) -> Any:
        scope.spend(1)
        answer = condition(scope)
        if type(answer) is not bool:
            raise NoValue
        return yes(scope) if answer else no(scope)

    return value


def negated(inner: Value) -> Value:
    def value(scope: CelScope) -> bool:
        scope.spend(1)
        answer = inner(scope)
        if type(answer) is not bool:
            raise NoValue
        return not answer

    return value


def operator(work: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    def value(scope: CelScope) -> Any:
        a, b = left(scope), right(scope)
        scope.budget.spend_on((a, b))
        return work(a, b)

    return value


def call(work: Callable[..., Any], parts: list[Value], more: Callable[..., int] | None = None) -> Value:
    """A function of values; *more*: the steps that it takes beyond one for each part of them."""

    def value(scope: CelScope) -> Any:
        given = [part(scope) for part in parts]
        scope.budget.spend_on(given)
        try:
            if more is not None:
                scope.spend(more(*given))
            found = work(*given)
        except TypeError:  # so many arguments it does not take
            raise NoValue from None
        scope.budget.spend_on((found,))
        return found

    return value


def other_sign(inner: Value) -> Value:
    def value(scope: CelScope) -> Any:
        scope.spend(1)
        return negative(inner(scope))

    return value


def index(of: Value, at: Value, *, optional: bool = False) -> Value:
    """``of[at]``; *optional*: ``of[?at]``, which is a value that may be missing, as is what is in one."""

    def value(scope: CelScope) -> Any:
        scope.spend(1)
        held, key = of(scope), at(scope)
        if type(held) is not CelOptional and not optional:
            return _held(held, key)
        inside = held.held if type(held) is CelOptional else (held,)
        if not inside or not _has(inside[0], key):
            return CelOptional()
        return CelOptional((_held(inside[0], key),))

    return value


def _has(held: Any, key: Any) -> bool:
    """Report whether there is a value at this place.

    :raises NoValue: there are no places in it, or none of this kind.
    """
    if isinstance(held, Mapping) and type(key) in (str, int):
        return key in held
    if type(held) is list and type(key) is int:
        return 0 <= key < len(held)
    raise NoValue


def _held(held: Any, key: Any) -> Any:
    if not _has(held, key) and not isinstance(held, CelDomains):
        raise NoValue
    return held[key]


def or_value(of: Value, other: Value, *, optional: bool) -> Value:
    """A value that may be missing, or else the other; *optional*: the other may be missing too."""

    def value(scope: CelScope) -> Any:
        scope.spend(1)
        held = of(scope)
        if type(held) is not CelOptional:
            raise NoValue
        if held.held:
            return held if optional else held.held[0]
        found = other(scope)
        if optional and type(found) is not CelOptional:
            raise NoValue
        return found

    return value


def opt_map(of: Value, variable: str, body: Value, *, flat: bool) -> Value:
    """The result of *body* for a value, if there is one; *flat*: the body itself says whether there is a value."""

    def value(scope: CelScope) -> Any:
        held = of(scope)
        if type(held) is not CelOptional:
            raise NoValue
        if not held.held:
            return held
        found = with_name(scope, variable, held.held[0], body)
        if flat and type(found) is not CelOptional:
            raise NoValue
        return found if flat else CelOptional((found,))

    return value


def comprehension(name: str, variable: str, of: Value, bodies: list[Value]) -> Value:
    def value(scope: CelScope) -> Any:
        held = of(scope)
        if type(held) is not list and not isinstance(held, Mapping):
            raise NoValue
        answers = _answers(scope, variable, list(held), bodies[0])
        match name:
            case "all":
                return _folded(answers, False)
            case "exists":
                return _folded(answers, True)
            case "exists_one":
                return sum(1 for _, a in answers if _told(a) is True) == 1
            case "filter":
                return [item for item, a in answers if _told(a) is True]
        if len(bodies) == 1:
            return [_told(a) for _, a in answers]
        return [with_name(scope, variable, item, bodies[1]) for item, a in answers if _told(a) is True]

    return value


def _answers(scope: CelScope, variable: str, items: list[Any], body: Value) -> Iterator[tuple[Any, Any]]:
    for item in items:
        scope.spend(1)
        try:
            yield item, with_name(scope, variable, item, body)
        except NoValue as lost:
            yield item, lost


def _folded(answers: Iterator[tuple[Any, object]], decides: bool) -> bool:
    """As ``||`` or ``&&`` over all items."""
    lost = False
    for _, answer in answers:
        if answer is decides:
            return decides
        lost |= answer is not (not decides)
    if lost:
        raise NoValue
    return not decides


def _told(answer: Any) -> Any:
    if isinstance(answer, NoValue):
        raise answer
    return answer


def with_name(scope: CelScope, name: str, value: Any, body: Value) -> Any:
    """The value of *body* with one more name."""
    scope.spend(1)
    outer = scope.names
    scope.names = {**outer, name: value}
    try:
        return body(scope)
    finally:
        scope.names = outer


def constant(value: Any) -> Value:
    def written(_: CelScope) -> Any:
        return value

    return written


def named(name: str) -> Value:
    return lambda scope: scope.names[name]


def all_of(items: list[Value]) -> Value:
    def value(scope: CelScope) -> list[Any]:
        scope.spend(len(items))
        return [item(scope) for item in items]

    return value


def mapping(keys: list[Value], values: list[Value]) -> Value:
    def value(scope: CelScope) -> dict[str | int, Any]:
        scope.spend(2 * len(keys))
        names = [key(scope) for key in keys]
        if not all(type(name) in (str, int) for name in names) or len(set(names)) < len(names):
            raise NoValue
        return dict(zip(names, (one(scope) for one in values), strict=True))

    return value


def is_there(of: Value, name: str) -> Value:
    """``has(of.name)``."""

    def value(scope: CelScope) -> bool:
        scope.spend(1)
        held = of(scope)
        if type(held) is CelOptional:
            return bool(held.held) and _has(held.held[0], name)
        return _has(held, name)

    return value
