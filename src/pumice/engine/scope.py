"""The scope of an answer, and with it when it must be asked again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, Final, TypeVar

from pumice.errors import PluginLoadError

SCOPE_MARK: Final = "__pumice_scope__"
"""The attribute of a function in which the decorator `scope` keeps (scope, key)."""
F = TypeVar("F", bound=Callable[..., Any])


class Scope(Enum):
    """The inputs of an answer about (task, node)."""

    STATIC = "static"
    """The task's class and the node's labels, annotations, taints, allocatable, unschedulable."""
    NODE = "node"
    """… and what is placed on that node."""
    SESSION = "session"
    """Anything."""


class Skip(Enum):
    """The type of `SKIP`."""

    SKIP = "skip"


SKIP: Final = Skip.SKIP
"""The key of a task about which a callback has nothing to say: it is not asked, and rejects and scores nothing."""


def skip_unless(concerned: Callable[[Any], bool]) -> Callable[[Any], Hashable]:
    """Return a key for callbacks that have something to say about some classes of tasks only."""

    def key(task: Any) -> Hashable:
        return None if concerned(task) else SKIP

    return key


def scope(value: Scope, *, key: Callable[..., Any] | None = None) -> Callable[[F], F]:
    """Declare the scope of a plugin's method, however it is registered.

    :raises PluginLoadError: it was put on a method without saying which scope.
    """
    if (code := getattr(value, "__code__", None)) is not None:
        text = "scope: says what the answer depends on, such as @scope(Scope.NODE); it was given the method itself"
        raise PluginLoadError(text, at=f"{code.co_filename}:{code.co_firstlineno}")

    def mark(fn: F) -> F:
        setattr(fn, SCOPE_MARK, (value, key))
        return fn

    return mark
