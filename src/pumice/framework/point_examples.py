"""One example for each extension point: `pumice plugin points NAME` prints it, and the reference page shows it.

Each is a method of a plugin, registered by its name; it answers by what it is given alone.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.framework.plugin import Plugin
from pumice.model.job import Job, SubJob
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import Unfit, Verdict, reject
from pumice.model.task import Task


def example_of(point: str) -> str:
    """The example of a point as Python: a plugin with that method."""
    method = textwrap.indent(textwrap.dedent(inspect.getsource(getattr(Examples, point))), "    ")
    return f'class MyPlugin(Plugin):\n    name = "my-plugin"\n\n{method}'.rstrip() + "\n"


class Examples(Plugin):
    """A method for every point."""

    name = "examples"

    # -- orders -------------------------------------------------------------------------------------------------------
    def job_order(self, left: Job, right: Job) -> int:
        return len(left.tasks) - len(right.tasks)  # small jobs first

    def task_order(self, left: Task, right: Task) -> float:
        return right.requests.milli_cpu - left.requests.milli_cpu  # large tasks first

    def queue_order(self, left: Queue, right: Queue) -> int:
        return right.priority - left.priority

    def victim_queue_order(self, left: Queue, right: Queue, preemptor: Queue) -> int:
        return left.priority - right.priority

    def sub_job_order(self, left: SubJob, right: SubJob) -> int:
        return right.min_available - left.min_available

    def cluster_order(self, left: Any, right: Any) -> int:
        return -1 if left.name < right.name else 1

    def queue_claim_order(self, left: Any, right: Any) -> int:
        return int(right.queue.priority - left.queue.priority)

    def sub_group_order(self, left: Any, right: Any) -> int:
        return -1 if left.name < right.name else 1

    # -- nodes --------------------------------------------------------------------------------------------------------
    def pre_predicate(self, task: Task) -> None:
        if task.requests.milli_cpu > 64_000:
            raise Unfit("no node has more than 64 CPUs")

    def predicate(self, task: Task, node: Node) -> None:
        if node.labels.get("owner", task.job.queue) != task.job.queue:
            raise Unfit(f"the node belongs to {node.labels['owner']}")

    def batch_predicate(self, task: Task, rows: NodeRows) -> npt.NDArray[np.bool_]:
        return np.asarray(rows.idle.milli_cpu >= 2 * task.requests.milli_cpu)

    def node_order(self, task: Task, node: Node) -> float:
        return 100 * node.used.milli_cpu / max(node.allocatable.milli_cpu, 1)  # fuller nodes first

    def batch_node_order(self, task: Task, rows: NodeRows) -> npt.NDArray[np.float64]:
        return np.asarray(100 * rows.used.milli_cpu / np.maximum(rows.allocatable.milli_cpu, 1))

    def node_map(self, task: Task, node: Node) -> float:
        return len(node.tasks)

    def node_reduce(self, task: Task, scores: dict[str, float]) -> dict[str, float]:
        most = max(scores.values(), default=0) or 1
        return {name: 100 - 100 * score / most for name, score in scores.items()}  # few tasks first

    def hyper_node_order(self, sub_job: SubJob, groups: Mapping[str, Sequence[Node]]) -> dict[str, float]:
        return {name: -len(nodes) for name, nodes in groups.items()}  # small domains first

    def hyper_node_gradient_for_job(self, job: Job, hypernode: Any, purpose: str) -> list[list[Any]] | None:
        return [[hypernode]] if job.priority > 0 else None  # no search in smaller domains

    def hyper_node_gradient_for_sub_job(self, sub_job: SubJob, hypernode: Any, purpose: str) -> list[list[Any]] | None:
        return [[hypernode]] if sub_job.min_available < 2 else None

    def best_node(self, task: Task, scores: dict[str, float]) -> str | None:
        return min(scores) if task.best_effort else None  # the first by name

    def gpu_order(self, task: Task, node: Node, gpu_index: str) -> float:
        return sum(int(gpu_index) in other.devices for other in node.tasks.values())  # shared GPUs first

    def node_pre_order(self, task: Task, rows: NodeRows) -> None:
        self.candidates = len(rows)

    def subset_nodes(self, job: Job, sub_job: SubJob | None, tasks: list[Task], nodes: list[Node]) -> list[list[Node]]:
        racks: dict[str, list[Node]] = {}
        for node in nodes:
            racks.setdefault(node.labels.get("rack", ""), []).append(node)
        return [racks[name] for name in sorted(racks)]  # one rack after the other

    # -- jobs ---------------------------------------------------------------------------------------------------------
    def job_valid(self, job: Job) -> Verdict | None:
        return reject("the job names no team") if "team" not in job.labels else None

    def job_enqueueable(self, job: Job) -> bool | int:
        return False if "hold" in job.annotations else 0

    def job_enqueued(self, job: Job) -> None:
        self.last = job.name

    def job_ready(self, job: Job) -> bool:
        return job.ready_count >= job.min_available

    def sub_job_ready(self, sub_job: SubJob) -> bool:
        return sub_job.ready_count >= sub_job.min_available

    def job_pipelined(self, job: Job) -> bool:
        return job.is_pipelined

    def sub_job_pipelined(self, sub_job: SubJob) -> bool:
        return sub_job.is_pipelined

    def job_starving(self, job: Job) -> bool:
        return job.ready_count < job.min_available

    def pre_job_allocation(self, job: Job) -> None:
        self.tried = job.name

    def target_job(self, jobs: list[Job]) -> Job | None:
        return max(jobs, key=lambda job: job.priority, default=None)

    def reserved_nodes(self) -> None:
        self.reserved = ["node-1"]

    def bind_request_mutate(self, task: Task, node_name: str) -> dict[str, str]:
        return {"placed-by": self.name}

    # -- queues -------------------------------------------------------------------------------------------------------
    def overused(self, queue: Queue) -> bool:
        limit = queue.deserved["nvidia.com/gpu"]
        return 0 < limit <= queue.allocated["nvidia.com/gpu"]

    def allocatable(self, queue: Queue, task: Task) -> Verdict | bool:
        return task.requires_gpu is False or queue.name != "batch" or reject("queue batch has no GPUs")

    def preemptive(self, queue: Queue, tasks: list[Task]) -> bool:
        return queue.priority > 0

    def can_reclaim_resources(self, job: Job) -> bool:
        return job.priority > 0

    def job_within_capacity(self, job: Job, tasks: list[Task]) -> Verdict | bool:
        return len(tasks) <= 100 or reject("at most 100 pods at a time")

    def job_within_quota(self, job: Job, tasks: list[Task]) -> bool:
        return job.preemptible or len(tasks) <= 10

    def task_within_capacity(self, task: Task, node: Node) -> bool:
        return len(node.tasks) < 50

    # -- evictions ----------------------------------------------------------------------------------------------------
    def preemptable(self, preemptor: Task, tasks: list[Task]) -> list[Task]:
        return [task for task in tasks if task.priority < preemptor.priority]

    def reclaimable(self, reclaimer: Task, tasks: list[Task]) -> list[Task]:
        return [task for task in tasks if task.preemptible]

    def unified_evictable(self, context: Any, tasks: list[Task]) -> list[Task]:
        return [task for task in tasks if task.preemptible]

    def victim_tasks(self, tasks: list[Task]) -> list[Task]:
        return [task for task in tasks if "move-me" in task.annotations]

    def victim_filter(self, pending: Job, victim: Job) -> bool:
        return victim.namespace == pending.namespace

    def reclaim_victim_filter(self, pending: Job, victim: Job) -> bool:
        return "keep" not in victim.annotations

    def preempt_victim_filter(self, pending: Job, victim: Job) -> bool:
        return "keep" not in victim.annotations

    def scenario_validator(self, scenario: Any) -> bool:
        return "patient" not in scenario.job.annotations  # nothing is evicted for it

    def reclaim_scenario_validator(self, scenario: Any) -> bool:
        return "patient" not in scenario.job.annotations

    def preempt_scenario_validator(self, scenario: Any) -> bool:
        return "patient" not in scenario.job.annotations

    def victim_invariant_pre_predicate(self, task: Task) -> bool:
        return task.requests.milli_cpu <= 64_000

    def on_job_solution_start(self) -> None:
        self.searches = getattr(self, "searches", 0) + 1

    def scenario_generator(self, context: Any) -> Iterator[Any]:
        if context.recorded:
            yield context.scenario(())  # the victims that were found for a part of the job, and no more
