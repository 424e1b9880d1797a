"""Affinity between pods in the world as a session changes it: who is near a node, and what that means for a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from pumice.engine.affinity.neighbours import own_terms
from pumice.engine.affinity.terms import Selector, Term, terms_of
from pumice.kai.view.stage import USED, TaskStage
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.world import KaiWorld
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


def is_there(task: TaskView) -> bool:
    """Is it on its node, or promised a place, for all who are placed now?"""
    return task.stage in USED and not (task.stage is TaskStage.RELEASING and task.virtual)


def share_domain(term: Term, node: Node, other: Node | None) -> bool:
    """Are two nodes one place, as a term sees it?"""
    value = node.labels.get(term.topology_key)
    return value is not None and other is not None and other.labels.get(term.topology_key) == value
