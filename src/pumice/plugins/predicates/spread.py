"""Topology spread constraints that must hold (DoNotSchedule)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.neighbours import Neighbours
from pumice.engine.rows import NodeRows
from pumice.engine.spreading import spreads, tally_of
from pumice.model.reason import Code, reason_id
from pumice.model.task import Task

Reasons = npt.NDArray[np.int32]

PLUGIN: Final = "predicates"
SKEWED: Final = reason_id(PLUGIN, "node(s) didn't match pod topology spread constraints")
NO_DOMAIN: Final = reason_id(
    PLUGIN, "node(s) didn't match pod topology spread constraints (missing required label)", Code.UNRESOLVABLE
)
_WHEN: Final = "DoNotSchedule"


def has_hard_spread(task: Task) -> bool:
    """Has the task a constraint that must hold?"""
    constraints = task._class.spec.topology_spread_constraints
    return bool(constraints) and any(c.when_unsatisfiable == _WHEN for c in constraints or ())


class HardSpread:
    """The filter, over an index of who is where."""

    def __init__(self, index: Neighbours) -> None:
        self._index = index

    def filter(self, task: Task, rows: NodeRows) -> Reasons:
        """No constraint's skew would exceed its limit."""
        index = self._index
        index.sync()
        kin = index.kin(task)
        constraints = spreads(task, _WHEN)
        out = np.zeros(len(rows), dtype=np.int32)
        for spread in reversed(constraints):
            tally = tally_of(index, task._class, spread, constraints)
            domains = tally.domains
            least = int(tally.counts[domains].min()) if len(domains) >= max(spread.min_domains, 1) else 0
            most = spread.max_skew + least - index.matches((spread.selector,), kin)
            codes = rows.take(tally.codes)
            verdicts = np.where(tally.counts > most, SKEWED, 0).astype(np.int32)
            verdicts[0] = NO_DOMAIN
            own = verdicts[codes]
            out = np.where(own, own, out)
        return out
