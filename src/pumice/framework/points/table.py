"""Every extension point, declared once: question, form, rule, fallback, failure policy, flag and contract.

Everything here is executed: `asking` binds a point to the callbacks of a session by what stands in its declaration.
Registration methods, docs, the conf linter and ``pumice conf explain`` follow from it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.framework.points.point import Form, Point
from pumice.framework.points.rules import (
    ALL_KEYS,
    ALL_PASS,
    ANY,
    BROADCAST,
    CHAIN,
    COLLECT,
    EDITS,
    FIRST,
    FIRST_JOB,
    FIRST_NODE,
    FIRST_TIER,
    FITS,
    LEAST,
    MERGE,
    NO,
    ORDER,
    SCORES,
    SUM,
    SUM_BY_NAME,
    UNION,
    VICTIMS,
    VICTIMS_OF_VOLCANO,
    VOTE,
    OnFailure,
)
from pumice.model.job import Job, SubJob
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import PASS, Verdict
from pumice.model.task import Task

Said: TypeAlias = bool | Verdict | str | None
Fits: TypeAlias = npt.NDArray[np.bool_] | npt.NDArray[np.int32] | npt.NDArray[np.int64] | None
Scores: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.int64] | npt.NDArray[np.bool_]
Vote: TypeAlias = bool | Verdict | float | None
Victims: TypeAlias = Sequence[Task] | tuple[Sequence[Task], Vote] | None
REJECT, ABSTAIN = OnFailure.REJECT, OnFailure.ABSTAIN
_VICTIMS = ("victims_fold", VICTIMS_OF_VOLCANO)

JOB_ORDER = Point(
    "job_order",
    Form[[Job, Job], float],
    ORDER,
    0,
    ABSTAIN,
    go="JobOrderFn",
    signature="(job, job) -> int",
    flag="enableJobOrder",
    otherwise="creation time, then UID",
    keyed=True,
    contract=(
        "Which job goes first? Below 0: the left one. Asked when jobs are queued; must be a strict weak order "
        "that only reads. A plugin may give a sort key instead (add_job_order_key_fn)."
    ),
)
TASK_ORDER = Point(
    "task_order",
    Form[[Task, Task], float],
    ORDER,
    0,
    ABSTAIN,
    go="TaskOrderFn",
    signature="(task, task) -> int",
    flag="enableTaskOrder",
    otherwise="pod index, creation time, UID",
    keyed=True,
    contract="Which task of a job goes first? Its reverse is the order in which tasks of a job are evicted.",
)
QUEUE_ORDER = Point(
    "queue_order",
    Form[[Queue, Queue], float],
    ORDER,
    0,
    ABSTAIN,
    go="QueueOrderFn",
    signature="(queue, queue) -> int",
    flag="enableQueueOrder",
    otherwise="creation time, then name",
    keyed=True,
    contract="Which queue goes first? Asked each time a queue is put back or taken.",
)
VICTIM_QUEUE_ORDER = Point(
    "victim_queue_order",
    Form[[Queue, Queue, Queue], float],
    ORDER,
    0,
    ABSTAIN,
    go="VictimQueueOrderFn",
    signature="(queue, queue, preemptor queue) -> int",
    otherwise="the reverse of queue_order",
    contract="From which queue are victims taken first?",
)
SUB_JOB_ORDER = Point(
    "sub_job_order",
    Form[[SubJob, SubJob], float],
    ORDER,
    0,
    ABSTAIN,
    go="SubJobOrderFn",
    signature="(sub_job, sub_job) -> int",
    flag="enabledSubJobOrder",
    otherwise="match index, then UID",
    keyed=True,
    contract="Which sub-job of a job goes first?",
)
CLUSTER_ORDER = Point(
    "cluster_order",
    Form[[Any, Any], float],
    ORDER,
    0,
    ABSTAIN,
    go="ClusterOrderFn",
    signature="(cluster, cluster) -> int",
    flag="enabledClusterOrder",
    otherwise="cluster name",
    contract="Which cluster goes first?",
)
PRE_PREDICATE = Point(
    "pre_predicate",
    Form[[Task], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="PrePredicateFn",
    signature="(task) -> None or raise Unfit",
    forms=(1, 2),
    flag="enablePredicate",
    contract=(
        "Can the task be placed anywhere at all? Asked once per task before nodes are looked at. KAI's form "
        "also takes the job."
    ),
)
PREDICATE = Point(
    "predicate",
    Form[[Task, Node], None],
    FITS,
    0,
    REJECT,
    go="PredicateFn",
    signature="(task, node) -> None or raise Unfit",
    forms=(2, 3),
    flag="enablePredicate",
    otherwise="it fits",
    hints=(
        "scope",
        "key",
    ),
    contract=(
        "Does the task fit the node? Returns None or raises Unfit(text); any other value is a contract error. "
        "Declare a scope so that answers can be kept. KAI's form is (task, job, node)."
    ),
)
BATCH_PREDICATE = Point(
    "batch_predicate",
    Form[[Task, NodeRows], Fits],
    FITS,
    0,
    REJECT,
    go="BatchPredicateFn",
    signature="(task, rows) -> bool array or reason numbers",
    flag="enablePredicate",
    origin="Pumice",
    otherwise="all fit",
    hints=(
        "scope",
        "key",
    ),
    contract="As predicate, for many nodes at once. One truth value or reason number (reason_id) per row.",
)
NODE_ORDER = Point(
    "node_order",
    Form[[Task, Node], float],
    SCORES,
    0.0,
    ABSTAIN,
    go="NodeOrderFn",
    signature="(task, node) -> float",
    flag="enableNodeOrder",
    hints=(
        "scope",
        "key",
    ),
    contract=(
        "How good is the node for the task? Scores of all plugins are added, unclamped. An error or NaN "
        "abstains for that node."
    ),
)
BATCH_NODE_ORDER = Point(
    "batch_node_order",
    Form[[Task, NodeRows], Scores],
    SCORES,
    0.0,
    ABSTAIN,
    go="BatchNodeOrderFn",
    signature="(task, rows) -> float array",
    flag="enableNodeOrder",
    hints=(
        "scope",
        "key",
        "normalize",
    ),
    contract=(
        "As node_order, for many nodes at once. With normalize=fn(raw, mask) the raw values are scaled over "
        "the candidates. Raising Unfit keeps the task from being placed."
    ),
)
NODE_MAP = Point(
    "node_map",
    Form[[Task, Node], float],
    SCORES,
    0.0,
    ABSTAIN,
    go="NodeMapFn",
    signature="(task, node) -> float",
    flag="enableNodeOrder",
    contract="A whole number for each node, half of a two-step score. node_reduce edits it.",
)
NODE_REDUCE: Point[[Task, dict[str, float]], Mapping[str, float] | None, dict[str, float] | None] = Point(
    "node_reduce",
    Form[[Task, dict[str, float]], Mapping[str, float] | None],
    EDITS,
    None,
    ABSTAIN,
    go="NodeReduceFn",
    signature="(task, {node name: score}) -> None or new scores",
    flag="enableNodeOrder",
    otherwise="as mapped",
    contract="Edits or replaces what node_map of the same plugin gave.",
)
HYPER_NODE_ORDER: Point[[SubJob, Mapping[str, Sequence[Node]]], Mapping[str, float], Any] = Point(
    "hyper_node_order",
    Form[[SubJob, Mapping[str, Sequence[Node]]], Mapping[str, float]],
    SUM_BY_NAME,
    0.0,
    ABSTAIN,
    go="HyperNodeOrderFn",
    signature="(sub_job, {hypernode: [node]}) -> {hypernode: float}",
    flag="enabledHyperNodeOrder",
    contract="How good is each hyper-node for the sub-job?",
)
HYPER_NODE_GRADIENT_FOR_JOB: Point[[Job, Any, str], Sequence[Sequence[Any]] | None, list[list[Any]] | None] = Point(
    "hyper_node_gradient_for_job",
    Form[[Job, Any, str], Sequence[Sequence[Any]] | None],
    FIRST,
    None,
    ABSTAIN,
    go="HyperNodeGradientForJobFn",
    signature="(job, hypernode, purpose) -> [[hypernode]]",
    flag="enabledHyperNodeGradient",
    otherwise="the hyper-node itself",
    contract="In which hyper-nodes is the job tried, group by group?",
)
HYPER_NODE_GRADIENT_FOR_SUB_JOB: Point[[SubJob, Any, str], Sequence[Sequence[Any]] | None, list[list[Any]] | None] = (
    Point(
        "hyper_node_gradient_for_sub_job",
        Form[[SubJob, Any, str], Sequence[Sequence[Any]] | None],
        FIRST,
        None,
        ABSTAIN,
        go="HyperNodeGradientForSubJobFn",
        signature="(sub_job, hypernode, purpose) -> [[hypernode]]",
        flag="enabledHyperNodeGradient",
        otherwise="the hyper-node itself",
        contract="In which hyper-nodes is the sub-job tried, group by group?",
    )
)
BEST_NODE: Point[[Task, dict[str, float]], Node | str | None, Node | str | None] = Point(
    "best_node",
    Form[[Task, dict[str, float]], Node | str | None],
    FIRST_NODE,
    None,
    ABSTAIN,
    go="BestNodeFn",
    signature="(task, {node name: score}) -> node or None",
    flag="enableBestNode",
    otherwise="the highest score, ties by name",
    contract="Takes the choice over from the scores; None leaves it to the next.",
)
GPU_ORDER: Point[[Task, Node, str], float, float | None] = Point(
    "gpu_order",
    Form[[Task, Node, str], float],
    SUM,
    0.0,
    REJECT,
    go="GpuOrderFn",
    signature="(task, node, gpu index) -> float",
    flag="enableNodeOrder",
    origin="KAI",
    otherwise="lowest index first",
    contract="How good is each GPU of the node for the task? An error drops the device.",
)
NODE_PRE_ORDER: Point[[Task, NodeRows], object, None] = Point(
    "node_pre_order",
    Form[[Task, NodeRows], object],
    BROADCAST,
    None,
    ABSTAIN,
    go="NodePreOrderFn",
    signature="(task, rows) -> None",
    flag="enableNodeOrder",
    origin="KAI",
    contract="Told of the candidates before they are scored.",
)
SUBSET_NODES: Point[
    [Job, SubJob | None, Sequence[Task], Sequence[Node]], Sequence[Sequence[Node]], list[list[Node]] | None
] = Point(
    "subset_nodes",
    Form[[Job, SubJob | None, Sequence[Task], Sequence[Node]], Sequence[Sequence[Node]]],
    CHAIN,
    None,
    REJECT,
    go="SubsetNodesFn",
    signature="(job, sub_job, tasks, nodes) -> [[node]]",
    origin="KAI",
    otherwise="all nodes as one set",
    contract="Splits the candidates into sets that are tried in turn.",
)
JOB_READY = Point(
    "job_ready",
    Form[[Job], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="JobReadyFn",
    signature="(job) -> bool",
    flag="enableJobReady",
    contract="May the job's placements be committed? bool, or reject(text).",
)
SUB_JOB_READY = Point(
    "sub_job_ready",
    Form[[SubJob], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="SubJobReadyFn",
    signature="(sub_job) -> bool",
    flag="enabledSubJobReady",
    contract="As job_ready, for a sub-job. Jobs without policies are asked as a whole.",
)
JOB_PIPELINED = Point(
    "job_pipelined",
    Form[[Job], Vote],
    VOTE,
    PASS,
    REJECT,
    go="JobPipelinedFn",
    signature="(job) -> vote",
    flag="enableJobPipelined",
    contract="May the job wait for resources that are being released?",
)
SUB_JOB_PIPELINED = Point(
    "sub_job_pipelined",
    Form[[SubJob], Vote],
    VOTE,
    PASS,
    REJECT,
    go="SubJobPipelinedFn",
    signature="(sub_job) -> vote",
    flag="enabledSubJobPipelined",
    contract="As job_pipelined for a sub-job.",
)
JOB_VALID = Point(
    "job_valid",
    Form[[Job], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="JobValidFn",
    signature="(job) -> None, bool or reject(text)",
    contract="Is the job worth trying at all?",
)
JOB_ENQUEUEABLE = Point(
    "job_enqueueable",
    Form[[Job], Vote],
    VOTE,
    PASS,
    REJECT,
    go="JobEnqueueableFn",
    signature="(job) -> vote",
    flag="enableJobEnqueued",
    hints=("key",),
    contract="May the job be let into its queue?",
)
JOB_ENQUEUED: Point[[Job], object, None] = Point(
    "job_enqueued",
    Form[[Job], object],
    BROADCAST,
    None,
    ABSTAIN,
    go="JobEnqueuedFn",
    signature="(job) -> None",
    flag="enableJobEnqueued",
    contract="The job was let into its queue.",
)
JOB_STARVING = Point(
    "job_starving",
    Form[[Job], bool | Verdict],
    FIRST_TIER,
    NO,
    ABSTAIN,
    go="JobStarvingFn",
    signature="(job) -> bool",
    flag="enableJobStarving",
    plural=True,
    contract="Does the job need others to make room?",
)
PREEMPTABLE: Point[[Task, Sequence[Task]], Victims, list[Task] | None] = Point(
    "preemptable",
    Form[[Task, Sequence[Task]], Victims],
    VICTIMS,
    None,
    REJECT,
    go="PreemptableFn",
    signature="(preemptor, [task]) -> [victim] or (victims, vote)",
    flag="enablePreemptable",
    switch=_VICTIMS,
    hints=("key",),
    contract="Which tasks may be preempted for the task? None abstains. The item of a key is a job: whether tasks of "
    "another job may go for one of its tasks then follows from the keys of the two jobs.",
)
RECLAIMABLE: Point[[Task, Sequence[Task]], Victims, list[Task] | None] = Point(
    "reclaimable",
    Form[[Task, Sequence[Task]], Victims],
    VICTIMS,
    None,
    REJECT,
    go="ReclaimableFn",
    signature="(reclaimer, [task]) -> [victim] or (victims, vote)",
    flag="enableReclaimable",
    switch=_VICTIMS,
    hints=("key",),
    contract="Which tasks may be reclaimed for the task? None abstains. The item of a key is a job: whether tasks of "
    "another job may go for one of its tasks then follows from the keys of the two jobs.",
)
UNIFIED_EVICTABLE: Point[[Any, Sequence[Task]], Victims, list[Task] | None] = Point(
    "unified_evictable",
    Form[[Any, Sequence[Task]], Victims],
    VICTIMS,
    None,
    REJECT,
    go="UnifiedEvictableFn",
    signature="(context, [task]) -> [victim] or (victims, vote)",
    switch=_VICTIMS,
    contract="Which tasks may the gang actions evict?",
)
PREEMPTIVE = Point(
    "preemptive",
    Form[[Queue, Sequence[Task]], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="PreemptiveFn",
    signature="(queue, [task]) -> bool",
    flag="enablePreemptive",
    hints=("key",),
    contract="May the queue reclaim for these tasks?",
)
VICTIM_TASKS: Point[[Sequence[Task]], Sequence[Task], Sequence[Task]] = Point(
    "victim_tasks",
    Form[[Sequence[Task]], Sequence[Task]],
    UNION,
    (),
    ABSTAIN,
    go="VictimTasksFn",
    signature="([task]) -> [victim]",
    flag="enabledVictim",
    plural=True,
    contract="Which running tasks should go, even if no task needs their room?",
)
VICTIM_FILTER = Point(
    "victim_filter",
    Form[[Job, Job], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="VictimFilterFn",
    signature="(pending job, victim job) -> bool",
    origin="KAI",
    contract="May this job be a victim of that one at all?",
)
SCENARIO_VALIDATOR = Point(
    "scenario_validator",
    Form[[Any], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="ScenarioValidatorFn",
    signature="(scenario) -> bool",
    origin="KAI",
    contract="Is the whole plan, victims and all, acceptable?",
)
QUEUE_CLAIM_ORDER = Point(
    "queue_claim_order",
    Form[[Any, Any], float],
    ORDER,
    0,
    ABSTAIN,
    go="QueueClaimOrderFn",
    signature="(claim, claim) -> int",
    origin="KAI",
    otherwise="creation time, then UID",
    contract=(
        "Which queue's claim goes first (KAI's order of queues)? A claim names the queue, the job that it would place "
        "next and, where victims are taken, the jobs that would go."
    ),
)
SUB_GROUP_ORDER = Point(
    "sub_group_order",
    Form[[Any, Any], float],
    ORDER,
    0,
    ABSTAIN,
    go="SubGroupOrderFn",
    signature="(sub_group, sub_group) -> int",
    origin="KAI",
    otherwise="name",
    contract="Which pod set or set of sub-groups of a job goes first? Its reverse is the order in which they shrink.",
)
CAN_RECLAIM_RESOURCES = Point(
    "can_reclaim_resources",
    Form[[Job], Said],
    ALL_PASS,
    NO,
    REJECT,
    go="CanReclaimResourcesFn",
    signature="(job) -> bool",
    origin="KAI",
    contract="May the job have others make room for it? If no plugin answers, no job reclaims.",
)
JOB_WITHIN_CAPACITY = Point(
    "job_within_capacity",
    Form[[Job, Sequence[Task]], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="IsJobOverCapacityFn",
    signature="(job, [task]) -> bool",
    origin="KAI",
    contract="Do the limits of the job's queues let these tasks be placed? Asked at every attempt.",
)
JOB_WITHIN_QUOTA = Point(
    "job_within_quota",
    Form[[Job, Sequence[Task]], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="IsNonPreemptibleJobOverQueueQuotaFn",
    signature="(job, [task]) -> bool",
    origin="KAI",
    contract="Do the queues' quotas let a non-preemptible job have these tasks?",
)
TASK_WITHIN_CAPACITY = Point(
    "task_within_capacity",
    Form[[Task, Node], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="IsTaskAllocationOnNodeOverCapacityFn",
    signature="(task, node) -> bool",
    origin="KAI",
    contract="Do the limits of the task's queues let it be placed on this node?",
)
VICTIM_INVARIANT_PRE_PREDICATE = Point(
    "victim_invariant_pre_predicate",
    Form[[Task], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="VictimInvariantPrePredicateFn",
    signature="(task) -> bool",
    origin="KAI",
    contract="Could the task be placed if others made room? A no is one that no eviction can cure.",
)
RECLAIM_VICTIM_FILTER = Point(
    "reclaim_victim_filter",
    Form[[Job, Job], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="ReclaimVictimFilterFn",
    signature="(pending job, victim job) -> bool",
    origin="KAI",
    contract="As victim_filter, when reclaiming from other queues.",
)
PREEMPT_VICTIM_FILTER = Point(
    "preempt_victim_filter",
    Form[[Job, Job], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="PreemptVictimFilterFn",
    signature="(pending job, victim job) -> bool",
    origin="KAI",
    contract="As victim_filter, when preempting within a queue.",
)
RECLAIM_SCENARIO_VALIDATOR = Point(
    "reclaim_scenario_validator",
    Form[[Any], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="ReclaimScenarioValidatorFn",
    signature="(scenario) -> bool",
    origin="KAI",
    contract="As scenario_validator, when reclaiming from other queues.",
)
PREEMPT_SCENARIO_VALIDATOR = Point(
    "preempt_scenario_validator",
    Form[[Any], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="PreemptScenarioValidatorFn",
    signature="(scenario) -> bool",
    origin="KAI",
    contract="As scenario_validator, when preempting within a queue.",
)
ON_JOB_SOLUTION_START: Point[[], object, None] = Point(
    "on_job_solution_start",
    Form[[], object],
    BROADCAST,
    None,
    ABSTAIN,
    go="OnJobSolutionStartFn",
    signature="() -> None",
    origin="KAI",
    contract="Told before victims are looked for, for a job that may reclaim.",
)
SCENARIO_GENERATOR: Point[[Any], Any, list[Any]] = Point(
    "scenario_generator",
    Form[[Any], Any],
    COLLECT,
    [],
    ABSTAIN,
    go="ScenarioGeneratorFn",
    signature="(context) -> iterator of scenarios",
    origin="KAI",
    otherwise="nobody is evicted",
    contract="Which sets of victims are tried, in turn? Generators are tried one after the other.",
)
OVERUSED = Point(
    "overused",
    Form[[Queue], bool | Verdict],
    ANY,
    NO,
    REJECT,
    go="OverusedFn",
    signature="(queue) -> bool",
    flag="enabledOverused",
    contract="Is the queue above its share?",
)
ALLOCATABLE = Point(
    "allocatable",
    Form[[Queue, Task], Said],
    ALL_PASS,
    PASS,
    REJECT,
    go="AllocatableFn",
    signature="(queue, task) -> bool",
    flag="enabledAllocatable",
    hints=("max_tasks",),
    contract="May the queue take the task?",
)
TARGET_JOB: Point[[Sequence[Job]], Job | None, Job | None] = Point(
    "target_job",
    Form[[Sequence[Job]], Job | None],
    FIRST_JOB,
    None,
    ABSTAIN,
    go="TargetJobFn",
    signature="([job]) -> job",
    flag="enableTargetJob",
    contract="Which job should resources be kept for?",
)
RESERVED_NODES: Point[[], object, None] = Point(
    "reserved_nodes",
    Form[[], object],
    BROADCAST,
    None,
    ABSTAIN,
    go="ReservedNodesFn",
    signature="() -> None",
    flag="enableReservedNodes",
    contract="Choose nodes to keep free.",
)
PRE_JOB_ALLOCATION: Point[[Job], object, None] = Point(
    "pre_job_allocation",
    Form[[Job], object],
    BROADCAST,
    None,
    ABSTAIN,
    go="PreJobAllocationFn",
    signature="(job) -> None",
    origin="KAI",
    contract="Told of each attempt to place a job.",
)
BIND_REQUEST_MUTATE: Point[[Task, str], Mapping[str, str] | None, Mapping[str, str]] = Point(
    "bind_request_mutate",
    Form[[Task, str], Mapping[str, str] | None],
    MERGE,
    MappingProxyType({}),
    ABSTAIN,
    go="BindRequestMutateFn",
    signature="(task, node name) -> {annotation: value}",
    origin="KAI",
    contract="Annotations to write with the bind.",
)
POINTS: Final[Mapping[str, Point[..., Any, Any]]] = {
    p.name: p for p in list(globals().values()) if isinstance(p, Point)
}
"""Every point that a plugin can answer, by name, in the order in which they are documented."""

BATCHED: Final = frozenset({BATCH_PREDICATE.name, BATCH_NODE_ORDER.name})
"""Points at which a plugin may register several callbacks beside each other."""

# Hints of a callback: small points of their own.
MAX_TASKS = ALLOCATABLE.hint("max_tasks", LEAST, sys.maxsize)
ENQUEUE_KEY = JOB_ENQUEUEABLE.hint("key", ALL_KEYS, ())
PREEMPTIVE_KEY = PREEMPTIVE.hint("key", ALL_KEYS, ())

FLAGS: Final[dict[str, bool]] = {
    **{p.flag: p.flag != "enabledClusterOrder" for p in POINTS.values() if p.flag},
    "enableHierarchy": False,
}
"""Every flag of a plugin entry and its default."""
