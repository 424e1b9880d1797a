"""Placing a job by sub-jobs and hyper-nodes.

A job is tried in one hyper-node after the other, group by group as plugins say, and in each its sub-jobs in turn, again
in the hyper-nodes that plugins say. Every attempt is made on the session itself and undone; the best of a group is
done again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from pumice.engine.heap import GoHeap
from pumice.engine.hypernodes import HyperNodeTree, TopologyDomain, places_of
from pumice.framework.placing.waiting_tasks import WaitingTasks, place_in_sets
from pumice.framework.points import table as points
from pumice.framework.points.table import HYPER_NODE_ORDER, SUB_JOB_READY
from pumice.framework.session.nominations import holds
from pumice.framework.session.outcome import Refusal, Stage
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Operation, Statement
from pumice.model.job import Job, SubJob
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass, TaskMap
from pumice.state.table import NodeTable

if TYPE_CHECKING:
    from pumice.framework.session.session import Session

Ints = npt.NDArray[np.int64]
Index = npt.NDArray[np.intp]
_PLENTY: Final = 1 << 40
_MANY_ROWS: Final = 256
"""Beyond so many changed rows, counting anew is faster."""
_KEPT: Final = "domains"


class Domains:
    """Sums per hyper-node of a tree, the top included, each at its `place`; they follow the rows that change."""

    def __init__(self, tree: HyperNodeTree, table: NodeTable) -> None:
        self.tree, self._table = tree, table
        self.names = sorted(tree.by_name)
        self.place = {name: at for at, name in enumerate(self.names)}
        self.above: dict[int, list[int]] = {}
        """Row -> the places of the hyper-nodes that hold it."""
        for at, name in enumerate(self.names):
            for node in tree.by_name[name].nodes.values():
                self.above.setdefault(node.row, []).append(at)
        deepest = max((len(a) for a in self.above.values()), default=0)
        self._chains: Index = np.full((deepest, table.size), len(self.names), dtype=np.intp)
        for row, above in self.above.items():
            self._chains[: len(above), row] = above
        self.lowest: Index = np.zeros(table.size, dtype=np.intp)
        """Per row the place of the lowest hyper-node that holds it."""
        for name, node in tree.top.nodes.items():
            self.lowest[node.row] = self.place[tree.lowest(name)]
        self._alike: tuple[list[tuple[int, Index]], Index] | None = None
        self._offered: Ints = np.zeros((0, 0), dtype=np.int64)
        self._load: Ints | None = None
        self._rows: Ints = np.zeros((0, 0), dtype=np.int64)
        self._load_at = -1
        self._slots: dict[Hashable, _Slots] = {}

    def alike(self) -> tuple[list[tuple[int, Index]], Index]:
        """Every tier, with the place of the hyper-node that holds each kind of rows, or -1; and the kind of every row.

        Rows of one kind are in the same hyper-nodes.
        """
        if self._alike is None:
            by_tier: dict[int, Index] = {}
            for hyper in reversed(self.tree.below(self.tree.top)):
                rows = by_tier.setdefault(hyper.tier, np.full(self._table.size, -1, dtype=np.intp))
                rows[[n.row for n in hyper.nodes.values()]] = self.place[hyper.name]
            tiers = sorted(by_tier)
            kinds, of_row = np.unique(np.array([by_tier[t] for t in tiers]), axis=1, return_inverse=True)
            self._alike = list(zip(tiers, kinds, strict=True)), of_row.reshape(-1)
        return self._alike

    def total(self, per_row: Ints) -> Ints:
        """The sums of amounts that are given per resource and row, per resource and hyper-node."""
        out = np.zeros((len(per_row), len(self.names) + 1), dtype=np.int64)
        for chain in self._chains:
            for d in range(len(per_row)):
                np.add.at(out[d], chain, per_row[d])  # whole numbers: sums that were followed and sums made anew agree
        return out[:, :-1]

    @property
    def offered(self) -> Ints:
        """The offers of the nodes of each hyper-node, per resource."""
        table = self._table
        if len(self._offered) != table.width:
            self._offered = self.total(table.allocatable[:, : table.size])
        return self._offered

    def idle(self) -> Ints:
        """The idle amounts of each hyper-node, per resource."""
        return self.total(self._table.idle[:, : self._table.size])

    def future_idle(self) -> Ints:
        """The idle amounts after all releases, per resource."""
        t, n = self._table, self._table.size
        return self.total(t.idle[:, :n] + t.releasing[:, :n] - t.pipelined[:, :n])

    def load(self) -> Ints:
        """The used and promised amounts of each hyper-node, less evictions of this session, per resource."""
        table = self._table
        size, now = table.size, table.touched.position
        if self._load is not None and len(self._rows) == table.width:
            if self._load_at == now:
                return self._load
            touched = table.touched.since(self._load_at)
            if touched is not None and len(touched) <= _MANY_ROWS:
                for row in touched:
                    fresh = table.used[:, row] + table.pipelined[:, row] - table.evicted[:, row]
                    more = (fresh - self._rows[:, row])[:, None]
                    self._load[:, self.above.get(row, ())] += more
                    self._rows[:, row] = fresh
                self._load_at = now
                return self._load
        self._rows = table.used[:, :size] + table.pipelined[:, :size] - table.evicted[:, :size]
        self._load, self._load_at = self.total(self._rows), now
        return self._load

    def changed_since(self, position: int) -> tuple[set[int] | None, int]:
        """The places of hyper-nodes of which a row changed since the log stood there, None for all; and where it is."""
        now = self._table.touched.position
        touched = self._table.touched.since(position) if position >= 0 else None
        if touched is None or len(touched) > _MANY_ROWS:
            return None, now
        return {at for row in touched for at in self.above.get(row, ())}, now

    def room(self, ssn: Session, task: Task) -> Sequence[int]:
        """At most so many tasks of the class find a slot in each hyper-node, now or once something is released."""
        return self.slots(ssn, task).totals

    def slots(self, ssn: Session, task: Task) -> _Slots:
        """The count behind `room`."""
        key = (task.klass.id, ssn.search.evaluator.key_of(task))
        known = self._slots.get(key)
        if known is None or not known.follow():
            known = self._slots[key] = _Slots(task.klass, self._table, ssn.search.evaluator.open_rows(task), self)
        return known

    def room_when_empty(self, task: Task) -> list[int]:
        """How many tasks of the class would find a slot in each hyper-node if nothing else were there."""
        table, size = self._table, self._table.size
        rows = np.full(size, _PLENTY, dtype=np.int64)
        for d, v in zip(task.klass.fit_dims, task.klass.fit_values, strict=True):
            if v > 0:
                np.minimum(rows, table.allocatable[d, :size] // v, out=rows)
        found: list[int] = self.total(np.maximum(rows, 0)[None, :])[0].tolist()
        return found

    def roomy(self, ssn: Session, tasks: Sequence[Task], needed: int) -> list[bool]:
        """Per place: whether the hyper-node can take *needed* of the tasks together, as far as that can be counted."""
        alike, first = ssn.search.evaluator.alike, tasks[0]
        if all(t is first or alike(t, first) for t in tasks):
            return [room >= needed for room in self.room(ssn, tasks[0])]
        table, size = self._table, self._table.size
        short = np.zeros(len(self.names), dtype=np.bool_)
        for d in sorted({d for t in tasks for d, _ in t.klass.items}):
            least = sum(sorted(int(t.klass.requests.get(d)) for t in tasks)[:needed])
            free = table.idle[d, :size] + np.maximum(table.releasing[d, :size] - table.pipelined[d, :size], 0)
            short |= self.total(np.maximum(free, 0)[None, :])[0] < least
        return (~short).tolist()


class _Slots:
    """How many tasks of a class fit in each hyper-node, by amounts and by what never changes."""

    __slots__ = ("_above", "_dims", "_open", "_rows", "_table", "_touched_at", "totals")

    def __init__(self, klass: TaskClass, table: NodeTable, open_rows: npt.NDArray[np.bool_], domains: Domains) -> None:
        self._dims = [(d, v) for d, v in zip(klass.fit_dims, klass.fit_values, strict=True) if v > 0]
        self._open, self._table, self._above = open_rows, table, domains.above
        size = len(open_rows)
        rows = np.full(size, _PLENTY, dtype=np.int64)
        for d, v in self._dims:
            free = table.idle[d, :size] + np.maximum(table.releasing[d, :size] - table.pipelined[d, :size], 0)
            np.minimum(rows, free // v, out=rows)
        rows[~open_rows] = 0
        np.maximum(rows, 0, out=rows)
        self.totals: list[int] = domains.total(rows[None, :])[0].tolist()
        self._rows: list[int] = rows.tolist()
        self._touched_at = table.touched.position

    def follow(self) -> bool:
        """Take in what changed; False when too much did."""
        table = self._table
        touched = table.touched.since(self._touched_at)
        if touched is None or len(touched) > _MANY_ROWS or len(self._open) != table.size:
            return False
        for row in touched:
            if not self._open[row]:
                continue
            room = _PLENTY
            for d, v in self._dims:
                coming = table.releasing.item(d, row) - table.pipelined.item(d, row) if table.in_flux else 0
                room = min(room, (table.idle.item(d, row) + max(coming, 0)) // v)
            more = max(room, 0) - self._rows[row]
            if more:
                self._rows[row] += more
                for at in self._above.get(row, ()):
                    self.totals[at] += more
        self._touched_at = table.touched.position
        return True


def waits_of(group: Job | SubJob) -> list[Task]:
    """The tasks of a (sub-)job that ask for something and have no place."""
    return [t for t in group.with_status(TaskStatus.PENDING).values() if not t.best_effort]


def needed_of(ssn: Session, group: Job | SubJob) -> int:
    """How many more tasks of a (sub-)job must be placed together, at least, before anything of it is kept."""
    if isinstance(group, Job) or group.is_default:
        job = group if isinstance(group, Job) else group.job
        return max(ssn.needed_to_keep(job), 1) if not job.policies else 1
    return max(group.min_available - group.ready_count - group.waiting_count, 1) if ssn.anybody(SUB_JOB_READY) else 1


def short_of_domains(ssn: Session, job: Job, by_sub_job: Mapping[str, Sequence[Task]]) -> Refusal:
    """Why no hyper-node that the job may use is worth a try, with the room of the one that comes closest."""
    tree, domains = ssn.hyper_nodes, domains_of(ssn)
    limit = tree.job_limit(job)
    tasks = [t for listed in by_sub_job.values() for t in listed]
    if limit is None:
        return Refusal(Stage.TOPOLOGY, "no hyper-node may be used")
    placed = places_of(job.tasks.values())
    usable = tree.holders(placed, limit)
    if not usable and placed:
        spread = ", ".join(sorted(placed)[:3])
        return Refusal(
            Stage.TOPOLOGY,
            f"its other tasks run on {spread}, which no hyper-node of tier {limit} or below holds together",
            advice="they end, or the HyperNodes are mended",
        )
    if not usable:
        return Refusal(Stage.TOPOLOGY, f"there is no hyper-node of tier {limit} or below", advice="HyperNode objects")
    needed = needed_of(ssn, job)
    if len({t.klass.id for t in tasks}) > 1:
        return Refusal(
            Stage.TOPOLOGY, f"no hyper-node of tier {limit} or below has room for its {needed} tasks together"
        )
    slots, empty, place = domains.slots(ssn, tasks[0]), domains.room_when_empty(tasks[0]), domains.place
    best = max(usable, key=lambda h: (slots.totals[place[h.name]], -h.tier))
    text = (
        f"no hyper-node of tier {limit} or below has room for {needed} of its tasks together: "
        f"{best.name}, the roomiest of {len(usable)}, has room for {slots.totals[place[best.name]]}"
    )
    large = [h for h in usable if empty[place[h.name]] >= needed]
    if not large:
        text += f", and none would have it if it were empty (at most {max(empty[place[h.name]] for h in usable)})"

    def advice() -> str:
        """As things are when somebody reads it."""
        slots.follow()
        room, said = slots.totals, []
        if large:
            said.append(f"other work in {max(large, key=lambda h: (room[place[h.name]], -h.tier)).name} ends")
        wider = [h for h in tree.below(tree.top) if h.tier > limit and room[place[h.name]] >= needed]
        if wider and not placed:
            where = f"{wider[0].name} (tier {wider[0].tier})" if wider[0] is not tree.top else "the whole cluster"
            said.append(f"a higher highestTierAllowed: {where} has room for {room[place[wider[0].name]]}")
        return ", or ".join(said)

    return Refusal(Stage.TOPOLOGY, text, advice=advice)


def domains_of(ssn: Session) -> Domains:
    """The sums of this session's tree; kept while tree and configuration stay the same."""
    tree = ssn.hyper_nodes
    known = ssn.runtime.kept.get(_KEPT)
    if known is None or known[0] is not tree or known[1] != ssn.signature:
        known = ssn.runtime.kept[_KEPT] = (tree, ssn.signature, Domains(tree, ssn.state.table))
    domains: Domains = known[2]
    return domains


