"""Scores by neighbours: preferred inter-pod affinity, and preferred spread (ScheduleAnyway)."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.affinity.neighbours import Neighbours, SpreadTallies, own_terms, spreads
from pumice.engine.affinity.terms import Term, TermKind
from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP
from pumice.model import keys
from pumice.model.task import Task
from pumice.plugins.nodeorder.fixed_scores import MAX, Normalize

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_WHEN: Final = "ScheduleAnyway"
_HOSTNAME: Final = keys.HOSTNAME


class PreferredCompany:
    """Preferred affinity and anti-affinity, the task's own and that of the pods that are there."""

    def __init__(self, index: Neighbours) -> None:
        self._index = index

    def facing(self, task: Task) -> tuple[Term, ...]:
        """The preferred terms of others, or its own, that select the task."""
        index = self._index
        index.sync()
        terms = index.facing(index.kind_of(task))
        return tuple(t for t in terms if t.kind is TermKind.PREFERRED) if terms else terms

    def key(self, task: Task) -> Hashable:
        """The preferred terms of others; `SKIP` if there are none, nor preferences of its own."""
        facing = self.facing(task)
        return facing if facing or own_terms(task).preferred else SKIP

    def score(self, task: Task, rows: NodeRows) -> Floats:
        """The weights of all terms that hold on the node, added up; negative for those that hold it off."""
        index = self._index
        facing = self.facing(task)
        preferred = own_terms(task).preferred
        carriers = index.all_carriers if preferred else index.carriers
        total = np.zeros(len(rows))
        for term in preferred:
            tally = index.tally(term.selector, term.topology_key)
            if tally.total:
                total += term.weight * tally.counts[rows._take(tally.codes)]
        for term in facing:
            tally = carriers(term)
            if tally.total:
                total += term.weight * tally.counts[rows._take(tally.codes)]
        return total


def stretched(weight: int) -> Normalize:
    """The lowest raw value becomes 0, the highest 100; all times *weight*."""

    def normalize(raw: Floats, _: Bools) -> Floats:
        if not len(raw):
            return raw
        least = raw.min()
        width = raw.max() - least
        if width <= 0:
            return np.zeros(len(raw))
        return np.asarray(np.trunc(MAX * ((raw - least) / width)) * weight, dtype=np.float64)

    return normalize


def has_soft_spread(task: Task) -> bool:
    """Report whether the task has a preferred constraint."""
    constraints = task.klass.spec.topology_spread_constraints
    return bool(constraints) and any(c.when_unsatisfiable == _WHEN for c in constraints or ())


class SoftSpread:
    """Spread that is wished for: fewer matching pods in the domain are better."""

    def __init__(self, index: Neighbours) -> None:
        self._index = index

    def score(self, task: Task, rows: NodeRows) -> Floats:
        """The weighted number of matching pods near by; -1 for nodes without the labels of all constraints."""
        index = self._index
        index.sync()
        constraints = spreads(task, _WHEN)
        has_all = np.ones(len(rows), dtype=np.bool_)
        for spread in constraints:
            has_all &= rows._take(index.table.label(spread.topology_key)[0]) > 0
        total = np.zeros(len(rows))
        tallies = SpreadTallies(index, task.klass, constraints)
        for spread in constraints:
            if spread.topology_key == _HOSTNAME:
                tally = index.tally(spread.selector, _HOSTNAME)
                domains = int(has_all.sum())
            else:
                tally = tallies.of(spread)
                domains = len(np.unique(rows._take(tally.codes)[has_all]))
            counts = tally.counts[rows._take(tally.codes)]
            total += counts * math.log(domains + 2) + (spread.max_skew - 1)
        return np.where(has_all, np.floor(total + 0.5), -1.0)


def fewest_is_best(weight: int) -> Normalize:
    """100 for the lowest raw value, less for more; 0 where it is negative; all times *weight*."""

    def normalize(raw: Floats, _: Bools) -> Floats:
        counted = raw >= 0
        out = np.zeros(len(raw))
        if not counted.any():
            return out
        values = raw[counted].astype(np.int64)
        most, least = int(values.max()), int(values.min())
        out[counted] = MAX if not most else MAX * (most + least - values) // most
        return out * weight

    return normalize
