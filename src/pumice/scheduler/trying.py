"""Plugins tried before they are used: opened once on a small made-up cluster, in a session that nothing leaves.

A mistake on any cluster is an error. An exception of a plugin's own code there is a warning: that cluster is not its
author's, and in a cycle such a failure is contained.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final

from pumice.engine.scope import SCOPE_MARK, Scope
from pumice.errors import PluginLoadError, shown, words_of
from pumice.framework.compat import PUMICE, Compat
from pumice.framework.names import unknown
from pumice.framework.points.callback import HANDLERS, Callback, check_runs, takes, where
from pumice.framework.points.guard import OURS, author_line, let_pass
from pumice.framework.points.point import HINTS
from pumice.framework.points.table import POINTS
from pumice.framework.session.questions import PluginEntry
from pumice.framework.session.session import HelpfulSession, Session
from pumice.model.api import (
    AnyObject,
    Container,
    Metadata,
    NodeObject,
    NodeStatus,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodSpec,
    QueueObject,
    QueueStatus,
    ResourceRequirements,
)
from pumice.model.events import Seen
from pumice.model.task import GROUP_ANNOTATION
from pumice.state.cluster import ClusterState

_HELD: Final = frozenset(f.name for f in fields(Callback))
_FUNCTIONS: Final = tuple(name for name, (kind, _) in HINTS.items() if name in _HELD and kind.startswith("Fn"))
"""The functions that a callback declares."""
_FORMS: Final = {
    name: (form, form.count(",") + 1)
    for name in _FUNCTIONS
    for form in re.findall(rf"^\*{name}(\(.*?\))\*", HINTS[name][1])
}
"""The parameters of such a function, in words, and their number."""
_SWITCHES: Final = tuple(name for name, (kind, _) in HINTS.items() if name in _HELD and kind.startswith("bool"))
"""The hints with True or False."""

_SCORES: Final = ("node_order", "batch_node_order")
_SLOW: Final = (
    "has no scope, so all nodes are scored again for each task. If it depends on the task's class and on what is "
    "placed on the node alone, write @scope(Scope.NODE, key=same_class) above it, else @scope(Scope.SESSION)"
)


@dataclass(slots=True)
class TrialResult:
    """The results of a trial, a line each."""

    errors: list[PluginLoadError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Trial(HelpfulSession):
    """A session that describes: its plugins are opened, and it keeps what they did wrong to itself."""

    def __init__(
        self,
        state: ClusterState,
        tiers: Sequence[Sequence[PluginEntry]],
        actions: Sequence[str] = (),
        compat: Compat = PUMICE,
    ) -> None:
        super().__init__(state, tiers=tiers, actions=actions, compat=compat, environment={"describes": True})
        self.tried = TrialResult()

    @property
    def log(self) -> logging.Logger:
        """A logger that says nothing: what a plugin tells of this cluster is nobody's business."""
        return _SILENT

    def _leave_out(self, name: str, plugin: Any, exc: BaseException) -> None:
        let_pass(exc)
        self._withdraw(name)
        opening = getattr(plugin, "on_session_open", None)
        if isinstance(exc, PluginLoadError):
            self._wrong(name, exc.text, exc.at or author_line(exc, opening))
            return
        at = author_line(exc, opening)
        near = unknown(exc, OURS) if isinstance(exc, AttributeError) else ""
        text = f"{type(exc).__name__}: {words_of(exc)}"
        if called := _wrong_call(exc):
            self._wrong(name, called, at)
        elif near:
            self._wrong(name, text + near, at)
        else:
            self.tried.warnings.append(
                f"{at}: plugin {name!r}: on_session_open raised {text} on a made-up cluster of two nodes and a job"
            )

    def _wrong(self, name: str, text: str, at: str) -> None:
        of = "" if text.startswith("plugin ") else f"plugin {name!r}: "
        self.tried.errors.append(PluginLoadError(f"{of}{text}", at=at))

    def look(self) -> None:
        """Check what the plugins declared beside their functions, and their event handlers."""
        names = self.plugin_order()
        for callbacks in self.registered().values():
            for callback in callbacks:
                self._look_at(callback)
                if callback.plugin not in names:
                    text = f"add_{callback.point}_fn: nobody asks what is registered as {callback.plugin!r}"
                    rule = "; the name is that of a plugin of the conf, such as self.name, or is left out"
                    self._wrong(callback.plugin, text + rule, where(callback.fn))
        for handler in self.handlers:
            for name in HANDLERS:
                fn = getattr(handler, name)
                if fn is not None and not takes(fn, 1):
                    what = "the tasks" if name.endswith("_many") else "the event"
                    self._wrong(handler.plugin, f"the {name} handler must take one parameter, {what}", where(fn))
                self._runs(handler.plugin, f"the {name} handler", fn)
        for plugin, what, fn in self.binds.parts():
            self._runs(plugin, what, fn, yields=True)

    def _runs(self, plugin: str, what: str, fn: Any, *, yields: bool = False) -> None:
        try:
            check_runs(fn, what, yields=yields)
        except PluginLoadError as exc:
            self._wrong(plugin, exc.text, exc.at)

    def _look_at(self, callback: Callback) -> None:
        at, scope, point = where(callback.fn), getattr(callback, "scope", None), POINTS[callback.point]
        for name, nothing in (("scope", Scope.SESSION), ("key", None)):
            if name not in point.hints and getattr(callback, name) is not nothing:
                self._wrong(callback.plugin, f"{callback.point} takes no {name}", at)
        if callback.sort_key and not takes(callback.fn, 1):
            self._wrong(callback.plugin, f"{callback.point}: the key must take one parameter, what is sorted", at)
        if not isinstance(scope, Scope):
            wanted = ", ".join(f"Scope.{s.name}" for s in Scope)
            text = f"{callback.point}: scope must be one of {wanted}, got {shown(scope)}"
            self._wrong(callback.plugin, text, at)
        declared = {name: getattr(callback, name) for name in (*_FUNCTIONS, *_SWITCHES)}
        wrong = [(n, "a function") for n in _FUNCTIONS if declared[n] is not None and not callable(declared[n])]
        wrong += [(n, "True or False") for n in _SWITCHES if not isinstance(declared[n], bool)]
        for name, rule in wrong:
            text = f"{callback.point}: {name} must be {rule}, got {shown(declared[name])}"
            self._wrong(callback.plugin, text, at)
        theirs = not (getattr(callback.fn, "__module__", "") or "").startswith("pumice.")
        if theirs and callback.point in _SCORES and scope is Scope.SESSION and not hasattr(callback.fn, SCOPE_MARK):
            self.tried.warnings.append(f"{at}: plugin {callback.plugin!r}: {callback.point}: {_SLOW}")
        for name, (form, count) in _FORMS.items():
            if callable(fn := declared[name]) and not takes(fn, count):
                self._wrong(callback.plugin, f"{callback.point}: {name} must take {form}", where(fn))
        for name, part in callback.parts():
            self._runs(callback.plugin, f"{callback.point}: {name}", part, yields=name == "fn")


