"""The one way into a plugin. Whatever it handed over is called here, and its failure stays its own.

A failure is attributed to plugin, point, task, node and the author's line, told once for each (plugin, point, kind of
error, line) and counted; the point's failure policy says what the plugin is taken to have answered. `SystemExit` and
whatever else can be raised is a failure like any other; `KeyboardInterrupt` is not. `Unfit` is a no at points that can
say no.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from pumice.errors import PluginError, PluginLoadError, PumiceError, words_of
from pumice.framework.arguments import Arguments
from pumice.framework.metrics import Metrics
from pumice.framework.names import unknown
from pumice.framework.points.callback import code_of, where
from pumice.framework.points.events import Event
from pumice.framework.points.health import QUARANTINE_AFTER, Health
from pumice.model.codes import ReasonCode
from pumice.model.intents import Intent, Note
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.resources import Resources
from pumice.model.sealed import Sealed
from pumice.model.task import Task

log = logging.getLogger("pumice.framework")

FAILS: Final = BaseException
"""What a plugin may raise without ending anything but its own answer; but see `let_pass`."""
_TOOLS: Final = ("_pytest", "hypothesis")
"""Who ends a test by raising."""
OURS: Final = (Sealed, Resources, Event, Arguments)
"""What plugins are given, apart from the session: a name that one of these lacks is lacking whatever the cluster."""
_MOST_ERRORS: Final = 1000
"""So many failures of a cycle are listed; the rest is only counted."""
Call = Callable[..., Any]


def let_pass(exc: BaseException) -> None:
    """Raise again what no plugin is to be blamed for: somebody wants us to end, or a test to."""
    if isinstance(exc, KeyboardInterrupt):
        raise exc
    if not isinstance(exc, Exception) and any(c.__module__.startswith(_TOOLS) for c in type(exc).__mro__):
        raise exc


class Failures:
    """What went wrong in plugins in one session."""

    def __init__(self, health: dict[str, Health], told: set[tuple[str, ...]], metrics: Metrics) -> None:
        """*health* of plugins by name, and the failures that were *told*, both kept from session to session."""
        self._health, self._told, self._metrics = health, told, metrics
        self.errors: list[PluginError] = []
        self.failed: set[str] = set()
        self.blames_job: Callable[[BaseException], bool] = lambda exc: False
        """Report whether a job is to blame for a failure within our own code; the cycle sets that job aside then."""

    def contain(
        self,
        plugin: str,
        point: str,
        exc: BaseException,
        task: Task | None = None,
        node: Node | None = None,
        fn: Call | None = None,
    ) -> None:
        """A plugin failed: attribute it, log it once with its traceback, count it, go on."""
        let_pass(exc)
        if not isinstance(exc, PumiceError) and _is_ours(fn) and self.blames_job(exc):
            raise exc
        about = "".join(
            (f" for task {task.key}" if task is not None else "", f" on node {node.name}" if node is not None else "")
        )
        at, said = author_line(exc, fn), words_of(exc)
        if isinstance(exc, PluginLoadError):
            at, said = exc.at or at, exc.text
        elif isinstance(exc, AttributeError):
            said += unknown(exc, OURS)
        error = PluginError(plugin, point, f"{type(exc).__name__}: {said}{about}", at)
        health = self._health.setdefault(plugin, Health())
        health.failures += 1
        health.last = f"{point}: {said}"
        kind = (plugin, point, type(exc).__name__, at)
        if kind not in self._told:
            self._told.add(kind)
            log.error("%s", error, exc_info=exc if isinstance(exc, Exception) else None)
        self.failed.add(plugin)
        self._metrics.counter("pumice_plugin_failures_total", plugin=plugin, point=point)
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(error)

    def judge(self) -> list[Intent]:
        """Count failing cycles; a plugin that fails again and again is left out. What to tell people of it."""
        notes: list[Intent] = []
        for name, health in self._health.items():
            if name not in self.failed:
                health.failing_cycles = 0
                continue
            health.failing_cycles += 1
            if health.failing_cycles >= QUARANTINE_AFTER and not health.quarantined:
                health.quarantined = True
                text = f"failed in {QUARANTINE_AFTER} cycles: {health.last}"
                notes.append(Note("Plugin", name, "Warning", ReasonCode.QUARANTINED, text))
                log.error("plugin %r is quarantined: %s", name, health.last)
        return notes


def _is_ours(fn: Call | None) -> bool:
    """Report whether a callback comes with Pumice."""
    return (getattr(fn, "__module__", "") or "").startswith("pumice.")


def author_line(exc: BaseException, fn: Call | None) -> str:
    """File and line of the author's code that failed: the innermost in the function's own file, else its first line."""
    own = getattr(code_of(fn), "co_filename", None)
    trace: TracebackType | None = exc.__traceback__
    found = last = ""
    while trace is not None:
        last = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        if trace.tb_frame.f_code.co_filename == own:
            found = last
        trace = trace.tb_next
    return found or (where(fn) if fn is not None else last)


def about(args: tuple[Any, ...]) -> tuple[Task | None, Node | None]:
    """The task and the node among the arguments of a question."""
    task = next((a for a in args if isinstance(a, Task)), None)
    node = next((a for a in args if isinstance(a, Node)), None)
    return task, node


def guarded(
    failures: Failures,
    plugin: str,
    point: str,
    fn: Call,
    read: Callable[[str, Any], Any],
    failed: Callable[[str], Any],
    refuses: Callable[[str, Unfit], Any] | None = None,
    parameters: int = 0,
) -> Call:
    """A callback that never raises and always answers in its form. Unrolled for one and two parameters."""

    def fell(exc: BaseException, *args: Any) -> Any:
        if refuses is not None and isinstance(exc, Unfit):
            return refuses(plugin, exc)
        failures.contain(plugin, point, exc, *about(args), fn=fn)
        return failed(plugin)

    if parameters == 1:

        def one(a: Any) -> Any:
            try:
                return read(plugin, fn(a))
            except FAILS as exc:
                return fell(exc, a)

        return one
    if parameters == 2:

        def two(a: Any, b: Any) -> Any:
            try:
                return read(plugin, fn(a, b))
            except FAILS as exc:
                return fell(exc, a, b)

        return two

    def call(*args: Any) -> Any:
        try:
            return read(plugin, fn(*args))
        except FAILS as exc:
            return fell(exc, *args)

    return call
