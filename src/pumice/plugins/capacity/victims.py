"""The victims of reclaim: tasks of queues that hold more than they deserve, never below a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pumice.framework import quota
from pumice.framework.session.session import Session
from pumice.model.resources import PODS, TOLERANCE, Number, Resources
from pumice.model.task import Task
from pumice.plugins.capacity.tree import Branch, QueueTree


class CapacityVictims:
    """The search for victims. *level*: how many levels of parents take part (0: none)."""

    def __init__(self, ssn: Session, tree: QueueTree, level: int, sync: Callable[[], None]) -> None:
        self._ssn, self._tree, self._level, self._sync = ssn, tree, level, sync

    def victims(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """The candidates that may be evicted for *reclaimer*, in the order in which they would go."""
        self._sync()
        own = self._branch(reclaimer)
        if own is None:
            return []
        left: dict[str, dict[int, Number]] = {}
        chosen = []
        for task in self._ssn.orders.victims(candidates, reclaimer):
            branch = self._branch(task)
            if branch is None or not _in_common(task, reclaimer):
                continue
            held = _running(left, branch)
            if not _keeps_guarantee(branch, held, task):
                continue
            if not _deserves_any(branch, task):
                if self._level and self._related(own, branch) and not _deserves_any(own, reclaimer):
                    continue
            elif not _beyond(branch, held, task):
                continue
            parents = self._parents_to_check(own, branch)
            if not all(not _deserves_any(p, task) or _beyond(p, _running(left, p), task) for p in parents):
                continue
            for lower in (branch, *parents):
                quota.added(_running(left, lower), task.klass.items, -1)
            chosen.append(task)
        return chosen

    def spare(self, candidates: Sequence[Task]) -> list[Task]:
        """The amounts that queues hold beyond their deserved amounts, in the order given; parents do not take part."""
        self._sync()
        left: dict[str, dict[int, Number]] = {}
        chosen = []
        for task in candidates:
            branch = self._branch(task)
            if branch is None:
                continue
            held = _running(left, branch)
            if _keeps_guarantee(branch, held, task) and (
                not _deserves_any(branch, task) or _beyond(branch, held, task)
            ):
                quota.added(held, task.klass.items, -1)
                chosen.append(task)
        return chosen

    def _branch(self, task: Task) -> Branch | None:
        job = task.job
        branch = self._tree.branches.get(job.queue) if job is not None and job.in_session else None
        return branch if branch is not None and not branch.problem else None

    def _related(self, left: Branch, right: Branch) -> bool:
        """Report whether two queues have a parent in common, the root excepted, within the level."""
        levels = range(1, self._level + 1)
        mine = {b.name for level in levels if (b := left.above(level)) is not None}
        return any((b := right.above(level)) is not None and b.name in mine for level in levels)

    def _parents_to_check(self, reclaimer: Branch, victim: Branch) -> list[Branch]:
        """Parents of the victim that are not the reclaimer's parent of the same level."""
        pairs = ((victim.above(n), reclaimer.above(n)) for n in range(1, self._level + 1))
        return [theirs for theirs, mine in pairs if theirs is not None and theirs is not mine]


def _running(left: dict[str, dict[int, Number]], branch: Branch) -> dict[int, Number]:
    """The amounts that a branch would hold after the victims so far."""
    held = left.get(branch.name)
    if held is None:
        held = left[branch.name] = dict(branch.used())
    return held


def _in_common(task: Task, reclaimer: Task) -> bool:
    """Report whether both ask for some resource, pod slots aside."""
    wanted = reclaimer.requests
    return any(d != PODS and v >= TOLERANCE and wanted.get(d) >= TOLERANCE for d, v in task.klass.items)


def _deserves_any(branch: Branch, task: Task) -> bool:
    """Report whether the queue deserves any resource that the task asks for."""
    deserved = branch.deserved
    return any(v >= TOLERANCE and deserved.get(d) >= TOLERANCE for d, v in task.klass.items)


def _keeps_guarantee(branch: Branch, held: dict[int, Number], task: Task) -> bool:
    return branch.guarantee.less_equal(Resources(held) - task.requests)


def _beyond(branch: Branch, held: dict[int, Number], task: Task) -> bool:
    return Resources(held).greater_partly_relevant(branch.deserved, task.requests)
