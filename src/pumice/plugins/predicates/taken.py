"""Devices in use, and where the free ones serve what is asked: worked out again where one was taken or freed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.plugins.predicates.allotment import Key
from pumice.plugins.predicates.offered_device import Device
from pumice.plugins.predicates.slices import Slices
from pumice.state.cluster import ClusterState

Bools = npt.NDArray[np.bool_]
_UNKNOWN = -1
_LONG = 100_000
"""A log of changes of this length is begun anew."""


class Taken:
    """Devices in use, with a log of what changed."""

    def __init__(self) -> None:
        self.keys: set[Key] = set()
        self.log: list[Key] = []
        self.begun = 0
        """How often the log was begun anew."""

    def become(self, keys: set[Key]) -> None:
        """Just these are in use."""
        self._note(self.keys ^ keys)
        self.keys = keys

    def add(self, keys: Iterable[Key]) -> None:
        """These are in use too."""
        fresh = set(keys) - self.keys
        self.keys |= fresh
        self._note(fresh)

    def discard(self, keys: Iterable[Key]) -> None:
        """These are free."""
        gone = set(keys) & self.keys
        self.keys -= gone
        self._note(gone)

    def _note(self, keys: set[Key]) -> None:
        if len(self.log) > _LONG:
            self.log, self.begun = [], self.begun + 1
        self.log.extend(keys)


class FreeRows:
    """The nodes whose free devices serve a request, per question; valid while slices, device classes and nodes stay."""

    def __init__(self, state: ClusterState, slices: Slices, taken: Taken) -> None:
        self._state, self._slices, self._taken = state, slices, taken
        self._stamp: tuple[int, ...] = ()
        self._answers: dict[Hashable, tuple[int, npt.NDArray[np.int8]]] = {}
        """Question -> how much of the log it knows, and the answer per row of the node table."""

    def ask(self, question: Hashable, rows: NodeRows, serves: Callable[[Sequence[Device]], bool]) -> Bools:
        """Per row: do the devices that can be used there serve? *serves* is asked only where that is not known."""
        self._slices.read()
        table, log = self._state.table, self._taken.log
        classes = self._state.versions.get("DeviceClass", 0)
        stamp = (self._slices.version, classes, table.changed.position, table.size, self._taken.begun)
        if stamp != self._stamp:
            self._stamp, self._answers = stamp, {}
        position, answers = self._answers.get(question, (len(log), np.full(table.size, _UNKNOWN, dtype=np.int8)))
        for key in log[position:]:
            self._forget(key, answers)
        self._answers[question] = (len(log), answers)
        index = rows.index[rows._take(answers) == _UNKNOWN]
        if len(index):
            present = self._slices.present(NodeRows(table, index))
            answers[index] = [serves(devices) for devices in present]
        result: Bools = rows._take(answers) == 1
        return result

    def _forget(self, key: Key, answers: npt.NDArray[np.int8]) -> None:
        """A device was taken or freed: what its node said does not hold; shared ones concern all nodes."""
        device = self._slices.by_key.get(key)
        if device is None:
            return
        node = self._state.nodes.get(device.place.get("nodeName", ""))
        if node is None or device.consumes:
            answers[:] = _UNKNOWN
        else:
            answers[node.row] = _UNKNOWN