def _wrong_call(exc: BaseException) -> str:
    """A wrong call of a session's method by a plugin, on any cluster; else nothing."""
    called = re.match(r"(\w+)\.(\w+)\(\) ", words_of(exc)) if isinstance(exc, TypeError) else None
    if called is None or called[1] not in {cls.__name__ for cls in (*Session.__mro__, Callback)}:
        return ""
    method = getattr(Session, called[2], None) if called[1] != Callback.__name__ else None
    told = words_of(exc).partition(".")[2] if method is not None else words_of(exc).partition(") ")[2]
    takes_all = list(inspect.signature(method).parameters)[1:] if method is not None else []
    return told + (f"; it takes ({', '.join(takes_all)})" if takes_all else "")


_SILENT: Final = logging.getLogger("pumice.trial")
_SILENT.addFilter(lambda record: False)  # not "disabled", which a server that sets up its logging takes back


def try_plugins(tiers: Sequence[Sequence[PluginEntry]], actions: Sequence[str], compat: Compat) -> TrialResult:
    """Open every plugin once on a made-up cluster; what is wrong with them. Costs less than a cycle of its own."""
    trial = Trial(made_up(), tiers, actions, compat)
    trial.open()
    trial.look()
    tried = trial.tried
    trial.release()
    return tried


def made_up() -> ClusterState:
    """Two nodes, one of them with GPUs, a queue, and a job whose two tasks wait."""
    state = ClusterState()
    state.now = 1.0
    for obj in _objects():
        state.apply(Seen(obj))
    return state


@cache
def _objects() -> Sequence[AnyObject]:
    offers: list[dict[str, int | str | float]] = [
        {"cpu": 8, "memory": "32Gi", "pods": 110},
        {"cpu": 64, "memory": "256Gi", "pods": 110, "nvidia.com/gpu": 8},
    ]
    objects: list[AnyObject] = [QueueObject(metadata=Metadata(name="default"), status=QueueStatus(state="Open"))]
    for number, offer in enumerate(offers):
        status = NodeStatus(allocatable=dict(offer), capacity=dict(offer))
        objects.append(NodeObject(metadata=Metadata(name=f"made-up-{number}"), status=status))
    objects.append(
        PodGroup(metadata=Metadata(name="job", namespace="made-up"), spec=PodGroupSpec(min_member=2, queue="default"))
    )
    asked = ResourceRequirements(requests={"cpu": 1, "memory": "1Gi"})
    for number in range(2):
        meta = Metadata(name=f"job-{number}", namespace="made-up", annotations={GROUP_ANNOTATION: "job"})
        spec = PodSpec(containers=(Container(name="main", resources=asked),))
        objects.append(Pod(metadata=meta, spec=spec))
    return objects
