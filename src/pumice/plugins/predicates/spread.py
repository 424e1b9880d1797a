"""Topology spread constraints that must hold (DoNotSchedule)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.affinity.domain_counts import DomainCounts
from pumice.engine.affinity.neighbours import Neighbours
from pumice.engine.affinity.spreading import SpreadTallies, spreads
from pumice.engine.affinity.terms import Spread
from pumice.engine.rows import NodeRows
from pumice.model.reason import Code, reason_id
from pumice.model.task import Task

Bools = npt.NDArray[np.bool_]
Reasons = npt.NDArray[np.int32]

PLUGIN: Final = "predicates"
SKEWED: Final = reason_id(PLUGIN, "node(s) didn't match pod topology spread constraints")
NO_DOMAIN: Final = reason_id(
    PLUGIN, "node(s) didn't match pod topology spread constraints (missing required label)", Code.UNRESOLVABLE
)
_WHEN: Final = "DoNotSchedule"


def has_hard_spread(task: Task) -> bool:
    """Has the task a constraint that must hold?"""
    constraints = task.klass.spec.topology_spread_constraints
    return bool(constraints) and any(c.when_unsatisfiable == _WHEN for c in constraints or ())


class HardSpread:
    """The filter, over an index of who is where."""

    def __init__(self, index: Neighbours) -> None:
        self._index = index

    def filter(self, task: Task, rows: NodeRows) -> Reasons:
        """No constraint's skew would exceed its limit."""
        out = np.zeros(len(rows), dtype=np.int32)
        for level in reversed(self._levels(task)):
            verdicts = np.where(level.within(), 0, SKEWED).astype(np.int32)
            verdicts[0] = NO_DOMAIN
            own = verdicts[rows._take(level.tally.codes)]
            out = np.where(own, own, out)
        return out

    def incremental(self, task: Task) -> Evenness:
        """How it goes on while tasks like this one are placed."""
        return Evenness(self._levels(task), self._index.table.size)

    def _levels(self, task: Task) -> list[SpreadCounts]:
        index = self._index
        index.sync()
        kind = index.kind_of(task)
        constraints = spreads(task, _WHEN)
        tallies = SpreadTallies(index, task.klass, constraints)
        return [SpreadCounts(c, tallies.of(c), index.matches((c.selector,), kind)) for c in constraints]


class SpreadCounts:
    """One constraint with the counts of its domains."""

    def __init__(self, spread: Spread, tally: DomainCounts, counts_itself: bool) -> None:
        self._spread, self.tally, self.counts_itself = spread, tally, counts_itself
        self.counts = tally.counts

    def within(self) -> Bools:
        """Per domain: may it take one more?"""
        domains = self.tally.domains
        enough = len(domains) >= max(self._spread.min_domains, 1)
        least = int(self.counts[domains].min()) if enough else 0
        result: Bools = self.counts <= self._spread.max_skew + least - self.counts_itself
        return result


class Evenness:
    """Equal tasks that must be spread evenly."""

    def __init__(self, levels: Sequence[SpreadCounts], size: int) -> None:
        self._levels = levels
        self._codes = [level.tally.codes[:size] for level in levels]
        self._within = [_open(level) for level in levels]
        for level in levels:
            level.counts = level.counts.copy()
        self.allowed = self._join()

    def _join(self) -> Bools:
        allowed: Bools = self._within[0][self._codes[0]]
        for within, codes in zip(self._within[1:], self._codes[1:], strict=True):
            allowed = allowed & within[codes]
        return allowed

    def place(self, row: int) -> None:
        """One more in the domains of the row."""
        changed = False
        for n, (level, codes) in enumerate(zip(self._levels, self._codes, strict=True)):
            mask = level.tally.mask
            if level.counts_itself and codes[row] and (mask is None or mask[row]):
                level.counts[codes[row]] += 1
                within = _open(level)
                if not np.array_equal(within, self._within[n]):
                    self._within[n] = within
                    changed = True
        if changed:
            self.allowed = self._join()


def _open(level: SpreadCounts) -> Bools:
    within = level.within()
    within[0] = False
    return within
