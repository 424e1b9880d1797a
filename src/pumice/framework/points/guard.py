"""The one way into a plugin. Whatever it handed over is called here, and its failure stays its own.

A failure is attributed to plugin, point, task, node and the author's line, reported once for each (plugin, point, kind
of error, line) and counted. The point's failure policy defines the assumed answer. `SystemExit` and whatever else can
be raised is a failure like any other; `KeyboardInterrupt` is not. `Unfit` is a no at points that can say no.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import total_ordering
from types import TracebackType
from typing import Any, Final, TypeVar

import numpy as np

from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP, Scope
from pumice.engine.views import Bools, Filter, Floats, Reasons, Scorer, of_job, same_class
from pumice.errors import OutOfTime, PluginError, PluginLoadError, PumiceError, shown, words_of
from pumice.framework.arguments import Arguments
from pumice.framework.metrics import Metrics
from pumice.framework.names import unknown
from pumice.framework.points.callback import Callback, Event, code_of, where
from pumice.framework.points.point import Point
from pumice.framework.points.rules import OnFailure
from pumice.framework.points.table import BATCH_NODE_ORDER, BATCH_PREDICATE, NODE_ORDER, PREDICATE
from pumice.model.codes import ReasonCode
from pumice.model.intents import Intent, Note
from pumice.model.node import Node
from pumice.model.reason import Code, Unfit, reason_count, reason_id
from pumice.model.resources import Resources
from pumice.model.sealed import Sealed
from pumice.model.task import Task

QUARANTINE_AFTER = 5
"""A plugin that failed in so many cycles in a row is left out until the configuration is loaded again."""


@dataclass(slots=True)
class Health:
    """How a plugin has been doing."""

    failures: int = 0
    failing_cycles: int = 0
    quarantined: bool = False
    last: str = ""


log = logging.getLogger("pumice.framework")

FAILS: Final = BaseException
"""Exceptions of a plugin that end nothing but its own answer; but see `let_pass`."""
_TOOLS: Final = ("_pytest", "hypothesis")
"""Exceptions that end a test."""
OURS: Final = (Sealed, Resources, Event, Arguments)
"""The objects that plugins get, apart from the session: a missing attribute is a mistake on any cluster."""
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
    """The failures of plugins in one session."""

    def __init__(self, health: dict[str, Health], told: set[tuple[str, ...]], metrics: Metrics) -> None:
        """*health* of plugins by name, and the failures that were *told*, both kept from session to session."""
        self._health, self._told, self._metrics = health, told, metrics
        self.errors: list[PluginError] = []
        self.failed: set[str] = set()
        self.blames_job: Callable[[BaseException], bool] = lambda exc: False
        """Report whether a job is to blame for a failure within our own code; the cycle sets that job aside then."""
        self.until = 0.0
        """When a dry cycle is given up, on the monotonic clock; 0: never. Each question about rows looks at it."""

    def look_at_time(self) -> None:
        """Return if there is time left.

        :raises OutOfTime: there is none.
        """
        if self.until and time.monotonic() > self.until:
            raise OutOfTime("the scheduler has no more time for this question; ask about fewer or simpler pods")

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
        """Count failing cycles; a plugin that fails again and again is left out. Returns the texts for people."""
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


_NUMBER, _BYTES, _TEXT, _TUPLE, _LAST = range(5)


_ALWAYS: Final = frozenset({int, float, str, bytes, bool})
"""Kinds whose values can be compared with each other, NaN aside."""


@total_ordering
class Ranked:
    """A key that can be compared with any other."""

    __slots__ = ("rank", "value")

    def __init__(self, rank: int, value: Any) -> None:
        self.rank, self.value = rank, value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranked) and (self.rank, self.value) == (other.rank, other.value)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Ranked):
            return False
        return (self.rank, self.value) < (other.rank, other.value)

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, Ranked) or (self.rank, self.value) > (other.rank, other.value)

    __hash__ = None  # type: ignore[assignment]


LAST: Final = Ranked(_LAST, 0)
"""Comes after every other key."""


def ranked(value: Any) -> Ranked:
    """A key with its kind before it."""
    if isinstance(value, Ranked):
        return value
    if isinstance(value, (int, float)):
        return Ranked(_NUMBER, value)
    if isinstance(value, bytes):
        return Ranked(_BYTES, value)
    if isinstance(value, str):
        return Ranked(_TEXT, value)
    if isinstance(value, (tuple, list)):
        return Ranked(_TUPLE, tuple([ranked(part) for part in value]))
    return LAST


def guarded_key(failures: Failures, plugin: str, point: str, fn: Call, kinds: dict[str, int] | None) -> Call:
    """A sort key that never raises; with *kinds* its answers are `Ranked`, and more than one kind is a failure."""

    def key(thing: Any) -> Any:
        try:
            value = fn(thing)
            if value.__class__ not in _ALWAYS or value != value:
                check(value)
        except FAILS as exc:
            failures.contain(plugin, point, exc, *about((thing,)), fn=fn)
            return LAST
        return value if kinds is None else of_kind(thing, value, kinds)

    def of_kind(thing: Any, value: Any, kinds: dict[str, int]) -> Ranked:
        made = ranked(value)
        if made is LAST or kinds.setdefault(plugin, made.rank) != made.rank:
            odd = TypeError(f"sort keys of one order must be of one kind that can be compared, got {shown(value)}")
            failures.contain(plugin, point, odd, *about((thing,)), fn=fn)
        return made

    return key


def check(value: Any) -> None:
    """Returns if a value can be compared with its like.

    :raises TypeError: it cannot.
    """
    if isinstance(value, tuple):
        for part in value:
            if part.__class__ not in _ALWAYS or part != part:
                check(part)
    elif (value < value) is not False or value != value:
        raise TypeError(f"a sort key must be comparable, got {shown(value)}")


def joined(keys: list[Call], fallback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One key of several, with what settles ties at the end."""
    if not keys:
        return fallback
    if len(keys) == 1:
        only = keys[0]
        return lambda x: (only(x), fallback(x))
    if len(keys) == 3:  # as in the usual configuration; written out, because it is made for every job
        first, second, third = keys
        return lambda x: (first(x), second(x), third(x), fallback(x))
    return lambda x: (*[k(x) for k in keys], fallback(x))