ASKS = (
    *(points.HYPER_NODE_ORDER, points.HYPER_NODE_GRADIENT_FOR_JOB, points.HYPER_NODE_GRADIENT_FOR_SUB_JOB),
    points.SUB_JOB_ORDER,
)
TasksBySubJob = dict[str, deque[Task]]


@dataclass(slots=True)
class _Attempt:
    """A way to place something: what to do, what is then left, and how good its hyper-node is."""

    hyper: TopologyDomain
    saved: list[Operation]
    left: Any
    score: float


def place_by_topology(
    ssn: Session, queue: Queue, job: Job, tasks_left: WaitingTasks, remember: bool
) -> Statement | None:
    """Place sub-jobs in order until the job is ready; the statement if it is or may wait, else None with all undone."""
    tree = ssn.hyper_nodes
    if job.has_topology and tree.problem:
        ssn.outcome.refuse(job, Stage.TOPOLOGY, tree.problem)
        return None
    by_sub_job = tasks_left.sub_jobs if job.policies else {job.uid: tasks_left.tasks}
    drops = bool(job.policies) and drops_sub_groups(ssn)
    if drops and tasks_left.required is None:
        tasks_left.required = required_of(ssn, job)
    placing = _Placing(ssn, queue, job, remember, tasks_left.required if drops else None, tree)
    done = placing.job(by_sub_job)
    if done is None:
        return None
    statement, left = done
    if job.policies:
        tasks_left.sub_jobs = left
    else:
        tasks_left.tasks = left[job.uid]
    return statement


