"""Registration methods of a session and the methods that a plugin may have, each with the types of its point.

Made from `pumice/framework/points/table.py` by `tools/write_points.py`. A registration method takes ``(name, fn)`` or,
in KAI's form, ``(fn)`` alone: then it registers for the plugin that is being opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pumice.engine.scope import Scope

Fn: TypeAlias = Callable[..., Any]

if TYPE_CHECKING:
    from pumice.engine.rows import NodeRows
    from pumice.framework.points.table import Fits, Said, Scores, Victims, Vote
    from pumice.model.job import Job, SubJob
    from pumice.model.node import Node
    from pumice.model.queue import Queue
    from pumice.model.reason import Verdict
    from pumice.model.task import Task

    JobOrderFn: TypeAlias = Callable[[Job, Job], float]
    JobOrderKeyFn: TypeAlias = Callable[[Job], Any]
    TaskOrderFn: TypeAlias = Callable[[Task, Task], float]
    TaskOrderKeyFn: TypeAlias = Callable[[Task], Any]
    QueueOrderFn: TypeAlias = Callable[[Queue, Queue], float]
    QueueOrderKeyFn: TypeAlias = Callable[[Queue], Any]
    VictimQueueOrderFn: TypeAlias = Callable[[Queue, Queue, Queue], float]
    SubJobOrderFn: TypeAlias = Callable[[SubJob, SubJob], float]
    SubJobOrderKeyFn: TypeAlias = Callable[[SubJob], Any]
    ClusterOrderFn: TypeAlias = Callable[[Any, Any], float]
    PrePredicateFn: TypeAlias = Callable[[Task], Said] | Callable[[Task, Job], Said]
    PredicateFn: TypeAlias = Callable[[Task, Node], None] | Callable[[Task, Job, Node], None]
    BatchPredicateFn: TypeAlias = Callable[[Task, NodeRows], Fits]
    NodeOrderFn: TypeAlias = Callable[[Task, Node], float]
    BatchNodeOrderFn: TypeAlias = Callable[[Task, NodeRows], Scores]
    NodeMapFn: TypeAlias = Callable[[Task, Node], float]
    NodeReduceFn: TypeAlias = Callable[[Task, dict[str, float]], Mapping[str, float] | None]
    HyperNodeOrderFn: TypeAlias = Callable[[SubJob, Mapping[str, Sequence[Node]]], Mapping[str, float]]
    HyperNodeGradientForJobFn: TypeAlias = Callable[[Job, Any, str], Sequence[Sequence[Any]] | None]
    HyperNodeGradientForSubJobFn: TypeAlias = Callable[[SubJob, Any, str], Sequence[Sequence[Any]] | None]
    BestNodeFn: TypeAlias = Callable[[Task, dict[str, float]], Node | str | None]
    GpuOrderFn: TypeAlias = Callable[[Task, Node, str], float]
    NodePreOrderFn: TypeAlias = Callable[[Task, NodeRows], object]
    SubsetNodesFn: TypeAlias = Callable[[Job, SubJob | None, list[Task], list[Node]], Sequence[Sequence[Node]]]
    JobReadyFn: TypeAlias = Callable[[Job], Said]
    SubJobReadyFn: TypeAlias = Callable[[SubJob], Said]
    JobPipelinedFn: TypeAlias = Callable[[Job], Vote]
    SubJobPipelinedFn: TypeAlias = Callable[[SubJob], Vote]
    JobValidFn: TypeAlias = Callable[[Job], Said]
    JobEnqueueableFn: TypeAlias = Callable[[Job], Vote]
    JobEnqueuedFn: TypeAlias = Callable[[Job], object]
    JobStarvingFn: TypeAlias = Callable[[Job], bool | Verdict]
    PreemptableFn: TypeAlias = Callable[[Task, list[Task]], Victims]
    ReclaimableFn: TypeAlias = Callable[[Task, list[Task]], Victims]
    UnifiedEvictableFn: TypeAlias = Callable[[Any, list[Task]], Victims]
    PreemptiveFn: TypeAlias = Callable[[Queue, list[Task]], Said]
    VictimTasksFn: TypeAlias = Callable[[list[Task]], Sequence[Task]]
    VictimFilterFn: TypeAlias = Callable[[Job, Job], Said]
    ScenarioValidatorFn: TypeAlias = Callable[[Any], Said]
    QueueClaimOrderFn: TypeAlias = Callable[[Any, Any], float]
    SubGroupOrderFn: TypeAlias = Callable[[Any, Any], float]
    CanReclaimResourcesFn: TypeAlias = Callable[[Job], Said]
    JobWithinCapacityFn: TypeAlias = Callable[[Job, list[Task]], Said]
    JobWithinQuotaFn: TypeAlias = Callable[[Job, list[Task]], Said]
    TaskWithinCapacityFn: TypeAlias = Callable[[Task, Node], Said]
    VictimInvariantPrePredicateFn: TypeAlias = Callable[[Task], Said]
    ReclaimVictimFilterFn: TypeAlias = Callable[[Job, Job], Said]
    PreemptVictimFilterFn: TypeAlias = Callable[[Job, Job], Said]
    ReclaimScenarioValidatorFn: TypeAlias = Callable[[Any], Said]
    PreemptScenarioValidatorFn: TypeAlias = Callable[[Any], Said]
    OnJobSolutionStartFn: TypeAlias = Callable[[], object]
    ScenarioGeneratorFn: TypeAlias = Callable[[Any], Any]
    OverusedFn: TypeAlias = Callable[[Queue], bool | Verdict]
    AllocatableFn: TypeAlias = Callable[[Queue, Task], Said]
    TargetJobFn: TypeAlias = Callable[[list[Job]], Job | None]
    ReservedNodesFn: TypeAlias = Callable[[], object]
    PreJobAllocationFn: TypeAlias = Callable[[Job], object]
    BindRequestMutateFn: TypeAlias = Callable[[Task, str], Mapping[str, str] | None]

    class PointMethods:
        """The methods of `Plugin` that are registered by their names, for editors and type checkers."""

        def job_order(self, left: Job, right: Job, /) -> float:
            """Which job goes first?"""
            raise NotImplementedError

        def task_order(self, left: Task, right: Task, /) -> float:
            """Which task of a job goes first?"""
            raise NotImplementedError

        def queue_order(self, left: Queue, right: Queue, /) -> float:
            """Which queue goes first?"""
            raise NotImplementedError

        def victim_queue_order(self, left: Queue, right: Queue, preemptor_queue: Queue, /) -> float:
            """From which queue are victims taken first?"""
            raise NotImplementedError

        def sub_job_order(self, left: SubJob, right: SubJob, /) -> float:
            """Which sub-job of a job goes first?"""
            raise NotImplementedError

        def cluster_order(self, left: Any, right: Any, /) -> float:
            """Which cluster goes first?"""
            raise NotImplementedError

        def pre_predicate(self, task: Task, /) -> Said:
            """Can the task be placed anywhere at all?"""
            raise NotImplementedError

        def predicate(self, task: Task, node: Node, /) -> None:
            """Does the task fit the node?"""
            raise NotImplementedError

        def batch_predicate(self, task: Task, rows: NodeRows, /) -> Fits:
            """As predicate, for many nodes at once."""
            raise NotImplementedError

        def node_order(self, task: Task, node: Node, /) -> float:
            """How good is the node for the task?"""
            raise NotImplementedError

        def batch_node_order(self, task: Task, rows: NodeRows, /) -> Scores:
            """As node_order, for many nodes at once."""
            raise NotImplementedError

        def node_map(self, task: Task, node: Node, /) -> float:
            """A whole number for each node, half of a two-step score."""
            raise NotImplementedError

        def node_reduce(self, task: Task, scores: dict[str, float], /) -> Mapping[str, float] | None:
            """Edits or replaces what node_map of the same plugin gave."""
            raise NotImplementedError

        def hyper_node_order(
            self, sub_job: SubJob, hyper_nodes: Mapping[str, Sequence[Node]], /
        ) -> Mapping[str, float]:
            """How good is each hyper-node for the sub-job?"""
            raise NotImplementedError

        def hyper_node_gradient_for_job(
            self, job: Job, hypernode: Any, purpose: str, /
        ) -> Sequence[Sequence[Any]] | None:
            """In which hyper-nodes is the job tried, group by group?"""
            raise NotImplementedError

        def hyper_node_gradient_for_sub_job(
            self, sub_job: SubJob, hypernode: Any, purpose: str, /
        ) -> Sequence[Sequence[Any]] | None:
            """In which hyper-nodes is the sub-job tried, group by group?"""
            raise NotImplementedError

        def best_node(self, task: Task, scores: dict[str, float], /) -> Node | str | None:
            """Takes the choice over from the scores; None leaves it to the next."""
            raise NotImplementedError

        def gpu_order(self, task: Task, node: Node, gpu_index: str, /) -> float:
            """How good is each GPU of the node for the task?"""
            raise NotImplementedError

        def node_pre_order(self, task: Task, rows: NodeRows, /) -> object:
            """Told of the candidates before they are scored."""
            raise NotImplementedError

        def subset_nodes(
            self, job: Job, sub_job: SubJob | None, tasks: list[Task], nodes: list[Node], /
        ) -> Sequence[Sequence[Node]]:
            """Splits the candidates into sets that are tried in turn."""
            raise NotImplementedError

        def job_ready(self, job: Job, /) -> Said:
            """May the job's placements be committed?"""
            raise NotImplementedError

        def sub_job_ready(self, sub_job: SubJob, /) -> Said:
            """As job_ready, for a sub-job."""
            raise NotImplementedError

        def job_pipelined(self, job: Job, /) -> Vote:
            """May the job wait for resources that are being released?"""
            raise NotImplementedError

        def sub_job_pipelined(self, sub_job: SubJob, /) -> Vote:
            """As job_pipelined for a sub-job."""
            raise NotImplementedError

        def job_valid(self, job: Job, /) -> Said:
            """Is the job worth trying at all?"""
            raise NotImplementedError

        def job_enqueueable(self, job: Job, /) -> Vote:
            """May the job be let into its queue?"""
            raise NotImplementedError

        def job_enqueued(self, job: Job, /) -> object:
            """The job was let into its queue."""
            raise NotImplementedError

        def job_starving(self, job: Job, /) -> bool | Verdict:
            """Does the job need others to make room?"""
            raise NotImplementedError

        def preemptable(self, preemptor: Task, tasks: list[Task], /) -> Victims:
            """Which tasks may be preempted for the task?"""
            raise NotImplementedError

        def reclaimable(self, reclaimer: Task, tasks: list[Task], /) -> Victims:
            """Which tasks may be reclaimed for the task?"""
            raise NotImplementedError

        def unified_evictable(self, context: Any, tasks: list[Task], /) -> Victims:
            """Which tasks may the gang actions evict?"""
            raise NotImplementedError

        def preemptive(self, queue: Queue, tasks: list[Task], /) -> Said:
            """May the queue reclaim for these tasks?"""
            raise NotImplementedError

        def victim_tasks(self, tasks: list[Task], /) -> Sequence[Task]:
            """Which running tasks should go, even if no task needs their room?"""
            raise NotImplementedError

        def victim_filter(self, pending_job: Job, victim_job: Job, /) -> Said:
            """May this job be a victim of that one at all?"""
            raise NotImplementedError

        def scenario_validator(self, scenario: Any, /) -> Said:
            """Is the whole plan, victims and all, acceptable?"""
            raise NotImplementedError

        def queue_claim_order(self, left: Any, right: Any, /) -> float:
            """Which queue's claim goes first (KAI's order of queues)?"""
            raise NotImplementedError

        def sub_group_order(self, left: Any, right: Any, /) -> float:
            """Which pod set or set of sub-groups of a job goes first?"""
            raise NotImplementedError

        def can_reclaim_resources(self, job: Job, /) -> Said:
            """May the job have others make room for it?"""
            raise NotImplementedError

        def job_within_capacity(self, job: Job, tasks: list[Task], /) -> Said:
            """Do the limits of the job's queues let these tasks be placed?"""
            raise NotImplementedError

        def job_within_quota(self, job: Job, tasks: list[Task], /) -> Said:
            """Do the queues' quotas let a non-preemptible job have these tasks?"""
            raise NotImplementedError

        def task_within_capacity(self, task: Task, node: Node, /) -> Said:
            """Do the limits of the task's queues let it be placed on this node?"""
            raise NotImplementedError

        def victim_invariant_pre_predicate(self, task: Task, /) -> Said:
            """Could the task be placed if others made room?"""
            raise NotImplementedError

        def reclaim_victim_filter(self, pending_job: Job, victim_job: Job, /) -> Said:
            """As victim_filter, when reclaiming from other queues."""
            raise NotImplementedError

        def preempt_victim_filter(self, pending_job: Job, victim_job: Job, /) -> Said:
            """As victim_filter, when preempting within a queue."""
            raise NotImplementedError

        def reclaim_scenario_validator(self, scenario: Any, /) -> Said:
            """As scenario_validator, when reclaiming from other queues."""
            raise NotImplementedError

        def preempt_scenario_validator(self, scenario: Any, /) -> Said:
            """As scenario_validator, when preempting within a queue."""
            raise NotImplementedError

        def on_job_solution_start(self) -> object:
            """Told before victims are looked for, for a job that may reclaim."""
            raise NotImplementedError

        def scenario_generator(self, context: Any, /) -> Any:
            """Which sets of victims are tried, in turn?"""
            raise NotImplementedError

        def overused(self, queue: Queue, /) -> bool | Verdict:
            """Is the queue above its share?"""
            raise NotImplementedError

        def allocatable(self, queue: Queue, task: Task, /) -> Said:
            """May the queue take the task?"""
            raise NotImplementedError

        def target_job(self, jobs: list[Job], /) -> Job | None:
            """Which job should resources be kept for?"""
            raise NotImplementedError

        def reserved_nodes(self) -> object:
            """Choose nodes to keep free."""
            raise NotImplementedError

        def pre_job_allocation(self, job: Job, /) -> object:
            """Told of each attempt to place a job."""
            raise NotImplementedError

        def bind_request_mutate(self, task: Task, node_name: str, /) -> Mapping[str, str] | None:
            """Annotations to write with the bind."""
            raise NotImplementedError


