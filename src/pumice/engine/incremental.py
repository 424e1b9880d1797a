"""Answers that look beyond the one node, and say how they go on while equal tasks are placed."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class Incremental(Protocol):
    """An answer that is brought up to date while equal tasks are placed one after the other."""

    def place(self, row: int) -> None:
        """One more equal task on a row."""


class IncrementalFilter(Incremental, Protocol):
    """What a filter of scope SESSION says meanwhile: *allowed* per row of the table."""

    allowed: Bools


class IncrementalScore(Incremental, Protocol):
    """What a score of scope SESSION says meanwhile: *scores* per row of the table."""

    scores: Floats