def drops_sub_groups(ssn: Session) -> bool:
    """Report whether a sub-group without room is given up, by allocate for the cycle, by the gang actions with the
    whole plan."""
    return ssn.compat.dropped_sub_groups


class _Placing:
    """One visit of one job."""

    def __init__(
        self, ssn: Session, queue: Queue, job: Job, remember: bool, required: set[str] | None, tree: HyperNodeTree
    ) -> None:
        self._ssn, self._queue, self._job, self._remember, self._tree = ssn, queue, job, remember, tree
        self._required = required
        """The needs of the job, if they are decided once; a sub-job that fails is then left out for the cycle."""
        self._whole = None if job.policies else job.whole()
        self._compares = False
        """Whether the quality of a hyper-node matters for a sub-job: several are tried for the job."""

    def job(self, by_sub_job: TasksBySubJob) -> tuple[Statement, TasksBySubJob] | None:
        """Place the job in the best hyper-node of the first group that will do: (statement, what is left)."""
        ssn, job = self._ssn, self._job
        groups = gradient(ssn, job, self._tree.top, "Allocate")
        promised = nominated_domain(ssn, job, by_sub_job)
        if promised is not None:
            groups = [[promised], *groups]
        for group in groups:
            attempts = []
            ranked = self._ranked(group)
            self._compares = ranked is None and len(group) > 1
            for hyper in group if ranked is None else ranked:
                self._forget_failures(job.tasks)
                left = {uid: deque(tasks) for uid, tasks in by_sub_job.items()}
                statement, score = self._sub_jobs(left, hyper)
                good = bool(statement.operations) and bool(ssn.job_ready(job) or ssn.job_pipelined(job))
                if good and (ranked is not None or len(group) == 1):
                    return statement, left
                saved = list(statement.operations)
                statement.discard()
                if good:
                    attempts.append(_Attempt(hyper, saved, left, score))
            for attempt in sorted(attempts, key=lambda a: (-a.score, a.hyper.name.encode())):
                statement = ssn.statement()
                if statement.replay(attempt.saved):
                    return statement, attempt.left
        if not groups:
            ssn.outcome.refusals.add(job, short_of_domains(ssn, job, by_sub_job))
        return None

    def _ranked(self, group: Sequence[TopologyDomain]) -> Iterator[TopologyDomain] | None:
        """The hyper-nodes of a group, best first, where that is known before anything is placed; None where not.

        If each hyper-node would be used as a whole, the score does not depend on how the tasks are placed in it.
        """
        whole = self._whole
        if whole is None or len(group) == 1:
            return None
        ssn = self._ssn
        if not all(gradient(ssn, whole, h, "Allocate") == [[h]] for h in group if h.children):
            return None
        return _best_first(group, self._scores(whole, group))

    def _sub_jobs(self, by_sub_job: TasksBySubJob, hyper: TopologyDomain) -> tuple[Statement, float]:
        """Place sub-jobs inside a hyper-node until the job is ready; what was placed, and the sum of the scores."""
        ssn, job = self._ssn, self._job
        statement, total = ssn.statement(), 0.0
        queue = sub_job_queue(ssn, job, by_sub_job, self._whole, self._required)
        while queue:
            sub_job = queue.pop()
            own, score = self._sub_job(sub_job, by_sub_job, hyper)
            if own is None or not own.operations:
                if self._required is not None:
                    del by_sub_job[sub_job.uid]
                continue
            statement.merge(own)
            total += score
            if by_sub_job[sub_job.uid]:
                queue.push(sub_job)
            if ssn.job_ready(job):
                break
        return statement, total

    def _sub_job(
        self, sub_job: SubJob, by_sub_job: TasksBySubJob, inside: TopologyDomain
    ) -> tuple[Statement | None, float]:
        """Place a sub-job in the best hyper-node of the first group that will do."""
        ssn, uid = self._ssn, sub_job.uid
        for group in gradient(ssn, sub_job, inside, "Allocate"):
            attempts = []
            for hyper in group:
                tasks = deque(by_sub_job[uid])
                self._forget_failures(sub_job.tasks)
                alone = len(group) == 1
                score = self._scores(sub_job, group)[hyper.name] if alone and self._compares else 0.0
                statement = self._tasks(sub_job, tasks, hyper)
                if statement is None or not statement.operations:
                    continue
                if alone:
                    by_sub_job[uid] = tasks
                    return statement, score
                attempts.append(_Attempt(hyper, list(statement.operations), tasks, 0.0))
                statement.discard()
            scores = self._scores(sub_job, [a.hyper for a in attempts])
            for attempt in sorted(attempts, key=lambda a: (-scores[a.hyper.name], a.hyper.name.encode())):
                statement = ssn.statement()
                if statement.replay(attempt.saved):
                    by_sub_job[uid] = attempt.left
                    return statement, scores[attempt.hyper.name]
        return None, 0.0

    def _tasks(self, sub_job: SubJob, tasks: deque[Task], hyper: TopologyDomain) -> Statement | None:
        ssn = self._ssn
        domain = self._tree.rows(hyper, ssn.state.table.size)
        own = None if self._whole is not None else sub_job
        with within(ssn, hyper):
            return place_in_sets(ssn, self._queue, self._job, own, tasks, self._remember, domain)

    def _scores(self, sub_job: SubJob, hypers: Sequence[TopologyDomain]) -> dict[str, float]:
        if not hypers or not self._ssn.anybody(HYPER_NODE_ORDER):
            return dict.fromkeys((h.name for h in hypers), 0.0)
        scores: dict[str, float] = self._ssn.hyper_node_order(sub_job, {h.name: h.members for h in hypers})
        return scores

    def _forget_failures(self, tasks: TaskMap) -> None:
        """Another hyper-node is another chance: failures in the last say nothing, also of who has a place by now."""
        errors = self._ssn.outcome.fit_errors.get(self._job.uid)
        if errors:
            for uid in [uid for uid in errors if uid in tasks]:
                errors.pop(uid, None)


