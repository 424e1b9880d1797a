"""Neighbours: counts of pods per topology domain, for inter-pod affinity and topology spread.

`Neighbours` follows the node table by its log of touched rows, so it costs nothing until somebody asks, and then only
the rows that changed. Pods of equal namespace, labels and affinity terms are one `AlikePods`; a selector is matched
once per kind, never per pod. `DomainCounts` are of pods per value of one node label, either of the pods that a selector
matches or of those that carry an affinity term themselves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.engine import matching
from pumice.engine.affinity.terms import NO_TERMS, Selector, Spread, Term, TermKind, Terms, spreads_of, terms_of
from pumice.engine.rows import NodeRows
from pumice.model.api import NamespaceObject
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState
    from pumice.state.table import NodeTable

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
RowMask: TypeAlias = Callable[[], Bools]


@dataclass(slots=True, eq=False)
class AlikePods:
    """Pods that every selector treats alike. *rows* says how many of them are on each row."""

    namespace: str
    labels: Mapping[str, str]
    leaving: bool
    terms: Terms
    rows: dict[int, int] = field(default_factory=dict)
    tallies: list[DomainCounts] = field(default_factory=list)
    selected: dict[bytes, bool] = field(default_factory=dict)
    """Key of a selector of several parts -> whether it matches."""
    facing: tuple[int, tuple[Term, ...]] = (-1, ())
    """(number of terms known then, the terms that select this kind)"""


class DomainCounts:
    """How many pods there are per value of a node label: ``tally.counts[code]``, with *total* over all values.

    Rows outside *mask* are not counted. Nodes without the label have code 0 and are not counted either.
    """

    __slots__ = ("_changed_at", "_domains", "_kinds", "_make_mask", "_table", "counts", "key", "mask", "total")

    def __init__(self, table: NodeTable, key: str, mask: RowMask | None = None) -> None:
        self._table, self.key, self._make_mask = table, key, mask
        self._kinds: list[AlikePods] = []
        self._changed_at = -1
        self._domains: Ints | None = None
        self.mask: Bools | None = None
        self.counts: Ints = np.zeros(0, dtype=np.int64)
        self.total = 0

    @property
    def domains(self) -> Ints:
        """The codes of the values that nodes within the mask have."""
        if self._domains is None:
            codes = self.codes[: self._table.size]
            found = np.unique(codes if self.mask is None else codes[self.mask])
            self._domains = found[found > 0].astype(np.int64)
        return self._domains

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """Per row of the table the code of its value."""
        return self._table.label(self.key)[0]

    def join(self, kind: AlikePods) -> None:
        """Count a kind from now on."""
        self._kinds.append(kind)
        kind.tallies.append(self)
        if self._changed_at == self._table.changed.position:
            for row, n in kind.rows.items():
                self.add(row, n)

    def within(self, rows: Iterable[int]) -> DomainCounts:
        """The same pods, counted on some rows alone."""
        mask = np.zeros(self._table.size, dtype=np.bool_)
        mask[list(rows)] = True
        part = DomainCounts(self._table, self.key, lambda: mask)
        part._kinds = self._kinds
        return part.current()

    def leave(self) -> None:
        """Count nobody any more."""
        for kind in self._kinds:
            kind.tallies.remove(self)

    def add(self, row: int, n: int) -> None:
        """So many more pods on a row."""
        if self._changed_at != self._table.changed.position:
            return
        code = self.codes[row]
        if code and (self.mask is None or self.mask[row]):
            if code >= len(self.counts):
                self.counts = np.concatenate((self.counts, np.zeros(int(code) + 64, dtype=np.int64)))
            self.counts[code] += n
            self.total += n

    def current(self) -> DomainCounts:
        """Itself, counted anew if nodes changed since."""
        position = self._table.changed.position
        if self._changed_at != position:
            values = self._table.label(self.key)[1]
            self.mask = None if self._make_mask is None else self._make_mask()
            self.counts = np.zeros(len(values) + 1, dtype=np.int64)
            self.total = 0
            self._domains = None
            self._changed_at = position
            for kind in self._kinds:
                for row, n in kind.rows.items():
                    self.add(row, n)
        elif len(self.counts) <= len(self._table.label(self.key)[1]):
            more = len(self._table.label(self.key)[1]) + 1 - len(self.counts)
            self.counts = np.concatenate((self.counts, np.zeros(more, dtype=np.int64)))
        return self


_RELEASING: Final = TaskStatus.RELEASING
_KEEP: Final = 4096
"""So many kinds that nothing lives on any more, or tallies, are kept."""
_SELECTORS: Final = 64
"""A kind remembers for this many selectors whether they match it."""


@dataclass(slots=True)
class Opening:
    """Volcano's memory of the opening of the session: rows with pods that have required anti-affinity, and rows with
    pods that have any affinity. *counts_evicted*: who is evicted counts until `Neighbours.settle`."""

    hostile: set[int]
    sociable: set[int]
    counts_evicted: bool


class Neighbours:
    """All pods on nodes by kind, and every tally that somebody asked for. Ask `sync` before reading."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.table = state.table
        self._opening: Opening | None = None
        self._frozen = False
        self._stuck: set[int] = set()
        self._reset()

    @classmethod
    def kept(cls, store: dict[str, Any], state: ClusterState) -> Neighbours:
        """The one of a state that *store* keeps, made when first asked for."""
        found = store.get("neighbours")
        if not isinstance(found, cls) or found.table is not state.table:
            found = store["neighbours"] = cls(state)
        return found

    def _reset(self) -> None:
        self._position = -1
        self._kinds: dict[object, AlikePods] = {}
        self._rows: dict[int, dict[Task, AlikePods]] = {}
        self._kinds_by_label: dict[tuple[str, str], list[AlikePods]] = {}
        self._tallies: OrderedDict[object, tuple[Selector, DomainCounts]] = OrderedDict()
        self._tallies_by_label: dict[tuple[str, str] | None, dict[object, tuple[Selector, DomainCounts]]] = {}
        self._terms: dict[object, tuple[Term, DomainCounts]] = {}
        self._terms_by_label: dict[tuple[str, str], list[Term]] = {}
        self._terms_of_any: list[Term] = []
        self._namespaces_at = self._state.versions.get("Namespace", 0)

    # -- following the table --------------------------------------------------------------------------------------
    def live(self) -> Neighbours:
        """Itself, seeing everything at once (as it does unless `as_at_opening` was asked for)."""
        if self._opening is not None:
            self._opening = None
            self.settle()
        return self

    def as_at_opening(self, *, counts_evicted: bool) -> Neighbours:
        """Volcano's view in this session: terms of others matter only on nodes that had such pods when the session
        opened, and evictions are not seen until the next `settle`."""
        self.live().sync()
        hostile: set[int] = set()
        sociable: set[int] = set()
        for kind in self._kinds.values():
            if kind.terms.all:
                sociable.update(kind.rows)
            if kind.terms.anti_affinity:
                hostile.update(kind.rows)
        self._opening = Opening(hostile, sociable, counts_evicted)
        return self

    @classmethod
    def frozen(cls, state: ClusterState) -> Neighbours:
        """A new one that never sees what changes after this moment."""
        fresh = cls(state)
        fresh.sync()
        fresh._frozen = True
        return fresh

    def settle(self) -> None:
        """Stop counting those who were evicted."""
        stuck, self._stuck = self._stuck, set()
        for row in sorted(stuck):
            self._sync_row(row, settle=True)

    def sync(self) -> None:
        """Take in what changed on the nodes since the last time."""
        if self._frozen:
            return
        table = self.table
        position = table.touched.position
        if self._namespaces_at != self._state.versions.get("Namespace", 0) or self._crowded():
            self._reset()
        if position == self._position:
            return
        touched = table.touched.since(self._position) if self._position >= 0 else None
        self._position = position
        for row in range(table.size) if touched is None else touched:
            self._sync_row(row)

    def _crowded(self) -> bool:
        return len(self._kinds) > _KEEP + 2 * len(self._state.tasks)

    def _sync_row(self, row: int, settle: bool = False) -> None:
        keeps = self._opening is not None and self._opening.counts_evicted and not settle
        node = self.table.nodes[row]
        before = self._rows.get(row)
        if before is None:
            if node is None or not node.tasks:
                return
            before = {}
        after: dict[Task, AlikePods] = {}
        if node is not None:
            for task in node.tasks.values():
                kind = before.get(task)
                if task.evicted:
                    if keeps and kind is not None:
                        self._stuck.add(row)
                        after[task] = kind
                    continue
                if kind is None or kind.leaving is not (task.status is _RELEASING):
                    kind = self.kind_of(task)
                    self._move(kind, row, 1)
                after[task] = kind
        for task, kind in before.items():
            if after.get(task) is not kind:
                self._move(kind, row, -1)
        if after:
            self._rows[row] = after
        else:
            self._rows.pop(row, None)

    @staticmethod
    def _move(kind: AlikePods, row: int, n: int) -> None:
        left = kind.rows.get(row, 0) + n
        if left:
            kind.rows[row] = left
        else:
            del kind.rows[row]
        for tally in kind.tallies:
            tally.add(row, n)

    # -- kinds and terms -------------------------------------------------------------------------------------------
    def kind_of(self, task: Task) -> AlikePods:
        """The kind of a task, made when first seen."""
        klass = task.klass
        terms = own_terms(task)
        leaving = task.status is _RELEASING
        key = (task.namespace, frozenset(task.labels.items()), leaving, klass.id if terms is not NO_TERMS else 0)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = AlikePods(task.namespace, task.labels, leaving, terms)
            for pair in kind.labels.items():
                self._kinds_by_label.setdefault(pair, []).append(kind)
            for needed in (None, *kind.labels.items()):
                for selector, tally in self._tallies_by_label.get(needed, {}).values():
                    if self._selects(selector, kind):
                        tally.join(kind)
            for term in terms.all:
                self._carry(term).join(kind)
        return kind

    def _carry(self, term: Term) -> DomainCounts:
        """The tally of pods that carry a term."""
        known = self._terms.get(term.key)
        if known is None:
            known = self._terms[term.key] = (term, DomainCounts(self.table, term.topology_key))
            pair = term.selector.needs
            if pair is None:
                self._terms_of_any.append(term)
            else:
                self._terms_by_label.setdefault(pair, []).append(term)
        return known[1]

    def carriers(self, term: Term) -> DomainCounts:
        """Pods that carry a term, counted by its topology key."""
        tally = self._terms[term.key][1]
        if self._opening is None:
            return tally.current()
        return tally.within(self._opening.hostile if term.kind is TermKind.ANTI_AFFINITY else self._opening.sociable)

    def all_carriers(self, term: Term) -> DomainCounts:
        """As `carriers`, wherever they are."""
        return self._terms[term.key][1].current()

    def facing(self, kind: AlikePods) -> tuple[Term, ...]:
        """The terms of pods, its own included, that select this kind."""
        known = len(self._terms)
        if kind.facing[0] != known:
            candidates = list(self._terms_of_any)
            for pair in kind.labels.items():
                candidates += self._terms_by_label.get(pair, ())
            kind.facing = (known, tuple(t for t in candidates if self._selects(t.selector, kind)))
        return kind.facing[1]

    # -- counting -------------------------------------------------------------------------------------------------
    def tally(self, selector: Selector, key: str, mask: RowMask | None = None, mask_key: object = None) -> DomainCounts:
        """Pods that a selector matches, counted by a node label, on the rows of *mask* alone if there is one."""
        name = (selector.key, key, mask_key)
        known = self._tallies.get(name)
        if known is None:
            known = self._tallies[name] = (selector, DomainCounts(self.table, key, mask))
            self._tallies_by_label.setdefault(selector.needs, {})[name] = known
            near = self._kinds.values() if selector.needs is None else self._kinds_by_label.get(selector.needs, ())
            for kind in near:
                if self._selects(selector, kind):
                    known[1].join(kind)
            if len(self._tallies) > _KEEP:
                self._forget_oldest()
        else:
            self._tallies.move_to_end(name)
        return known[1].current()

    def _forget_oldest(self) -> None:
        """Drop the tally that was not asked for the longest."""
        name, (selector, tally) = self._tallies.popitem(last=False)
        del self._tallies_by_label[selector.needs][name]
        tally.leave()

    def matches(self, selectors: Iterable[Selector], kind: AlikePods) -> bool:
        """Report whether all selectors match the kind."""
        return all(self._selects(s, kind) for s in selectors)

    def _selects(self, selector: Selector, kind: AlikePods) -> bool:
        if kind.leaving and not selector.leaving_too:
            return False
        if len(selector.parts) == 1:
            return selector.matches(kind.namespace, kind.labels, self._namespace_labels)
        known = kind.selected.get(selector.key)
        if known is None:  # a pod's terms of required affinity count the same pods, each by its own label of nodes
            if len(kind.selected) >= _SELECTORS:
                kind.selected.clear()
            known = selector.matches(kind.namespace, kind.labels, self._namespace_labels)
            kind.selected[selector.key] = known
        return known

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        found = self._state.kind("Namespace").get(name)
        return (found.metadata.labels or {}) if isinstance(found, NamespaceObject) else {}


