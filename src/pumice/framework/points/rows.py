"""Filters and scores about many nodes: asked by the engine, through the guard, by their points' declarations."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP, Scope
from pumice.engine.views import Bools, Filter, Floats, Reasons, Scorer, of_job, same_class
from pumice.errors import shown
from pumice.framework.points.callback import Callback
from pumice.framework.points.guard import FAILS, Failures
from pumice.framework.points.point import Point
from pumice.framework.points.rules import OnFailure
from pumice.framework.points.table import BATCH_NODE_ORDER, BATCH_PREDICATE, NODE_ORDER, PREDICATE
from pumice.model.node import Node
from pumice.model.reason import Code, Unfit, reason_count, reason_id
from pumice.model.task import Task

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
        self._contain = failures.contain

    # -- answers ----------------------------------------------------------------------------------------------------
    def objections(self, f: Filter, task: Task, rows: NodeRows, nodes: Sequence[Node]) -> Reasons:
        """A reason number per row, 0 where the filter has no objection."""
        found = self.objections_or_none(f, task, rows, nodes)
        return np.zeros(len(rows), dtype=np.int32) if found is None else found

    def objections_or_none(self, f: Filter, task: Task, rows: NodeRows, nodes: Sequence[Node]) -> Reasons | None:
        """The same; None where it has no objection to any row."""
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
        """What a filter that is asked about single nodes has against one: the number of a reason, or 0."""
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
        """What a scorer that is asked about single nodes says of one; minus infinity drops the node."""
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
