"""Topology spread: how many matching pods each domain holds, and which nodes take part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pumice.engine import matching
from pumice.engine.affinity.domain_counts import DomainCounts
from pumice.engine.affinity.neighbours import Neighbours
from pumice.engine.affinity.terms import Spread, spreads_of
from pumice.engine.rows import NodeRows
from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

Bools = npt.NDArray[np.bool_]


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
        """Those of one of them, on the nodes that take part: those that have the labels of all constraints and, as the
        constraint says, match the node affinity of the class and have no taint that it does not tolerate."""
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
