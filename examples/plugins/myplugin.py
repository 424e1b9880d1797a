"""The first plugin of the developer guide: job order, predicate and node order in one class."""

from pumice import Argument, Job, Node, Plugin, Session, Task, Unfit


class MyPlugin(Plugin):
    """Jobs by priority, only nodes with the label ``my-label``, fuller nodes first."""

    name = "myplugin"
    weight = Argument(1.0, "Weight of the score.")

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_fn(self.name, self.job_order_by_priority)
        ssn.add_predicate_fn(self.name, self.has_my_label)
        ssn.add_node_order_fn(self.name, self.fuller_is_better)

    def job_order_by_priority(self, left: Job, right: Job) -> int:
        return right.priority - left.priority

    def has_my_label(self, task: Task, node: Node) -> None:
        if "my-label" not in node.labels:
            raise Unfit("node has no label my-label")

    def fuller_is_better(self, task: Task, node: Node) -> float:
        allocatable = node.allocatable.milli_cpu
        return node.used.milli_cpu / allocatable * 100 * self.weight if allocatable else 0.0
