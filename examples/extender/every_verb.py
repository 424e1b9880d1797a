"""A policy that has something to say at every verb: at most three GPUs of a node for one namespace."""

from __future__ import annotations

from collections import Counter

from pumice import Argument, Event, EventHandler, Job, Node, Plugin, Queue, Session, Task, Unfit

GPU = "nvidia.com/gpu"


class FairGpus(Plugin):
    """Keeps a namespace from taking a whole GPU node, and lets only cheaper tasks be victims."""

    name = "fair-gpus"
    limit = Argument(3, "GPUs of one node that a namespace may hold.")

    def on_session_open(self, ssn: Session) -> None:
        """Count what namespaces hold; the snapshot came with the call that opened the session."""
        self.held: Counter[tuple[str, str]] = Counter()
        for node in ssn.nodes.values():
            for task in node.tasks.values():
                self.held[node.name, task.namespace] += int(task.requests[GPU])
        ssn.add_event_handler(EventHandler(allocate=self.allocated, deallocate=self.deallocated))

    def predicate(self, task: Task, node: Node) -> None:
        if self.held[node.name, task.namespace] + task.requests[GPU] > self.limit:
            raise Unfit(f"namespace {task.namespace} already holds its {self.limit} GPUs of {node.name}")

    def node_order(self, task: Task, node: Node) -> float:
        return 10.0 * node.gpu_utilization

    def preemptable(self, evictor: Task, tasks: list[Task]) -> list[Task]:
        return [task for task in tasks if task.priority < evictor.priority]

    reclaimable = preemptable

    def overused(self, queue: Queue) -> bool:
        limit = queue.capability[GPU]
        return bool(limit) and queue.allocated[GPU] > limit

    def job_enqueueable(self, job: Job) -> bool:
        return "hold" not in job.annotations

    def job_ready(self, job: Job) -> bool:
        return job.ready_count >= job.min_available

    def allocated(self, event: Event) -> None:
        self.held[event.task.node_name, event.task.namespace] += int(event.task.requests[GPU])

    def deallocated(self, event: Event) -> None:
        self.held[event.task.node_name, event.task.namespace] -= int(event.task.requests[GPU])
