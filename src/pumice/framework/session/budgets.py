"""Disruption budgets: whom the cluster would let us evict, counted along the plans of a session.

The rules are those of the Eviction API. A pod that has not started, or is terminating, needs no budget. A pod that is
not ready needs none while its budget is healthy. A pod with two budgets cannot be evicted. An eviction under way counts
until the budget's own status shows it. A pod whose eviction was refused is left alone for a while, budget or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from pumice.model.api import Pod, PodDisruptionBudget
from pumice.model.selectors import label_selector_matches
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

S = TaskStatus
KIND = "PodDisruptionBudget"


class Budgets:
    """The amounts that disruption budgets permit, for one session.

    *as_volcano*: only the pdb plugin looks. It looks at each question by itself, protects pods without labels, and
    names all pods that it would let go when `shuffle` asks for victims.
    """

    def __init__(self, state: ClusterState, *, as_volcano: bool = False, kept: dict[str, Any] | None = None) -> None:
        """*kept* outlives the session."""
        self._state, self._as_volcano = state, as_volcano
        self._kept: dict[str, Any] = kept if kept is not None else {}
        refused = {uid for uid, no in state.refused.items() if state.now < no.until}
        left_out = [job for uid in state.stopped if (job := state.jobs.get(uid)) is not None and job.left_out]
        self._refused = refused.union(uid for job in left_out for uid in job.tasks)
        self._index: _Index | None = None
        self._of: dict[str, tuple[PodDisruptionBudget, ...]] = {}
        self._members: dict[str, list[Task]] = {}
        """Budget -> the tasks under it that somebody asked about."""
        self._before: dict[str, int] | None = None
        """Budget -> how many evictions that cannot be taken back draw on it, and are not shown by its status."""
        self._tried: dict[str, int] = {}
        """Budget -> how many evictions that can be taken back draw on it at the moment."""

    @cached_property
    def watched(self) -> bool:
        """Report whether there is a budget at all. Looked up when a plan asks: a served policy knows no cluster, and
        plans nothing."""
        return not self._as_volcano and bool(self._state.objects.get(KIND))

    # -- what plans do ----------------------------------------------------------------------------------------------
    def count(self, task: Task, sign: int) -> None:
        """A task is being evicted (1), or is not after all (-1)."""
        if self.watched:
            for budget in self._drawn(task):
                self._tried[budget.key] = self._tried.get(budget.key, 0) + sign

    def commit(self, task: Task) -> None:
        """The eviction of a task cannot be taken back any more."""
        for budget in self._drawn(task) if self.watched else ():
            standing = self._standing()
            self._tried[budget.key] -= 1
            standing[budget.key] = standing.get(budget.key, 0) + 1
            if self._left_before(budget) <= 0:  # whoever adds up what could be evicted must look again
                self._state.table.touched.extend(t.row for t in self._members[budget.key] if t.row >= 0)

    # -- what plans ask ---------------------------------------------------------------------------------------------
    def closed(self, task: Task) -> bool:
        """Report whether the task cannot be evicted in this session in any case."""
        if task.uid in self._refused:
            return True
        if not self.watched:
            return False
        needed = self.needed(task)
        return bool(needed) and (len(needed) > 1 or self._left_before(needed[0]) <= 0)

    def open(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Those whose budget has something left now, each for itself."""
        if self._refused:
            tasks = [t for t in tasks if t.uid not in self._refused]
        return [t for t in tasks if self._allows(t, {})] if self.watched else tasks

    def together(self, tasks: Sequence[Task], worth: Callable[[Task], float] | None = None) -> list[Task]:
        """Those who may go together: the first ones, as long as their budgets last, or those of most *worth*."""
        if not self.watched:
            return list(tasks)
        allowance = self.allowance()
        order = tasks if worth is None else sorted(tasks, key=lambda t: -worth(t))
        going = {t.uid for t in order if allowance.take((t,))}
        return [t for t in tasks if t.uid in going]

    def allowance(self) -> DisruptionAllowance:
        """The rest now, to be spent temporarily."""
        return DisruptionAllowance(self._allows, self.needed)

    def _allows(self, task: Task, taken: Mapping[str, int]) -> bool:
        needed = self.needed(task)
        if not needed:
            return True
        budget = needed[0]
        return len(needed) == 1 and self._left_now(budget) > taken.get(budget.key, 0)

    # -- what the pdb plugin asks -----------------------------------------------------------------------------------
    def permitted(self, tasks: Sequence[Task]) -> list[Task]:
        """The answer of the pdb plugin."""
        if not self._as_volcano:  # what several may have together is looked at for the plan as a whole
            return list(self.open(tasks))
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
        """The pods that the pdb plugin wants evicted although no job waits for their room: none, because it only
        protects."""
        return self.permitted(tasks) if self._as_volcano else []

    # -- which budgets ----------------------------------------------------------------------------------------------
    def matching(self, task: Task) -> tuple[PodDisruptionBudget, ...]:
        """The budgets that a task falls under, by name."""
        known = self._of.get(task.uid)
        if known is None:
            if self._index is None:
                self._index = self._indexed()
            known = self._of[task.uid] = self._index.matching(task)
            for budget in known:
                self._members.setdefault(budget.key, []).append(task)
        return known

    def _indexed(self) -> _Index:
        now = (id(self._state), self._state.versions.get(KIND, 0))
        at, index = self._kept.get("budgets", (None, None))
        if at != now or index is None:
            index = _Index(budget for _, budget in self._all())
            self._kept["budgets"] = (now, index)
        found: _Index = index
        return found

    def needed(self, task: Task) -> tuple[PodDisruptionBudget, ...]:
        """The budgets that its eviction would draw on; more than one is a refusal."""
        found = self.matching(task)
        if not found or _leaves_freely(task.pod):
            return ()
        return () if len(found) == 1 and _lets_go_of_unready(found[0], task.pod) else found

    def spent(self, task: Task) -> str:
        """Which budget keeps the task from being evicted now, in words; nothing if none does."""
        needed = self.needed(task) if self.watched else ()
        if len(needed) > 1:
            return f"disruption budgets {', '.join(b.key for b in needed)} together (a pod may have one)"
        if not needed or self._left_now(needed[0]) > 0:
            return ""
        return f"disruption budget {needed[0].key}, which allows no more evictions now"

    # -- what is left -----------------------------------------------------------------------------------------------
    def _all(self) -> list[tuple[str, PodDisruptionBudget]]:
        kept = self._state.objects.get(KIND, {})
        return [(key, cast(PodDisruptionBudget, kept[key])) for key in sorted(kept)]

    def _standing(self) -> dict[str, int]:
        """Evictions that cannot be taken back, by budget; at first those of earlier sessions."""
        if self._before is None:
            self._before = {}
            for task in self._state.assumed.values():
                if task.status is S.RELEASING and not task.evicted:
                    for drawn in self._drawn(task):
                        self._before[drawn.key] = self._before.get(drawn.key, 0) + 1
        return self._before

    def _left_before(self, budget: PodDisruptionBudget) -> int:
        """The rest of a budget, less the evictions that cannot be taken back."""
        return budget.status.disruptions_allowed - self._standing().get(budget.key, 0)

    def _left_now(self, budget: PodDisruptionBudget) -> int:
        """… and less those that stand at the moment."""
        return self._left_before(budget) - self._tried.get(budget.key, 0)

    def _drawn(self, task: Task) -> Iterator[PodDisruptionBudget]:
        """The budgets that the eviction of a task draws on, and whose status does not show it yet."""
        return (b for b in self.needed(task) if task.name not in (b.status.disrupted_pods or {}))


