"""Every extension point, declared once: question, flag, fold, fallback, failure policy and contract.

Registration methods, docs, the conf linter and ``pumice conf explain`` are derived from or checked against this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Failure(Enum):
    """What a callback that raises does to the decision."""

    REJECT = "reject this candidate"
    ABSTAIN = "abstain"
    FAIL = "fail the cycle"


class Fold(Enum):
    """How the answers of several plugins and tiers become one."""

    ORDER = "the first non-zero comparison decides"
    ALL = "all must pass; the first rejection is the answer"
    ANY = "one yes is a yes"
    VOTE = "tier by tier: a reject ends it, a permit ends it after its tier; all abstaining is a yes"
    FIRST_TIER_ALL = "the first tier in which anybody answers decides; there all must say yes"
    VICTIMS = "tier by tier: the intersection of the answers; the first tier that decides is the answer"
    UNION = "the union of a tier; the first tier with any answer decides"
    SUM = "added up"
    FIRST = "the first answer"
    BROADCAST = "all are called"
    CHAIN = "each splits what the one before it gave"
    MERGE = "merged, later ones override"


@dataclass(frozen=True, slots=True)
class Point:
    """A question put to plugins."""

    name: str
    go: str
    signature: str
    arity: tuple[int, ...]
    flag: str | None
    fold: Fold
    nobody: str
    failure: Failure
    asked: tuple[str, ...]
    contract: str
    users: str = ""
    origin: str = "Volcano"

    @property
    def register(self) -> str:
        """The name of the session's registration method."""
        return f"add_{self.name}_fn"


def _p(
    name: str,
    go: str,
    signature: str,
    arity: tuple[int, ...],
    flag: str | None,
    fold: Fold,
    nobody: str,
    failure: Failure,
    asked: str,
    contract: str,
    users: str = "",
    origin: str = "Volcano",
) -> Point:
    return Point(name, go, signature, arity, flag, fold, nobody, failure, tuple(asked.split()), contract, users, origin)


