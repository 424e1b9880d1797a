"""What plugins of others are asked with: the cluster's own tasks, jobs and queues instead of KAI's views of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from pumice.framework.points import table as t
from pumice.framework.points.callback import Callback
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.tasks import TaskView

if TYPE_CHECKING:
    from pumice.kai.view.world import KaiWorld

_PARTS: Final = ("fn", "key")


def real(asked: Any) -> Any:
    """The object of the cluster that a view stands for; whatever is no view is itself."""
    kind = asked.__class__
    if kind is TaskView:
        return asked.task
    if kind is JobView:
        return asked.job
    if kind is QueueView:
        return asked.queue
    if kind is list or (kind is tuple and asked and asked[0].__class__ is TaskView):
        return [real(each) for each in asked]
    translated = getattr(asked, "translated", None)
    return translated(real) if translated is not None else asked


def translated(callback: Callback, world: Callable[[], KaiWorld]) -> Callback:
    """The callback of somebody else's plugin as KAI's actions may ask it."""
    index = callback.point == t.GPU_ORDER.name
    given: dict[str, Any] = {}
    for name in _PARTS:
        fn = getattr(callback, name)
        if fn is not None:
            given[name] = _by_index(fn, world) if index and name == "fn" else _of_real(fn)
    return replace(callback, **given)


def _of_real(fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def asked(*args: Any) -> Any:
        return fn(*[real(a) for a in args])

    asked.translates = True  # type: ignore[attr-defined]
    return asked


def _by_index(fn: Callable[..., Any], world: Callable[[], KaiWorld]) -> Callable[..., Any]:
    """GPUs are told by their index on the node."""

    @wraps(fn)
    def asked(task: Any, node: Any, gpu: str) -> Any:
        return fn(real(task), node, world().nodes.index_of(node, gpu))

    return asked
