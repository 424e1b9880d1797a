"""GPUs: a predicate, a score by utilisation, and an order of the devices of a node that packs."""

from pumice import Argument, Node, Plugin, Scope, Task, Unfit, scope


class GpuPlacement(Plugin):
    """Fills GPU nodes, and the devices of a node, one after the other."""

    name = "gpu-placement"
    weight = Argument(1.0, "Weight of the node score.")

    @scope(Scope.NODE)
    def predicate(self, task: Task, node: Node) -> None:
        if not node.has_gpus_for(task):
            raise Unfit("requires a GPU and the node has none free")

    @scope(Scope.NODE)
    def node_order(self, task: Task, node: Node) -> float:
        return node.gpu_utilization * 100 * self.weight if task.requires_gpu else 0.0

    def gpu_order(self, task: Task, node: Node, gpu: str) -> float:
        """The more tasks share a device already, the better: whole devices stay free for whole requests."""
        return float(sum(1 for other in node.tasks.values() if int(gpu) in other.devices))
