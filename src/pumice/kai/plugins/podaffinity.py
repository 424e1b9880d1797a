"""podaffinity: nodes near those whom a task would like to be near, or who would like to be near it."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.affinity.neighbours import own_terms
from pumice.engine.affinity.terms import terms_of
from pumice.engine.scope import skip_unless
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.search.neighbourhood import Neighbourhood
from pumice.kai.search.rows import WorldRows
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.world import world_of

Floats = npt.NDArray[np.float64]
BAND: Final = 1_000_000.0
WIDTH: Final = 9.0
"""So many units of its band it uses at most: the next band begins at ten."""
REQUIRED: Final = 1
"""What a required affinity of somebody who is there already weighs."""


class KaiPodAffinity(Plugin):
    """Adds up the weights of preferred affinity and anti-affinity between a task and those who are there."""

    name = "podaffinity"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """Look at the world."""
        self._world = world_of(ssn)
        self._near = Neighbourhood(self._world)
        self._raw = ssn.compat.kai_raw_affinity
        anybody = any(terms_of(klass).all for klass in self._near.classes)
        ssn.add_batch_node_order_fn(self.name, self._score, key=skip_unless(lambda _: anybody))

    def _score(self, task: TaskView, rows: WorldRows) -> Floats:
        """The sum of the weights of all who are near, within the band of such scores (in KAI: beyond it too)."""
        sums = self._sums(self._world.task_of(task))
        keys = {key for key, _ in sums}
        scores = np.array([sum(sums.get((k, n.labels.get(k)), 0) for k in keys) for n in rows.nodes], dtype=np.float64)
        peak = float(np.abs(scores).max(initial=0.0))
        if peak > WIDTH and not self._raw:
            scores *= WIDTH / peak
        return scores * BAND

    def _sums(self, task: TaskView) -> dict[tuple[str, str | None], int]:
        """(label, value) -> the weights of those on nodes with it."""
        mine, near = own_terms(task.task).preferred, self._near
        sums: Counter[tuple[str, str | None]] = Counter()
        for other in near.placed():
            theirs, labels = own_terms(other.task), other.node.labels if other.node is not None else {}
            if other is task or not (mine or theirs.all):
                continue
            found = [(term, term.weight) for term in mine if near.means(term.selector, other)]
            found += [(term, term.weight) for term in theirs.preferred if near.means(term.selector, task)]
            found += [(term, REQUIRED) for term in theirs.affinity if near.means(term.selector, task)]
            for term, weight in found:
                if term.topology_key in labels:
                    sums[term.topology_key, labels[term.topology_key]] += weight
        return sums
