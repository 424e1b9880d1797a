"""Binds and evictions that wait to be sent, and that what happened since they were decided has overtaken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from pumice.model.api import Toleration
from pumice.model.intents import Bind, Evict, Intent
from pumice.model.node import Node
from pumice.model.resources import dim_name
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

S = TaskStatus
_CORDONED = "node.kubernetes.io/unschedulable"


class Overtaken:
    """Looks once more at what was handed over, against the newest view of the cluster.

    Beside another scheduler, or after a takeover with thousands of binds, seconds pass between a decision and its
    request. What is found here is withdrawn if it was not sent yet, and decided anew.
    """

    def __init__(self) -> None:
        self._binds: dict[str, Bind] = {}
        self._evictions: dict[str, Evict] = {}

    def handed_over(self, intents: Iterable[Intent]) -> None:
        """These are on their way."""
        for intent in intents:
            match intent:
                case Bind():
                    self._binds[intent.uid] = intent
                case Evict():
                    self._evictions[intent.uid] = intent

    def look(self, state: ClusterState) -> dict[str, str]:
        """Why something should not be sent any more, by the pod's UID. Cost: what is on its way."""
        found: dict[str, str] = {}
        nodes: dict[int, Node] = {}
        for uid, bind in list(self._binds.items()):
            task = state.assumed.get(uid)
            if task is not None and task.status is S.BINDING and task.node is not None:
                nodes[task.row] = task.node
                if task.node.unschedulable and not _tolerates_cordon(task):
                    found[uid] = f"node {bind.node} was cordoned"
                continue
            del self._binds[uid]
            gone = state.tasks.get(uid)
            if gone is None or gone.status in (S.RELEASING, S.SUCCEEDED, S.FAILED):
                found[uid] = "the pod is gone or leaving"
        for uid, why in self._crowded(state, nodes.values()):
            found.setdefault(uid, why)
        for uid, eviction in list(self._evictions.items()):
            task = state.assumed.get(uid)
            if task is None or task.status is not S.RELEASING:
                del self._evictions[uid]
                continue
            helped = state.task_by_key.get(eviction.beneficiary_pod)
            if eviction.beneficiary_pod and (helped is None or helped.status is not S.PENDING):
                what = "is gone" if helped is None else "has its place"
                found[uid] = f"{eviction.beneficiary_pod}, for which it was to make room, {what}"
        return found

    def _crowded(self, state: ClusterState, nodes: Iterable[Node]) -> Iterator[tuple[str, str]]:
        """Binds to nodes on which more is held than there is: those handed over last, until the rest fits."""
        idle = state.table.idle
        for node in nodes:
            short = {d: -int(idle[d, node.row]) for d in np.flatnonzero(idle[:, node.row] < 0).tolist()}
            if not short:
                continue
            for uid in reversed([uid for uid in self._binds if uid in node.tasks]):
                held = dict(state.tasks[uid].klass.items)
                helps = [d for d, lacking in short.items() if lacking > 0 and held.get(d, 0) > 0]
                if helps:
                    yield uid, f"{dim_name(helps[0])} of node {node.name} was taken by others"
                    short = {d: lacking - held.get(d, 0) for d, lacking in short.items()}


def _tolerates_cordon(task: Task) -> bool:
    def tolerates(one: Toleration) -> bool:
        return one.key == _CORDONED or (not one.key and one.operator == "Exists")

    return any(map(tolerates, task.pod.spec.tolerations or ()))