def _best_first(group: Sequence[TopologyDomain], scores: Mapping[str, float]) -> Iterator[TopologyDomain]:
    """The hyper-nodes of a group by score, then by name. The first is found without putting the others in order."""
    best = max([scores[h.name] for h in group])
    first = min([h for h in group if scores[h.name] == best], key=lambda h: h.name.encode())
    yield first
    for hyper in sorted(group, key=lambda h: (-scores[h.name], h.name.encode())):
        if hyper is not first:
            yield hyper


@contextmanager
def within(ssn: Session, hyper: TopologyDomain) -> Iterator[None]:
    """Within the block nodes are looked for in one hyper-node, and plugins can know it (`Session.domain`)."""
    before, ssn.domain = ssn.domain, hyper
    try:
        yield
    finally:
        ssn.domain = before


def nominated_domain(ssn: Session, job: Job, by_sub_job: TasksBySubJob) -> TopologyDomain | None:
    """The hyper-node in which room was freed for everything that waits of the job, if it may still be used.

    It follows from the nodes that the tasks are nominated for, so it outlives the cycle and a restart.
    """
    if not holds(ssn):
        return None
    nodes = {t.nominated_node for tasks in by_sub_job.values() for t in tasks}
    if not nodes or "" in nodes or any(n not in ssn.nodes for n in nodes):
        return None
    tree = ssn.hyper_nodes
    limit = tree.job_limit(job)
    if limit is None:
        return None
    found = tree.holders(nodes | places_of(job.tasks.values()), limit)
    return min(found, key=lambda h: (h.tier, len(h.nodes), h.name.encode())) if found else None


