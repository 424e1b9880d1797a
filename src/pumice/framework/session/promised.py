"""Jobs that wait for room which was freed for them, and what they were promised: kept from one session to the next.

While evicted pods terminate, whoever they were evicted for is promised the same places in every session. A promise is
known to stand where neither its job nor one of its nodes changed since, nor an object that shows in no job, row or
queue: then it is made again without a search (`placing/promises.py`), or with all others without any turn
(`scheduler/all_promised.py`). Other nodes may change: whether one of them has idle room is looked up then. What a
session takes back of a promise counts as no change of the job; a job whose promise is not made again has changed, and
is to be told of.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pumice.framework.session.refusals import Refusal, Stage
from pumice.framework.session.statement import Repeated, Statement
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass

if TYPE_CHECKING:
    from pumice.framework.session.session import Session, Shard
    from pumice.state.cluster import ClusterState

S = TaskStatus
_SHOWN: Final = ("Pod", "PodGroup", "Node", "Queue")
"""Kinds of objects whose changes show in jobs and rows, or are counted where they matter."""


@dataclass(slots=True)
class Promise:
    """Places for everything that waits of a job, all of one class, on room that is being released."""

    job: Job
    places: list[tuple[Task, Node]]
    refusal: Refusal
    """Why the job waits."""

    @property
    def klass(self) -> TaskClass:
        """The class of its tasks."""
        return self.places[0][0].klass


class Promised:
    """The promises of the last session, by job; in a session those that still stand."""

    def __init__(self) -> None:
        self.jobs: dict[str, Promise] = {}
        self.again: set[str] = set()
        """The jobs that were promised the same again in this session."""
        self._rows: frozenset[int] | None = None
        self._state: ClusterState | None = None
        self._holds_for: object = None
        self._touched = -1

    @property
    def rows(self) -> frozenset[int]:
        """Where the places are."""
        if self._rows is None:
            self._rows = frozenset([node.row for known in self.jobs.values() for _, node in known.places])
        return self._rows

    def changed_rows(self, state: ClusterState, signature: object, shard: Shard | None) -> set[int] | None:
        """The rows that changed since the promises were known to stand; None where more did that may matter to them."""
        if state is not self._state or self._holds_for != _holds_for(state, signature, shard):
            return None
        return state.table.touched.since(self._touched)  # a row whose node object changed was touched as well

    def stand(self, state: ClusterState) -> None:
        """Whatever happened up to now matters to no promise."""
        self._touched = state.table.touched.position

    def follow(self, ssn: Session) -> None:
        """Forget the promises that something happened to since the last session; before rooms are held for this one."""
        state, self.again = ssn.state, set()
        if state is not self._state:
            self.let_go()
            return
        rows = self.changed_rows(state, ssn.signature, ssn.shard)
        if rows is None:
            self._drop(ssn, list(self.jobs))
            return
        self._drop(ssn, [uid for uid in state.changed_jobs if uid in self.jobs])
        if not rows.isdisjoint(self.rows):
            jobs = self.jobs.items()
            self._drop(ssn, [uid for uid, known in jobs if any(node.row in rows for _, node in known.places)])

    def _drop(self, ssn: Session, uids: Iterable[str]) -> None:
        """Promises of jobs do not stand: the jobs changed when they were last taken back."""
        dropped = {uid: known.job for uid in uids if (known := self.jobs.pop(uid, None)) is not None}
        if dropped:
            self._rows = None
            _changed(ssn.state, dropped)

    def settle(self, ssn: Session) -> None:
        """Before a session closes: whoever was not promised the same again has changed."""
        if len(self.again) < len(self.jobs):
            self._drop(ssn, [uid for uid in self.jobs if uid not in self.again])

    def keep(self, ssn: Session, made: dict[str, Promise]) -> None:
        """After a session: keep what it promised beside what stood; its taking back counts as no change of the jobs."""
        state = self._state = ssn.state
        if made:
            for uid in made:
                state.changed_jobs.pop(uid, None)
            self.jobs.update(made)
            self._rows = None
        self._holds_for = _holds_for(state, ssn.signature, ssn.shard)
        self.stand(state)

    def let_go(self) -> None:
        """Nothing is known to stand: the jobs changed when their promises were taken back, and are to be told of."""
        state = self._state
        if state is not None:
            jobs = {uid: known.job for uid, known in self.jobs.items() if state.jobs.get(uid) is known.job}
            _changed(state, jobs)
        self.jobs, self.again, self._rows = {}, set(), None


def _changed(state: ClusterState, jobs: dict[str, Job]) -> None:
    """Jobs changed before all others did."""
    state.changed_jobs = {**jobs, **state.changed_jobs}


def promises_of(ssn: Session, kept: Iterable[Statement]) -> dict[str, Promise]:
    """What statements that are kept promise to jobs of which nothing else waits, if all of it is nominated."""
    made = (_promise(ssn, statement) for statement in kept if not isinstance(statement, Repeated))
    return {known.job.uid: known for known in made if known is not None}


def _promise(ssn: Session, statement: Statement) -> Promise | None:
    """What a statement promises, if it is all that a job waits for."""
    operations, rooms = statement.operations, ssn.state.rooms
    if not operations:
        return None
    job, klass = operations[0].task.job, operations[0].task.klass
    if job is None or job.policies or job.has_topology or job.sub_jobs or job.with_status(S.PENDING):
        return None
    refusal = ssn.outcome.refusals.of_itself(job)
    if refusal is None or refusal.stage is not Stage.READY or klass.best_effort:
        return None
    for op in operations:
        held = rooms.get(op.task.uid)
        if op.task.status is not S.PIPELINED or op.task.klass is not klass or op.task.job is not job:
            return None
        if held is None or held[1] is not op.node:
            return None
    return Promise(job, [(op.task, op.node) for op in operations], refusal)


def _holds_for(state: ClusterState, signature: object, shard: Shard | None) -> Hashable:
    """Another one under another configuration, or where an object changed that does not show in jobs and rows."""
    table, kinds = state.table, state.versions
    objects = sum(kinds.values()) - sum(kinds.get(kind, 0) for kind in _SHOWN)
    return signature, shard, state.queue_version, objects, table.size, table.width, len(table.by_name)
