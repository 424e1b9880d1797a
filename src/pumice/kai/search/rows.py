"""Some nodes of a world as arrays, by name: what KAI's scores and filters are asked about."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import Columns, NodeRows
from pumice.kai.view.nodes import NodeLedger

Index = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]


class WorldRows(NodeRows):
    """Rows in the order of the nodes' names; *ledger* holds what is free on them in mind."""

    __slots__ = ("ledger",)

    def __init__(self, ledger: NodeLedger, rows: Bools | Index) -> None:
        self.ledger = ledger
        index = ledger.order[rows[ledger.order]] if rows.dtype == np.bool_ else rows
        super().__init__(ledger.table, index.astype(np.intp, copy=False))

    @property
    def idle(self) -> Columns:
        return Columns(self, self._part(self.ledger.idle), 0)

    @property
    def releasing(self) -> Columns:
        """Being given back, less what is promised of it."""
        return Columns(self, self._part(self.ledger.releasing), 0)
