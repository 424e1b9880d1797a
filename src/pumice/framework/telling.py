"""Telling event handlers of virtual placements and of their undoing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pumice.framework.chains import Chains
from pumice.framework.plugin import Event, EventHandler
from pumice.model.node import Node
from pumice.model.task import Task

log = logging.getLogger("pumice.framework")


class Telling(Chains):
    """Handlers are told; their failures stay their own. Mixed into `Session`."""

    handlers: list[EventHandler]

    def tell_allocated(self, task: Task) -> None:
        """Tell handlers of an undone eviction; objections have no effect."""
        for handler in self.handlers:
            self._tell(handler, handler.allocate, handler.allocate_many, task, "allocate handler")

    def tell_deallocated(self, task: Task, node: Node | None = None) -> None:
        """Tell handlers that a task gave its place back; they still see which place that was (*node*)."""
        if not self.handlers:
            return
        with self.state.shown_at(task, node):
            for handler in self.handlers:
                self._tell(handler, handler.deallocate, handler.deallocate_many, task, "deallocate handler")

    def _tell(
        self,
        handler: EventHandler,
        one: Callable[[Event], None] | None,
        many: Callable[[Sequence[Task]], None] | None,
        task: Task,
        point: str,
    ) -> None:
        try:
            if one is not None:
                event = Event(task)
                one(event)
                if event.err is not None:
                    log.warning("plugin %s: %s: %s", handler.plugin, point, event.err)
            elif many is not None:
                many([task])
        except Exception as exc:
            self.contain(handler.plugin, point, exc, task, task.node)
