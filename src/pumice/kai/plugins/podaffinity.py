"""podaffinity: nodes near pods that a task would like to be near, or that would like to be near it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.affinity.neighbours import Neighbours, own_terms
from pumice.engine.affinity.terms import Term, TermKind
from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.view.world import world_of
from pumice.model.task import Task
from pumice.state.classes import Feature

Floats = npt.NDArray[np.float64]
BAND: Final = 1_000_000.0
WIDTH: Final = 9.0
"""So many units of its band it uses at most: the next band begins at ten."""
REQUIRED: Final = 1
"""The weight of a required affinity of a pod that is there already."""


class KaiPodAffinity(Plugin):
    """Adds up the weights of preferred affinity and anti-affinity between a task and the pods that are there."""

    name = "podaffinity"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """Read the index of pods by domain."""
        self._anybody = Feature.NEIGHBOURS in ssn.state.classes.features
        self._world = world_of(ssn)
        self._index = Neighbours.kept(ssn.runtime.kept, ssn.state).live()
        self._raw = ssn.compat.kai_raw_affinity
        ssn.add_batch_node_order_fn(self.name, self._score, key=self._key)

    def _facing(self, task: Task) -> tuple[Term, ...]:
        """The terms of pods that select the task and draw it near or hold it off."""
        self._index.sync()
        found = self._index.facing(self._index.kind_of(task))
        return tuple(t for t in found if t.kind is not TermKind.ANTI_AFFINITY)

    def _key(self, task: Task) -> Hashable:
        if not self._anybody:
            return SKIP
        task = self._world.task_of(task).task
        facing = self._facing(task)
        return facing if facing or own_terms(task).preferred else SKIP

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        """The sum of the weights of all terms that hold, within the band of such scores (in KAI: beyond it too)."""
        task, index = self._world.task_of(task).task, self._index
        scores = np.zeros(len(rows))
        weighed = [(index.tally(t.selector, t.topology_key), t.weight) for t in own_terms(task).preferred]
        weighed += [
            (index.all_carriers(t), t.weight if t.kind is TermKind.PREFERRED else REQUIRED) for t in self._facing(task)
        ]
        for tally, weight in weighed:
            scores += weight * tally.counts[rows._take(tally.codes)]
        peak = float(np.abs(scores).max(initial=0.0))
        if peak > WIDTH and not self._raw:
            scores *= WIDTH / peak
        return scores * BAND
