"""Filters that look at the node object alone: cordoned, node selector and affinity, taints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine import matching
from pumice.engine.rows import NodeRows
from pumice.model.api import Taint, Toleration
from pumice.model.reason import Code, reason_id
from pumice.model.selectors import tolerated
from pumice.model.task import Task

Reasons = npt.NDArray[np.int32]

PLUGIN: Final = "predicates"
CORDONED: Final = reason_id(PLUGIN, "node(s) were unschedulable", Code.UNRESOLVABLE)
NOT_SELECTED: Final = reason_id(PLUGIN, "node(s) didn't match Pod's node affinity/selector", Code.UNRESOLVABLE)
CORDON_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def not_cordoned(task: Task, rows: NodeRows) -> Reasons:
    """The node is not cordoned, or the task tolerates that it is."""
    cordoned = rows._take(rows._table.unschedulable)
    if not cordoned.any() or tolerated(task.klass.spec.tolerations or (), CORDON_TAINT):
        return np.zeros(len(rows), dtype=np.int32)
    return np.where(cordoned, CORDONED, 0).astype(np.int32)


def selected(task: Task, rows: NodeRows) -> Reasons | None:
    """The node's labels match the task's node selector and required node affinity."""
    if not matching.has_node_selection(task.klass):
        return None
    return np.where(matching.selected(task.klass, rows), 0, NOT_SELECTED).astype(np.int32)


def tolerating(task: Task, rows: NodeRows) -> Reasons:
    """The task tolerates every taint of the node that keeps pods away."""
    return matching.by_taints(task.klass, rows, "predicates.taints", np.int32, _objection)


def _objection(tolerations: Sequence[Toleration], taints: tuple[Taint, ...]) -> int:
    taint = matching.untolerated(tolerations, taints)
    if taint is None:
        return 0
    return reason_id(PLUGIN, f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}", Code.UNRESOLVABLE)
