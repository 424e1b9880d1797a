"""The nodeorder plugin: which scores it registers, with which weights."""

from __future__ import annotations

from pumice.engine.evaluate import same_class
from pumice.engine.scope import Scope
from pumice.framework.plugin import Arguments, Plugin
from pumice.framework.session import Session
from pumice.plugins.nodeorder.requests import RequestScores

_WEIGHTS = {
    "leastrequested": 1,
    "mostrequested": 0,
    "nodeaffinity": 2,
    "podaffinity": 2,
    "balancedresource": 1,
    "tainttoleration": 3,
    "imagelocality": 1,
    "podtopologyspread": 2,
}


class NodeOrder(Plugin):
    """Scores nodes as kube-scheduler does: free room, balance, affinities, taints, images, spread.

    Arguments, each a weight, 0 turns the score off: ``leastrequested.weight`` (1), ``mostrequested.weight`` (0),
    ``nodeaffinity.weight`` (2), ``podaffinity.weight`` (2), ``balancedresource.weight`` (1),
    ``tainttoleration.weight`` (3), ``imagelocality.weight`` (1), ``podtopologyspread.weight`` (2).
    """

    name = "nodeorder"
    arguments_read = tuple(f"{name}.weight" for name in _WEIGHTS)

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._weights = {name: arguments.int(f"{name}.weight", default) for name, default in _WEIGHTS.items()}

    def on_session_open(self, ssn: Session) -> None:
        weight = self._weights
        least, most, balanced = weight["leastrequested"], weight["mostrequested"], weight["balancedresource"]
        if least or most or balanced:
            scores = RequestScores(least, most, balanced)
            ssn.add_batch_node_order_fn(self.name, scores.score, scope=Scope.NODE, key=same_class, also=True)
