"""Small requests fill nodes that are in use already, so that whole nodes stay free: ten lines of policy."""

from pumice import Arguments, Node, Plugin, Scope, Task, scope


class TidyGpus(Plugin):
    """Prefers, for tasks that ask for GPUs, the node with the most GPUs in use. Argument: ``weight`` (10)."""

    name = "tidy-gpus"
    arguments_read = ("weight",)

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.weight = arguments.float("weight", 10)

    @scope(Scope.NODE)
    def node_order(self, task: Task, node: Node) -> float:
        return 100 * self.weight * node.gpu_utilization if task.requires_gpu else 0.0
