"""Right plugins: no checker finds anything in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pumice import (
    Argument,
    Event,
    EventHandler,
    Job,
    Node,
    NodeRows,
    Plugin,
    Queue,
    Resources,
    Scope,
    Session,
    Task,
    TaskStatus,
    Unfit,
    Verdict,
    reason_id,
    register_plugin_builder,
    reject,
    same_class,
    scope,
)


class Labelled(Plugin):
    """A filter as a method."""

    name = "labelled"

    def predicate(self, task: Task, node: Node) -> None:
        if "my-label" not in node.labels:
            raise Unfit("node has no label my-label")


class Racks(Plugin):
    """A score with its arguments and a scope."""

    name = "racks"
    weight = Argument(1.0, "Weight of the score.", minimum=0)
    racks = Argument[list[str]]([], "The racks that it prefers.")

    @scope(Scope.STATIC)
    def node_order(self, task: Task, node: Node) -> float:
        return self.weight if node.labels.get("rack") in self.racks else 0.0


class Registered(Plugin):
    """Callbacks that are registered under other names."""

    name = "registered"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_fn(self.name, self.by_priority)
        ssn.add_predicate_fn(self.name, self.has_disk, scope=Scope.STATIC, key=same_class)
        ssn.add_node_order_fn(self.name, self.fuller_is_better)

    def by_priority(self, left: Job, right: Job) -> int:
        return right.priority - left.priority

    def has_disk(self, task: Task, node: Node) -> None:
        if task.labels.get("disk") and not node.labels.get("disk"):
            raise Unfit("no disk", unresolvable=True)

    def fuller_is_better(self, task: Task, node: Node) -> float:
        allocatable = node.allocatable.milli_cpu
        return node.used.milli_cpu / allocatable * 100 if allocatable else 0.0


class AsInKai(Plugin):
    """KAI's forms: no name, and the job between the task and the node."""

    name = "as-in-kai"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_predicate_fn(self.filter)
        ssn.add_pre_predicate_fn(self.first)
        ssn.add_gpu_order_fn(self.gpu_order)

    def filter(self, task: Task, job: Job, node: Node) -> None:
        if job.priority > 10 and node.name == "small":
            raise Unfit("too small")

    def first(self, task: Task, job: Job) -> None:
        if not task.requires_gpu:
            raise Unfit("asks for no GPU")

    def gpu_order(self, task: Task, node: Node, gpu: str) -> float:
        return float(len(gpu))


class Batch(Plugin):
    """Many nodes at once."""

    name = "batch"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_batch_predicate_fn(self.name, self.on_fast_disks, scope=Scope.STATIC, key=same_class)
        ssn.add_batch_node_order_fn(self.name, self.used_share, scope=Scope.NODE, key=same_class)

    def on_fast_disks(self, task: Task, rows: NodeRows) -> npt.NDArray[np.bool_]:
        return rows.labels.equals("disk", "fast")

    def used_share(self, task: Task, rows: NodeRows) -> npt.NDArray[np.float64]:
        return 100 * rows.used.milli_cpu / np.maximum(rows.allocatable.milli_cpu, 1)


class BatchReasons(Plugin):
    """Reasons by their numbers, and whole numbers as scores."""

    name = "batch-reasons"

    def batch_predicate(self, task: Task, rows: NodeRows) -> npt.NDArray[np.int32]:
        found: npt.NDArray[np.int32] = np.where(rows.max_pods > 10, 0, reason_id(self.name, "too few pods"))
        return found

    def batch_node_order(self, task: Task, rows: NodeRows) -> npt.NDArray[np.int64]:
        return rows.pod_count


class Lookups(Plugin):
    """Objects stand for their keys."""

    name = "lookups"

    def on_session_open(self, ssn: Session) -> None:
        self.queues: Mapping[str, Queue] = ssn.queues
        for job in ssn.jobs.values():
            queue = ssn.queues[job.queue]
            ssn.log.info("%s %s", queue.name, ssn.jobs[job].uid)

        def score(task: Task, node: Node) -> float:
            return float(ssn.jobs[task.job].priority + len(ssn.nodes[node].tasks))

        ssn.add_node_order_fn(self.name, score)


class Victims(Plugin):
    """Victims as a list."""

    name = "victims"

    def preemptable(self, preemptor: Task, tasks: list[Task]) -> list[Task]:
        return [task for task in tasks if task.priority < preemptor.priority]

    reclaimable = preemptable


class VictimsWithVote(Plugin):
    """Victims with a vote, or none; any sequence may come in."""

    name = "victims-with-vote"

    def preemptable(self, preemptor: Task, tasks: Sequence[Task]) -> tuple[list[Task], int] | None:
        return (list(tasks), 1) if preemptor.preemptible else None