class DisruptionAllowance:
    """The permitted evictions of budgets, spent temporarily, without a decision."""

    def __init__(
        self,
        allows: Callable[[Task, Mapping[str, int]], bool],
        needed: Callable[[Task], tuple[PodDisruptionBudget, ...]],
    ) -> None:
        self._allows, self._needed = allows, needed
        self._taken: dict[str, int] = {}

    def take(self, tasks: Sequence[Task]) -> bool:
        """Report whether these may go too, all of them. If not, nothing is spent."""
        taken = dict(self._taken) if len(tasks) > 1 else self._taken
        for task in tasks:
            if not self._allows(task, taken):
                return False
            for budget in self._needed(task):
                taken[budget.key] = taken.get(budget.key, 0) + 1
        self._taken = taken
        return True


class _Index:
    """Budgets by a label that their pods must have, so that few selectors are looked at for a pod."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_label: dict[tuple[str, str, str], list[PodDisruptionBudget]] = {}
        self._others: dict[str, list[PodDisruptionBudget]] = {}
        for budget in budgets:
            namespace, selector = budget.metadata.namespace, budget.spec.selector
            label = min((selector.match_labels or {}).items(), default=None) if selector is not None else None
            if label is not None:
                self._by_label.setdefault((namespace, *label), []).append(budget)
            elif selector is not None:
                self._others.setdefault(namespace, []).append(budget)

    def matching(self, task: Task) -> tuple[PodDisruptionBudget, ...]:
        """The budgets of a task, by name."""
        namespace, labels = task.namespace, task.labels
        near = [b for label in labels.items() for b in self._by_label.get((namespace, *label), ())]
        near += self._others.get(namespace, ())
        found = [b for b in near if label_selector_matches(b.spec.selector, labels)]
        return tuple(sorted(found, key=lambda b: b.key)) if len(found) > 1 else tuple(found)


def _leaves_freely(pod: Pod) -> bool:
    """Report whether the pod has not started, or has ended, or is being deleted."""
    return pod.status.phase != "Running" or pod.metadata.deletion_timestamp is not None


def _lets_go_of_unready(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Report whether the budget does not count the pod, because it is not ready."""
    if not any(c.type == "Ready" and c.status != "True" for c in pod.status.conditions or ()):
        return False
    status = budget.status
    healthy = 0 < status.desired_healthy <= status.current_healthy
    return healthy or budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
