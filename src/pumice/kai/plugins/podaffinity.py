"""podaffinity: nodes near pods that a task would like to be near, or that would like to be near it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from pumice.engine.affinity.neighbours import own_terms
from pumice.engine.affinity.terms import Selector, Term, terms_of
from pumice.engine.scope import skip_unless
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.search.placing import WorldRows
from pumice.kai.view.tasks import TaskView, is_there
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.api import NamespaceObject
from pumice.model.node import Node


class Neighbourhood:
    """Who is on the nodes, or promised a place there; not who was evicted in this session, as all wait for his end."""

    def __init__(self, world: KaiWorld) -> None:
        self._world = world
        self.classes = [klass for klass, _ in world.kept.classes.values()]
        self.keeps_away = any(terms_of(klass).anti_affinity for klass in self.classes)
        """Does anybody want others to stay away?"""

    def placed(self) -> Iterator[TaskView]:
        """Everybody who has a node."""
        for there in self._world.nodes.tasks.values():
            yield from (t for t in there.values() if is_there(t))

    def lacks_company(self, task: TaskView, node: Node) -> bool:
        """Is somebody missing whom the task must be near?"""
        terms = own_terms(task.task)
        if not terms.affinity:
            return False
        if any(term.topology_key not in node.labels for term in terms.affinity):
            return True
        together = cast(Selector, terms.together)
        company = [t.node for t in self.placed() if t is not task and self.means(together, t)]
        if not company:  # the first of those who want each other's company goes anywhere
            return not self.means(together, task)
        return not all(any(share_domain(term, node, at) for at in company) for term in terms.affinity)

    def is_crowded(self, task: TaskView, node: Node) -> bool:
        """Is somebody near whom the task must not be near?"""
        terms = own_terms(task.task).anti_affinity
        return bool(terms) and any(
            share_domain(term, node, other.node) and self.means(term.selector, other)
            for other in self.placed()
            if other is not task
            for term in terms
        )

    def is_unwanted(self, task: TaskView, node: Node) -> bool:
        """Is somebody near who wants the task to stay away?"""
        return self.keeps_away and any(
            share_domain(term, node, other.node) and self.means(term.selector, task)
            for other in self.placed()
            if other is not task
            for term in own_terms(other.task).anti_affinity
        )

    def means(self, selector: Selector, task: TaskView) -> bool:
        """Does a selector mean the task?"""
        return selector.matches(task.task.namespace, task.task.labels, self._namespace_labels)

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        found = self._world.state.kind("Namespace").get(name)
        return (found.metadata.labels or {}) if isinstance(found, NamespaceObject) else {}


def share_domain(term: Term, node: Node, other: Node | None) -> bool:
    """Are two nodes one place, as a term sees it?"""
    value = node.labels.get(term.topology_key)
    return value is not None and other is not None and other.labels.get(term.topology_key) == value


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
