"""What plugins have to do with binds: what must be prepared before one, and who carries it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pumice.errors import shown, words_of
from pumice.framework.points.guard import FAILS, Failures
from pumice.model.intents import Choice, DeviceChoice, VolumeChoice
from pumice.model.task import Task


class Unprepared(Exception):
    """What must be done before a bind could not be prepared. Names the plugin."""

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
        """Is anything to be prepared?"""
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
        """What must be done for the claims of a task before it is bound.

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
