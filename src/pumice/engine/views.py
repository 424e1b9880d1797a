"""What is kept of all nodes for one class of tasks, and the callbacks it is made of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pumice.engine.scope import Scope
from pumice.engine.unschedulable import UnschedulableClasses
from pumice.model.job import Job
from pumice.model.reason import Code, reason_count, reason_of
from pumice.model.task import Task

Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Reasons: TypeAlias = npt.NDArray[np.int32]
Index: TypeAlias = npt.NDArray[np.intp]
Answer: TypeAlias = tuple[Reasons, npt.NDArray[np.int8]]
"""First objection and severity, per row."""


Key = TypeVar("Key", bound=Callable[..., Hashable])


def same_class(_: Task) -> Hashable:
    """The key of built-in callbacks: the class alone decides."""
    return None


def of_job(task: Task) -> Hashable:
    """The key of a callback that declares none: its answers hold for tasks of one job that say the same."""
    return _said_by(task.job) or task.uid, frozenset(task.labels.items()), frozenset(task.annotations.items())


def _said_by(job: Job | None) -> Hashable:
    if job is None:
        return None
    said = frozenset(job.labels.items()), frozenset(job.annotations.items())
    return job.uid, job.queue, job.priority, job.min_available, said


def of_labels(key: Key) -> Key:
    """Marks a key that follows from class, labels and job alone, so that it does not matter what annotations say."""
    key.__dict__["of_labels"] = True
    return key


@dataclass(slots=True)
class Filter:
    """One predicate, scalar or batch. *group* numbers its plugin in asking order."""

    plugin: str
    group: int
    call: Callable[..., Any]
    batch: bool
    scope: Scope
    key: Callable[[Task], Hashable] | None
    merge: Callable[[Reasons, Reasons], Reasons]
    """(objections so far, its own) -> both, as its point's rule says."""
    failed: int
    """The objection that it is taken to have where it fails."""


@dataclass(slots=True)
class Scorer:
    """One score, scalar or batch, raw where it has a *normalize*."""

    plugin: str
    call: Callable[..., Any]
    batch: bool
    scope: Scope
    key: Callable[[Task], Hashable] | None
    normalize: Callable[[Floats, Bools], Floats] | None
    merge: Callable[[Any, Any], Any]
    """(score so far, its own) -> both, as its point's rule says."""
    failed: float
    """The score that it is taken to give where it fails."""


class ReasonSeverity:
    """Per reason number: 0 fits, 1 eviction might help, 2 it would not."""

    def __init__(self) -> None:
        self._levels: npt.NDArray[np.int8] = np.zeros(0, dtype=np.int8)

    def of(self, reasons: Reasons) -> npt.NDArray[np.int8]:
        """The severity of each reason."""
        known = reason_count()
        if known > len(self._levels):
            codes = [reason_of(i).code for i in range(known)]
            self._levels = np.array([_severity(c) for c in codes], dtype=np.int8)
        return self._levels[reasons]


def _severity(code: Code) -> int:
    if code is Code.SUCCESS:
        return 0
    return 1 if code is Code.UNSCHEDULABLE else 2


SEVERITY: Final = ReasonSeverity()
_PINNED: Final = 8192
"""Bytes that a view keeps beside its columns: its own parts, and a task with its job."""


class ClassView:
    """What is known of all nodes for one class of tasks."""

    __slots__ = (
        *("changed_at", "code", "future_at", "future_ok", "groups", "masked", "normalized", "raws"),
        *("score", "session_filters", "session_scorers", "severity", "static_code", "static_score", "task"),
        *("static_severity", "touched_at", "size", "idle_ok", "node_scorers", "static_scorers"),
        *("any_stale", "clear", "flat", "opposed", "scalar_filters", "scalar_scorers"),
        *("reach", "split_by", "stale"),
    )

    task: Task
    groups: list[Group]
    session_filters: list[Filter]
    static_scorers: list[Scorer]
    node_scorers: list[Scorer]
    session_scorers: list[Scorer]
    normalized: list[Scorer]
    static_code: list[Reasons]
    static_severity: list[npt.NDArray[np.int8]]
    static_score: Floats
    clear: list[bool]
    """Per group: do its static filters object to no node at all?"""
    opposed: bool
    """May there be an objection in *code*? Where there is none, *code* and *severity* are zero everywhere."""
    code: Reasons
    severity: npt.NDArray[np.int8]
    score: Floats
    masked: Floats
    idle_ok: Bools
    future_ok: Bools
    stale: Bools
    """Rows whose scores were put off because nothing fits there now."""
    any_stale: bool
    flat: list[bool]
    """Per normalised static score: are its raw values all equal?"""
    scalar_filters: list[Filter]
    scalar_scorers: list[Scorer]

    def __init__(self) -> None:
        self.size = -1
        self.touched_at = self.changed_at = self.future_at = -1
        self.raws: list[Floats | None] = []
        self.flat = []
        self.reach = (16, 32)
        """How many of the best rows a plan for many tasks looks at first, and how many tasks it expects on one."""
        self.split_by = -1
        """Whose callbacks it was last made of: the number of an evaluator."""

    def open_rows(self) -> Bools | None:
        """The rows to which no filter objects whatever is placed there; None: all."""
        if all(self.clear):
            return None
        found = np.ones(self.size, dtype=np.bool_)
        for code in self.static_code:
            found &= code[: self.size] == 0
        return found


@dataclass(slots=True)
class Group:
    """The filters of one plugin for a class: those that never change, and those that follow the ledgers."""

    static: list[Filter]
    node: list[Filter]
    merge: Callable[[Reasons, Reasons], Reasons]


class ViewCache:
    """Views kept across sessions while the configuration stays the same; the least used go first."""

    def __init__(self, max_bytes: int = 256 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self.signature: Hashable = None
        self.views: OrderedDict[Hashable, ClassView] = OrderedDict()
        self.unschedulable = UnschedulableClasses()

    def use(self, signature: Hashable) -> None:
        """Drop everything if what was asked is no longer what will be asked."""
        if signature != self.signature:
            self.views.clear()
            self.unschedulable.clear()
            self.signature = signature

    def trim(self, size: int) -> None:
        """Keep the cache within its memory."""
        most = max(32, self._max_bytes // (52 * size + _PINNED))
        while len(self.views) > most:
            self.views.popitem(last=False)