class Registration:
    """One typed line over `add` for every point."""

    def add(self, point: str, name: str | Fn, fn: Fn | None = None, **declared: Any) -> None:
        """Register *fn* at a point. *declared*: the hints of the point."""
        raise NotImplementedError

    def add_job_order_fn(self, name: str | JobOrderFn, fn: JobOrderFn | None = None) -> None:
        self.add("job_order", name, fn)

    def add_job_order_key_fn(self, name: str | JobOrderKeyFn, fn: JobOrderKeyFn | None = None) -> None:
        """Order by ``key(item)`` instead of comparing pairs."""
        self.add("job_order", name, fn, sort_key=True)

    def add_task_order_fn(self, name: str | TaskOrderFn, fn: TaskOrderFn | None = None) -> None:
        self.add("task_order", name, fn)

    def add_task_order_key_fn(self, name: str | TaskOrderKeyFn, fn: TaskOrderKeyFn | None = None) -> None:
        """Order by ``key(item)`` instead of comparing pairs."""
        self.add("task_order", name, fn, sort_key=True)

    def add_queue_order_fn(self, name: str | QueueOrderFn, fn: QueueOrderFn | None = None) -> None:
        self.add("queue_order", name, fn)

    def add_queue_order_key_fn(self, name: str | QueueOrderKeyFn, fn: QueueOrderKeyFn | None = None) -> None:
        """Order by ``key(item)`` instead of comparing pairs."""
        self.add("queue_order", name, fn, sort_key=True)

    def add_victim_queue_order_fn(self, name: str | VictimQueueOrderFn, fn: VictimQueueOrderFn | None = None) -> None:
        self.add("victim_queue_order", name, fn)

    def add_sub_job_order_fn(self, name: str | SubJobOrderFn, fn: SubJobOrderFn | None = None) -> None:
        self.add("sub_job_order", name, fn)

    def add_sub_job_order_key_fn(self, name: str | SubJobOrderKeyFn, fn: SubJobOrderKeyFn | None = None) -> None:
        """Order by ``key(item)`` instead of comparing pairs."""
        self.add("sub_job_order", name, fn, sort_key=True)

    def add_cluster_order_fn(self, name: str | ClusterOrderFn, fn: ClusterOrderFn | None = None) -> None:
        self.add("cluster_order", name, fn)

    def add_pre_predicate_fn(self, name: str | PrePredicateFn, fn: PrePredicateFn | None = None) -> None:
        self.add("pre_predicate", name, fn)

    def add_predicate_fn(
        self,
        name: str | PredicateFn,
        fn: PredicateFn | None = None,
        *,
        scope: Scope = Scope.SESSION,
        key: Fn | None = None,
    ) -> None:
        """*scope*: what the answer depends on, and so when it is asked again.
        *key(item)*: items of equal keys get equal answers until something changes. It reads the item alone.
        """
        self.add("predicate", name, fn, scope=scope, key=key)

    def add_batch_predicate_fn(
        self,
        name: str | BatchPredicateFn,
        fn: BatchPredicateFn | None = None,
        *,
        scope: Scope = Scope.SESSION,
        key: Fn | None = None,
    ) -> None:
        """*scope*: what the answer depends on, and so when it is asked again.
        *key(item)*: items of equal keys get equal answers until something changes. It reads the item alone.
        """
        self.add("batch_predicate", name, fn, scope=scope, key=key)

    def add_node_order_fn(
        self,
        name: str | NodeOrderFn,
        fn: NodeOrderFn | None = None,
        *,
        scope: Scope = Scope.SESSION,
        key: Fn | None = None,
    ) -> None:
        """*scope*: what the answer depends on, and so when it is asked again.
        *key(item)*: items of equal keys get equal answers until something changes. It reads the item alone.
        """
        self.add("node_order", name, fn, scope=scope, key=key)

    def add_batch_node_order_fn(
        self,
        name: str | BatchNodeOrderFn,
        fn: BatchNodeOrderFn | None = None,
        *,
        scope: Scope = Scope.SESSION,
        key: Fn | None = None,
        normalize: Fn | None = None,
    ) -> None:
        """*scope*: what the answer depends on, and so when it is asked again.
        *key(item)*: items of equal keys get equal answers until something changes. It reads the item alone.
        *normalize(scores, mask)*: how the scores of all candidates are made comparable.
        """
        self.add("batch_node_order", name, fn, scope=scope, key=key, normalize=normalize)

    def add_node_map_fn(self, name: str | NodeMapFn, fn: NodeMapFn | None = None) -> None:
        self.add("node_map", name, fn)

    def add_node_reduce_fn(self, name: str | NodeReduceFn, fn: NodeReduceFn | None = None) -> None:
        self.add("node_reduce", name, fn)

    def add_hyper_node_order_fn(self, name: str | HyperNodeOrderFn, fn: HyperNodeOrderFn | None = None) -> None:
        self.add("hyper_node_order", name, fn)

    def add_hyper_node_gradient_for_job_fn(
        self, name: str | HyperNodeGradientForJobFn, fn: HyperNodeGradientForJobFn | None = None
    ) -> None:
        self.add("hyper_node_gradient_for_job", name, fn)

    def add_hyper_node_gradient_for_sub_job_fn(
        self, name: str | HyperNodeGradientForSubJobFn, fn: HyperNodeGradientForSubJobFn | None = None
    ) -> None:
        self.add("hyper_node_gradient_for_sub_job", name, fn)

    def add_best_node_fn(self, name: str | BestNodeFn, fn: BestNodeFn | None = None) -> None:
        self.add("best_node", name, fn)

    def add_gpu_order_fn(self, name: str | GpuOrderFn, fn: GpuOrderFn | None = None) -> None:
        self.add("gpu_order", name, fn)

    def add_node_pre_order_fn(self, name: str | NodePreOrderFn, fn: NodePreOrderFn | None = None) -> None:
        self.add("node_pre_order", name, fn)

    def add_subset_nodes_fn(self, name: str | SubsetNodesFn, fn: SubsetNodesFn | None = None) -> None:
        self.add("subset_nodes", name, fn)

    def add_job_ready_fn(self, name: str | JobReadyFn, fn: JobReadyFn | None = None) -> None:
        self.add("job_ready", name, fn)

    def add_sub_job_ready_fn(self, name: str | SubJobReadyFn, fn: SubJobReadyFn | None = None) -> None:
        self.add("sub_job_ready", name, fn)

    def add_job_pipelined_fn(self, name: str | JobPipelinedFn, fn: JobPipelinedFn | None = None) -> None:
        self.add("job_pipelined", name, fn)

    def add_sub_job_pipelined_fn(self, name: str | SubJobPipelinedFn, fn: SubJobPipelinedFn | None = None) -> None:
        self.add("sub_job_pipelined", name, fn)

    def add_job_valid_fn(self, name: str | JobValidFn, fn: JobValidFn | None = None) -> None:
        self.add("job_valid", name, fn)

    def add_job_enqueueable_fn(
        self, name: str | JobEnqueueableFn, fn: JobEnqueueableFn | None = None, *, key: Fn | None = None
    ) -> None:
        """*key(item)*: items of equal keys get equal answers until something changes. It reads the item alone."""
        self.add("job_enqueueable", name, fn, key=key)

    def add_job_enqueued_fn(self, name: str | JobEnqueuedFn, fn: JobEnqueuedFn | None = None) -> None:
        self.add("job_enqueued", name, fn)

    def add_job_starving_fn(self, name: str | JobStarvingFn, fn: JobStarvingFn | None = None) -> None:
        self.add("job_starving", name, fn)

    add_job_starving_fns = add_job_starving_fn

    def add_preemptable_fn(
        self, name: str | PreemptableFn, fn: PreemptableFn | None = None, *, key: Fn | None = None
    ) -> None:
        """*key(item)*: items of equal keys get equal answers until something changes. It reads the item alone."""
        self.add("preemptable", name, fn, key=key)

    def add_reclaimable_fn(
        self, name: str | ReclaimableFn, fn: ReclaimableFn | None = None, *, key: Fn | None = None
    ) -> None:
        """*key(item)*: items of equal keys get equal answers until something changes. It reads the item alone."""
        self.add("reclaimable", name, fn, key=key)

    def add_unified_evictable_fn(self, name: str | UnifiedEvictableFn, fn: UnifiedEvictableFn | None = None) -> None:
        self.add("unified_evictable", name, fn)

    def add_preemptive_fn(
        self, name: str | PreemptiveFn, fn: PreemptiveFn | None = None, *, key: Fn | None = None
    ) -> None:
        """*key(item)*: items of equal keys get equal answers until something changes. It reads the item alone."""
        self.add("preemptive", name, fn, key=key)

    def add_victim_tasks_fn(self, name: str | VictimTasksFn, fn: VictimTasksFn | None = None) -> None:
        self.add("victim_tasks", name, fn)

    add_victim_tasks_fns = add_victim_tasks_fn

    def add_victim_filter_fn(self, name: str | VictimFilterFn, fn: VictimFilterFn | None = None) -> None:
        self.add("victim_filter", name, fn)

    def add_scenario_validator_fn(self, name: str | ScenarioValidatorFn, fn: ScenarioValidatorFn | None = None) -> None:
        self.add("scenario_validator", name, fn)

    def add_queue_claim_order_fn(self, name: str | QueueClaimOrderFn, fn: QueueClaimOrderFn | None = None) -> None:
        self.add("queue_claim_order", name, fn)

    def add_sub_group_order_fn(self, name: str | SubGroupOrderFn, fn: SubGroupOrderFn | None = None) -> None:
        self.add("sub_group_order", name, fn)

    def add_can_reclaim_resources_fn(
        self, name: str | CanReclaimResourcesFn, fn: CanReclaimResourcesFn | None = None
    ) -> None:
        self.add("can_reclaim_resources", name, fn)

    def add_job_within_capacity_fn(
        self, name: str | JobWithinCapacityFn, fn: JobWithinCapacityFn | None = None
    ) -> None:
        self.add("job_within_capacity", name, fn)

    def add_job_within_quota_fn(self, name: str | JobWithinQuotaFn, fn: JobWithinQuotaFn | None = None) -> None:
        self.add("job_within_quota", name, fn)

    def add_task_within_capacity_fn(
        self, name: str | TaskWithinCapacityFn, fn: TaskWithinCapacityFn | None = None
    ) -> None:
        self.add("task_within_capacity", name, fn)

    def add_victim_invariant_pre_predicate_fn(
        self, name: str | VictimInvariantPrePredicateFn, fn: VictimInvariantPrePredicateFn | None = None
    ) -> None:
        self.add("victim_invariant_pre_predicate", name, fn)

    def add_reclaim_victim_filter_fn(
        self, name: str | ReclaimVictimFilterFn, fn: ReclaimVictimFilterFn | None = None
    ) -> None:
        self.add("reclaim_victim_filter", name, fn)

    def add_preempt_victim_filter_fn(
        self, name: str | PreemptVictimFilterFn, fn: PreemptVictimFilterFn | None = None
    ) -> None:
        self.add("preempt_victim_filter", name, fn)

    def add_reclaim_scenario_validator_fn(
        self, name: str | ReclaimScenarioValidatorFn, fn: ReclaimScenarioValidatorFn | None = None
    ) -> None:
        self.add("reclaim_scenario_validator", name, fn)

    def add_preempt_scenario_validator_fn(
        self, name: str | PreemptScenarioValidatorFn, fn: PreemptScenarioValidatorFn | None = None
    ) -> None:
        self.add("preempt_scenario_validator", name, fn)

    def add_on_job_solution_start_fn(
        self, name: str | OnJobSolutionStartFn, fn: OnJobSolutionStartFn | None = None
    ) -> None:
        self.add("on_job_solution_start", name, fn)

    def add_scenario_generator_fn(self, name: str | ScenarioGeneratorFn, fn: ScenarioGeneratorFn | None = None) -> None:
        self.add("scenario_generator", name, fn)

    def add_overused_fn(self, name: str | OverusedFn, fn: OverusedFn | None = None) -> None:
        self.add("overused", name, fn)

    def add_allocatable_fn(
        self, name: str | AllocatableFn, fn: AllocatableFn | None = None, *, max_tasks: Fn | None = None
    ) -> None:
        """*max_tasks(queue, task)*: how many equal tasks in a row the queue would take."""
        self.add("allocatable", name, fn, max_tasks=max_tasks)

    def add_target_job_fn(self, name: str | TargetJobFn, fn: TargetJobFn | None = None) -> None:
        self.add("target_job", name, fn)

    def add_reserved_nodes_fn(self, name: str | ReservedNodesFn, fn: ReservedNodesFn | None = None) -> None:
        self.add("reserved_nodes", name, fn)

    def add_pre_job_allocation_fn(self, name: str | PreJobAllocationFn, fn: PreJobAllocationFn | None = None) -> None:
        self.add("pre_job_allocation", name, fn)

    def add_bind_request_mutate_fn(
        self, name: str | BindRequestMutateFn, fn: BindRequestMutateFn | None = None
    ) -> None:
        self.add("bind_request_mutate", name, fn)
