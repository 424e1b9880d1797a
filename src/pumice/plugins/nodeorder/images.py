"""Image locality: nodes that have the images of a task, the more so the more nodes have them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP
from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

Floats = npt.NDArray[np.float64]

MAX: Final = 100
_MB: Final = 1024 * 1024
_LEAST: Final = 23 * _MB
_MOST: Final = 1000 * _MB


class Images:
    """Per row: the images there, each with its size and the number of nodes that had it when the node was last seen.

    The size of an image is that of the first node that told of it, as in Volcano.
    """

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._position = -1
        self._rows: dict[int, dict[str, int]] = {}
        self._holders: dict[str, dict[int, int]] = {}
        self._at: dict[str, dict[int, int]] = {}

    @classmethod
    def kept(cls, store: dict[str, Any], table: NodeTable) -> Images:
        """The one of a table that *store* keeps, made when first asked for."""
        found = store.get("images")
        if not isinstance(found, cls) or found.table is not table:
            found = store["images"] = cls(table)
        return found

    def __bool__(self) -> bool:
        """Report whether any node has told of an image."""
        return bool(self._rows)

    def sync(self) -> None:
        """Take in the nodes that changed since the last time."""
        log = self.table.changed
        if log.position == self._position:
            return
        rows = log.since(self._position) if self._position >= 0 else None
        self._position = log.position
        for row in range(self.table.size) if rows is None else sorted(rows):
            node = self.table.nodes[row]
            images = (node.object.status.images or ()) if node is not None else ()
            if not images and row not in self._rows:
                continue
            now = {name: image.size_bytes for image in images for name in image.names or ()}
            before = self._rows.get(row)
            if now == (before or {}):
                continue
            self._replace(row, before or {}, now)

    def _replace(self, row: int, before: dict[str, int], now: dict[str, int]) -> None:
        for name in before:
            for index in (self._holders, self._at):
                index[name].pop(row, None)
                if not index[name]:
                    del index[name]
        for name, size in now.items():
            holders = self._holders.setdefault(name, {})
            holders[row] = size
            self._at.setdefault(name, {})[row] = len(holders)
        if now:
            self._rows[row] = now
        else:
            self._rows.pop(row, None)

    def key(self, task: Task) -> Hashable:
        """How many nodes there are, which the scores are made of; `SKIP` if no node has an image of the task."""
        return len(self.table.by_name) if self.applies(task) else SKIP

    def applies(self, task: Task) -> bool:
        """Report whether any node has an image of the task."""
        holders = self._holders
        return bool(holders) and any(name in holders for name in _images(task.klass))

    def score(self, task: Task, rows: NodeRows) -> Floats:
        """0 to 100 by the size of the images that are there, each scaled by the part of the nodes that have it."""
        names = _images(task.klass)
        nodes = len(self.table.by_name)
        present = np.zeros(self.table.size, dtype=np.int64)
        for name in names:
            holders = self._holders.get(name)
            if holders is None:
                continue
            size = next(iter(holders.values()))
            for row, count in self._at[name].items():
                present[row] += int(float(size) * (count / nodes))
        most = _MOST * len(names)
        bounded = np.minimum(np.maximum(rows._take(present), _LEAST), most)
        return np.asarray(MAX * (bounded - _LEAST) // (most - _LEAST), dtype=np.float64)


def _images(klass: TaskClass) -> tuple[str, ...]:
    """The images of all containers with their tags, read once per class."""
    known: tuple[str, ...] | None = klass.memo.get("nodeorder.images")
    if known is None:
        spec = klass.spec
        known = tuple(_tagged(c.image) for c in (*(spec.init_containers or ()), *(spec.containers or ())))
        klass.memo["nodeorder.images"] = known
    return known


def _tagged(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
