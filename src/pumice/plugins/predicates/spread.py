"""Topology spread constraints that must hold (DoNotSchedule)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.affinity.neighbours import DomainCounts, Neighbours, SpreadTallies, spreads
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
    """Report whether the task has a constraint that must hold."""
    constraints = task.klass.spec.topology_spread_constraints
    return bool(constraints) and any(c.when_unsatisfiable == _WHEN for c in constraints or ())


class HardSpread:
    """The filter, over an index of who is where."""

    def __init__(self, index: Neighbours) -> None:
        self._index = index

    def filter(self, task: Task, rows: NodeRows) -> Reasons:
        """No constraint's skew would exceed its limit."""
        out: Reasons | None = None
        for level in self._levels(task):
            verdicts = np.where(level.within(), 0, SKEWED).astype(np.int32)
            verdicts[0] = NO_DOMAIN
            own = verdicts.take(rows._take(level.tally.codes))
            out = own if out is None else np.where(out, out, own)
        return out if out is not None else np.zeros(len(rows), dtype=np.int32)

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
        """Per domain: whether it may take one more."""
        domains = self.tally.domains
        enough = len(domains) >= max(self._spread.min_domains, 1)
        least = int(self.counts[domains].min()) if enough else 0
        result: Bools = self.counts <= self._spread.max_skew + least - self.counts_itself
        return result
