"""Which rows are open to which class: no filter objects to them as long as their nodes are the same ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Bools: TypeAlias = npt.NDArray[np.bool_]
Index: TypeAlias = npt.NDArray[np.intp]

_MOST_BYTES: Final = 1 << 25
"""Of what is remembered of rows that are open to classes."""


class OpenRows:
    """Open rows by class, in a bit for each row; classes to which the same rows are open share them."""

    __slots__ = ("_bits", "_known", "_of", "lines")

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self.lines = 0
        """How many different ones there are, those that were let go included."""
        self._bits: npt.NDArray[np.uint8] = np.zeros((0, 0), dtype=np.uint8)
        self._of: Index = np.zeros(0, dtype=np.intp)
        """Class -> its line, counted from 1; 0: all rows are open to it."""

    def put(self, slot: int, slots: int, open_rows: Bools | None) -> None:
        """Remember which rows are open to one of so many classes; None: all."""
        if len(self._of) < slots:
            self._of = np.concatenate([self._of, np.zeros(slots - len(self._of), dtype=np.intp)])
        self._of[slot] = 0 if open_rows is None else self._line(np.packbits(open_rows))

    def _line(self, bits: npt.NDArray[np.uint8]) -> int:
        known = self._known.get(bits.tobytes())
        if known is not None:
            return known
        count = self.lines
        if (count + 1) * len(bits) > _MOST_BYTES:
            return 0
        if count == len(self._bits):
            more = np.zeros((max(4, count), len(bits)), dtype=np.uint8)
            self._bits = np.concatenate([self._bits.reshape(count, len(bits)), more])
        self._bits[count] = bits
        self.lines = self._known[bits.tobytes()] = count + 1
        return count + 1

    def open_up(self, rows: Iterable[int]) -> None:
        """Let rows be open to every class."""
        if not self.lines:
            return
        lines = self._bits[: self.lines]
        for row in rows:
            lines[:, row >> 3] |= 128 >> (row & 7)
        self._let_go()

    def _let_go(self) -> None:
        """Keep the lines that a class has, each once."""
        used = np.unique(self._of)
        used = used[used > 0]
        lines = self._bits[used - 1]
        self._known = {}
        numbers = [self._known.setdefault(line.tobytes(), len(self._known) + 1) for line in lines]
        became = np.zeros(self.lines + 1, dtype=np.intp)
        became[used] = numbers
        self._of = became[self._of]
        self.lines = len(self._known)
        self._bits = lines[np.unique(numbers, return_index=True)[1]] if numbers else lines

    def is_open(self, slot: int, row: int) -> bool:
        """Is a row open to a class?"""
        line = self._of.item(slot)
        return not line or bool(self._bits.item(line - 1, row >> 3) >> (7 - (row & 7)) & 1)

    def at(self, rows: Index, slots: int) -> Bools:
        """Per class and row: is it open?"""
        if not self.lines:
            return np.ones((slots, len(rows)), dtype=np.bool_)
        lines = np.ones((self.lines + 1, len(rows)), dtype=np.bool_)
        lines[1:] = (self._bits[: self.lines, rows >> 3] >> (7 - (rows & 7))) & 1
        return lines[self._of[:slots]]
