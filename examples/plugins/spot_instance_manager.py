"""Spot nodes may vanish: keep jobs that must not be interrupted off them, and fill regular nodes first."""

from pumice import Argument, Job, Node, Plugin, Scope, Session, Task, Unfit


class SpotInstanceManager(Plugin):
    """Jobs that are not preemptible stay off spot nodes; regular nodes score higher for all jobs."""

    name = "spot-instance-manager"
    label = Argument("kai.scheduler/instance-type", "The label of spot nodes.")
    value = Argument("spot", "Its value.")
    score = Argument(1000.0, "The score of regular nodes.")

    def on_session_open(self, ssn: Session) -> None:
        # KAI's form: no name, and a predicate that also takes the job
        ssn.add_predicate_fn(self.stays_off_spot, scope=Scope.STATIC)
        ssn.add_node_order_fn(self.regular_first, scope=Scope.STATIC)

    def is_spot(self, node: Node) -> bool:
        return node.labels.get(self.label) == self.value

    def stays_off_spot(self, task: Task, job: Job, node: Node) -> None:
        if not job.preemptible and self.is_spot(node):
            raise Unfit("a job that is not preemptible stays off spot nodes", unresolvable=True)

    def regular_first(self, task: Task, node: Node) -> float:
        return 0.0 if self.is_spot(node) else self.score
