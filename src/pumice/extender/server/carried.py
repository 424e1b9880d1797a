"""Which verbs carry which extension point."""

from __future__ import annotations

from typing import Final

POINTS: Final[dict[str, tuple[str, ...]]] = {
    "predicate": ("predicate", "batchPredicate"),
    "batch_predicate": ("predicate", "batchPredicate"),
    "pre_predicate": ("predicate", "batchPredicate"),
    "node_order": ("prioritize",),
    "batch_node_order": ("prioritize",),
    "node_map": ("prioritize",),
    "node_reduce": ("prioritize",),
    "node_pre_order": ("prioritize",),
    "best_node": ("bestNode",),
    "gpu_order": ("gpuOrder",),
    "preemptable": ("preemptable", "preempt"),
    "reclaimable": ("reclaimable",),
    "victim_tasks": ("victimTasks",),
    "job_enqueueable": ("jobEnqueueable",),
    "job_enqueued": ("jobEnqueued",),
    "job_ready": ("jobReady",),
    "job_pipelined": ("jobPipelined",),
    "job_valid": ("jobValid",),
    "overused": ("queueOverused",),
    "allocatable": ("allocatable",),
    "job_order": ("jobOrder",),
    "task_order": ("taskOrder",),
    "queue_order": ("queueOrder",),
}
"""Extension point -> the verbs that carry it; a point that is missing here is carried by none."""
