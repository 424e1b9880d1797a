"""Which nodes have room for a request: what was found is kept, and looked at again where something changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from pumice.kai.view.tasks import TaskRequest
from pumice.model.gpu import DEVICE, WHOLE

if TYPE_CHECKING:
    from pumice.kai.view.nodes import NodeLedger

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_FEW: Final = 8
"""So many rows are looked at one by one; it is quicker to look at all where more changed."""
_MOST: Final = 4096
"""Changes that are remembered; then everything is found anew."""


@dataclass(slots=True)
class _Found:
    request: TaskRequest
    """It is kept alive, so that no other has its identity."""
    rows: Bools
    at: int
    """How many changes it knows of."""


class KaiRoom:
    """Room on the nodes of a ledger, at once or when what is leaving has left."""

    def __init__(self, ledger: NodeLedger) -> None:
        self._ledger = ledger
        self.changes = 0
        """Grows with every change."""
        self._touched: list[int] = []
        self._found: dict[tuple[int, bool], _Found] = {}

    def touch(self, row: int) -> None:
        """What is on a node changes."""
        self.changes += 1
        self._touched.append(row)
        if len(self._touched) > _MOST:
            self._touched, self._found = [], {}

    def fits(self, request: TaskRequest, *, now: bool) -> Bools:
        """Per row: is there room, at once or when what is leaving has left? To be read only."""
        key, latest = (id(request), now), len(self._touched)
        found = self._found.get(key)
        if found is not None and found.at == latest:
            return found.rows
        rows = set(self._touched[found.at :]) if found is not None else ()
        if found is None or len(rows) > _FEW or request.claimed:
            self._found[key] = _Found(request, fits := self._on_all(request, now), latest)
            return fits
        there = self._ledger.there
        for row in rows:
            found.rows[row] = bool(there[row]) and self.fits_on(row, request, now=now)
        found.at = latest
        return found.rows

    def _on_all(self, request: TaskRequest, now: bool) -> Bools:
        ledger = self._ledger
        ok: Bools = ledger.there.copy()
        for d, v in request.items:
            ok &= self._free(d, now) >= v if d < len(ledger.idle) else v <= 0
        if not request.devices and not request.claimed:
            return ok
        gpus_free = self._free(ledger.gpu, now)
        if request.claimed:
            ok &= self._claims_fit(request, gpus_free)
        elif request.gpus:
            ok &= gpus_free >= request.gpus
        elif request.shared is not None:
            wanted = request.devices
            whole = gpus_free // WHOLE
            enough = whole >= wanted
            if request.shared.memory:
                enough &= ledger.memory >= request.shared.memory
            for row, gpus in ledger.shared.items():
                if ok[row] and not enough[row]:
                    share = ledger.share(row, request.shared)
                    more = sum(1 for g in gpus.values() if g.takes(share))
                    enough[row] = share <= DEVICE and whole[row] + more >= wanted
            ok &= enough
        return ok

    def _free(self, d: int, now: bool) -> Ints:
        """Per row: what is free of one dimension, at once or when what is leaving has left."""
        ledger = self._ledger
        free: Ints = ledger.idle[d] if now else ledger.idle[d] + ledger.releasing[d]
        return free

    def _claims_fit(self, request: TaskRequest, free: Ints) -> Bools:
        """Per row: are there GPUs enough for the claims that nobody has there yet?"""
        needed = np.full(len(free), request.gpus + request.claimed, dtype=np.int64)
        for row, held in self._ledger.claims.items():
            needed[row] -= sum(n for key, n in request.claims if held.get(key)) * WHOLE
        return np.asarray(free >= needed)

    def many_on(self, row: int, request: TaskRequest) -> int:
        """How many equal tasks that ask for no part of a GPU have room on a row at once, one after the other."""
        if request.shared is not None or request.claimed or not self.fits_on(row, request, now=True):
            return 0
        _, idle, releasing = self._ledger.cells
        free = [(idle[d, row], releasing[d, row], v) for d, v in request.booked if v > 0]
        return max(min((min(now, now + later) // v for now, later, v in free), default=_MOST), 0)

    def fits_on(self, row: int, request: TaskRequest, *, now: bool) -> bool:
        """As `fits`, for one row that is there."""
        ledger = self._ledger
        _, idle, releasing = ledger.cells
        width = len(idle)
        for d, v in request.items:
            free: int = (idle[d, row] if now else idle[d, row] + releasing[d, row]) if d < width else 0
            if free < v:
                return False
        if not request.devices and not request.claimed:
            return True
        if request.claimed:
            return bool(self._claims_fit(request, self._free(ledger.gpu, now))[row])
        free = idle[ledger.gpu, row] if now else idle[ledger.gpu, row] + releasing[ledger.gpu, row]
        if request.shared is None:
            return free >= request.gpus
        share = ledger.share(row, request.shared)
        more = sum(1 for g in ledger.shared.get(row, {}).values() if g.takes(share))
        return share <= DEVICE and free // WHOLE + more >= request.devices
