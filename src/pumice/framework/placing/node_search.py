"""Looking for a node on behalf of an action: shards, nominated nodes, and failures that are remembered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pumice.engine.choose import NodeChoice
from pumice.engine.diagnosis import FitError
from pumice.engine.views import ClassView
from pumice.framework.session.nominations import holds
from pumice.framework.session.session import Session
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.task import Task

Bools = npt.NDArray[np.bool_]


class NodeSearch:
    """Finds nodes for tasks. *remember*: what failed for one task of a role is not tried again for the next."""

    def __init__(self, ssn: Session, remember: bool, domain: Bools | None = None) -> None:
        self._ssn = ssn
        self._keeps_failures = keeps_failures(ssn)
        self._remember = remember and self._keeps_failures
        self._failed: dict[str, Bools] = {}
        self._domain = domain
        self._soft: Bools | None = None
        self._within = domain
        if ssn.shard is not None:
            own = rows_named(ssn, ssn.shard.nodes)
            if ssn.shard.hard:
                self._within = own if domain is None else own & domain
            else:
                self._soft = own

    @property
    def by_role(self) -> bool:
        """Does it matter which role a task has: is remembered what refused it?"""
        return self._remember

    @property
    def within(self) -> Bools | None:
        """The rows that may be used at all; None for all of them."""
        return self._within

    def choose(self, task: Task) -> NodeChoice | FitError:
        """The best node, or why there is none."""
        ssn = self._ssn
        if task.nominated_node:
            with ssn.state.lifted(task):
                return self._for_nominated(task)
        return self._anywhere(task)

    def choose_despite(self, task: Task) -> Node | None:
        """The best node, objections aside that evictions may heal, nor is it asked where the task is nominated."""
        within, never = self._untried(task), never_again(self._ssn, task)
        if never is not None:
            within = ~never if within is None else within & ~never
        try:
            found = self._ssn.search.chooser.choose_despite(task, within, self._soft)
        except Unfit:
            found = None
        if self._remember and task.role:
            self._note(task.role, task, within, severity=1)
        return found

    def _anywhere(self, task: Task) -> NodeChoice | FitError:
        within = self._untried(task)
        found = self._ssn.search.chooser.choose(task, within, self._soft)
        if self._remember and task.role:
            self._note(task.role, task, within)
        if isinstance(found, FitError) and self._keeps_failures:
            view = self._ssn.search.evaluator.view(task)
            found.never = ~self._letting(view, task, severity=1)
        return found

    def _untried(self, task: Task) -> Bools | None:
        """The rows that may be used, less those that are known to have refused the task's role."""
        known = self._failed.get(task.role)
        if known is None:
            return self._within
        return ~known if self._within is None else self._within & ~known

    def _for_nominated(self, task: Task) -> NodeChoice | FitError:
        """Idle room on the nominated node, else idle room anywhere, else what is being released on that node."""
        node = self._ssn.nodes.get(task.nominated_node)
        if node is None or (self._within is not None and not self._within[node.row]):
            return self._anywhere(task)
        chooser = self._ssn.search.chooser
        there = chooser.choose_there(task, node)
        if isinstance(there, NodeChoice) and (there.idle or not holds(self._ssn)):
            return there
        if isinstance(there, NodeChoice) and not self._remember and chooser.nowhere_idle(task):
            return there
        elsewhere = self._anywhere(task)
        return (
            there
            if isinstance(there, NodeChoice) and not (isinstance(elsewhere, NodeChoice) and elsewhere.idle)
            else elsewhere
        )

    def _note(self, role: str, task: Task, within: Bools | None, severity: int = 0) -> None:
        view = self._ssn.search.evaluator.view(task)
        failing = ~self.passing(view, task, within, severity)
        known = self._failed.get(role)
        self._failed[role] = failing if known is None else known | failing

    def passing(self, view: ClassView, task: Task, within: Bools | None = None, severity: int = 0) -> Bools:
        """Rows of *within* on which the task would fit, now or once something is released."""
        mask: Bools = self._ssn.search.evaluator.future_ok(view)
        if within is not None:
            mask = mask & within[: view.size]
        return self._letting(view, task, severity, mask)

    def _letting(self, view: ClassView, task: Task, severity: int, mask: Bools | None = None) -> Bools:
        """Rows (of *mask*) to which no filter objects worse than that."""
        mask = view.severity <= severity if mask is None else mask & (view.severity <= severity)
        if view.session_filters:
            index = self._ssn.search.chooser.feasible(view, task, mask, severity)
            mask = np.zeros(view.size, dtype=np.bool_)
            mask[index] = True
        return mask

    def _alike(self, task: Task) -> bool:
        """Does it make no difference what is remembered of the task's role, as long as tasks like it are placed?

        So where the rest of the role is like it: what refused one of them refuses all. A smaller one must find noted
        what placing one by one would have noted.
        """
        role = task.role
        if role in self._failed or self._ssn.search.evaluator.view(task).session_filters:
            return False
        alike = self._ssn.search.evaluator.alike
        return all(alike(t, task) for t in task.job.tasks.values() if t.role == role)

    def plan(self, task: Task, wanted: int) -> Sequence[int]:
        """Rows for several equal tasks, where they can be placed in bulk."""
        if self._soft is not None or task.nominated_node:
            return []
        if self._remember and task.role and not self._alike(task):
            return []
        return self._ssn.search.chooser.plan(task, wanted, self._within)


def keeps_failures(ssn: Session) -> bool:
    """Is remembered what refused a task?"""
    return ssn.compat.remember_failures


def never_again(ssn: Session, task: Task) -> Bools | None:
    """Rows that objected to the task for good when it was tried in this cycle, where that is remembered."""
    errors = ssn.outcome.fit_errors.get(task.job_key)
    error = errors.get(task.uid) if errors else None
    return error.never if error is not None else None


def rows_named(ssn: Session, names: frozenset[str]) -> Bools:
    """A mask of the rows of the named nodes."""
    mask = np.zeros(ssn.state.table.size, dtype=np.bool_)
    for name in names:
        node = ssn.nodes.get(name)
        if node is not None:
            mask[node.row] = True
    return mask


def rows_of(ssn: Session, nodes: Sequence[Node]) -> Bools:
    """A mask of the rows of nodes."""
    mask = np.zeros(ssn.state.table.size, dtype=np.bool_)
    mask[[n.row for n in nodes]] = True
    return mask