class Gates(Plugin):
    """Yes or no in each of its spellings."""

    name = "gates"

    def job_ready(self, job: Job) -> bool:
        return job.ready_count >= job.min_available

    def job_valid(self, job: Job) -> Verdict | None:
        return reject("too few pods", "TooFew") if job.valid_count < job.min_available else None

    def job_enqueueable(self, job: Job) -> int:
        return 1 if job.priority else 0

    def job_pipelined(self, job: Job) -> bool:
        return job.is_pipelined

    def overused(self, queue: Queue) -> bool:
        return queue.allocated["cpu"] > 100

    def allocatable(self, queue: Queue, task: Task) -> bool:
        return task.requests.milli_cpu < 1000


class Orders(Plugin):
    """Orders by comparison, and by key."""

    name = "orders"

    def task_order(self, left: Task, right: Task) -> int:
        return (left.name > right.name) - (left.name < right.name)

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_key_fn(self.name, lambda job: (-job.priority, job.creation))
        ssn.add_queue_order_fn(self.name, lambda left, right: right.weight - left.weight)


class Tracker(Plugin):
    """Follows placements."""

    name = "tracker"

    def on_session_open(self, ssn: Session) -> None:
        self.held: dict[str, int] = {}
        ssn.add_event_handler(EventHandler(allocate=self.took, deallocate=self.gave_back))

    def took(self, event: Event) -> None:
        key = event.task.namespace
        self.held[key] = self.held.get(key, 0) + 1
        if self.held[key] > 10:
            event.err = "too many"

    def gave_back(self, event: Event) -> None:
        self.held[event.task.namespace] -= 1


class Sums(Plugin):
    """A sum over jobs, and what outlives a session."""

    name = "sums"

    def on_session_open(self, ssn: Session) -> None:
        total = ssn.keep_sum("asked", asked)
        ssn.memory["cycles"] = ssn.memory.get("cycles", 0) + 1
        self.free = ssn.total["cpu"] - total["cpu"]


def asked(job: Job) -> Resources:
    """What a job asks for."""
    return job.total_request


class TwoSteps(Plugin):
    """A score in two steps."""

    name = "two-steps"

    def node_map(self, task: Task, node: Node) -> int:
        return len(node.tasks)

    def node_reduce(self, task: Task, scores: dict[str, float]) -> dict[str, float]:
        most = max(scores.values(), default=0) or 1
        return {name: score / most for name, score in scores.items()}

    def best_node(self, task: Task, scores: dict[str, float]) -> str | None:
        return min(scores) if scores else None


class Sets(Plugin):
    """Sets of nodes, of hyper-nodes, and annotations."""

    name = "sets"

    def subset_nodes(self, job: Job, sub_job: object, tasks: Sequence[Task], nodes: list[Node]) -> list[list[Node]]:
        half = len(nodes) // 2
        return [nodes[:half], nodes[half:]]

    def bind_request_mutate(self, task: Task, node_name: str) -> dict[str, str]:
        return {"placed-by": self.name}


class Published(Plugin):
    """Metrics and the end of a session."""

    name = "published"

    def on_session_close(self, ssn: Session) -> None:
        running = sum(job.count(TaskStatus.RUNNING) for job in ssn.jobs.values())
        ssn.log.info("%d run", running)


class Silent(Plugin):
    """Parameters of other names, a narrower answer, a wider parameter."""

    name = "silent"

    def predicate(self, _task: object, _node: object) -> None:
        return None

    def node_order(self, anything: Task, place: Node) -> int:
        return 0


class Copies(Plugin):
    """Data of one's own."""

    name = "copies"

    def predicate(self, task: Task, node: Node) -> None:
        labels = node.labels.copy()
        labels["mine"] = "yes"
        mine = dict(task.annotations)
        mine.pop("x", None)
        if labels | mine == {}:
            raise Unfit("nothing")


class VictimTasks(Plugin):
    """Under Volcano's plural name."""

    name = "victim-tasks"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_victim_tasks_fns(self.name, self.old)

    def old(self, tasks: list[Task]) -> list[Task]:
        return [task for task in tasks if task.creation < 1000]


class Filters(Plugin):
    """KAI's filters of victims."""

    name = "filters"

    def victim_filter(self, pending: Job, victim: Job) -> bool:
        return victim.priority < pending.priority

    def task_within_capacity(self, task: Task, node: Node) -> Verdict:
        return Verdict(True)


register_plugin_builder("labelled-twice", Labelled)
