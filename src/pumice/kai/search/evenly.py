"""Topology spread constraints that must hold, in the world as a session changes it."""

from __future__ import annotations

from collections import Counter

import numpy as np

from pumice.engine.affinity.spreading import spreads
from pumice.engine.affinity.terms import Spread
from pumice.engine.matching import has_node_selection, selected, taints_tolerated
from pumice.kai.search.rows import WorldRows
from pumice.kai.view.stage import ACTIVE
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.world import KaiWorld
from pumice.model.node import Node

_WHEN = "DoNotSchedule"


def must_spread(task: TaskView) -> bool:
    """Has the task a constraint that must hold?"""
    return any(c.when_unsatisfiable == _WHEN for c in task.task.klass.spec.topology_spread_constraints or ())


def stays_even(world: KaiWorld, task: TaskView, node: Node) -> bool:
    """Would no domain hold too many more than another, were the task on the node?"""
    constraints = spreads(task.task, _WHEN)
    if any(c.topology_key not in node.labels for c in constraints):
        return False
    return all(_skew(world, task, node, c, [x.topology_key for x in constraints]) <= c.max_skew for c in constraints)


def _skew(world: KaiWorld, task: TaskView, node: Node, spread: Spread, keys: list[str]) -> int:
    """How many more the node's domain would hold than the one with fewest."""
    counts: Counter[str] = Counter()
    placed = world.nodes.tasks
    for other in _taking_part(world, task, spread, keys):
        value = other.labels[spread.topology_key]
        here = [t for t in placed.get(other.row, {}).values() if t.stage in ACTIVE and t.node is other]
        counts[value] += sum(1 for t in here if t is not task and _meant(spread, t))
    least = min(counts.values(), default=0) if len(counts) >= spread.min_domains else 0
    return counts[node.labels[spread.topology_key]] + _meant(spread, task) - least


def _taking_part(world: KaiWorld, task: TaskView, spread: Spread, keys: list[str]) -> list[Node]:
    """Nodes with the labels of all constraints that the task could be on, as far as the constraint cares."""
    nodes = [n for n in world.nodes.nodes if all(key in n.labels for key in keys)]
    rows = WorldRows(world.nodes, np.array([n.row for n in nodes], dtype=np.intp))
    fits = np.ones(len(nodes), dtype=np.bool_)
    klass = task.task.klass
    if spread.affinity_matters and has_node_selection(klass):
        fits &= selected(klass, rows)
    if spread.taints_matter:
        fits &= taints_tolerated(klass, rows)
    return [n for n, fit in zip(nodes, fits.tolist(), strict=True) if fit]


def _meant(spread: Spread, task: TaskView) -> bool:
    return spread.selector.matches(task.task.namespace, task.task.labels, lambda _: {})
