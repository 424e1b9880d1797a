"""Classes that ask for the same resources, side by side: what a batch callback is asked about many classes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import asked_lines, read_only
from pumice.model.task import TaskClass

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
G = TypeVar("G", bound=np.generic)
_MANY: Final = 2048
"""With so many pairs of a class and a row it pays to work on resources one by one."""


class ClassAmounts:
    """What some classes ask for: arrays with a line per resource, then a place for each class, then one for rows.

    So arithmetic with lines of rows (`NodeRows.lines`) gives an answer for every class and row. All classes here ask
    for the same resources; *first* is one of them.
    """

    def __init__(self, klass: TaskClass) -> None:
        self.first = klass
        self._size = 1
        self._own: tuple[Ints, Ints] | tuple[()] = ()
        """What is written; plugins are shown arrays that cannot be."""
        self._amounts: Ints = asked_lines(klass)[1]
        self._nonzero_requested: Ints = read_only(
            np.array(((klass.nonzero_cpu,), (klass.nonzero_memory,)), dtype=np.int64)
        )
        self._lines: dict[tuple[int, ...], slice | npt.NDArray[np.intp] | None] = {}
        self._wanted_parts: dict[bool, list[Ints]] = {}
        self._floats: dict[tuple[tuple[int, ...] | None, bool], list[Floats]] = {}

    @classmethod
    def of(cls, classes: Sequence[TaskClass]) -> ClassAmounts:
        """Some classes, which have their places in this order."""
        together = cls(classes[0])
        together._own = (
            np.array([klass.fit_values for klass in classes], dtype=np.int64).T.copy(),
            np.array([(klass.nonzero_cpu, klass.nonzero_memory) for klass in classes], dtype=np.int64).T.copy(),
        )
        together._amounts, together._nonzero_requested = map(read_only, together._own)
        together._size = len(classes)
        return together

    def __len__(self) -> int:
        return self._size

    def put(self, at: int, klass: TaskClass) -> None:
        """Let a class take a place: one that is there, or the next."""
        if at >= self._amounts.shape[1] or not self._own:
            self._own = _wider(self._amounts), _wider(self._nonzero_requested)
            self._amounts, self._nonzero_requested = map(read_only, self._own)
        amounts, nonzero_requested = self._own
        amounts[:, at] = klass.fit_values
        nonzero_requested[:, at] = klass.nonzero_cpu, klass.nonzero_memory
        self._size = max(self._size, at + 1)
        self._wanted_parts.clear()
        self._floats.clear()

    @property
    def nonzero_requested(self) -> Ints:
        """Cpu and memory as kube-scheduler counts them, with defaults for containers that ask for none."""
        return self._nonzero_requested[:, : self._size, None]

    @property
    def wanted(self) -> Ints:
        """What must be free, a line for each of the first one's `fit_dims`."""
        return self._amounts[:, : self._size, None]

    def requests(self, dims: tuple[int, ...]) -> Ints:
        """What is asked for of some resources."""
        try:
            lines = self._lines[dims]
        except KeyError:
            lines = self._lines[dims] = _lines_of(dims, self.first.fit_dims)
        if lines is None:
            known = dict(zip(self.first.fit_dims, self._amounts, strict=True))
            none = np.zeros(self._amounts.shape[1], dtype=np.int64)
            return np.array([known.get(d, none) for d in dims])[:, : self._size, None]
        found: Ints = self._amounts[lines]
        return found[:, : self._size, None]

    def wanted_parts(self, rows: int) -> list[Ints]:
        """As `wanted`; or a part for each resource, where so many rows make it pay that all ask for one alike.

        That has then one place for all classes: what is worked out with it is worked out once.
        """
        many = rows * self._size >= _MANY
        known = self._wanted_parts.get(many)
        if known is None:
            known = self._wanted_parts[many] = _parts(self.wanted, many)
        return known

    def request_parts(self, dims: tuple[int, ...], rows: int) -> list[Floats]:
        """As `requests`, in the form of `wanted_parts` and as floats."""
        many = rows * self._size >= _MANY
        known = self._floats.get((dims, many))
        if known is None:
            known = self._floats[dims, many] = _parts(self.requests(dims).astype(np.float64), many)
        return known

    def nonzero_request_parts(self, rows: int) -> list[Floats]:
        """As `nonzero_requested`, in the form of `wanted_parts` and as floats."""
        many = rows * self._size >= _MANY
        known = self._floats.get((None, many))
        if known is None:
            known = self._floats[None, many] = _parts(self.nonzero_requested.astype(np.float64), many)
        return known


def _lines_of(dims: tuple[int, ...], known: tuple[int, ...]) -> slice | npt.NDArray[np.intp] | None:
    """Where the lines of some resources stand; None where one of them has no line."""
    if dims == known[: len(dims)]:
        return slice(0, len(dims))
    if not set(dims) <= set(known):
        return None
    return np.array([known.index(d) for d in dims], dtype=np.intp)


def _parts(amounts: npt.NDArray[G], many: bool) -> list[npt.NDArray[G]]:
    """Each resource for itself where one of several is asked for alike, else all of them together."""
    amounts = read_only(amounts)
    if not many or len(amounts) == 1 or amounts.shape[1] == 1:
        return [amounts]
    alike = np.logical_and.reduce(amounts == amounts[:, :1], axis=(1, 2)).tolist()
    if not any(alike):
        return [amounts]
    return [amounts[at : at + 1, :1] if same else amounts[at : at + 1] for at, same in enumerate(alike)]


def _wider(lines: Ints) -> Ints:
    wider = np.zeros((len(lines), max(8, 2 * lines.shape[1])), dtype=np.int64)
    wider[:, : lines.shape[1]] = lines
    return wider
