"""Pods that are alike, and how many of them there are per value of a node label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.engine.affinity.terms import Term, Terms

if TYPE_CHECKING:
    from pumice.state.table import NodeTable

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
RowMask: TypeAlias = Callable[[], Bools]


@dataclass(slots=True, eq=False)
class AlikePods:
    """Pods that every selector treats alike. *rows* says how many of them are on each row."""

    namespace: str
    labels: Mapping[str, str]
    leaving: bool
    terms: Terms
    rows: dict[int, int] = field(default_factory=dict)
    tallies: list[DomainCounts] = field(default_factory=list)
    selected: dict[bytes, bool] = field(default_factory=dict)
    """By the key of a selector of several parts: does it match?"""
    facing: tuple[int, tuple[Term, ...]] = (-1, ())
    """(number of terms known then, the terms that select this kind)"""


class DomainCounts:
    """How many pods there are per value of a node label: ``tally.counts[code]``, with *total* over all values.

    Rows outside *mask* are not counted. Nodes without the label have code 0 and are not counted either.
    """

    __slots__ = ("_changed_at", "_domains", "_kinds", "_make_mask", "_table", "counts", "key", "mask", "total")

    def __init__(self, table: NodeTable, key: str, mask: RowMask | None = None) -> None:
        self._table, self.key, self._make_mask = table, key, mask
        self._kinds: list[AlikePods] = []
        self._changed_at = -1
        self._domains: Ints | None = None
        self.mask: Bools | None = None
        self.counts: Ints = np.zeros(0, dtype=np.int64)
        self.total = 0

    @property
    def domains(self) -> Ints:
        """The codes of the values that nodes within the mask have."""
        if self._domains is None:
            codes = self.codes[: self._table.size]
            found = np.unique(codes if self.mask is None else codes[self.mask])
            self._domains = found[found > 0].astype(np.int64)
        return self._domains

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """Per row of the table the code of its value."""
        return self._table.label(self.key)[0]

    def join(self, kind: AlikePods) -> None:
        """Count a kind from now on."""
        self._kinds.append(kind)
        kind.tallies.append(self)
        if self._changed_at == self._table.changed.position:
            for row, n in kind.rows.items():
                self.add(row, n)

    def within(self, rows: Iterable[int]) -> DomainCounts:
        """The same pods, counted on some rows alone."""
        mask = np.zeros(self._table.size, dtype=np.bool_)
        mask[list(rows)] = True
        part = DomainCounts(self._table, self.key, lambda: mask)
        part._kinds = self._kinds
        return part.current()

    def leave(self) -> None:
        """Count nobody any more."""
        for kind in self._kinds:
            kind.tallies.remove(self)

    def add(self, row: int, n: int) -> None:
        """So many more pods on a row."""
        if self._changed_at != self._table.changed.position:
            return
        code = self.codes[row]
        if code and (self.mask is None or self.mask[row]):
            if code >= len(self.counts):
                self.counts = np.concatenate((self.counts, np.zeros(int(code) + 64, dtype=np.int64)))
            self.counts[code] += n
            self.total += n

    def current(self) -> DomainCounts:
        """Itself, counted anew if nodes changed since."""
        position = self._table.changed.position
        if self._changed_at != position:
            values = self._table.label(self.key)[1]
            self.mask = None if self._make_mask is None else self._make_mask()
            self.counts = np.zeros(len(values) + 1, dtype=np.int64)
            self.total = 0
            self._domains = None
            self._changed_at = position
            for kind in self._kinds:
                for row, n in kind.rows.items():
                    self.add(row, n)
        elif len(self.counts) <= len(self._table.label(self.key)[1]):
            more = len(self._table.label(self.key)[1]) + 1 - len(self.counts)
            self.counts = np.concatenate((self.counts, np.zeros(more, dtype=np.int64)))
        return self
