"""Rows that are equal in every amount: what depends on amounts alone needs to be worked out once per kind of row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pumice.state.table import LEDGERS, NodeTable

Index = npt.NDArray[np.intp]


class RowKinds:
    """Numbers the rows so that rows of one number hold equal amounts (ledgers, pod counts, limits); free rows apart.

    Kept up to date from the table's log of touched rows; when most rows differ from each other it rests for a while.
    """

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._position = -1
        self._shape = (0, 0)
        self._ids: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._counts: list[int] = []
        self._free: list[int] = []
        self._kind: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._rep: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._rest_until = -1

    def current(self) -> tuple[Index, Index] | None:
        """(kind of each row, a row of each kind), or None when it would not pay."""
        table = self.table
        at = table.touched.position
        if at < self._rest_until:
            return None
        if self._position != at:
            rows = table.touched.since(self._position) if self._shape == (table.width, table.size) else None
            if rows is None or len(rows) > table.size // 2:
                self._rebuild()
            else:
                self._update(rows)
            self._position = at
            if len(self._ids) > table.size // 4 + 16:
                self._rest_until = at + 4 * table.size
                self._shape = (0, 0)
                return None
        return self._kind, self._rep[: len(self._counts)]

    def there(self) -> npt.NDArray[np.bool_]:
        """Per kind: does a row of it exist now?"""
        return np.array(self._counts, dtype=np.intp) > 0

    def _keys_of(self, rows: Index) -> list[bytes]:
        table = self.table
        parts = [getattr(table, name).take(rows, axis=1) for name in LEDGERS]
        single = (table.pod_count, table.max_pods, table.valid)
        parts += [table.assumed.take(rows, axis=1), *(column.take(rows)[None] for column in single)]
        block = np.ascontiguousarray(np.concatenate(parts).T)
        text, width = block.tobytes(), block.shape[1] * 8
        return [text[i * width : (i + 1) * width] for i in range(len(rows))]

    def _rebuild(self) -> None:
        table = self.table
        self._shape = (table.width, table.size)
        self._ids, self._keys, self._counts, self._free = {}, [], [], []
        self._kind = np.zeros(table.size, dtype=np.intp)
        self._rep = np.zeros(max(table.size, 1), dtype=np.intp)
        for row, key in enumerate(self._keys_of(np.arange(table.size))):
            self._join(row, key)

    def _update(self, rows: set[int]) -> None:
        index = np.fromiter(rows, dtype=np.intp, count=len(rows))
        for row, key in zip(index.tolist(), self._keys_of(index), strict=True):
            old = int(self._kind[row])
            if self._keys[old] != key:
                self._kind[row] = -1
                self._leave(row, old)
                self._join(row, key)

    def _join(self, row: int, key: bytes) -> None:
        kind = self._ids.get(key)
        if kind is None:
            if self._free:
                kind = self._free.pop()
                self._keys[kind] = key
            else:
                kind = len(self._counts)
                self._keys.append(key)
                self._counts.append(0)
            self._ids[key] = kind
            self._rep[kind] = row
        self._counts[kind] += 1
        self._kind[row] = kind

    def _leave(self, row: int, kind: int) -> None:
        self._counts[kind] -= 1
        if not self._counts[kind]:
            del self._ids[self._keys[kind]]
            self._keys[kind] = b""
            self._free.append(kind)
        elif self._rep[kind] == row:
            self._rep[kind] = int(np.argmax(self._kind == kind))