def own_terms(task: Task) -> Terms:
    """The affinity terms of a task, read once per class."""
    memo = task.klass.memo
    terms: Terms | None = memo.get("engine.terms")
    if terms is None:
        terms = memo["engine.terms"] = terms_of(task.klass)
    return terms


def spreads(task: Task, when: str) -> tuple[Spread, ...]:
    """The constraints of a task with one *whenUnsatisfiable*, read once per class (and per labels they look at)."""
    klass = task.klass
    labels = task.labels
    memo: dict[object, tuple[Spread, ...]] = klass.memo.setdefault(("engine.spreads", when), {})
    keys: list[str] | None = klass.memo.get("engine.spread_keys")
    if keys is None:
        constraints = klass.spec.topology_spread_constraints or ()
        keys = klass.memo["engine.spread_keys"] = sorted({k for c in constraints for k in c.match_label_keys or ()})
    name = tuple(labels.get(k) for k in keys)
    found = memo.get(name)
    if found is None:
        found = memo[name] = spreads_of(klass, labels, when)
    return found


class SpreadTallies:
    """The matching pods by domain, for constraints that a task has together."""

    def __init__(self, index: Neighbours, klass: TaskClass, together: Sequence[Spread]) -> None:
        self._index, self._klass = index, klass
        self._labelled = _Labelled(index.table, sorted({s.topology_key for s in together}))

    def of(self, spread: Spread) -> DomainCounts:
        """The domains of one of them, on the nodes that take part. These have the labels of all constraints and, as the
        constraint says, match the node affinity of the class and have no untolerated taint."""
        klass, table, labelled = self._klass, self._index.table, self._labelled
        by_affinity = spread.affinity_matters and matching.has_node_selection(klass)
        name = (
            labelled.name,
            by_affinity,
            spread.taints_matter,
            klass.id if by_affinity or spread.taints_matter else 0,
        )

        def taking_part() -> Bools:
            mask = labelled.rows().copy()
            rows = NodeRows(table, np.flatnonzero(mask))
            if by_affinity:
                mask[rows.index] &= matching.selected(klass, rows)
            if spread.taints_matter:
                mask[rows.index] &= matching.taints_tolerated(klass, rows)
            return mask

        return self._index.tally(spread.selector, spread.topology_key, taking_part, name)


class _Labelled:
    """The rows that have all of some labels: looked up once for all constraints of a task, until nodes change."""

    def __init__(self, table: NodeTable, keys: Sequence[str]) -> None:
        self._table, self._keys = table, keys
        self.name = "\0".join(keys)
        self._known: tuple[int, Bools] | None = None

    def rows(self) -> Bools:
        """As a mask; not to be written."""
        table = self._table
        if self._known is None or self._known[0] != table.changed.position:
            mask = table.valid[: table.size].copy()
            for key in self._keys:
                mask &= table.label(key)[0][: table.size] > 0
            self._known = table.changed.position, mask
        return self._known[1]