def compared(key: Call) -> Call:
    """A comparison of two things by their keys."""

    def compare(left: Any, right: Any, *_: Any) -> int:
        a, b = key(left), key(right)
        try:
            return int(a > b) - int(a < b)
        except TypeError:
            a, b = ranked(a), ranked(b)
            return int(a > b) - int(a < b)

    return compare


T = TypeVar("T", bound=np.generic)
_DROPPED: Final = float("-inf")


def filter_of(point: Point[..., Any, Any], c: Callback, group: int) -> Filter:
    """A predicate as the engine asks it."""
    return Filter(
        plugin=c.plugin,
        group=group,
        call=c.fn,
        batch=point is BATCH_PREDICATE,
        scope=c.scope,
        key=_key(c),
        merge=point.rule.merge,
        failed=0 if point.on_failure is OnFailure.ABSTAIN else reason_id(c.plugin, _failed(c.plugin), Code.ERROR),
    )


def scorer_of(point: Point[..., Any, Any], c: Callback) -> Scorer:
    """A score as the engine asks it."""
    return Scorer(
        plugin=c.plugin,
        call=c.fn,
        batch=point is BATCH_NODE_ORDER,
        scope=c.scope,
        key=_key(c),
        normalize=c.normalize,
        merge=point.rule.merge,
        failed=0.0 if point.on_failure is OnFailure.ABSTAIN else _DROPPED,
    )


def _key(c: Callback) -> Callable[[Task], Hashable] | None:
    return of_job if c.key is None and c.scope is not Scope.SESSION else c.key


def _failed(plugin: str) -> str:
    return f"plugin {plugin} failed"


