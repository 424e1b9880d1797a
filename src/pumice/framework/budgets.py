"""Disruption budgets: whom the cluster would let us evict, counted along the plans of a session.

The rules are those of the Eviction API. A pod that has not started, or is on its way out, needs no budget; one that is
not ready needs none while its budget is healthy; one with two budgets cannot be evicted at all. What is being evicted
counts until the budget's own status shows it. A pod whose eviction was refused is left alone for a while, budget or
not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import cast

from pumice.model.api import Pod, PodDisruptionBudget
from pumice.model.selectors import label_selector_matches
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

S = TaskStatus
KIND = "PodDisruptionBudget"


class Budgets:
    """What the disruption budgets of a cluster allow, for one session.

    *as_volcano*: nobody looks but the pdb plugin; it looks at each question by itself, lets no pod go that has no
    labels, and names everybody it would let go when `shuffle` asks who should.
    """

    def __init__(self, state: ClusterState, *, as_volcano: bool = False) -> None:
        self._state, self._as_volcano = state, as_volcano
        self._refused = frozenset(uid for uid, no in state.refused.items() if state.now < no.until)
        self._by_namespace: dict[str, list[PodDisruptionBudget]] | None = None
        self._of: dict[str, tuple[PodDisruptionBudget, ...]] = {}
        self._before: dict[str, int] | None = None
        self._now: tuple[int, dict[str, int]] = (-1, {})

    @cached_property
    def _watched(self) -> bool:
        """Is there a budget at all? Looked up when a plan asks: a served policy knows no cluster, and plans nothing."""
        return not self._as_volcano and bool(self._state.objects.get(KIND))

    # -- what plans ask ---------------------------------------------------------------------------------------------
    def closed(self, task: Task) -> bool:
        """Can the task not be evicted in this session, whatever else is or is not?"""
        if task._uid in self._refused:
            return True
        return self._watched and not _allows(self.needed(task), self._left_before())

    def open(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Those whose budget has something left now, each for itself."""
        if self._refused:
            tasks = [t for t in tasks if t._uid not in self._refused]
        if not self._watched:
            return tasks
        left = self._left_now()
        return [t for t in tasks if _allows(self.needed(t), left)]

    def together(self, tasks: Sequence[Task]) -> list[Task]:
        """Those who may go together: the first ones, as long as their budgets last."""
        if not self._watched:
            return list(tasks)
        left = dict(self._left_now())
        return [t for t in tasks if self._spend(t, left)]

    def _spend(self, task: Task, left: dict[str, int]) -> bool:
        needed = self.needed(task)
        if not _allows(needed, left):
            return False
        for budget in needed:
            left[budget.key] -= 1
        return True

    # -- what the pdb plugin asks -----------------------------------------------------------------------------------
    def permitted(self, tasks: Sequence[Task]) -> list[Task]:
        """The answer of the pdb plugin."""
        if not self._as_volcano:
            return self.together(tasks)
        left = {key: b.status.disruptions_allowed for key, b in self._all()}
        out = []
        for task in tasks:
            if not task.labels:
                continue
            fits = True
            for budget in self.matching(task):
                if task.name not in (budget.status.disrupted_pods or {}):
                    left[budget.key] -= 1  # also for one that is refused
                    fits = fits and left[budget.key] >= 0
            if fits:
                out.append(task)
        return out

    def named(self, tasks: Sequence[Task]) -> list[Task]:
        """Whom the pdb plugin wants evicted although nobody waits for their room: nobody, for it only protects."""
        return self.permitted(tasks) if self._as_volcano else []

    # -- which budgets ----------------------------------------------------------------------------------------------
    def matching(self, task: Task) -> tuple[PodDisruptionBudget, ...]:
        """The budgets that a task falls under, by name."""
        known = self._of.get(task._uid)
        if known is None:
            if self._by_namespace is None:
                self._by_namespace = {}
                for _, budget in self._all():
                    self._by_namespace.setdefault(budget.metadata.namespace, []).append(budget)
            mine = self._by_namespace.get(task._namespace, ())
            known = tuple([b for b in mine if label_selector_matches(b.spec.selector, task._labels)])
            self._of[task._uid] = known
        return known

    def needed(self, task: Task) -> tuple[PodDisruptionBudget, ...]:
        """The budgets that its eviction would draw on; more than one is a refusal."""
        found = self.matching(task)
        if not found or _leaves_freely(task._pod):
            return ()
        return () if len(found) == 1 and _lets_go_of_unready(found[0], task._pod) else found

    def spent(self, task: Task) -> str:
        """Which budget keeps the task from being evicted now, in words; nothing if none does."""
        needed = self.needed(task) if self._watched else ()
        if len(needed) > 1:
            return f"disruption budgets {', '.join(b.key for b in needed)} together (a pod may have one)"
        if _allows(needed, self._left_now() if needed else {}):
            return ""
        return f"disruption budget {needed[0].key}, which allows no more evictions now"

    # -- what is left -----------------------------------------------------------------------------------------------
    def _all(self) -> list[tuple[str, PodDisruptionBudget]]:
        kept = self._state.objects.get(KIND, {})
        return [(key, cast(PodDisruptionBudget, kept[key])) for key in sorted(kept)]

    def _left_before(self) -> dict[str, int]:
        """What is left by budget, less the evictions of earlier sessions that are still under way."""
        if self._before is None:
            left = {key: b.status.disruptions_allowed for key, b in self._all()}
            earlier = (t for t in self._state.assumed.values() if t._status is S.RELEASING and not t._evicted)
            self._before = self._less(left, earlier)
        return self._before

    def _left_now(self) -> dict[str, int]:
        """… and less the evictions of this session that stand at the moment."""
        at = self._state.table.touched.position
        if self._now[0] != at:
            gone = {t._uid: t for t in self._state.evicted_now if t._evicted}
            self._now = (at, self._less(dict(self._left_before()), gone.values()))
        return self._now[1]

    def _less(self, left: dict[str, int], tasks: Iterable[Task]) -> dict[str, int]:
        for task in tasks:
            for budget in self.needed(task):
                if task.name not in (budget.status.disrupted_pods or {}):
                    left[budget.key] -= 1
        return left


def _allows(needed: Sequence[PodDisruptionBudget], left: dict[str, int]) -> bool:
    return not needed or (len(needed) == 1 and left[needed[0].key] > 0)


def _leaves_freely(pod: Pod) -> bool:
    """Is the pod one that has not started, or has ended, or is being deleted?"""
    return pod.status.phase != "Running" or pod.metadata.deletion_timestamp is not None


def _lets_go_of_unready(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Does the budget not count the pod, because it is not ready?"""
    if not any(c.type == "Ready" and c.status != "True" for c in pod.status.conditions or ()):
        return False
    status = budget.status
    healthy = 0 < status.desired_healthy <= status.current_healthy
    return healthy or budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
