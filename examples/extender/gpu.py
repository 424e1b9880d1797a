"""GPU models: a task may ask for one, and prefers nodes on which fewer GPUs stay unused."""

from __future__ import annotations

from pumice import Node, Plugin, Scope, Task, Unfit, scope

MODEL = "gpu.example.com/model"


class GpuModels(Plugin):
    """Puts a task on nodes with the GPU model that its label asks for."""

    name = "gpu-models"

    @scope(Scope.STATIC)
    def predicate(self, task: Task, node: Node) -> None:
        wanted = task.labels.get(MODEL)
        if wanted and node.labels.get(MODEL) != wanted:
            raise Unfit(f"wants {wanted}, the node has {node.labels.get(MODEL, 'no GPU')}", unresolvable=True)

    @scope(Scope.NODE)
    def node_order(self, task: Task, node: Node) -> float:
        return 100.0 * node.gpu_utilization
