"""Cycles in which everybody who waits has a promised place, and nothing happened that could change that.

While evicted pods terminate, those for whom they were evicted are promised their places anew in every cycle. Where
nobody else waits, and no node has idle room for any of them, the next cycle promises them the same, whoever is served
first, as long as nothing happened to them and their nodes (`framework/session/promised.py`), no row that changed has
idle room for one of them, and their queues still take them. That is looked up by class and queue, not job by job: then
no action is run, and everybody waits for what is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from pumice.framework import quota
from pumice.framework.session.promised import Promised
from pumice.model.resources import Number
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.scheduler.report import CycleReport

if TYPE_CHECKING:
    from pumice.framework.session.session import Session, Shard
    from pumice.scheduler.assembly import Assembly
    from pumice.state.cluster import ClusterState
    from pumice.state.table import NodeTable

S = TaskStatus
_MOST: Final = 1 << 22
"""So many pairs of a class and a row are looked at."""


@dataclass(slots=True)
class AllPromised:
    """The promises of a cycle in which nobody else waited, and the cluster and configuration for which they hold."""

    state: ClusterState
    assembly: Assembly
    shard: Shard | None
    known: Promised
    """What is promised: to everybody who waits."""
    held: dict[str, list[tuple[int, Number]]]
    """Queue -> what is promised to its jobs."""
    asking: dict[tuple[str, int, int], Task]
    """Queue, class and how many of it a job waits with -> one of the tasks."""
    needs: npt.NDArray[np.int64]
    """What every class asks for, a line each."""
    until: float
    """The time at which held room becomes free."""
    report: CycleReport

    def undisturbed(self, assembly: Assembly, shard: Shard | None, environment: Mapping[str, Any] | None) -> bool:
        """Has nothing happened that matters to those who wait, as far as that can be told without asking plugins?"""
        state = self.state
        if assembly is not self.assembly or shard is not self.shard or environment or state.now >= self.until:
            return False
        if state.refused or _others_wait(state):
            return False
        if any(job.with_status(S.PENDING) for job in state.changed_jobs.values()):
            return False
        if _waiting(state) != len(self.known.jobs):
            return False
        rows = self.known.changed_rows(state, assembly.conf.digest, shard)
        if (
            rows is None
            or not self.known.rows.isdisjoint(rows)
            or _finds_room(state.table, self.needs, np.fromiter(rows, dtype=np.intp))
        ):
            return False
        self.known.stand(state)
        return True

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Within the block queues hold what is promised to their jobs, as at the end of a cycle that promises it."""
        state = self.state
        with ExitStack() as counted:
            for name, amounts in self.held.items():
                counted.enter_context(state.also_held(state.queues[name], amounts))
            yield

    def stands(self, session: Session) -> bool:
        """Would everybody be promised the same again? If not, actions are to be run."""
        with self.counted():
            return self._taken(session)

    def _taken(self, session: Session) -> bool:
        """Do the queues take everybody? A job is asked about beside all other promises, whoever is served first.

        When it is asked whether its queue is above its share, fewer may have been served; but a queue that is not
        with all of them is not with less.
        """
        for (name, _, n), task in self.asking.items():
            queue, own = session.queues[name], [task] * n
            session.state.count_in_queue(queue, own, -1)
            try:
                over = session.overused(queue)
                takes = session.allocatable(queue, task) if n == 1 else session.allocatable_room(queue, task, n) >= n
            finally:
                session.state.count_in_queue(queue, own, 1)
            if over or not takes:
                return False
        return True


def all_promised_after(session: Session, assembly: Assembly, report: CycleReport) -> AllPromised | None:
    """The promises of a cycle that is over, if everybody who waits had one."""
    state, runtime = session.state, session.runtime
    if not runtime.nominations or runtime.random_ties or report.errors or session.environment or session.thorough:
        return None
    if _others_wait(state) or not all(action.steady and action.for_waiting for action in assembly.actions):
        return None
    known: Promised | None = runtime.promised
    if known is None or _waiting(state) != len(known.jobs):
        return None
    nominations, until = runtime.nominations, float("inf")
    held, asking = dict[str, dict[int, Number]](), dict[tuple[str, int, int], Task]()
    for promise in known.jobs.values():
        queue = promise.job.queue
        for task, _ in promise.places:
            until = min(until, nominations[task.uid].until)
            quota.added(held.setdefault(queue, {}), task.klass.items)
            asking[queue, task.klass.id, len(promise.places)] = task
    needs = _needs(state.table, asking.values())
    if _finds_room(state.table, needs, np.flatnonzero(state.table.valid)):
        return None
    return AllPromised(
        state,
        assembly,
        session.shard,
        known,
        {name: list(amounts.items()) for name, amounts in held.items()},
        asking,
        needs,
        until,
        report,
    )


def _others_wait(state: ClusterState) -> bool:
    """Does anybody wait to be let in, or with tasks that ask for nothing?"""
    return bool(state.unadmitted or state.best_effort)


def _waiting(state: ClusterState) -> int:
    """How many jobs wait."""
    return sum(len(queue.waiting) for queue in state.queues.values())


def _needs(table: NodeTable, tasks: Iterable[Task]) -> npt.NDArray[np.int64]:
    """What the classes of tasks ask for, a line each; less than any row has where a class asks for nothing."""
    classes = {task.klass.id: task.klass for task in tasks}
    needs = np.full((len(classes), table.width), np.iinfo(np.int64).min)
    for line, klass in zip(needs, classes.values(), strict=True):
        line[list(klass.fit_dims)] = klass.fit_values
    return needs


def _finds_room(table: NodeTable, needs: npt.NDArray[np.int64], rows: npt.NDArray[np.intp]) -> bool:
    """Has one of the rows idle room for one of the classes? Filters aside; where it is too much to look at, perhaps."""
    if len(needs) * len(rows) > _MOST:
        return True
    might = np.ones((len(needs), len(rows)), dtype=np.bool_)
    for d in np.flatnonzero((needs != np.iinfo(np.int64).min).any(axis=0)).tolist():
        might &= needs[:, d, None] <= table.idle[d, rows]
    return bool(might.any())
