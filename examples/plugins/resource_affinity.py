"""Keep jobs near the resources they prefer: a group of nodes named by an annotation."""

from pumice import Arguments, Node, Plugin, Scope, Task, Unfit, scope

PREFERRED_GROUP = "volcano.sh/preferred-node-group"
NODE_GROUP = "volcano.sh/node-group"


class ResourceAffinity(Plugin):
    """Prefers (or, with ``require-match``, demands) nodes of the group that the job's annotation names.

    Arguments: ``prefer-weight`` (10), a match scores ten times as much; ``require-match`` (false).
    """

    name = "resource-affinity"
    arguments_read = ("prefer-weight", "require-match")

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.prefer_weight = arguments.float("prefer-weight", 10)
        self.require_match = arguments.bool("require-match", False)

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
