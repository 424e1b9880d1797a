"""The registration methods of a session, under the names that Volcano's and KAI's authors know.

Made from `pumice/framework/points/table.py` by `tools/write_points.py`. Each takes ``(name, fn)`` or, in KAI's form,
``(fn)`` alone: then the plugin that is being opened is meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pumice.engine.scope import Scope

Fn: TypeAlias = Callable[..., Any]


class Registration:
    """One typed line over `add` for every point."""

    def add(self, point: str, name: str | Fn, fn: Fn | None = None, **declared: Any) -> None:
        """Register *fn* at a point. *declared*: the hints of the point."""
        raise NotImplementedError

    def add_job_order_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("job_order", name, fn)

    def add_job_order_key_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        """Order by ``key(item)`` instead of comparing pairs."""
        self.add("job_order", name, fn, sort_key=True)

    def add_task_order_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("task_order", name, fn)

    def add_task_order_key_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        """Order by ``key(item)`` instead of comparing pairs."""
        self.add("task_order", name, fn, sort_key=True)

    def add_queue_order_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("queue_order", name, fn)

    def add_queue_order_key_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        """Order by ``key(item)`` instead of comparing pairs."""
        self.add("queue_order", name, fn, sort_key=True)

    def add_victim_queue_order_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("victim_queue_order", name, fn)

    def add_sub_job_order_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("sub_job_order", name, fn)

    def add_sub_job_order_key_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        """Order by ``key(item)`` instead of comparing pairs."""
        self.add("sub_job_order", name, fn, sort_key=True)

    def add_cluster_order_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("cluster_order", name, fn)

    def add_pre_predicate_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("pre_predicate", name, fn)

    def add_predicate_fn(
        self,
        name: str | Fn,
        fn: Fn | None = None,
        *,
        scope: Scope = Scope.SESSION,
        key: Fn | None = None,
        applies: Fn | None = None,
    ) -> None:
        """*scope*: what the answer depends on, and so when it is asked again.
        *key(item)*: what has equal keys gets equal answers until something changes.
        *applies(task)*: is there anything to ask for this task?
        """
        self.add("predicate", name, fn, scope=scope, key=key, applies=applies)

    def add_batch_predicate_fn(
        self,
        name: str | Fn,
        fn: Fn | None = None,
        *,
        scope: Scope = Scope.SESSION,
        key: Fn | None = None,
        applies: Fn | None = None,
        also: bool = False,
        amounts_only: bool = False,
        static_key: Fn | None = None,
        incremental: Fn | None = None,
    ) -> None:
        """*scope*: what the answer depends on, and so when it is asked again.
        *key(item)*: what has equal keys gets equal answers until something changes.
        *applies(task)*: is there anything to ask for this task?
        *also*: beside an earlier one of the same plugin, not instead of it.
        *amounts_only* (scope NODE): it reads nothing of a row but its amounts.
        *static_key(task)* (scope STATIC): equal keys, equal answers for any class.
        *incremental(task)* (scope SESSION): how it goes on while equal tasks are placed in a row, or None.
        """
        self.add(
            "batch_predicate",
            name,
            fn,
            scope=scope,
            key=key,
            applies=applies,
            also=also,
            amounts_only=amounts_only,
            static_key=static_key,
            incremental=incremental,
        )

    def add_node_order_fn(
        self,
        name: str | Fn,
        fn: Fn | None = None,
        *,
        scope: Scope = Scope.SESSION,
        key: Fn | None = None,
        applies: Fn | None = None,
    ) -> None:
        """*scope*: what the answer depends on, and so when it is asked again.
        *key(item)*: what has equal keys gets equal answers until something changes.
        *applies(task)*: is there anything to ask for this task?
        """
        self.add("node_order", name, fn, scope=scope, key=key, applies=applies)

    def add_batch_node_order_fn(
        self,
        name: str | Fn,
        fn: Fn | None = None,
        *,
        scope: Scope = Scope.SESSION,
        key: Fn | None = None,
        applies: Fn | None = None,
        also: bool = False,
        amounts_only: bool = False,
        static_key: Fn | None = None,
        incremental: Fn | None = None,
        normalize: Fn | None = None,
    ) -> None:
        """*scope*: what the answer depends on, and so when it is asked again.
        *key(item)*: what has equal keys gets equal answers until something changes.
        *applies(task)*: is there anything to ask for this task?
        *also*: beside an earlier one of the same plugin, not instead of it.
        *amounts_only* (scope NODE): it reads nothing of a row but its amounts.
        *static_key(task)* (scope STATIC): equal keys, equal answers for any class.
        *incremental(task)* (scope SESSION): how it goes on while equal tasks are placed in a row, or None.
        *normalize(scores, mask)*: how the scores of all candidates are made comparable.
        """
        self.add(
            "batch_node_order",
            name,
            fn,
            scope=scope,
            key=key,
            applies=applies,
            also=also,
            amounts_only=amounts_only,
            static_key=static_key,
            incremental=incremental,
            normalize=normalize,
        )

    def add_node_map_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("node_map", name, fn)

    def add_node_reduce_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("node_reduce", name, fn)

    def add_hyper_node_order_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("hyper_node_order", name, fn)

    def add_hyper_node_gradient_for_job_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("hyper_node_gradient_for_job", name, fn)

    def add_hyper_node_gradient_for_sub_job_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("hyper_node_gradient_for_sub_job", name, fn)

    def add_best_node_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("best_node", name, fn)

    def add_gpu_order_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("gpu_order", name, fn)

    def add_node_pre_order_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("node_pre_order", name, fn)

    def add_subset_nodes_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("subset_nodes", name, fn)

    def add_job_ready_fn(self, name: str | Fn, fn: Fn | None = None, *, needs: Fn | None = None) -> None:
        """*needs(job)*: how many more tasks must be placed, at least, before the answer can be yes."""
        self.add("job_ready", name, fn, needs=needs)

    def add_sub_job_ready_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("sub_job_ready", name, fn)

    def add_job_pipelined_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("job_pipelined", name, fn)

    def add_sub_job_pipelined_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("sub_job_pipelined", name, fn)

    def add_job_valid_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("job_valid", name, fn)

    def add_job_enqueueable_fn(
        self, name: str | Fn, fn: Fn | None = None, *, key: Fn | None = None, lasting: bool = False
    ) -> None:
        """*key(item)*: what has equal keys gets equal answers until something changes.
        *lasting*: the key depends on the item alone, so it holds until that changes.
        """
        self.add("job_enqueueable", name, fn, key=key, lasting=lasting)

    def add_job_enqueued_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("job_enqueued", name, fn)

    def add_job_starving_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("job_starving", name, fn)

    add_job_starving_fns = add_job_starving_fn

    def add_preemptable_fn(
        self, name: str | Fn, fn: Fn | None = None, *, profile: Fn | None = None, admits: Fn | None = None
    ) -> None:
        """*profile(job)*: with *admits*, whose tasks are never let go; only for a plugin that never abstains.
        *admits(own profile, profile)*: may such a job evict tasks of such a one at all?
        """
        self.add("preemptable", name, fn, profile=profile, admits=admits)

    def add_reclaimable_fn(
        self, name: str | Fn, fn: Fn | None = None, *, profile: Fn | None = None, admits: Fn | None = None
    ) -> None:
        """*profile(job)*: with *admits*, whose tasks are never let go; only for a plugin that never abstains.
        *admits(own profile, profile)*: may such a job evict tasks of such a one at all?
        """
        self.add("reclaimable", name, fn, profile=profile, admits=admits)

    def add_unified_evictable_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("unified_evictable", name, fn)

    def add_preemptive_fn(
        self, name: str | Fn, fn: Fn | None = None, *, key: Fn | None = None, monotone: bool = False
    ) -> None:
        """*key(item)*: what has equal keys gets equal answers until something changes.
        *monotone*: a queue that it refuses it would refuse, too, if the queue held more.
        """
        self.add("preemptive", name, fn, key=key, monotone=monotone)

    def add_victim_tasks_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("victim_tasks", name, fn)

    add_victim_tasks_fns = add_victim_tasks_fn

    def add_victim_filter_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("victim_filter", name, fn)

    def add_scenario_validator_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("scenario_validator", name, fn)

    def add_queue_claim_order_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("queue_claim_order", name, fn)

    def add_sub_group_order_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("sub_group_order", name, fn)

    def add_can_reclaim_resources_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("can_reclaim_resources", name, fn)

    def add_job_within_capacity_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("job_within_capacity", name, fn)

    def add_job_within_quota_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("job_within_quota", name, fn)

    def add_task_within_capacity_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("task_within_capacity", name, fn)

    def add_victim_invariant_pre_predicate_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("victim_invariant_pre_predicate", name, fn)

    def add_reclaim_victim_filter_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("reclaim_victim_filter", name, fn)

    def add_preempt_victim_filter_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("preempt_victim_filter", name, fn)

    def add_reclaim_scenario_validator_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("reclaim_scenario_validator", name, fn)

    def add_preempt_scenario_validator_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("preempt_scenario_validator", name, fn)

    def add_on_job_solution_start_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("on_job_solution_start", name, fn)

    def add_scenario_generator_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("scenario_generator", name, fn)

    def add_overused_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("overused", name, fn)

    def add_allocatable_fn(self, name: str | Fn, fn: Fn | None = None, *, room: Fn | None = None) -> None:
        """*room(queue, task)*: how many equal tasks in a row the queue would take."""
        self.add("allocatable", name, fn, room=room)

    def add_target_job_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("target_job", name, fn)

    def add_reserved_nodes_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("reserved_nodes", name, fn)

    def add_pre_job_allocation_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("pre_job_allocation", name, fn)

    def add_bind_request_mutate_fn(self, name: str | Fn, fn: Fn | None = None) -> None:
        self.add("bind_request_mutate", name, fn)
