"""The registrations of a plugin: callbacks with their declarations, and handlers of placements.

A function's parameters are matched to the forms of its point here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from types import CodeType
from typing import Any, Final, Never

from pumice.engine.scope import Scope
from pumice.errors import PluginLoadError, WrongCall, shown
from pumice.framework.names import hint
from pumice.framework.points import forms
from pumice.framework.points.point import Point
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


_WRAPPINGS: Final = 20
"""So many layers around a function are taken off."""


@dataclass(slots=True)
class Callback:
    """A plugin's answer to a point, with what it declared about it."""

    plugin: str
    point: str
    fn: Callable[..., Any]
    scope: Scope = Scope.SESSION
    key: Callable[..., Any] | None = None
    normalize: Callable[..., Any] | None = None
    max_tasks: Callable[..., int] | None = None
    """allocatable: how many equal tasks in a row the queue would take."""
    sort_key: bool = False

    def parts(self) -> list[tuple[str, Callable[..., Any]]]:
        """Everything callable that the plugin handed over, by name: its function and its hints."""
        return [(name, part) for name in _PARTS if callable(part := getattr(self, name))]


_PARTS: Final = tuple(f.name for f in fields(Callback))
"""Every field of a callback."""


def _required(fn: Callable[..., Any]) -> int | None:
    """How many positional parameters a function requires; None when it takes any number."""
    code = getattr(fn, "__code__", None)
    if code is not None:
        if code.co_flags & inspect.CO_VARARGS:
            return None
        return int(code.co_argcount) - len(getattr(fn, "__defaults__", None) or ())
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(1 for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty)


def _keyword_of(fn: Any) -> str | None:
    """A keyword without which a function cannot be called; None where there is none."""
    code = getattr(fn, "__code__", None)
    if code is None or not code.co_kwonlyargcount:
        return None
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return next((name for name in names if name not in (fn.__kwdefaults__ or {})), None)


def where(fn: Callable[..., Any]) -> str:
    """File and line of a function or class, for messages."""
    code = code_of(fn)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    return line_of(fn) if isinstance(fn, type) else shown(fn)


def line_of(cls: type) -> str:
    """File and line of a class."""
    try:
        return f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return f"{cls.__module__}.{cls.__qualname__}"


def code_of(fn: Any) -> CodeType | None:
    """The author's function behind a callable, below its wrappers; None without one."""
    if isinstance(fn, type):
        fn = vars(fn).get("__init__")
    try:
        for _ in range(_WRAPPINGS):
            inner = fn.func if isinstance(fn, partial) else getattr(fn, "__wrapped__", None)
            if inner is None:
                break
            fn = inner
        for found in (getattr(fn, "__func__", fn), type(fn).__call__):
            code = getattr(found, "__code__", None)
            if isinstance(code, CodeType):
                return code
    except Exception:  # whatever its attributes do
        pass
    return None


_FITTING: set[tuple[str, Any, type]] = set()
"""Forms that were found to fit: plugins register the same functions every cycle."""


def adapted(point: Point[..., Any, Any], plugin: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function in the point's own shape. KAI's forms that also take the job are told apart by their parameters.

    :raises PluginLoadError: the parameters fit no form of the point; names plugin, point, file and line.
    """
    if not callable(fn):
        raise PluginLoadError(f"plugin {plugin!r}: {point.register}: needs a function, got {shown(fn)}")
    known = (point.name, getattr(fn, "__code__", None), type(fn))
    if known in _FITTING:
        return fn
    check_runs(fn, f"plugin {plugin!r}: {point.name}", yields=point.rule.read is forms.iterator)
    bound = getattr(fn, "__func__", None)
    count = _required(bound) if bound is not None else _required(fn)
    if count is None:
        return fn
    if bound is not None:
        count -= 1
    arity = point.arity
    if (keyword := _keyword_of(bound if bound is not None else fn)) is not None:
        text = f"must take {point.signature.partition(' -> ')[0]}, but requires the keyword {keyword!r}"
        raise PluginLoadError(f"plugin {plugin!r}: {point.name} {text}", at=where(fn))
    if count == arity[0] or (count < arity[0] and takes(fn, arity[0])):
        if known[1] is not None and not getattr(fn, "__defaults__", None):
            _FITTING.add(known)
        return fn
    if count in arity:
        shaped: Callable[..., Any] | None = None
        if point.name == "predicate":
            shaped = lambda task, node: fn(task, task.job, node)  # noqa: E731
        elif point.name == "pre_predicate":
            shaped = lambda task: fn(task, task.job)  # noqa: E731
        if shaped is not None:
            shaped.__wrapped__ = fn  # type: ignore[attr-defined]
            return shaped
    form = point.signature.partition(" -> ")[0]
    many = "1 parameter" if count == 1 else f"{count} parameters"
    raise PluginLoadError(f"plugin {plugin!r}: {point.name} must take {form}, but requires {many}", at=where(fn))


def check_runs(fn: Any, what: str, *, yields: bool = False) -> None:
    """:raises PluginLoadError: calling it does nothing yet, for it is async, or a generator where nobody iterates."""
    code = code_of(fn)
    flags = 0 if code is None else code.co_flags
    if flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise PluginLoadError(f"{what} must be a plain function: it is async, and nobody awaits it", at=where(fn))
    if flags & inspect.CO_GENERATOR and not yields:
        raise PluginLoadError(f"{what} must return what it has to say: it yields, and nobody iterates", at=where(fn))


def takes(fn: Callable[..., Any], count: int) -> bool:
    """Report whether a function may be called with that many positional arguments. If nothing is known of it, it
    may."""
    try:
        parameters = inspect.signature(fn)
    except (TypeError, ValueError):
        return True
    try:
        parameters.bind(*range(count))
    except TypeError:
        return False
    return True
