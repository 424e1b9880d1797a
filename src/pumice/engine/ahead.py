"""Scores of classes that come once, asked about several at a time.

The tasks of a job that come next are known, and asking about many classes takes little longer than asking about one.
What a placement changes is the kind of one row. Which kinds that will be is guessed, each class on its best kind, one
after the other, and asked about beforehand. A kind that was not guessed is asked about when it is there, with those
that will follow from it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

import numpy as np

from pumice.engine.grid import Ask, Floats
from pumice.engine.rows import NodeRows
from pumice.engine.side_by_side import ClassAmounts
from pumice.model.task import TaskClass
from pumice.state.kinds import RowKinds
from pumice.state.table import NodeTable

AT_ONCE: Final = 32
"""So many classes are asked about together."""
_MISSES: Final = AT_ONCE // 2
"""With more kinds of them that were not guessed, it does not pay."""
_REST: Final = 8 * AT_ONCE
"""So many classes are then asked about alone."""
_NEG_INF: Final = float("-inf")


class AskedAhead:
    """The scores of some classes that ask for the same resources, each of which has its turn once."""

    def __init__(self) -> None:
        self._classes: list[TaskClass] = []
        self._places: dict[Hashable, int] = {}
        self._amounts: NodeTable | None = None
        self._at = -1
        self._misses = self._rest = 0
        self._forgotten = -1
        self._become: dict[tuple[int, int], int] = {}
        """What a row of a kind becomes with a task of the class at a place, as far as it was guessed."""

    def __contains__(self, key: Hashable) -> bool:
        return key in self._places

    def pays(self) -> bool:
        """Is it worth to begin for one more class? Not for a while where tasks go to rows that were just changed."""
        if self._misses > _MISSES:
            self._misses, self._rest = 0, _REST
        self._rest -= self._rest > 0
        return not self._rest

    def begin(self, classes: Mapping[Hashable, TaskClass], kinds: RowKinds, ask: Ask) -> bool:
        """Ask about classes, in the order of their turns; False where nobody can tell. What was there is dropped."""
        self._places, self._misses = {}, 0
        self._classes = list(classes.values())
        kinds.make_room(3 * AT_ONCE)
        self._side_by_side = ClassAmounts.of(self._classes)
        found = ask(self._side_by_side, NodeRows(kinds.amounts))
        if found is None:
            return False
        self._scores, self._amounts = found, kinds.amounts
        self._at = kinds.amounts.changed.position
        self._added = kinds.amounts.added_by(self._classes)
        self._become = {}
        self._places = {key: place for place, key in enumerate(classes)}
        self._guess(0, kinds)
        return self._follow(kinds, ask)

    def scores(self, key: Hashable, kinds: RowKinds, ask: Ask) -> Floats | None:
        """The score of a class for every kind of row, whose turn it is; None where it was not asked about."""
        place = self._places.pop(key, None)
        if place is None or kinds.amounts is not self._amounts:
            return None
        if kinds.amounts.changed.position != self._at:
            self._misses += 1
            if self._misses > _MISSES:
                self._places = {}
                return None
            self._guess(place, kinds)
            if not self._follow(kinds, ask):
                return None
        return self._scores[place, : len(kinds)]

    def _guess(self, place: int, kinds: RowKinds) -> None:
        """Make the kinds known that there will be if each class, from *place* on, goes to its best kind of row."""
        if kinds.forgotten != self._forgotten:
            self._forgotten = kinds.forgotten
            self._become.clear()
        width = min(len(kinds), self._scores.shape[1])
        bar = kinds.bar[:width].copy()
        for kind in kinds.amounts.changed.since(self._at) or ():
            bar[kind : kind + 1] = -np.inf  # nothing is known of it yet
        left: dict[int, int] = {}
        rows: list[int] = []
        places: list[int] = []
        for at in range(place, len(self._classes)):
            scores = self._scores[at, :width] + bar
            best = int(scores.argmax())
            if scores.item(best) == _NEG_INF:
                continue
            left[best] = left.get(best, kinds.count(best)) - 1
            if not left[best]:
                bar[best] = _NEG_INF
            then = self._become.get((best, at))
            if then is None:
                rows.append(best)
                places.append(at)
            elif then < width:
                left[then] = left.get(then, kinds.count(then)) + 1
                bar[then] = 0.0
        if rows:
            numbers = kinds.expect(rows, self._added[places])
            self._become.update(zip(zip(rows, places, strict=True), numbers, strict=True))

    def _follow(self, kinds: RowKinds, ask: Ask) -> bool:
        """Ask about the kinds that are new; False where nobody can tell."""
        amounts = kinds.amounts
        new = amounts.changed.since(self._at)
        index = None if new is None else np.fromiter(new, dtype=np.intp, count=len(new))
        found = ask(self._side_by_side, NodeRows(amounts, index))
        if found is None:
            self._places = {}
            return False
        if index is None:
            self._scores = found
        else:
            self._widen(len(kinds))
            self._scores[:, index] = found
        self._at = amounts.changed.position
        return True

    def _widen(self, width: int) -> None:
        old = self._scores
        if width > old.shape[1]:
            self._scores = np.full((len(old), width + 2 * AT_ONCE), -np.inf)
            self._scores[:, : old.shape[1]] = old