class PluginRows:
    """The engine's way into plugins. A hint that fails is as if it had not been declared."""

    def __init__(self, failures: Failures) -> None:
        self._contain, self._look_at_time = failures.contain, failures.look_at_time

    # -- answers ----------------------------------------------------------------------------------------------------
    def objections(self, f: Filter, task: Task, rows: NodeRows, nodes: Sequence[Node]) -> Reasons:
        """A reason number per row, 0 where the filter has no objection."""
        found = self.objections_or_none(f, task, rows, nodes)
        return np.zeros(len(rows), dtype=np.int32) if found is None else found

    def objections_or_none(self, f: Filter, task: Task, rows: NodeRows, nodes: Sequence[Node]) -> Reasons | None:
        """The same; None where it has no objection to any row."""
        self._look_at_time()
        if not f.batch:
            found = self._one_by_one(f, task, nodes)
            return np.array(found, dtype=np.int32) if any(found) else None
        try:
            answer = f.call(task, rows)
            return None if answer is None else _reasons(f, answer, (len(rows),))
        except Unfit as no:
            return np.full(len(rows), reason_id(f.plugin, no.text, no.code), dtype=np.int32)
        except FAILS as exc:
            self._contain(f.plugin, BATCH_PREDICATE.name, exc, task, fn=f.call)
            return np.full(len(rows), f.failed, dtype=np.int32)

    def objection(self, f: Filter, task: Task, node: Node) -> int:
        """The objection of a filter for single nodes: the number of a reason, or 0."""
        return self._one_by_one(f, task, (node,))[0]

    def _one_by_one(self, f: Filter, task: Task, nodes: Sequence[Node]) -> list[int]:
        call, found = f.call, [0] * len(nodes)
        for n, node in enumerate(nodes):
            try:
                answer = call(task, node)
                if answer is not None:
                    raise TypeError(f"a predicate returns None or raises Unfit, got {shown(answer)}")
            except Unfit as no:
                found[n] = reason_id(f.plugin, no.text, no.code)
            except FAILS as exc:
                self._contain(f.plugin, PREDICATE.name, exc, task, node, call)
                found[n] = f.failed
        return found

    def scores(self, s: Scorer, task: Task, rows: NodeRows, nodes: Sequence[Node]) -> Floats:
        """A score per row, not looked at yet for NaN (`finite`).

        :raises Unfit: a batch score of scope SESSION refuses to let the task be placed at all. A score that is kept for
            other tasks too cannot refuse one of them.
        """
        self._look_at_time()
        if not s.batch:
            return np.array(self._scores_of(s, task, nodes), dtype=np.float64)
        try:
            return _floats(s.call(task, rows), (len(rows),))
        except FAILS as exc:
            if isinstance(exc, Unfit) and s.scope is Scope.SESSION:
                raise
            self._contain(s.plugin, BATCH_NODE_ORDER.name, exc, task, fn=s.call)
            return np.full(len(rows), s.failed)

    def score(self, s: Scorer, task: Task, node: Node) -> float:
        """The score of a scorer for single nodes; minus infinity drops the node."""
        return self._scores_of(s, task, (node,))[0]

    def _scores_of(self, s: Scorer, task: Task, nodes: Sequence[Node]) -> list[float]:
        call, found = s.call, [s.failed] * len(nodes)
        for n, node in enumerate(nodes):
            try:
                value = call(task, node)
                if value.__class__ is not float:
                    if not isinstance(value, (int, float, np.number)):
                        raise TypeError(f"a score is a number, got {shown(value)}")
                    value = float(value)
                if not value < math.inf:  # NaN is not either
                    raise ValueError(f"a score must be a finite number, got {value}")
                found[n] = value
            except FAILS as exc:
                self._contain(s.plugin, NODE_ORDER.name, exc, task, node, call)
        return found

    def finite(self, s: Scorer, task: Task, array: Floats) -> Floats:
        """The scores with what is no number taken for a failure, which is told; minus infinity drops the node."""
        bad = np.isnan(array) | (array == np.inf)
        if not bad.any():
            return array
        exc = ValueError(f"a score must be a finite number, got {array[bad][0]}")
        self._contain(s.plugin, BATCH_NODE_ORDER.name, exc, task, fn=s.call)  # single nodes' are looked at one by one
        return np.where(bad, s.failed, array)

    def normalized(self, s: Scorer, task: Task, raw: Floats, mask: Bools) -> Floats:
        """Raw scores scaled over the candidates; as if it had no opinion where that fails."""
        if s.normalize is None:
            return raw
        try:
            scaled = np.asarray(s.normalize(raw.copy(), mask), dtype=np.float64)
            if scaled.shape != raw.shape or not np.isfinite(scaled).all():
                raise ValueError(f"normalize returns a finite number per candidate ({len(raw)}), got {shown(scaled)}")
        except FAILS as exc:
            self._contain(s.plugin, f"{BATCH_NODE_ORDER.name}.normalize", exc, task, fn=s.normalize)
            return np.full(len(raw), s.failed)
        return scaled

    # -- hints ------------------------------------------------------------------------------------------------------
    def applies(self, c: Filter | Scorer, task: Task) -> bool:
        """Report whether the callback has anything to say about the task: its key is not `SKIP`."""
        return c.key is None or c.key in (same_class, of_job) or self.key(c, task) is not SKIP

    def key(self, c: Filter | Scorer, task: Task) -> Hashable:
        """Tasks of equal keys get equal answers; a key that fails is the job's own."""
        fn = c.key
        if fn is None:
            return None
        try:
            value = fn(task)
            hash(value)
            if isinstance(value, float) and math.isnan(value):
                raise ValueError("a key must equal itself, got NaN")
        except FAILS as exc:
            self._contain(c.plugin, f"{_point_of(c)}.key", exc, task, fn=fn)
            return ("failed", task.uid)
        return value


def _point_of(c: Filter | Scorer) -> str:
    if isinstance(c, Filter):
        return (BATCH_PREDICATE if c.batch else PREDICATE).name
    return (BATCH_NODE_ORDER if c.batch else NODE_ORDER).name


def _floats(answer: Any, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(answer, dtype=np.float64)
    if array.shape != shape:
        raise TypeError(f"a batch score returns one value per {_per(shape)}, got shape {array.shape}")
    return array


def _reasons(f: Filter, answer: Any, shape: tuple[int, ...]) -> Reasons | None:
    array = np.asarray(answer)
    if array.shape != shape:
        raise TypeError(f"a batch predicate returns one value per {_per(shape)}, got shape {array.shape}")
    if array.dtype == np.bool_:
        return np.where(array, 0, reason_id(f.plugin, f"rejected by {f.plugin}")).astype(np.int32)
    if array.dtype != np.int32 and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"a batch predicate returns truth values or reason numbers, got {array.dtype}")
    if not np.count_nonzero(array):
        return None
    if array.min() < 0 or array.max() >= reason_count():
        raise ValueError(f"a reason number is one that reason_id gave, got {array.min()} to {array.max()}")
    return array.astype(np.int32, copy=False)


def _per(shape: tuple[int, ...]) -> str:
    return f"node ({shape[0]})" if len(shape) == 1 else f"class and node {shape}"
