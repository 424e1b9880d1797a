"""What event handlers are told, and what a plugin hands over to be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Never

from pumice.errors import WrongCall, shown
from pumice.framework.names import hint
from pumice.model.node import Node
from pumice.model.task import Task


@dataclass(slots=True)
class Event:
    """A virtual placement or its undoing.

    A handler tracks; what it raises is contained and changes nothing. To object to a placement an allocate handler sets
    *err*: then it is undone, and what was set is the reason that users read.
    """

    task: Task
    err: str | Exception | None = None

    @property
    def node(self) -> Node | None:
        """The place that the task took or gave back."""
        return self.task.node


@dataclass(slots=True, init=False)
class EventHandler:
    """Told of every virtual change in order, both ways; the many-forms are told of several equal tasks at once."""

    allocate: Callable[[Event], None] | None
    deallocate: Callable[[Event], None] | None
    allocate_many: Callable[[Sequence[Task]], None] | None
    deallocate_many: Callable[[Sequence[Task]], None] | None
    plugin: str

    def __init__(
        self,
        allocate: Callable[[Event], None] | None = None,
        deallocate: Callable[[Event], None] | None = None,
        allocate_many: Callable[[Sequence[Task]], None] | None = None,
        deallocate_many: Callable[[Sequence[Task]], None] | None = None,
        plugin: str = "",
        **others: Never,
    ) -> None:
        """:raises WrongCall: a parameter of another name; names the one that was perhaps meant."""
        self.allocate, self.deallocate = allocate, deallocate
        self.allocate_many, self.deallocate_many = allocate_many, deallocate_many
        self.plugin = plugin
        for name in others:
            raise WrongCall(f"EventHandler takes no {name!r}{hint(name, HANDLERS)}")
        for name in HANDLERS:
            if (fn := getattr(self, name)) is not None and not callable(fn):
                raise WrongCall(f"EventHandler: {name} must be a function, got {shown(fn)}")


HANDLERS: Final = ("allocate", "deallocate", "allocate_many", "deallocate_many")