_R, _A, _F = Failure.REJECT, Failure.ABSTAIN, Failure.FAIL
_POINTS: Final = (
    _p("job_order", "JobOrderFn", "(job, job) -> int", (2,), "enableJobOrder", Fold.ORDER,
       "creation time, then UID", _A, "enqueue allocate backfill preempt reclaim gangpreempt gangreclaim",
       "Which job goes first? Below 0: the left one. Asked when jobs are queued; must be a strict weak order that "
       "only reads. A plugin may give a sort key instead (add_job_order_key_fn).", "priority, gang, drf, sla"),
    _p("task_order", "TaskOrderFn", "(task, task) -> int", (2,), "enableTaskOrder", Fold.ORDER,
       "pod index, creation time, UID", _A, "allocate backfill preempt reclaim",
       "Which task of a job goes first? Its reverse is the order in which tasks of a job are evicted.", "priority"),
    _p("queue_order", "QueueOrderFn", "(queue, queue) -> int", (2,), "enableQueueOrder", Fold.ORDER,
       "creation time, then name", _A, "enqueue allocate backfill preempt reclaim gangpreempt gangreclaim",
       "Which queue goes first? Asked each time a queue is put back or taken.", "proportion, capacity"),
    _p("victim_queue_order", "VictimQueueOrderFn", "(queue, queue, preemptor queue) -> int", (3,), None, Fold.ORDER,
       "the reverse of queue_order", _A, "preempt reclaim gangreclaim",
       "From which queue are victims taken first?", "capacity"),
    _p("sub_job_order", "SubJobOrderFn", "(sub_job, sub_job) -> int", (2,), "enabledSubJobOrder", Fold.ORDER,
       "match index, then UID", _A, "allocate gangpreempt gangreclaim", "Which sub-job of a job goes first?",
       "priority, gang"),
    _p("cluster_order", "ClusterOrderFn", "(cluster, cluster) -> int", (2,), "enabledClusterOrder", Fold.ORDER,
       "cluster name", _A, "", "Which cluster goes first? No action asks it."),
    _p("pre_predicate", "PrePredicateFn", "(task) -> None or raise Unfit", (1, 2), "enablePredicate", Fold.ALL,
       "passes", _R, "allocate backfill preempt reclaim gangpreempt gangreclaim",
       "Can the task be placed anywhere at all? Asked once per task before nodes are looked at. KAI's form also takes "
       "the job.", "predicates, proportion"),
    _p("predicate", "PredicateFn", "(task, node) -> None or raise Unfit", (2, 3), "enablePredicate", Fold.ALL,
       "fits", _R, "allocate backfill preempt reclaim gangpreempt gangreclaim",
       "Does the task fit the node? Returns None or raises Unfit(text); any other value is a contract error. "
       "Declare a scope so that answers can be kept. KAI's form is (task, job, node).", "predicates, numa-aware"),
    _p("batch_predicate", "BatchPredicateFn", "(task, rows) -> bool array or reason numbers", (2,), "enablePredicate",
       Fold.ALL, "fits", _R, "allocate backfill preempt reclaim gangpreempt gangreclaim",
       "As predicate, for many nodes at once: one truth value or reason number (reason_id) per row.", "predicates",
       "Pumice"),
    _p("node_order", "NodeOrderFn", "(task, node) -> float", (2,), "enableNodeOrder", Fold.SUM, "0", _A,
       "allocate backfill preempt gangpreempt gangreclaim",
       "How good is the node for the task? Scores of all plugins are added, unclamped. An error or NaN abstains for "
       "that node.", "nodeorder, binpack"),
    _p("batch_node_order", "BatchNodeOrderFn", "(task, rows) -> float array", (2,), "enableNodeOrder", Fold.SUM, "0",
       _A, "allocate backfill preempt gangpreempt gangreclaim",
       "As node_order, for many nodes at once. With normalize=fn(raw, mask) the raw values are scaled over the "
       "candidates. Raising Unfit keeps the task from being placed.", "nodeorder"),
    _p("node_map", "NodeMapFn", "(task, node) -> float", (2,), "enableNodeOrder", Fold.SUM, "0", _A,
       "allocate backfill preempt", "Half of a two-step score: a whole number per node, for node_reduce to edit."),
    _p("node_reduce", "NodeReduceFn", "(task, {node name: score}) -> None or new scores", (2,), "enableNodeOrder",
       Fold.SUM, "as mapped", _A, "allocate backfill preempt",
       "Edits or replaces what node_map of the same plugin gave."),
    _p("hyper_node_order", "HyperNodeOrderFn", "(sub_job, {hypernode: [node]}) -> {hypernode: float}", (2,),
       "enabledHyperNodeOrder", Fold.SUM, "0", _F, "allocate", "How good is each hyper-node for the sub-job?",
       "network-topology-aware"),
    _p("hyper_node_gradient_for_job", "HyperNodeGradientForJobFn", "(job, hypernode, purpose) -> [[hypernode]]", (3,),
       "enabledHyperNodeGradient", Fold.FIRST, "the hyper-node itself", _A, "allocate gangpreempt gangreclaim",
       "In which hyper-nodes is the job tried, group by group?", "network-topology-aware"),
    _p("hyper_node_gradient_for_sub_job", "HyperNodeGradientForSubJobFn",
       "(sub_job, hypernode, purpose) -> [[hypernode]]", (3,), "enabledHyperNodeGradient", Fold.FIRST,
       "the hyper-node itself", _A, "allocate gangpreempt gangreclaim",
       "In which hyper-nodes is the sub-job tried, group by group?", "network-topology-aware"),
    _p("best_node", "BestNodeFn", "(task, {node name: score}) -> node or None", (2,), "enableBestNode", Fold.FIRST,
       "the highest score, ties by name", _A, "allocate backfill",
       "Takes the choice over from the scores; None leaves it to the next."),
    _p("gpu_order", "GpuOrderFn", "(task, node, gpu index) -> float", (3,), "enableNodeOrder", Fold.SUM,
       "lowest index first", _A, "allocate backfill",
       "How good is each GPU of the node for the task? An error drops the device.", "gpupack, gpuspread", "KAI"),
    _p("node_pre_order", "NodePreOrderFn", "(task, rows) -> None", (2,), "enableNodeOrder", Fold.BROADCAST, "nothing",
       _A, "allocate backfill", "Told of the candidates before they are scored.", "nodeplacement", "KAI"),
    _p("subset_nodes", "SubsetNodesFn", "(job, sub_job, tasks, nodes) -> [[node]]", (4,), None, Fold.CHAIN,
       "all nodes as one set", _R, "allocate", "Splits the candidates into sets that are tried in turn.", "topology",
       "KAI"),
    _p("job_ready", "JobReadyFn", "(job) -> bool", (1,), "enableJobReady", Fold.ALL, "yes", _R,
       "allocate backfill", "May the job's placements be committed? bool, or reject(text).", "gang"),
    _p("sub_job_ready", "SubJobReadyFn", "(sub_job) -> bool", (1,), "enabledSubJobReady", Fold.ALL, "yes", _R,
       "allocate", "As job_ready for a sub-job; jobs without policies are asked as a whole.", "gang"),
    _p("job_pipelined", "JobPipelinedFn", "(job) -> vote", (1,), "enableJobPipelined", Fold.VOTE, "yes", _R,
       "allocate preempt reclaim gangpreempt gangreclaim", "May the job wait for resources that are being released?",
       "gang, sla, tdm"),
    _p("sub_job_pipelined", "SubJobPipelinedFn", "(sub_job) -> vote", (1,), "enabledSubJobPipelined", Fold.VOTE, "yes",
       _R, "allocate", "As job_pipelined for a sub-job.", "gang"),
    _p("job_valid", "JobValidFn", "(job) -> None, bool or reject(text)", (1,), None, Fold.ALL, "valid", _R,
       "allocate backfill preempt reclaim gangpreempt gangreclaim", "Is the job worth trying at all?", "gang"),
    _p("job_enqueueable", "JobEnqueueableFn", "(job) -> vote", (1,), "enableJobEnqueued", Fold.VOTE, "yes", _R,
       "enqueue",        "May the job be let into its queue?", "proportion, capacity, overcommit, resourcequota, sla"),
    _p("job_enqueued", "JobEnqueuedFn", "(job) -> None", (1,), "enableJobEnqueued", Fold.BROADCAST, "nothing", _A,
       "enqueue", "The job was let into its queue.", "proportion, capacity, overcommit"),
    _p("job_starving", "JobStarvingFn", "(job) -> bool", (1,), "enableJobStarving", Fold.FIRST_TIER_ALL, "no", _A,
       "preempt reclaim gangpreempt gangreclaim", "Does the job need others to make room?", "gang, priority"),
    _p("preemptable", "PreemptableFn", "(preemptor, [task]) -> [victim] or (victims, vote)", (2,), "enablePreemptable",
       Fold.VICTIMS, "nobody", _R, "preempt", "Who may be preempted for the task? None abstains.",
       "priority, gang, conformance, drf"),
    _p("reclaimable", "ReclaimableFn", "(reclaimer, [task]) -> [victim] or (victims, vote)", (2,), "enableReclaimable",
       Fold.VICTIMS, "nobody", _R, "reclaim", "Who may be reclaimed for the task? None abstains.",
       "gang, conformance, proportion, capacity"),
    _p("unified_evictable", "UnifiedEvictableFn", "(context, [task]) -> [victim] or (victims, vote)", (2,), None,
       Fold.VICTIMS, "nobody", _R, "gangpreempt gangreclaim", "Who may be evicted by the gang actions?",
       "priority, gang, conformance, capacity"),
    _p("preemptive", "PreemptiveFn", "(queue, [task]) -> bool", (2,), "enablePreemptive", Fold.ALL, "yes", _R,
       "reclaim gangreclaim", "May the queue reclaim for these tasks?", "proportion, capacity"),
    _p("victim_tasks", "VictimTasksFn", "([task]) -> [victim]", (1,), "enabledVictim", Fold.UNION, "nobody", _A,
       "shuffle", "Which running tasks should go although nobody waits for their room?", "rescheduling, tdm, pdb"),
    _p("victim_filter", "VictimFilterFn", "(pending job, victim job) -> bool", (2,), None, Fold.ALL, "yes", _R,
       "preempt reclaim gangpreempt gangreclaim", "May this job be a victim of that one at all?", "minruntime", "KAI"),
    _p("scenario_validator", "ScenarioValidatorFn", "(scenario) -> bool", (1,), None, Fold.ALL, "yes", _R,
       "preempt reclaim gangpreempt gangreclaim", "Is the whole plan, victims and all, acceptable?",
       "proportion, minruntime", "KAI"),
    _p("overused", "OverusedFn", "(queue) -> bool", (1,), "enabledOverused", Fold.ANY, "no", _R,
       "allocate reclaim gangreclaim", "Is the queue above its share?", "proportion"),
    _p("allocatable", "AllocatableFn", "(queue, task) -> bool", (2,), "enabledAllocatable", Fold.ALL, "yes", _R,
       "allocate preempt gangpreempt gangreclaim", "May the queue take the task?", "proportion, capacity"),
    _p("target_job", "TargetJobFn", "([job]) -> job", (1,), "enableTargetJob", Fold.FIRST, "none", _A, "",
       "Which job should resources be kept for? No action asks it."),
    _p("reserved_nodes", "ReservedNodesFn", "() -> None", (0,), "enableReservedNodes", Fold.BROADCAST, "nothing", _A,
       "", "Choose nodes to keep free. No action asks it."),
    _p("pre_job_allocation", "PreJobAllocationFn", "(job) -> None", (1,), None, Fold.BROADCAST, "nothing", _A,
       "allocate", "Told of each attempt to place a job.", "topology", "KAI"),
    _p("bind_request_mutate", "BindRequestMutateFn", "(task, node name) -> {annotation: value}", (2,), None, Fold.MERGE,
       "nothing", _A, "allocate backfill", "Annotations to write with the bind.", "", "KAI"),
)  # fmt: skip

POINTS: Final[dict[str, Point]] = {point.name: point for point in _POINTS}

FLAGS: Final[dict[str, bool]] = {
    **{p.flag: p.flag != "enabledClusterOrder" for p in _POINTS if p.flag},
    "enableHierarchy": False,
}
"""Every flag of a plugin entry and its default."""
