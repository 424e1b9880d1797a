"""Small requests fill nodes that are in use already, so that whole nodes stay free: ten lines of policy."""

from pumice import Argument, Node, Plugin, Scope, Task, scope


class TidyGpus(Plugin):
    """Prefers, for tasks that ask for GPUs, the node with the most GPUs in use."""

    name = "tidy-gpus"
    weight = Argument(10.0, "Weight of the score.")

    @scope(Scope.NODE)
    def node_order(self, task: Task, node: Node) -> float:
        return 100 * self.weight * node.gpu_utilization if task.requires_gpu else 0.0
