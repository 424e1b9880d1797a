"""Scores of classes that come again, by kind of row.

What depends on amounts alone is the same for all rows that hold equal amounts, and rows come back to amounts that
others had before. So a number per class and kind is kept, and when a kind is new all classes are asked about at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.side_by_side import ClassAmounts
from pumice.model.task import TaskClass
from pumice.state.kinds import RowKinds
from pumice.state.table import NodeTable

Floats = npt.NDArray[np.float64]
Ask = Callable[[ClassAmounts, NodeRows], Floats | None]
"""Scores by class and row, minus infinity where the class does not fit; None where nobody can tell."""

MOST_CLASSES: Final = 512
MOST_PAIRS: Final = 1 << 16
"""Beyond so many pairs of a class and a new kind the classes are met anew instead."""
MOST_SCORES: Final = 1 << 22


class KindGrid:
    """The scores of classes that ask for the same resources and are asked about in the same way."""

    def __init__(self) -> None:
        self._places: OrderedDict[Hashable, int] = OrderedDict()
        self._classes: ClassAmounts | None = None
        self._scores: Floats = np.zeros((0, 0))
        self._amounts: NodeTable | None = None
        self._at = -1

    def __len__(self) -> int:
        return len(self._places)

    def scores(self, key: Hashable, klass: TaskClass, kinds: RowKinds, ask: Ask) -> Floats | None:
        """The score of a class for every kind of row; None where nobody can tell."""
        place = self._places.get(key)
        if place is None:
            found = ask(ClassAmounts(klass), NodeRows(kinds.amounts))
            if found is not None and self._follow(kinds, ask):
                self._add(key, klass, found[0])
            return None if found is None else found[0]
        self._places.move_to_end(key)
        if not self._follow(kinds, ask):
            return None
        place = self._places.get(key)
        if place is None:  # too much has changed
            return self.scores(key, klass, kinds, ask)
        return self._scores[place, : len(kinds)]

    def _follow(self, kinds: RowKinds, ask: Ask) -> bool:
        """Ask about the kinds that are new; False where nobody can tell."""
        amounts = kinds.amounts
        now = amounts.changed.position
        if amounts is self._amounts and now == self._at:
            return True
        new = amounts.changed.since(self._at) if amounts is self._amounts else None
        self._amounts, self._at = amounts, now
        size = len(self._places)
        if not size or self._classes is None:
            return True
        if new is None or len(new) * size > MOST_PAIRS:
            self._places.clear()
            self._classes = None
            return True
        index = np.fromiter(new, dtype=np.intp, count=len(new))
        found = ask(self._classes, NodeRows(amounts, index))
        if found is None:
            self._places.clear()
            self._classes = None
            return False
        self._widen(size, len(kinds))
        self._scores[:size, index] = found
        return True

    def _add(self, key: Hashable, klass: TaskClass, scores: Floats) -> None:
        width = len(scores)
        place = len(self._places)
        if place >= min(MOST_CLASSES, max(32, MOST_SCORES // max(width, 1))):
            _, place = self._places.popitem(last=False)
        if self._classes is None:
            self._classes = ClassAmounts(klass)
        self._classes.put(place, klass)
        self._places[key] = place
        self._widen(place + 1, width)
        self._scores[place, :width] = scores

    def _widen(self, height: int, width: int) -> None:
        old = self._scores
        if height > len(old) or width > old.shape[1]:
            shape = (max(len(old), 2 * height, 8), max(old.shape[1], 2 * width, 64))
            self._scores = np.full(shape, -np.inf)
            self._scores[: len(old), : old.shape[1]] = old
