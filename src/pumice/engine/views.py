"""The cached answers about all nodes for one class of tasks: its callbacks, the node cache and its verdicts.

* `Filter`, `Scorer`: a callback about nodes as the engine asks it, through a `RowGuard`.
* `ClassView`: class -> rejection, score and fit of each row; valid but for the rows that changed since.
* `UnschedulableClasses`: class -> the log positions at which it fitted no node, and the rows that were open to it then.
  Valid until a row changes that is open to the class and has room for it, now or after the releases under way. A row is
  open as long as no filter of scope STATIC rejects it; a row whose node object changed since counts as open.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.reason import Code, reason_count, reason_of
from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

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


class RowGuard(Protocol):
    """Calls callbacks about rows. Nothing here raises, but for `scores` where a score refuses the task as a whole."""

    def objections(self, f: Filter, task: Task, rows: NodeRows, nodes: Sequence[Node]) -> Reasons:
        """A reason number per row, 0 where the filter has no objection."""

    def scores(self, s: Scorer, task: Task, rows: NodeRows, nodes: Sequence[Node]) -> Floats:
        """A score per row, not looked at yet for what is no number.

        :raises Unfit: a batch score refuses to let the task be placed at all.
        """

    def objections_or_none(self, f: Filter, task: Task, rows: NodeRows, nodes: Sequence[Node]) -> Reasons | None:
        """The same; None where it has no objection to any row."""

    def objection(self, f: Filter, task: Task, node: Node) -> int:
        """The objection of a filter for single nodes: the number of a reason, or 0."""

    def score(self, s: Scorer, task: Task, node: Node) -> float:
        """The score of a scorer for single nodes; minus infinity drops the node."""

    def finite(self, s: Scorer, task: Task, array: Floats) -> Floats:
        """The scores with what is no number taken for a failure, which is told; minus infinity drops the node."""

    def normalized(self, s: Scorer, task: Task, raw: Floats, mask: Bools) -> Floats:
        """Raw scores scaled over the candidates."""

    def applies(self, c: Filter | Scorer, task: Task) -> bool:
        """Report whether the callback has anything to say about the task: its key is not `SKIP`."""

    def key(self, c: Filter | Scorer, task: Task) -> Hashable:
        """Tasks of equal keys get equal answers."""


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
    """The cached answers about all nodes for one class of tasks."""

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
    """Per group: whether its static filters reject no node at all."""
    opposed: bool
    """Whether *code* may contain an objection. Without a rejection, *code* and *severity* are zero everywhere."""
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
    """Per normalised static score: whether its raw values are all equal."""
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
        """The evaluator whose callbacks it was last made of: its number."""

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
    """The filters of one plugin for a class: static ones, and those that follow the ledgers."""

    static: list[Filter]
    node: list[Filter]
    merge: Callable[[Reasons, Reasons], Reasons]


_FEW_ROWS: Final = 16
"""Up to so many changed rows are looked at one by one; beyond, arrays are faster."""
_MOST_CLASSES: Final = 50_000
"""Beyond so many classes all verdicts are dropped: they take about 300 bytes each."""


@dataclass(slots=True)
class _Verdict:
    asks: tuple[tuple[int, int], ...]
    size: int
    open_rows: bytes | None
    """A bit for each row; None: all are open."""
    noted: int
    """Position of `NodeTable.changed` when every node was looked at."""
    touched: int
    changed: int
    """Positions up to which rows were looked at."""


class UnschedulableClasses:
    """The classes that fit no node."""

    def __init__(self) -> None:
        self._verdicts: dict[Hashable, _Verdict] = {}
        self._masks: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._verdicts)

    def clear(self) -> None:
        """Drop all verdicts."""
        self._verdicts.clear()
        self._masks.clear()

    def add(self, key: Hashable, klass: TaskClass, table: NodeTable, open_rows: Bools | None = None) -> None:
        """The class fits no node as they are now; *open_rows*: those that no static filter rejects, None: all."""
        if len(self._verdicts) >= _MOST_CLASSES:
            self.clear()
        bits = None
        if open_rows is not None:
            bits = np.packbits(open_rows).tobytes()
            bits = self._masks.setdefault(bits, bits)  # many classes have the same open rows
        asks = tuple(zip(klass.fit_dims, klass.fit_values, strict=True))
        at = table.changed.position
        self._verdicts[key] = _Verdict(asks, table.size, bits, at, table.touched.position, at)

    def discard(self, key: Hashable) -> None:
        """The class fits some node."""
        self._verdicts.pop(key, None)

    def contains(self, key: Hashable, table: NodeTable) -> bool:
        """Report whether the class still fits no node."""
        verdict = self._verdicts.get(key)
        if verdict is None:
            return False
        touched, changed = table.touched.position, table.changed.position
        if verdict.touched == touched and verdict.changed == changed:
            return True
        if _may_fit(verdict, table):
            del self._verdicts[key]
            return False
        verdict.touched, verdict.changed = touched, changed
        return True


def _may_fit(verdict: _Verdict, table: NodeTable) -> bool:
    """Report whether a row that changed since the verdict was last looked at may take the class."""
    rows, replaced = table.touched.since(verdict.touched), set[int]()
    if verdict.noted != table.changed.position:
        seen = table.changed.since(verdict.noted)
        if seen is None or len(seen) > max(table.size // 4, 1):
            return True
        replaced = seen
        rows = rows | (table.changed.since(verdict.changed) or set()) if rows is not None else None
    if rows is None or table.size != verdict.size:
        return True
    bits, asks = verdict.open_rows, verdict.asks
    if len(rows) > _FEW_ROWS:
        index = np.fromiter(rows, dtype=np.intp, count=len(rows))
        fits = np.ones(len(index), dtype=np.bool_)
        for d, v in asks:
            free = table.idle[d, index]
            if table.in_flux:
                free = free + table.releasing[d, index] - table.pipelined[d, index]
            fits &= free >= v
        rows = set(index[fits].tolist())
    cells, first, in_flux = table.cells, table.line_of_idle, table.in_flux
    for row in rows:
        for d, v in asks:
            if (table.free_soon(d, row) if in_flux else cells[first + d, row]) < v:
                break
        else:
            if bits is None or row in replaced or bits[row >> 3] >> (7 - (row & 7)) & 1:
                return True
    return False


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