def gradient(ssn: Session, subject: Job | SubJob, inside: TopologyDomain, purpose: str) -> list[list[TopologyDomain]]:
    """The hyper-nodes to try, group by group; names that do not exist are left out."""
    if isinstance(subject, Job):
        groups = ssn.hyper_node_gradient_for_job(subject, inside, purpose)
    else:
        groups = ssn.hyper_node_gradient_for_sub_job(subject, inside, purpose)
    if groups is None:
        return [[inside]]
    found = []
    for group in groups:
        known = [
            h
            for item in group
            if (h := item if type(item) is TopologyDomain else ssn.hyper_nodes.get(item)) is not None
        ]
        if known:
            found.append(known)
    return found


def sub_job_queue(
    ssn: Session, job: Job, by_sub_job: TasksBySubJob, whole: SubJob | None = None, required: set[str] | None = None
) -> GoHeap[SubJob]:
    """Sub-jobs with tasks to place: those that the job needs to become ready first, then the rest, each in order."""
    if not job.policies:
        return GoHeap(ssn.orders.sub_job_less, [whole or job.whole()] if by_sub_job.get(job.uid) else [])
    needed = required_of(ssn, job) if required is None else required

    def less(left: SubJob, right: SubJob) -> bool:
        if (left.uid in needed) != (right.uid in needed):
            return left.uid in needed
        return ssn.orders.sub_job_less(left, right)

    return GoHeap(less, [s for s in job.sub_jobs.values() if by_sub_job.get(s.uid)])


def required_of(ssn: Session, job: Job) -> set[str]:
    """Sub-jobs that have to become ready for the job to have enough of each kind."""

    def compare(left: SubJob, right: SubJob) -> int:
        return -1 if ssn.orders.sub_job_less(left, right) else 1

    needed = {f"{job.uid}/{p.name}": p.min_sub_groups or 0 for p in job.policies}
    for sub_job in job.sub_jobs.values():
        if sub_job.is_ready and sub_job.group in needed:
            needed[sub_job.group] -= 1
    required = set()
    for sub_job in sorted(job.sub_jobs.values(), key=cmp_to_key(compare)):
        if not sub_job.is_ready and needed.get(sub_job.group, 0) > 0:
            needed[sub_job.group] -= 1
            required.add(sub_job.uid)
    return required
