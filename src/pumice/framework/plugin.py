"""The base of plugins: Plugin and Action classes, typed arguments, event handlers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pumice.framework.arguments import Argument, ArgumentMap, Arguments, declared_by
from pumice.framework.points.callback import Event, EventHandler

if TYPE_CHECKING:
    from pumice.framework.points.point import Point
    from pumice.framework.points.registration import PointMethods
    from pumice.framework.session.session import Session
else:
    PointMethods = object

__all__ = ["Action", "Argument", "ArgumentMap", "Arguments", "Event", "EventHandler", "Plugin"]


class Plugin(PointMethods):
    """A scheduling policy. Built from its arguments anew for each session, unless it says otherwise.

    A method named after an extension point (``predicate``, ``node_order``, ``job_order`` …) is registered by itself;
    others are registered in `on_session_open`. Data that must outlive a session goes into ``ssn.memory``.
    """

    name: str = ""
    repeatable: ClassVar[bool] = False
    """Whether it may be listed several times in one configuration."""
    persistent: ClassVar[bool] = False
    """Whether one object serves all sessions of a scheduler. Otherwise each session has its own.

    The object is opened in every session; `on_session_open` starts anew whatever belongs to one session. It is built
    again after a failure and for another configuration. A subclass says it for itself: it does not inherit it.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments if isinstance(arguments, Arguments) else Arguments(arguments)
        for declared in declared_by(type(self)):
            declared.of(self.arguments)

    def on_session_open(self, ssn: Session) -> None:
        """Register callbacks and compute what they need. Keep it light: it runs every cycle."""

    def on_session_close(self, ssn: Session) -> None:
        """Clean up, write conditions, publish metrics."""


class Action:
    """A step of the cycle. Built once; knows no plugin by name."""

    name: str = ""
    arguments: Arguments = Arguments()
    """The action's configuration; an `Argument` that the class declares is read from it."""
    asks: ClassVar[Sequence[Point[..., Any, Any]] | None] = None
    """The points that it and its parts ask; None when it does not say."""

    def execute(self, ssn: Session) -> None:
        """Do the step."""
        raise NotImplementedError
