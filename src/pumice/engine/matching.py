"""Node selectors and taints against many nodes: each distinct label value and each distinct set of taints once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.model.api import NodeSelectorTerm, Requirement, Taint, Toleration
from pumice.model.selectors import requirement_matches, tolerated
from pumice.model.task import TaskClass

Bools = npt.NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)

HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")


def has_node_selection(klass: TaskClass) -> bool:
    """Report whether the class restricts its nodes."""
    spec = klass.spec
    return bool(spec.node_selector) or (
        spec.affinity is not None
        and spec.affinity.node_affinity is not None
        and spec.affinity.node_affinity.required is not None
    )


def selected(klass: TaskClass, rows: NodeRows) -> Bools:
    """Per row: whether the class's node selector and required node affinity match."""
    spec = klass.spec
    result = np.ones(len(rows), dtype=np.bool_)
    for key, value in (spec.node_selector or {}).items():
        result &= rows.labels.equals(key, value)
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        any_term = np.zeros(len(rows), dtype=np.bool_)
        for term in affinity.required.node_selector_terms or ():
            any_term |= term_matches(term, rows)
        result &= any_term
    return result


def term_matches(term: NodeSelectorTerm, rows: NodeRows) -> Bools:
    """Per row: do all expressions and fields of a term match? An empty term matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(len(rows), dtype=np.bool_)
    result = np.ones(len(rows), dtype=np.bool_)
    for requirement in term.match_expressions or ():
        result &= label_matches(requirement, rows)
    for requirement in term.match_fields or ():
        result &= _field_matches(requirement, rows)
    return result


def label_matches(requirement: Requirement, rows: NodeRows) -> Bools:
    """Per row: does one line match the node's labels? Each distinct value is looked at once."""
    key = requirement.key
    codes, values = rows._table.label(key)
    verdicts = np.zeros(len(values) + 1, dtype=np.bool_)
    if requirement.operator == "In":
        verdicts[[values[value] for value in requirement.values or () if value in values]] = True
    else:
        verdicts[0] = requirement_matches(requirement, {})
        for value, code in values.items():
            verdicts[code] = requirement_matches(requirement, {key: value})
    result: Bools = verdicts[rows._take(codes)]
    return result


def _field_matches(requirement: Requirement, rows: NodeRows) -> Bools:
    """One line against the node's name, the only field there is."""
    if requirement.key != "metadata.name":
        return np.zeros(len(rows), dtype=np.bool_)
    if requirement.operator == "In" and len(rows) > 8:
        result = np.zeros(rows._table.size, dtype=np.bool_)
        for name in requirement.values or ():
            node = rows._table.by_name.get(name)
            if node is not None:
                result[node.row] = True
        return np.asarray(rows._take(result), dtype=np.bool_)
    return np.array([requirement_matches(requirement, {requirement.key: n}) for n in rows.names], dtype=np.bool_)


def by_taints(
    klass: TaskClass,
    rows: NodeRows,
    name: str,
    dtype: type[T],
    judge: Callable[[Sequence[Toleration], tuple[Taint, ...]], Any],
) -> npt.NDArray[T]:
    """Per row what *judge* says of the node's taints; each set of taints is judged once per class."""
    sets = rows._table.taint_sets
    known: tuple[object, npt.NDArray[T]] | None = klass.memo.get(name)
    if known is None or known[0] is not rows._table or len(known[1]) != len(sets):
        tolerations = klass.spec.tolerations or ()
        known = (rows._table, np.array([judge(tolerations, taints) for taints in sets], dtype=dtype))
        klass.memo[name] = known
    result: npt.NDArray[T] = known[1][rows._take(rows._table.taint_set)]
    return result


def untolerated(tolerations: Sequence[Toleration], taints: tuple[Taint, ...]) -> Taint | None:
    """The first taint that keeps a pod with these tolerations away, or None."""
    return next((t for t in taints if t.effect in HARD_EFFECTS and not tolerated(tolerations, t)), None)


def taints_tolerated(klass: TaskClass, rows: NodeRows) -> Bools:
    """Per row: whether the class tolerates every taint that keeps pods away."""
    return by_taints(klass, rows, "engine.tolerated", np.bool_, lambda tol, taints: untolerated(tol, taints) is None)
