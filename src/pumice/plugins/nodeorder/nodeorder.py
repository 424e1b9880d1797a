"""The nodeorder plugin: which scores it registers, with which weights."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from pumice.engine.affinity.neighbours import Neighbours
from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope, skip_unless
from pumice.engine.views import same_class
from pumice.framework.arguments import Argument, Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.task import Task
from pumice.plugins.nodeorder.affinity_score import (
    PreferredCompany,
    SoftSpread,
    fewest_is_best,
    has_soft_spread,
    stretched,
)
from pumice.plugins.nodeorder.fixed_scores import (
    avoided_taints,
    least_is_best,
    most_is_best,
    preferred_nodes,
)
from pumice.plugins.nodeorder.images import Images
from pumice.plugins.nodeorder.requests import Frozen, RequestScores
from pumice.state.classes import Feature

Floats = npt.NDArray[np.float64]

_SCORES = {
    "leastrequested": (1, "The free part of cpu and memory after the task, averaged."),
    "mostrequested": (0, "The used part of cpu and memory after the task, averaged."),
    "balancedresource": (
        1,
        "Cpu, memory and requested `nvidia.com/gpu` are used more evenly with the task than without.",
    ),
    "nodeaffinity": (2, "Weights of the preferred node terms that match; the best node gets 100."),
    "tainttoleration": (3, "Fewer taints `PreferNoSchedule` that are not tolerated; none gives 100."),
    "podaffinity": (
        2,
        "Weights of preferred inter-pod terms, the task's own and those of pods that select it; lowest 0, highest 100.",
    ),
    "podtopologyspread": (2, "Fewer pods that a `ScheduleAnyway` constraint counts."),
    "imagelocality": (
        1,
        "Size of the task's images that are on the node, scaled by the part of the nodes that have them.",
    ),
}


def _blind(ssn: Session) -> bool:
    """Report whether scores are those of the session's beginning."""
    return ssn.compat.blind_scores and not ssn.configured("predicates")


class NodeOrder(Plugin):
    """Scores nodes as kube-scheduler does: free room, balance, affinities, taints, images, spread.

    Each argument is the weight of a score; 0 turns it off.
    """

    name = "nodeorder"
    persistent = True
    weights = tuple(Argument(default, doc, name=f"{name}.weight") for name, (default, doc) in _SCORES.items())

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._weights = {name: one.of(self.arguments) for name, one in zip(_SCORES, self.weights, strict=True)}
        least, most, balanced = [
            self._weights[name] for name in ("leastrequested", "mostrequested", "balancedresource")
        ]
        self._requests = RequestScores(least, most, balanced)

    def on_session_open(self, ssn: Session) -> None:
        add = partial(ssn.add_batch_node_order_fn, self.name)
        weight, used = self._weights, ssn.state.classes.features
        least, most, balanced = weight["leastrequested"], weight["mostrequested"], weight["balancedresource"]
        blind = _blind(ssn)
        if (least or most or balanced) and blind:
            add(RequestScores(least, most, balanced, Frozen.of(ssn.state.table)).score)
        elif least or most or balanced:
            add(self._requests.score, scope=Scope.NODE, key=same_class)
        if by := weight["tainttoleration"]:
            add(avoided_taints, scope=Scope.STATIC, key=same_class, normalize=least_is_best(by))
        if (by := weight["nodeaffinity"]) and Feature.PREFERRED_NODES in used:
            normalize = most_is_best(by)
            add(preferred_nodes, scope=Scope.STATIC, key=same_class, normalize=normalize)
        if by := weight["imagelocality"]:
            self._add_images(ssn, by)
        if Feature.NEIGHBOURS in used:
            index = Neighbours.frozen(ssn.state) if blind else Neighbours.kept(ssn.runtime.kept, ssn.state)
            if by := weight["podaffinity"]:
                company = PreferredCompany(index)
                add(company.score, key=company.key, normalize=stretched(by))
            if by := weight["podtopologyspread"]:
                add(SoftSpread(index).score, key=skip_unless(has_soft_spread), normalize=fewest_is_best(by))

    def _add_images(self, ssn: Session, weight: int) -> None:
        images = Images.kept(ssn.runtime.kept, ssn.state.table)
        images.sync()
        if not images:
            return

        def score(task: Task, rows: NodeRows) -> Floats:
            return weight * images.score(task, rows)

        ssn.add_batch_node_order_fn(self.name, score, scope=Scope.STATIC, key=images.key)
