"""The events for plugins in a session: placements and their undoing; and their part in binds.

Handlers track; only ``event.err`` objects. A failure of one of them stays its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pumice.errors import shown, words_of
from pumice.framework.points.callback import Event, EventHandler
from pumice.framework.points.guard import FAILS, Failures
from pumice.model.intents import Choice, DeviceChoice, VolumeChoice
from pumice.model.node import Node
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

log = logging.getLogger("pumice.framework")
_One = Callable[[Event], None] | None
_Many = Callable[[Sequence[Task]], None] | None


class Handlers:
    """The handlers of a session. A failure of one handler stays its own, and the placement stands."""

    def __init__(self, failures: Failures, state: ClusterState, *, raising_objects: bool) -> None:
        """*raising_objects*: an exception counts as an objection, as ``event.err`` does."""
        self._failures, self._state, self._raising_objects = failures, state, raising_objects
        self._known: list[EventHandler] = []

    def __bool__(self) -> bool:
        return bool(self._known)

    def __iter__(self) -> Iterator[EventHandler]:
        return iter(self._known)

    def add(self, handler: EventHandler) -> None:
        """Tell this one too, after the others."""
        self._known.append(handler)

    def drop(self, plugin: str) -> None:
        """Tell those of a plugin nothing any more."""
        self._known = [handler for handler in self._known if handler.plugin != plugin]

    @property
    def take_many(self) -> bool:
        """Report whether all can be told of several equal tasks at once."""
        return all(h.allocate_many is not None for h in self._known)

    def allocated(self, task: Task) -> tuple[str, str]:
        """Tell of a placement: the first objection and whose it is; nothing where there is none."""
        objection = ("", "")
        for handler in self._known:
            said = self._tell(handler, handler.allocate, handler.allocate_many, task, "allocate handler")
            if said and not objection[0]:
                objection = (said, handler.plugin)
        return objection

    def allocated_many(self, tasks: Sequence[Task]) -> None:
        """Tell of several placements at once; only where `take_many`."""
        for handler in self._known:
            many = handler.allocate_many
            try:
                if many is not None:
                    many(list(tasks))
            except FAILS as exc:
                self._failures.contain(handler.plugin, "allocate_many handler", exc, tasks[0], fn=many)

    def restored(self, task: Task) -> None:
        """Tell of an eviction that was undone; objections have no effect."""
        for handler in self._known:
            said = self._tell(handler, handler.allocate, handler.allocate_many, task, "allocate handler")
            if said:
                log.warning("plugin %s: allocate handler: %s", handler.plugin, said)

    def deallocated(self, task: Task, node: Node | None = None) -> str:
        """Tell that a task gave its place back; *node* is the place that it had. The text has no effect."""
        first = ""
        if not self._known:
            return first
        with self._state.shown_at(task, node):
            for handler in self._known:
                said = self._tell(handler, handler.deallocate, handler.deallocate_many, task, "deallocate handler")
                if said:
                    log.warning("plugin %s: deallocate handler: %s", handler.plugin, said)
                    first = first or said
        return first

    def _tell(self, handler: EventHandler, one: _One, many: _Many, task: Task, what: str) -> str:
        event = Event(task)
        try:
            if one is not None:
                one(event)
            elif many is not None:
                many([task])
        except FAILS as exc:
            self._failures.contain(handler.plugin, what, exc, task, event.node, fn=one or many)
            return f"{type(exc).__name__}: {words_of(exc)}" if self._raising_objects else ""
        return "" if event.err is None else words_of(event.err) or handler.plugin


class Unprepared(Exception):
    """A preparation of a bind failed. Names the plugin."""

    def __init__(self, plugin: str, text: str) -> None:
        super().__init__(text)
        self.plugin, self.text = plugin, text


class Binds:
    """The preparations and binders that plugins offered in a session."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._preparing: list[tuple[str, Callable[[Task], Sequence[Choice]]]] = []
        self.binders: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._preparing or self.binders)

    @property
    def prepares(self) -> bool:
        """Report whether there are preparations."""
        return bool(self._preparing)

    def prepare(self, plugin: str, fn: Callable[[Task], Sequence[Choice]]) -> None:
        """Ask *fn* before every bind."""
        self._preparing.append((plugin, fn))

    def offer(self, name: str, binder: Any) -> None:
        """Offer a binder under a name."""
        self.binders[name] = binder

    def parts(self) -> Iterator[tuple[str, str, Any]]:
        """Everything that was handed over: whose, what, and the function."""
        yield from ((plugin, "prepare_binds", fn) for plugin, fn in self._preparing)
        yield from (
            (name, "the binder's wants", getattr(binder, "wants", None)) for name, binder in self.binders.items()
        )

    def drop(self, plugin: str) -> None:
        """Ask a plugin no more before binds."""
        self._preparing = [(name, fn) for name, fn in self._preparing if name != plugin]

    def choices(self, task: Task) -> tuple[Choice, ...]:
        """The preparations for the claims of a task before it is bound.

        :raises Unprepared: a plugin failed to say; the task cannot be bound.
        """
        found: list[Choice] = []
        for plugin, fn in self._preparing:
            try:
                made = list(fn(task))
                if not all(isinstance(c, (VolumeChoice, DeviceChoice)) for c in made):
                    raise TypeError(f"a preparation is a list of choices, got {shown(made)}")
            except FAILS as exc:
                self._failures.contain(plugin, "prepare_binds", exc, task, task.node, fn=fn)
                raise Unprepared(
                    plugin, f"the bind could not be prepared: {type(exc).__name__}: {words_of(exc)}"
                ) from None
            found += made
        return tuple(found)

    def binder_of(self, task: Task) -> str:
        """Which offered binder wants to bind the task; nothing for the cluster's own. One that fails does not."""
        for name, binder in self.binders.items():
            wants = getattr(binder, "wants", None)
            try:
                if wants is None or wants(task):
                    return name
            except FAILS as exc:
                self._failures.contain(name, "binder.wants", exc, task, fn=wants)
        return ""
