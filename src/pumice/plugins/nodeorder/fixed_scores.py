"""Scores by the node object alone: preferred node affinity and taints that are better avoided."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from pumice.engine import matching
from pumice.engine.rows import NodeRows
from pumice.model.api import Taint, Toleration
from pumice.model.selectors import tolerated
from pumice.model.task import Task

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Normalize = Callable[[Floats, Bools], Floats]

MAX = 100
_SOFT = "PreferNoSchedule"


def preferred_nodes(task: Task, rows: NodeRows) -> Floats:
    """The weights of the preferred terms that match, added up."""
    affinity, total = task.klass.spec.affinity, np.zeros(len(rows))
    if affinity is None or affinity.node_affinity is None:
        return total
    for term in affinity.node_affinity.preferred or ():
        if term.weight:
            total += term.weight * matching.term_matches(term.preference, rows)
    return total


def avoided_taints(task: Task, rows: NodeRows) -> Floats:
    """How many taints of effect PreferNoSchedule the task does not tolerate."""
    return matching.by_taints(task.klass, rows, "nodeorder.taints", np.float64, _count)


def _count(tolerations: Sequence[Toleration], taints: tuple[Taint, ...]) -> int:
    soft = [t for t in tolerations if t.effect in ("", _SOFT)]
    return sum(1 for t in taints if t.effect == _SOFT and not tolerated(soft, t))


def most_is_best(weight: int) -> Normalize:
    """The highest raw value becomes 100 and the others their part of it, cut off; all times *weight*."""

    def normalize(raw: Floats, _: Bools) -> Floats:
        most = int(raw.max(initial=0))
        if not most:
            return np.zeros(len(raw))
        return (raw.astype(np.int64) * MAX // most * weight).astype(np.float64)

    return normalize


def least_is_best(weight: int) -> Normalize:
    """As `most_is_best`, taken from 100."""

    def normalize(raw: Floats, _: Bools) -> Floats:
        most = int(raw.max(initial=0))
        if not most:
            return np.full(len(raw), float(MAX * weight))
        return ((MAX - raw.astype(np.int64) * MAX // most) * weight).astype(np.float64)

    return normalize
