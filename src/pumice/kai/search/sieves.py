"""Cheap tests that a set of victims must pass before anybody imagines that they are gone."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from pumice.engine.matching import has_node_selection, selected
from pumice.kai.search.accumulating import Accumulated
from pumice.kai.search.rows import WorldRows
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.world import World
from pumice.model.gpu import WHOLE

Bools = npt.NDArray[np.bool_]


class Sieve:
    """Follows one growing set of victims on behalf of the tasks that are to be placed."""

    def __init__(self, world: World, tasks: list[TaskView], recorded: list[TaskView], feasible: Bools) -> None:
        self._world = world
        ledger = world.nodes
        self._wanted = sorted((t.request.gpus for t in tasks if t.request.gpus), reverse=True)
        self._free = (ledger.idle[ledger.gpu] + ledger.releasing[ledger.gpu]).tolist()
        self._seen = 0
        self._within = feasible.copy()
        self._selecting = [t for t in tasks if has_node_selection(t.task.klass)]
        self._all = WorldRows(ledger, np.arange(len(feasible), dtype=np.intp))
        self._unplaced = [selected(t.task.klass, self._all) for t in self._selecting]
        self._passed = False
        self._opened: set[tuple[int, str]] = set()
        for task in recorded:
            self._gone(task)

    def _gone(self, task: TaskView) -> None:
        if task.node is None:
            return
        row = task.node.row
        self._within[row] = True
        self._free[row] += task.request.gpus
        for name in task.groups:
            if (row, name) not in self._opened:  # it may become whole, if all who share it go
                self._opened.add((row, name))
                self._free[row] += WHOLE

    def accepts(self, so_far: Accumulated) -> bool:
        """Could it be enough?"""
        while self._seen < len(so_far.batches):
            for task in so_far.batches[self._seen]:
                self._gone(task)
            self._seen += 1
        if self._passed:
            return True
        if any(not (mask & self._within).any() for mask in self._unplaced):
            return False
        self._passed = self._gpus_enough()
        return self._passed

    def _gpus_enough(self) -> bool:
        """Do the wanted GPUs go, largest first, each on the node with most of them?"""
        if not self._wanted:
            return True
        best = heapq.nlargest(len(self._wanted), self._free)
        if best and best[0] < self._wanted[0]:
            return False
        heap = [-v for v in best]
        heapq.heapify(heap)
        for wanted in self._wanted:
            if not heap or -heap[0] < wanted:
                return False
            heapq.heapreplace(heap, heap[0] + wanted)
        return True
