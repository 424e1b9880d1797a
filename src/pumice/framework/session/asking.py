"""Asking: a point is bound, when it is first asked in a session, to one call made of its declaration."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic

from pumice.framework.compat import Compat
from pumice.framework.points.callback import Callback
from pumice.framework.points.guard import Call, Failures, compared, guarded, guarded_key, joined
from pumice.framework.points.point import A, P, Point
from pumice.framework.points.rules import Rule
from pumice.framework.points.table import POINTS
from pumice.framework.session.runtime import Runtime
from pumice.model.node import Node
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.framework.plugin import Action

STRICT = False
"""Tests set this: then an action can ask only what it declares. It costs a call per question."""


_ATTRIBUTES: Final[dict[str, str]] = {}
"""Point -> the attribute of the session by which it is asked; that of a hint has a name of its own."""


class PointAttribute(Generic[P, A]):
    """A point as an attribute of the session: bound when it is first asked, a plain function from then on."""

    def __init__(self, point: Point[P, Any, A]) -> None:
        self._point = point

    def __set_name__(self, _: type, name: str) -> None:
        _ATTRIBUTES[self._point.name] = name

    def __get__(self, ssn: Asking, _: type) -> Callable[P, A]:
        name = _ATTRIBUTES[self._point.name]
        bound = ssn.__dict__[name] = ssn.bind(self._point)
        return bound


@dataclass(slots=True)
class PluginEntry:
    """A plugin of a tier: its conf name, how it is built and which of its flags are on."""

    name: str
    build: Callable[[], Any]
    enabled: Callable[[str], bool]
    unasked: Container[str] = frozenset()
    """Points that no action asks: an author who registers there is warned."""
    plugin: Any = None
    """The plugin of the last session; a persistent one is opened again in the next. None if it was left out."""


class Asking:
    """Which callbacks are really asked at a point, and asking them. The base of `Session`."""

    runtime: Runtime
    compat: Compat
    failures: Failures
    signature: object
    acting: Action | None = None
    """The action that runs now."""
    translate: Callable[[Callback], Callback] | None = None
    """How callbacks are asked in a dialect that has views of its own; None: as they are."""
    _registered: dict[str, dict[str, list[Callback]]]
    _tiers: Sequence[Sequence[PluginEntry]] | None

    def _begin_asking(self) -> None:
        """What is made of the registrations, and stands as long as they do."""
        self._chains: dict[str, list[list[Callback]]] = {}
        self._bound: dict[str, Call] = {}
        self._keys: dict[str, Callable[[Any], Any] | None] = {}
        self.translate = None

    # -- who is asked -----------------------------------------------------------------------------------------------
    def chain(self, point: str) -> list[list[Callback]]:
        """The callbacks that are really asked at a point, tier by tier."""
        known = self._chains.get(point)
        if known is None:
            registered = self._registered.get(point)
            if not registered:
                known = []
            elif self._tiers is None:
                known = [[c for callbacks in registered.values() for c in callbacks]]
            else:
                flag = POINTS[point].flag
                tiers = [[c for entry in tier for c in _answers(entry, registered, flag)] for tier in self._tiers]
                known = [tier for tier in tiers if tier]
            if self.translate is not None:
                known = [[self.translate(c) for c in tier] for tier in known]
            self._chains[point] = known
        return known

    def callbacks(self, point: Point[..., Any, Any]) -> list[Callback]:
        """The callbacks that are really asked at a point, in order, whatever their tiers."""
        return [c for tier in self.chain(point.at) for c in tier]

    def anybody(self, point: Point[..., Any, Any]) -> bool:
        """Does anybody answer at a point?"""
        at = point.at
        known = self._chains.get(at)
        return bool(self.chain(at) if known is None else known)

    # -- asking them ------------------------------------------------------------------------------------------------
    def rule_of(self, point: Point[..., Any, Any]) -> Rule:
        """The rule that holds at a point in this session."""
        switch = point.switch
        return switch[1] if switch is not None and getattr(self.compat, switch[0]) else point.rule

    def guarded(self, point: Point[..., Any, Any], callback: Callback) -> Call:
        """One callback's part in a point, guarded; an undeclared hint is one that says nothing."""
        rule = self.rule_of(point)
        failed = rule.failed[point.on_failure]
        fn = getattr(callback, point.part)
        if fn is None:
            return lambda *_: failed(callback.plugin)
        if callback.sort_key and point.part == "fn":
            return compared(guarded_key(self.failures, callback.plugin, point.name, fn, self._kinds(point.name)))
        count = point.arity[0] if point.part == "fn" else 0
        return guarded(self.failures, callback.plugin, point.name, fn, rule.read, failed, rule.refuses, count)

    def bind(self, point: Point[P, Any, A]) -> Callable[P, A]:
        """A point as one call, made of its declaration and of the callbacks of this session."""
        known = self._bound.get(point.name)
        if known is None:
            calls = [[self.guarded(point, c) for c in tier] for tier in self.chain(point.at)]
            known = self.rule_of(point).fold(calls, point.nobody)
            if STRICT:
                known = self._declared(point, known)
            self._bound[point.name] = known
        return known

    def _declared(self, point: Point[..., Any, Any], call: Call) -> Call:
        def asked(*args: Any) -> Any:
            self.may_ask(point)
            return call(*args)

        return asked

    def may_ask(self, *asked: Point[..., Any, Any]) -> None:
        """Nothing, unless an action that says what it asks now asks something else (looked at in tests only).

        :raises AssertionError: names the action and the point.
        """
        acting = self.acting
        if STRICT and acting is not None and acting.asks is not None:
            missing = {p.at for p in asked} - {p.name for p in acting.asks}
            assert not missing, f"action {acting.name} asks {', '.join(sorted(missing))}, which it does not declare"

    def ask(self, point: Point[P, Any, A], *args: P.args, **named: P.kwargs) -> A:
        """What all plugins together say to a question."""
        return self.bind(point)(*args, **named)

    def each(self, point: Point[P, Any, Any], *args: P.args, **_: P.kwargs) -> list[tuple[str, Any]]:
        """What every plugin says to a question, guarded and read but not folded: (plugin, answer) in asking order."""
        return [(c.plugin, self.guarded(point, c)(*args)) for c in self.callbacks(point)]

    def _ask_anew(self, point: str) -> None:
        """Somebody registered: forget what was made of the callbacks before."""
        for name in [n for n in self._bound if n.partition(".")[0] == point]:
            del self._bound[name]
            self._unbind(name)
        self._chains.pop(point, None)
        self._keys.pop(point, None)

    # -- orders by key ----------------------------------------------------------------------------------------------
    def _kinds(self, point: str) -> dict[str, int] | None:
        """Per plugin the kind of its keys, where keys of several kinds met at this point; else None."""
        return self.runtime.key_kinds.get(point)

    def sort_key(self, point: Point[..., Any, int], fallback: Callable[[Any], Any]) -> Callable[[Any], Any] | None:
        """A key for an order in which every plugin gives keys; None when one compares pairs."""
        name = point.name
        if name not in self._keys:
            callbacks = self.callbacks(point)
            kinds = self._kinds(name)
            if all(c.sort_key for c in callbacks):
                keys = [guarded_key(self.failures, c.plugin, name, c.fn, kinds) for c in callbacks]
                self._keys[name] = joined(keys, fallback)
            else:
                self._keys[name] = None
        return self._keys[name]

    def mixed_keys(self, point: Point[..., Any, int]) -> None:
        """Keys of several kinds met: from now on each is compared with its kind before it."""
        self.runtime.key_kinds.setdefault(point.name, {})
        self._keys.pop(point.name, None)
        self._bound.pop(point.name, None)
        self._unbind(point.name)

    def _unbind(self, point: str) -> None:
        """Have a point bound anew when it is next asked by its attribute."""
        self.__dict__.pop(_ATTRIBUTES.get(point, point), None)

    def contain(
        self, plugin: str, point: str, exc: BaseException, task: Task | None = None, node: Node | None = None
    ) -> None:
        """A plugin failed: attribute it, log it once, count it, go on."""
        self.failures.contain(plugin, point, exc, task, node)


def _answers(entry: PluginEntry, registered: dict[str, list[Callback]], flag: str | None) -> list[Callback]:
    """What a plugin of the conf answers at a point that *flag* switches off."""
    found = registered.get(entry.name)
    if found is None:
        found = registered.get(getattr(entry.plugin, "name", ""))
    return found if found is not None and (flag is None or entry.enabled(flag)) else []
