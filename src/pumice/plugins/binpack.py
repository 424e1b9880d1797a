"""binpack: fill nodes up one after the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pumice import Argument, ArgumentMap, Arguments, NodeRows, Plugin, Scope, Session, Task, same_class


class Binpack(Plugin):
    """Prefers nodes that the task would fill up most, resource by resource and weighted."""

    name = "binpack"
    persistent = True
    weight = Argument(1, "Weight of the whole score; 0 turns it off.", name="binpack.weight", minimum=0, lenient=True)
    cpu = Argument(1, "Weight of cpu.", name="binpack.cpu", minimum=0, lenient=True)
    memory = Argument(1, "Weight of memory.", name="binpack.memory", minimum=0, lenient=True)
    resources = Argument[list[str]]([], "Further resources that count.", name="binpack.resources", read=Arguments.names)
    weights = ArgumentMap(1, "Weight of one of them.", name="binpack.resources.<name>", minimum=0, lenient=True)

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        others = {name: self.weights.get(name, 1) for name in self.resources}
        weights = {"cpu": self.cpu, "memory": self.memory, **others}
        self._weights = {name: weight for name, weight in weights.items() if weight}

    def on_session_open(self, ssn: Session) -> None:
        if self.weight:
            ssn.add_batch_node_order_fn(self.name, self.fullest_is_best, scope=Scope.NODE, key=same_class)

    def fullest_is_best(self, task: Task, rows: NodeRows) -> npt.NDArray[np.float64]:
        """How full each node would be of what the task asks for, 0 to 100 times the weight; 0 if it would be too full.

        A resource that a node does not offer adds nothing there.
        """
        asked = {name: amount for name in self._weights if (amount := task.requests.amount(name))}
        if not asked:
            return np.zeros(len(rows))
        names, weights = tuple(asked), [self._weights[name] for name in asked]
        after = rows.used[names] + np.array([*asked.values()])[:, None]
        offered = rows.allocatable[names]
        there = offered > 0
        parts = np.where(there, after * np.array(weights)[:, None] / np.where(there, offered, 1), 0.0)
        score: npt.NDArray[np.float64] = np.add.reduce(parts) / sum(weights) * (100 * self.weight)
        score[np.logical_or.reduce(there & (after > offered))] = 0.0
        return score
