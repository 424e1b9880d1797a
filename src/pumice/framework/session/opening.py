"""The plugins of a session: they are opened, register what they answer, go on or are left out, and are closed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from pumice.engine.scope import SCOPE_MARK
from pumice.errors import PluginLoadError, shown
from pumice.framework.metrics import Metrics
from pumice.framework.names import hint
from pumice.framework.plugin import Plugin
from pumice.framework.points.callback import Callback, EventHandler, adapted
from pumice.framework.points.guard import FAILS
from pumice.framework.points.handlers import Binds, Handlers
from pumice.framework.points.registration import Fn, Registration
from pumice.framework.points.table import BATCHED, POINTS
from pumice.framework.session.asking import PluginEntry
from pumice.framework.session.questions import Questions
from pumice.framework.session.search import SEARCHED
from pumice.model.intents import Choice
from pumice.model.job import Job
from pumice.model.resources import Resources
from pumice.model.task import Task


class PluginOpening(Registration, Questions):
    """Opens and closes plugins. The base of `Session`."""

    handlers: Handlers
    """Who is told of virtual placements."""
    binds: Binds
    """Who binds, and what must be done before."""
    metrics: Metrics
    """What plugins publish."""
    timings: dict[tuple[str, str], float]
    """(What, whose) -> seconds that it took in this cycle."""
    warnings: list[str]
    """What authors of plugins should know."""
    wakes_at: float
    """The time at which the next cycle is run even if nothing changes; see `wake_at`."""

    def _begin_opening(self) -> None:
        self._registered: dict[str, dict[str, list[Callback]]] = {}
        self._opened: list[tuple[str, Any]] = []
        self._added: list[tuple[str, str]] = []
        """(Point, name) for what the plugin that is being opened registered."""
        self._opening = ""
        self._opening_entry: PluginEntry | None = None

    # -- what the plugin that is being opened has ---------------------------------------------------------------------
    @property
    def opening(self) -> str:
        """The plugin that is being opened or closed, or nothing."""
        return self._opening

    def flag(self, name: str) -> bool:
        """Is a flag (``enableHierarchy``) on for the plugin being opened? Off in a session built by hand."""
        return self._opening_entry is not None and self._opening_entry.enabled(name)

    @property
    def log(self) -> logging.Logger:
        """The logger of the plugin being opened."""
        return logging.getLogger(f"pumice.plugins.{self._opening}" if self._opening else "pumice.plugins")

    @property
    def memory(self) -> dict[str, Any]:
        """What the plugin being opened (or asked at close) keeps between sessions.

        A plugin of yours that asks for it is run in every cycle: it may count them.
        """
        entry = self._opening_entry
        if entry is not None and not type(entry.plugin).__module__.startswith("pumice."):
            self.wake_at(0.0)
        return self.memory_of(self._opening)

    def memory_of(self, plugin: str) -> dict[str, Any]:
        """What a plugin keeps between sessions."""
        return self.runtime.memory.setdefault(plugin, {})

    def wake_at(self, time: float) -> None:
        """Have the next cycle run at *time* at the latest, even if nothing changes; 0: in any case.

        For callbacks that depend on a server, a file or a clock of their own. Reading `now` or `environment` counts by
        itself.
        """
        if time < self.wakes_at:
            self.wakes_at = time

    def keep_sum(self, name: str, contribution: Callable[[Job], Resources]) -> Resources:
        """The sum of what every job contributes, as of the session's opening, without asking about all jobs each cycle.

        For `on_session_open`. *contribution* is asked again about jobs that change, so it must depend on the job alone.
        A function of a module is followed from cycle to cycle; a method is asked about every job in each.

        :raises PluginLoadError: the sum has no name, or what is handed over is no function.
        """
        _check_name("keep_sum", name)
        _check_function("keep_sum", contribution)
        kept = self.state.keep_sum(f"{self._opening}/{name}", contribution)
        for exc in kept.take_failures():
            self.failures.contain(self._opening, "keep_sum", exc, fn=contribution)
        return kept.total

    # -- registering ------------------------------------------------------------------------------------------------
    def add(self, point: str, name: str | Fn, fn: Fn | None = None, **declared: Any) -> None:
        """Register a callback at a point. A second one under the same name replaces the first, as in Volcano.

        At the points for many nodes at once a plugin may register several, beside each other.

        :raises PluginLoadError: there is no such point, or what is handed over fits no form of it.
        """
        rule = POINTS.get(point)
        if rule is None:
            near = hint(point, POINTS)
            raise PluginLoadError(
                f"extension point {point!r}: there is none of that name{near}; `pumice plugin points` lists them"
            )
        if fn is None:
            if not callable(name):
                raise PluginLoadError(f"{rule.register}: needs a function, got {fn!r} for {name!r}")
            fn, name = name, getattr(getattr(name, "__self__", None), "name", "") or self._opening
        elif not isinstance(name, str):
            raise PluginLoadError(f"{rule.register}: the name must be text, got {name!r}")
        if isinstance(marked := getattr(fn, SCOPE_MARK, None), tuple):
            declared |= {"scope": marked[0], "key": declared.get("key") or marked[1]}
        shaped = fn if declared.get("sort_key") and callable(fn) else adapted(rule, name, fn)
        callback = Callback(name, point, shaped, **declared)
        at_point = self._registered.setdefault(point, {})
        if point in BATCHED and (point, name) in self._added:
            at_point[name] = [c for c in at_point[name] if not _same(c, callback)] + [callback]
        else:
            at_point[name] = [callback]
        self._added.append((point, name))
        if self._chains:
            self._forget_chain(point)
        if self._opening_entry is not None and point in self._opening_entry.unasked:
            self.warnings.append(f"plugin {name!r} registers at {point}, which no action asks")

    def add_event_handler(self, handler: EventHandler) -> None:
        """Be told of every virtual placement and its undoing.

        :raises PluginLoadError: it is no `EventHandler`.
        """
        if not isinstance(handler, EventHandler):
            raise PluginLoadError(f"add_event_handler: needs an EventHandler, got {shown(handler)}")
        handler.plugin = handler.plugin or self._opening
        self.handlers.add(handler)

    def register_binder(self, name: str, binder: Any) -> None:
        """Offer a binder; a later one of the same name replaces it.

        :raises PluginLoadError: it has no name, or it is none.
        """
        _check_name("register_binder", name)
        if binder is None:
            raise PluginLoadError("register_binder: needs a binder, an object with bind(intent), got None")
        self.binds.offer(name, binder)

    def prepare_binds(self, fn: Callable[[Task], Sequence[Choice]]) -> None:
        """Let *fn* say what must be done for the claims of a task before it is bound.

        :raises PluginLoadError: it is no function.
        """
        _check_function("prepare_binds", fn)
        self.binds.prepare(self._opening, fn)

    # -- opening and closing ------------------------------------------------------------------------------------------
    def _open_plugins(self) -> None:
        """Open every plugin of the tiers, in order; build those that no earlier session has left."""
        ill = self.runtime.health
        for tier in self._tiers or ():
            for entry in tier:
                if not _is_persistent(entry.plugin):
                    entry.plugin = None
                if ill and (health := ill.get(entry.name)) is not None and health.quarantined:
                    entry.plugin = None
                    continue
                self._opening_entry, self._added = entry, []
                try:
                    if entry.plugin is None:
                        entry.plugin = entry.build()
                    self._open(entry.plugin, entry.name)
                except FAILS as exc:
                    plugin, entry.plugin = entry.plugin, None
                    self._leave_out(entry.name, plugin, exc)
        self._opening_entry = None

    def _forget_chain(self, point: str) -> None:
        self._ask_anew(point)
        if point in SEARCHED:
            self.search.forget()

    def _leave_out(self, name: str, plugin: Any, exc: BaseException) -> None:
        """A plugin could not be opened: it is as if it were not there."""
        self._withdraw(name)
        self.failures.contain(name, "on_session_open", exc, fn=getattr(plugin, "on_session_open", None))

    def _withdraw(self, name: str) -> None:
        """Take back what the plugin registered that is being opened."""
        self._opening = ""
        for point, registered in self._added:
            self._registered[point].pop(registered, None)
            self._forget_chain(point)
        self.handlers.drop(name)
        self.binds.drop(name)

    def open_plugin(self, plugin: Any, name: str = "") -> None:
        """Open one plugin: register the methods named after points, then let it register by itself.

        :raises PluginLoadError: what it registers fits no form of a point.
        """
        name = name or getattr(plugin, "name", "") or type(plugin).__name__
        self._added = []
        try:
            self._open(plugin, name)
        except PluginLoadError:
            raise
        except FAILS as exc:
            self._leave_out(name, plugin, exc)

    def _open(self, plugin: Any, name: str) -> None:
        self._opening = name
        started = time.perf_counter()
        try:
            for point in _points_of(type(plugin)):
                self.add(point, name, getattr(plugin, point))
            opened = getattr(plugin, "on_session_open", None)
            if opened is not None:
                opened(self)
        finally:
            self._opening = ""
            self.timings["open", name] = self.timings.get(("open", name), 0.0) + time.perf_counter() - started
            if _closes(plugin):
                self._opened.append((name, plugin))

    def close_plugins(self) -> None:
        """Tell every plugin that was opened, once, that the session ends."""
        opened, self._opened = self._opened, []
        clock, timings, timed = time.perf_counter, self.timings, self.runtime.metered
        begun = clock()
        for name, plugin in opened:
            self._opening = name
            try:
                plugin.on_session_close(self)
            except FAILS as exc:
                self.failures.contain(name, "on_session_close", exc, fn=plugin.on_session_close)
            if timed:
                over = clock()
                timings["close", name] = over - begun
                begun = over
        self._opening = ""


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str):
        raise PluginLoadError(f"{what}: the name must be text, got {shown(name)}")


def _check_function(what: str, fn: object) -> None:
    if not callable(fn):
        raise PluginLoadError(f"{what}: needs a function, got {shown(fn)}")


def _is_persistent(plugin: Any) -> bool:
    """Report whether a plugin serves several sessions, as its own class says."""
    return bool(vars(type(plugin)).get("persistent"))


def _closes(plugin: Any) -> bool:
    """Has a plugin anything to do when a session closes?"""
    closing = getattr(plugin, "on_session_close", None)
    return closing is not None and getattr(closing, "__func__", None) is not Plugin.on_session_close


_POINTS_OF: dict[type, list[str]] = {}


def _points_of(cls: type) -> list[str]:
    """Methods of a plugin class that are named after a point."""
    known = _POINTS_OF.get(cls)
    if known is None:
        known = _POINTS_OF[cls] = [name for name in POINTS if callable(getattr(cls, name, None))]
    return known


def _same(one: Callback, other: Callback) -> bool:
    """Report whether two callbacks of a plugin are one that was registered twice; another key concerns other tasks."""
    return (one.fn, one.scope, one.key) == (other.fn, other.scope, other.key)
