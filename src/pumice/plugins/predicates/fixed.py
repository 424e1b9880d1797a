"""Filters that look at the node object alone: cordoned, node selector and affinity, taints."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.model.api import NodeSelectorTerm, Requirement, Taint, Toleration
from pumice.model.reason import Code, reason_id
from pumice.model.selectors import requirement_matches, tolerated
from pumice.model.task import Task, TaskClass

Bools = npt.NDArray[np.bool_]
Reasons = npt.NDArray[np.int32]

PLUGIN: Final = "predicates"
CORDONED: Final = reason_id(PLUGIN, "node(s) were unschedulable", Code.UNRESOLVABLE)
NOT_SELECTED: Final = reason_id(PLUGIN, "node(s) didn't match Pod's node affinity/selector", Code.UNRESOLVABLE)
CORDON_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")


# -- cordoned -----------------------------------------------------------------------------------------------------
def not_cordoned(task: Task, rows: NodeRows) -> Reasons:
    """The node is not cordoned, or the task tolerates that it is."""
    cordoned = rows.take(rows.table.unschedulable)
    if not cordoned.any() or tolerated(task._class.spec.tolerations or (), CORDON_TAINT):
        return np.zeros(len(rows), dtype=np.int32)
    return np.where(cordoned, CORDONED, 0).astype(np.int32)


# -- node selector and affinity -----------------------------------------------------------------------------------
def has_node_selection(task: Task) -> bool:
    """Does the task say which nodes it wants?"""
    spec = task._class.spec
    return bool(spec.node_selector) or (
        spec.affinity is not None
        and spec.affinity.node_affinity is not None
        and spec.affinity.node_affinity.required is not None
    )


def selected(task: Task, rows: NodeRows) -> Reasons:
    """The node's labels match the task's node selector and required node affinity."""
    return np.where(selects(task._class, rows), 0, NOT_SELECTED).astype(np.int32)


def selects(klass: TaskClass, rows: NodeRows) -> Bools:
    """Per row: do node selector and required node affinity match?"""
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
        result &= _label_matches(requirement, rows)
    for requirement in term.match_fields or ():
        result &= _field_matches(requirement, rows)
    return result


def _label_matches(requirement: Requirement, rows: NodeRows) -> Bools:
    """One line against a label: each distinct value is looked at once."""
    key = requirement.key
    codes, values = rows.table.label(key)
    verdicts = np.zeros(len(values) + 1, dtype=np.bool_)
    verdicts[0] = requirement_matches(requirement, {})
    for value, code in values.items():
        verdicts[code] = requirement_matches(requirement, {key: value})
    result: Bools = verdicts[rows.take(codes)]
    return result


def _field_matches(requirement: Requirement, rows: NodeRows) -> Bools:
    """One line against the node's name, the only field there is."""
    if requirement.key != "metadata.name":
        return np.zeros(len(rows), dtype=np.bool_)
    matches = [requirement_matches(requirement, {"metadata.name": name}) for name in rows.names]
    return np.array(matches, dtype=np.bool_)


# -- taints -------------------------------------------------------------------------------------------------------
def tolerating(task: Task, rows: NodeRows) -> Reasons:
    """The task tolerates every taint of the node that keeps pods away."""
    verdicts = _taint_verdicts(task._class, rows)
    result: Reasons = verdicts[rows.take(rows.table.taint_set)]
    return result


def _taint_verdicts(klass: TaskClass, rows: NodeRows) -> Reasons:
    """Per set of taints the reason for which the class may not go there, 0 for none. Kept with the class."""
    sets = rows.table.taint_sets
    known: tuple[object, Reasons] | None = klass.memo.get("predicates.taints")
    if known is None or known[0] is not rows.table or len(known[1]) != len(sets):
        tolerations = klass.spec.tolerations or []
        verdicts = np.array([_objection(tolerations, taints) for taints in sets], dtype=np.int32)
        known = klass.memo["predicates.taints"] = (rows.table, verdicts)
    return known[1]


def _objection(tolerations: list[Toleration], taints: tuple[Taint, ...]) -> int:
    taint = untolerated(tolerations, taints)
    if taint is None:
        return 0
    return reason_id(PLUGIN, f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}", Code.UNRESOLVABLE)


def untolerated(tolerations: list[Toleration], taints: tuple[Taint, ...]) -> Taint | None:
    """The first taint that keeps the pod away, or None."""
    return next((t for t in taints if t.effect in HARD_EFFECTS and not tolerated(tolerations, t)), None)
