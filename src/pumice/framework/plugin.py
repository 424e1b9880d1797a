"""What a plugin author needs: the Plugin base class, typed arguments, event handlers."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never

from pumice.errors import InvalidInput, WrongCall, shown
from pumice.framework.names import hint
from pumice.model.node import Node
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.framework.points.point import Point
    from pumice.framework.session import Session

log = logging.getLogger("pumice.plugins")

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class WrongArgument(InvalidInput):
    """An argument is not of the kind that the plugin reads it as; *key* is its name."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


class Arguments(Mapping[str, Any]):
    """A plugin's arguments: a mapping with typed getters.

    Numbers and truth values are accepted as YAML scalars and as strings; anything else is an error that names the
    argument.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, owner: str = "") -> None:
        self._values = dict(values or {})
        self._owner = owner

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Arguments({self._values!r})"

    def _wrong(self, key: str, want: str) -> InvalidInput:
        owner = f"{self._owner}: " if self._owner else ""
        return WrongArgument(key, f"{owner}argument {key}: must be {want}, got {self._values[key]!r}")

    def int(self, key: str, default: int) -> int:
        """A whole number."""
        value = self._values.get(key, default)
        if isinstance(value, bool):
            raise self._wrong(key, "a whole number")
        if isinstance(value, int):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        try:
            return int(value) if isinstance(value, str) else self._raise(key, "a whole number")
        except ValueError:
            raise self._wrong(key, "a whole number") from None

    def float(self, key: str, default: float) -> float:
        """A number."""
        value = self._values.get(key, default)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = float(value)
        else:
            try:
                number = float(value) if isinstance(value, str) else self._raise(key, "a number")
            except ValueError:
                raise self._wrong(key, "a number") from None
        if number != number or number in (float("inf"), float("-inf")):
            raise self._wrong(key, "a finite number")
        return number

    def bool(self, key: str, default: bool) -> bool:
        """A truth value."""
        value = self._values.get(key, default)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value in _TRUE | _FALSE:
            return value in _TRUE
        if value in (0, 1):
            return bool(value)
        raise self._wrong(key, "true or false")

    def str(self, key: builtins.str, default: builtins.str) -> builtins.str:
        """Text."""
        value = self._values.get(key, default)
        if isinstance(value, str):
            return value
        raise self._wrong(key, "text")

    def list(self, key: builtins.str, default: Sequence[builtins.str] = ()) -> list[builtins.str]:
        """A list of text: a YAML list, or one string with commas."""
        value = self._values.get(key, default)
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
            return [*value]
        raise self._wrong(key, "a list of texts or a text with commas")

    def _raise(self, key: builtins.str, want: builtins.str) -> Any:
        raise self._wrong(key, want)


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


class Plugin:
    """A scheduling policy. Built from its arguments anew for each session.

    A method named after an extension point (``predicate``, ``node_order``, ``job_order`` …) is registered by itself;
    others are registered in `on_session_open`. What must outlive a session goes into ``ssn.memory``.
    """

    name: str = ""
    arguments_read: ClassVar[Sequence[str] | None] = None
    """The argument names it reads (a trailing ``*`` for a prefix); None when it does not say."""
    repeatable: ClassVar[bool] = False
    """May it be listed several times in one configuration?"""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments

    def on_session_open(self, ssn: Session) -> None:
        """Register callbacks and compute what they need. Keep it light: it runs every cycle."""

    def on_session_close(self, ssn: Session) -> None:
        """Clean up, write conditions, publish metrics."""


class Action:
    """A step of the cycle. Built once; knows no plugin by name."""

    name: str = ""
    arguments_read: ClassVar[Sequence[str]] = ()
    asks: ClassVar[Sequence[Point[..., Any, Any]] | None] = None
    """The points that it and its parts ask; None when it does not say."""

    def execute(self, ssn: Session) -> None:
        """Do the step."""
        raise NotImplementedError
