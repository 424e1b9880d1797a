"""Why a task has no place: nodes by what is in the way, as reasons and in KAI's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pumice.kai.search.choice import KaiChoice
from pumice.kai.search.rows import WorldRows
from pumice.kai.view.tasks import GPU_NAMES, TaskView
from pumice.kai.view.wording import JobError, lacks, no_capacity
from pumice.kai.view.world import KaiWorld
from pumice.model.node import Node
from pumice.model.reason import Reason, Verdict, reason_of
from pumice.model.resources import dim_name

Bools = npt.NDArray[np.bool_]


class Stuck(NamedTuple):
    """A task that found no node, among how many, and why."""

    task: TaskView
    reasons: dict[Reason, int]
    nodes: int
    error: JobError


class HopelessTasks:
    """Finds out what is in the way of tasks. What is known of one is kept for its likes until something changes."""

    def __init__(self, world: KaiWorld, best: KaiChoice, capacity: Callable[[TaskView, Node], Verdict]) -> None:
        """*capacity*: may the queue of a task have it on a node?"""
        self._world, self._best, self._capacity = world, best, capacity
        self._full: dict[int, bool] = {}
        self._lacks: dict[int, tuple[Bools, dict[Reason, int], Counter[str]]] = {}
        self._full_of = -1

    def fits_nowhere(self, task: TaskView) -> bool:
        """Is there no node with room for a task, whatever else is asked of it?"""
        self._forget()
        known = self._full.get(id(task.request))
        if known is None:
            known = self._full[id(task.request)] = not np.count_nonzero(
                self._world.nodes.room.fits(task.request, now=False)
            )
        return known

    def _forget(self) -> None:
        """What is kept of a world that has changed since is kept no more."""
        if self._full_of != self._world.version:
            self._full, self._lacks, self._full_of = {}, {}, self._world.version

    def reasons(self, task: TaskView, nodes: Bools) -> tuple[dict[Reason, int], Counter[str]]:
        """Nodes by what is in the way of a task, as reasons and in KAI's words."""
        found, words = Counter[Reason](), Counter[str]()
        room = self._world.nodes.room.fits(task.request, now=False)
        if not (nodes & room).any():
            return self._lacking(task, nodes)
        self._count_lacking(task, np.flatnonzero(nodes & ~room), found, words)
        rows = WorldRows(self._world.nodes, nodes & room)
        objections = self._best.objections(task, rows)
        for number, count in zip(*np.unique(objections, return_counts=True), strict=True):
            if number:
                found[reason_of(int(number))] += int(count)
                words[reason_of(int(number)).text] += int(count)
        for node, objected in zip(rows.nodes, objections.tolist(), strict=True):
            if not objected and not (said := self._capacity(task, node)):
                found[Reason("", said.text)] += 1
                words[no_capacity(said.reason, said.text)] += 1
        return dict(found), words

    def _lacking(self, task: TaskView, nodes: Bools) -> tuple[dict[Reason, int], Counter[str]]:
        """As `reasons`, where there is no room anywhere; kept until something changes."""
        self._forget()
        known = self._lacks.get(id(task.request))
        if known is None or known[0] is not nodes:
            found, words = Counter[Reason](), Counter[str]()
            self._count_lacking(task, np.flatnonzero(nodes), found, words)
            known = self._lacks[id(task.request)] = (nodes, dict(found), words)
        return known[1], known[2]

    def _count_lacking(
        self, task: TaskView, index: npt.NDArray[np.intp], found: Counter[Reason], words: Counter[str]
    ) -> None:
        """Count the resources of which nodes have too little; GPUs, where it is nothing else.

        KAI finds no words for GPUs that are asked for by their memory or by claims.
        """
        ledger, request = self._world.nodes, task.request
        left = np.ones(len(index), dtype=np.bool_)
        for d, v in (*request.items, *([(ledger.gpu, request.gpus)] if request.gpus else ())):
            free = ledger.idle[d, index] + ledger.releasing[d, index] if d < len(ledger.idle) else np.zeros(len(index))
            short = free < v
            if short.any():
                words[lacks(dim_name(d))] += int(short.sum())
                found[Reason("", f"Insufficient {dim_name(d)}")] += int((short & left).sum())
                left &= ~short
        if left.any():
            found[Reason("", f"Insufficient {GPU_NAMES[0]}")] += int(left.sum())
            if request.shared is not None and not request.shared.memory:
                words[lacks(GPU_NAMES[0])] += int(left.sum())
