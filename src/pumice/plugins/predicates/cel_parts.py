"""What the parts of a CEL expression are worth: functions of the names that are known where they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from pumice.plugins.predicates.cel_values import NoValue

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


def index(of: Value, at: Value) -> Value:
    def value(scope: CelScope) -> Any:
        scope.step()
        held, key = of(scope), at(scope)
        if isinstance(held, Mapping) and isinstance(key, str):
            if key in held or isinstance(held, CelDomains):
                return held[key]
        elif type(held) is list and type(key) is int and 0 <= key < len(held):
            return held[key]
        raise NoValue

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
    def value(scope: CelScope) -> dict[str, Any]:
        names = [key(scope) for key in keys]
        if not all(isinstance(name, str) for name in names):
            raise NoValue
        return dict(zip(names, (one(scope) for one in values), strict=True))

    return value


def is_there(inner: Value) -> Value:
    def value(scope: CelScope) -> bool:
        try:
            inner(scope)
        except NoValue:
            return False
        return True

    return value
