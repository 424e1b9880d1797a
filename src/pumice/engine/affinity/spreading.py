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


def tally_of(index: Neighbours, klass: TaskClass, spread: Spread, together: Sequence[Spread]) -> DomainCounts:
    """The matching pods by domain, on the nodes that take part: those that have the labels of all constraints and, as
    the constraint says, match the node affinity of the class and have no taint that it does not tolerate."""
    by_affinity = spread.affinity_matters and matching.has_node_selection(klass)
    keys = tuple(s.topology_key for s in together)
    name = (keys, by_affinity, spread.taints_matter, klass.id if by_affinity or spread.taints_matter else 0)
    table = index.table

    def taking_part() -> Bools:
        mask = table.valid[: table.size].copy()
        for key in keys:
            mask &= table.label(key)[0][: table.size] > 0
        rows = NodeRows(table, np.flatnonzero(mask))
        if by_affinity:
            mask[rows.index] &= matching.selected(klass, rows)
        if spread.taints_matter:
            mask[rows.index] &= matching.taints_tolerated(klass, rows)
        return mask

    return index.tally(spread.selector, spread.topology_key, taking_part, name)
