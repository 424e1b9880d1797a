"""Telling event handlers of virtual placements and of their undoing. They track; only ``event.err`` objects."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from pumice.errors import words_of
from pumice.framework.points.events import Event, EventHandler
from pumice.framework.points.guard import FAILS, Failures
from pumice.model.node import Node
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

log = logging.getLogger("pumice.framework")
_One = Callable[[Event], None] | None
_Many = Callable[[Sequence[Task]], None] | None


class Handlers:
    """The handlers of a session. What one of them does wrong stays its own, and the placement stands."""

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
        """Can all be told of several equal tasks at once?"""
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
        """Tell that a task gave its place back; *node* is the place that it had. What was said has no effect."""
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
