"""Keep jobs near the resources they prefer: a group of nodes named by an annotation."""

from pumice import Argument, Node, Plugin, Scope, Task, Unfit, scope

PREFERRED_GROUP = "volcano.sh/preferred-node-group"
NODE_GROUP = "volcano.sh/node-group"


class ResourceAffinity(Plugin):
    """Prefers (or, with ``require-match``, demands) nodes of the group that the job's annotation names."""

    name = "resource-affinity"
    prefer_weight = Argument(10.0, "A node of the group scores ten times as much.", name="prefer-weight")
    require_match = Argument(False, "Other nodes take no tasks of the job.", name="require-match")

    @scope(Scope.STATIC)
    def predicate(self, task: Task, node: Node) -> None:
        wanted = task.job.annotations.get(PREFERRED_GROUP)
        if self.require_match and wanted and node.labels.get(NODE_GROUP) != wanted:
            raise Unfit(f"node is not in group {wanted}", unresolvable=True)

    @scope(Scope.STATIC)
    def node_order(self, task: Task, node: Node) -> float:
        wanted = task.job.annotations.get(PREFERRED_GROUP)
        if wanted and node.labels.get(NODE_GROUP) == wanted:
            return self.prefer_weight * 10
        return 0.0
