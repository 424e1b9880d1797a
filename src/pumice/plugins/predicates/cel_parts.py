"""What the parts of a CEL expression are worth: functions of the names that are known where they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from pumice.plugins.predicates.cel_values import CelOptional, NoValue, negative

_MOST_STEPS: Final = 20_000
"""How much one device may cost: an expression that goes on longer has no value."""


class CelScope:
    """The names that an expression may use, and how many steps it has left."""

    __slots__ = ("left", "names")

    def __init__(self, names: dict[str, Any]) -> None:
        self.names, self.left = names, _MOST_STEPS

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise NoValue


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
        answer = condition(scope)
        if type(answer) is not bool:
            raise NoValue
        return yes(scope) if answer else no(scope)

    return value


def negated(inner: Value) -> Value:
    def value(scope: CelScope) -> bool:
        answer = inner(scope)
        if type(answer) is not bool:
            raise NoValue
        return not answer

    return value


def operator(work: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    def value(scope: CelScope) -> Any:
        scope.step()
        return work(left(scope), right(scope))

    return value


def call(work: Callable[..., Any], parts: list[Value]) -> Value:
    def value(scope: CelScope) -> Any:
        scope.step()
        try:
            return work(*(part(scope) for part in parts))
        except TypeError:  # so many arguments it does not take
            raise NoValue from None

    return value


def other_sign(inner: Value) -> Value:
    return lambda scope: negative(inner(scope))


def index(of: Value, at: Value, *, optional: bool = False) -> Value:
    """``of[at]``; *optional*: ``of[?at]``, which is a value that may be missing, as is what is in one."""

    def value(scope: CelScope) -> Any:
        scope.step()
        held, key = of(scope), at(scope)
        if type(held) is not CelOptional and not optional:
            return _held(held, key)
        inside = held.held if type(held) is CelOptional else (held,)
        if not inside or not _has(inside[0], key):
            return CelOptional()
        return CelOptional((_held(inside[0], key),))

    return value


def _has(held: Any, key: Any) -> bool:
    """Is there something at this place?

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
    """What may be missing, or else the other; *optional*: which may be missing too."""

    def value(scope: CelScope) -> Any:
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
    """What *body* makes of a value, where there is one; *flat*: it says itself whether there is something."""

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
        scope.step()
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
    """What *body* is worth where a name means something more."""
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
    return lambda scope: [item(scope) for item in items]


def mapping(keys: list[Value], values: list[Value]) -> Value:
    def value(scope: CelScope) -> dict[str | int, Any]:
        names = [key(scope) for key in keys]
        if not all(type(name) in (str, int) for name in names) or len(set(names)) < len(names):
            raise NoValue
        return dict(zip(names, (one(scope) for one in values), strict=True))

    return value


def is_there(of: Value, name: str) -> Value:
    """``has(of.name)``."""

    def value(scope: CelScope) -> bool:
        scope.step()
        held = of(scope)
        if type(held) is CelOptional:
            return bool(held.held) and _has(held.held[0], name)
        return _has(held, name)

    return value
