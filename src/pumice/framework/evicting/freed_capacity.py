"""The free amounts of nodes without victims: the one bound of every search for victims.

A search asks the bound before it evicts. `FreedCapacity` counts amounts, for all rows of the node table at once;
`PlacementBound` says whether pending tasks could have their places in it; `EvictableCapacity` keeps what the possible
victims of preempt and reclaim hold, so that all pending jobs share one sum. The bound never rejects victims with whose
leaving a plan is possible: it leaves out filters of the session, devices and quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import fit_each
from pumice.framework.evicting.eviction_plan import spares
from pumice.framework.points.point import Point
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

S = TaskStatus
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Index = npt.NDArray[np.intp]
FromQueue: TypeAlias = Callable[[str], bool]
VictimQuestion: TypeAlias = Point[[Task, Sequence[Task]], Any, list[Task] | None]
Group: TypeAlias = tuple[str, tuple[Hashable, ...]]
"""A queue, and the keys of a job: what plugins say depends on of whether its tasks may be victims."""

_MOST_SUMS: Final = 16
"""So many sums for different preemptors are kept: each takes as much memory as a ledger of the node table."""


def shortage(
    table: NodeTable, klass: TaskClass, row: int, *, without: Sequence[Task] = (), less: Task | None = None
) -> list[tuple[int, int]]:
    """Return what a row has too little of for a class, once all that is leaving and *without* are gone.

    *less* stays although it is leaving.
    """
    short = []
    for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
        free = table.free_soon(d, row)
        if less is not None:
            free -= int(less.klass.requests.get(d))
        if free < v and without:
            free += sum(int(t.klass.requests.get(d)) for t in without)
        if free < v:
            short.append((d, v - free))
    return short


class FreedCapacity:
    """The free amounts of rows of the node table after all releases, and without some victims.

    ``free``: resource by row. Cost: one array operation per resource, whatever the number of victims.
    """

    def __init__(self, table: NodeTable, rows: Index | None = None, victims: Iterable[Task] = ()) -> None:
        """*rows*: those that are looked at, in this order; None: all."""
        self._table = table
        self._at = slice(table.size) if rows is None else rows
        self._place = None if rows is None else {row: n for n, row in enumerate(rows.tolist())}
        self.free: Ints = soon_free(table, self._at)
        self.free += held_by(victims, self.free.shape, self._place)

    def fits(self, klass: TaskClass) -> Bools:
        """Return for each row whether a task of the class would fit."""
        fits: Bools = self._table.valid[self._at]
        for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
            fits = fits & (self.free[d] >= v)
        return fits

    def places(self, klass: TaskClass, most: int) -> Ints:
        """Return for each row how many tasks of the class would fit, up to *most*."""
        return fit_each(klass, self.free.__getitem__, np.where(self.fits(klass), most, 0))


def soon_free(table: NodeTable, at: slice | Index | int) -> Ints:
    """Return the free amounts of rows after all releases, less promised ones: resource by row."""
    free: Ints = table.idle[:, at] + table.releasing[:, at] - table.pipelined[:, at]
    return free


def held_by(victims: Iterable[Task], shape: tuple[int, ...], place: dict[int, int] | None = None) -> Ints:
    """Return what tasks hold together, resource by row. *place*: row -> its number, if not all rows are looked at."""
    numbers: dict[int, int] = {}
    asked: list[tuple[tuple[int, int], ...]] = []
    rows: list[int] = []
    classes: list[int] = []
    for victim in victims:
        row = victim.row if place is None else place.get(victim.row, -1)
        if row < 0:
            continue
        klass = victim.klass
        number = numbers.get(klass.id)
        if number is None:
            number = numbers[klass.id] = len(asked)
            asked.append(klass.items)
        rows.append(row)
        classes.append(number)
    held = np.zeros(shape, dtype=np.int64)
    amounts: dict[int, npt.NDArray[np.float64]] = {}
    for number, items in enumerate(asked):
        for d, v in items:
            amounts.setdefault(d, np.zeros(len(asked)))[number] = v
    at, of = np.array(rows, dtype=np.intp), np.array(classes, dtype=np.intp)
    for d, each in amounts.items():
        held[d] = np.bincount(at, weights=each[of], minlength=shape[1])
    return held


class PlacementBound:
    """Whether enough of a job's pending tasks could have places, given what is freed.

    The first task that is placed needs a row that does not reject its class now; the others need rows that no static
    filter rejects, because what rejects them now may be placed otherwise. A task for which room is held already has
    its place: then nothing is ruled out.
    """

    def __init__(self, ssn: Session, tasks: Iterable[Task], needed: int | None = None, rows: Index | None = None):
        """*needed*: so many tasks of any class; 0: only the first; None: all. *rows*: where they may be; None: all."""
        self._evaluator, self._rows = ssn.search.evaluator, rows
        self.certain = True
        """Report whether no room is held for any of the tasks."""
        by_class: dict[Hashable, list[Task]] = {}
        many = 0
        for task in tasks:
            many += 1
            if task.nominated_node:
                self.certain = False
            by_class.setdefault(self._evaluator.key_of(task), []).append(task)
        self._needed = many if needed is None else needed
        self._classes = [(of[0], min(len(of), max(self._needed, 1))) for of in by_class.values()]
        self.key: Hashable = (self._needed, tuple([(key, len(of)) for key, of in by_class.items()]))
        """Jobs of equal keys get equal answers."""
        self._masks: dict[int, tuple[Bools, Bools]] = {}

    def met(self, freed: FreedCapacity) -> bool:
        """Report whether enough tasks could have places."""
        if not self.certain:
            return True
        found, first = 0, False
        for number, (task, wanted) in enumerate(self._classes):
            places = freed.places(task.klass, wanted)
            if not places.any():  # before the filters are asked about the class
                continue
            now, ever = self._allowed(number, task)
            first = first or bool(places[now].any())
            found += min(int(places[ever].sum()), wanted)
            if first and found >= self._needed:
                return True
        return False

    def useful_rows(self, freed: FreedCapacity) -> set[int]:
        """Return the rows on which one of the tasks would fit."""
        fits = np.zeros(freed.free.shape[1], dtype=np.bool_)
        for task, _ in self._classes:
            fits |= freed.fits(task.klass)
        return set((np.flatnonzero(fits) if self._rows is None else self._rows[fits]).tolist())

    def _allowed(self, number: int, task: Task) -> tuple[Bools, Bools]:
        """The rows that do not reject a class now, and those that no static filter rejects."""
        known = self._masks.get(number)
        if known is None:
            view = self._evaluator.view(task)
            at = slice(None) if self._rows is None else self._rows
            ever = np.ones(len(view.severity[at]), dtype=np.bool_)
            for code in view.static_code:
                ever &= code[: view.size][at] == 0
            known = self._masks[number] = view.severity[at] <= 1, ever
        return known


class EvictableCapacity:
    """The amounts of tasks that preempt or reclaim may evict, and the bounds that follow from them.

    Groups of jobs: the jobs of a queue whose plugins' keys are equal (`key` of preemptable and reclaimable).

    - held: group -> what its possible victims hold, resource by row; valid until a row changes, which is added up anew
    - sums: groups -> `FreedCapacity` without their victims; valid as long
    - verdicts: groups, needed tasks and their classes -> whether they could have places; valid until any row changes
    - allowed: a preemptor's queue and keys -> the groups that may go for it; valid for the session
    """

    def __init__(self, ssn: Session, question: VictimQuestion) -> None:
        self._ssn, self._table = ssn, ssn.state.table
        self._keys = ssn.victim_keys(question)
        self._position = self._table.touched.position
        self._groups: dict[str, dict[Group, list[Job]]] = {}
        self._held: dict[Group, Ints] = {}
        self._sums: dict[frozenset[Group], FreedCapacity] = {}
        self._verdicts: dict[tuple[frozenset[Group], Hashable], bool] = {}
        self._allowed: dict[Group, frozenset[Group]] = {}

    def may_fit(self, job: Job, from_queue: FromQueue) -> bool:
        """Report whether enough of a job's pending tasks could have places if all possible victims were gone."""
        pending = job.with_status(S.PENDING).values()
        needed = max(self._ssn.needed_to_keep(job), 1) if spares(self._ssn) else 0
        bound = PlacementBound(self._ssn, pending, needed)
        if not bound.certain:
            return True
        groups = self._victims_of(job, from_queue)
        self._follow()
        known = self._verdicts.get((groups, bound.key))
        if known is None:
            known = self._verdicts[groups, bound.key] = bound.met(self._without(groups))
        return known

    def freed_for(self, task: Task, from_queue: FromQueue | None) -> FreedCapacity:
        """Return what would be free if all possible victims of a task were gone.

        They come from some queues, or with None from the task's own job. To be read before anything changes.
        """
        if from_queue is None:
            own = (t for s in (S.RUNNING, S.BOUND) for t in task.job.with_status(s).values() if t.preemptable)
            return FreedCapacity(self._table, victims=own)
        groups = self._victims_of(task.job, from_queue)
        self._follow()
        return self._without(groups)

    def kept_by(self, job: Job, other: Job) -> str:
        """Return the plugin that lets no task of another job go for a job, by its key; empty if none does."""
        preemptor = next(iter(job.tasks.values()), None)
        victim = next((t for s in (S.RUNNING, S.BOUND) for t in other.with_status(s).values()), None)
        if preemptor is None or victim is None:
            return ""
        return next((plugin for plugin, _, lets_go in self._keys if not lets_go(preemptor, victim)), "")

    # -- groups -----------------------------------------------------------------------------------------------------
    def _victims_of(self, job: Job, from_queue: FromQueue) -> frozenset[Group]:
        """The groups whose tasks may go for a job."""
        own = self._group(job)
        known = self._allowed.get(own)
        if known is not None:
            return known
        found, alone = [], False
        for queue in self._ssn.queues.values():
            for group, jobs in self._groups_of(queue).items() if from_queue(queue.name) else ():
                other = next((each for each in jobs if each is not job), None)
                if other is None:
                    alone = True  # another job of equal keys may be let take its tasks
                elif not self.kept_by(job, other):
                    found.append(group)
        groups = frozenset(found)
        if not alone:
            self._allowed[own] = groups
        return groups

    def _group(self, job: Job) -> Group:
        return job.queue, tuple([key(job) for _, key, _ in self._keys]) if self._keys else ()

    def _groups_of(self, queue: Queue) -> dict[Group, list[Job]]:
        """The groups of a queue, with their jobs."""
        known = self._groups.get(queue.name)
        if known is None:
            known = self._groups[queue.name] = {}
            for job in queue.jobs.values():
                placed = job.with_status(S.RUNNING) or job.with_status(S.BOUND) or job.with_status(S.RELEASING)
                if placed and job.in_session and not job.together:
                    known.setdefault(self._group(job), []).append(job)
        return known

    # -- sums -------------------------------------------------------------------------------------------------------
    def _without(self, groups: frozenset[Group]) -> FreedCapacity:
        known = self._sums.get(groups)
        if known is None:
            if len(self._sums) >= _MOST_SUMS:
                self._sums.clear()
            known = self._sums[groups] = FreedCapacity(self._table)
            for group in groups:
                known.free += self._held_by(group)
        return known

    def _held_by(self, group: Group) -> Ints:
        held = self._held.get(group)
        if held is None:
            held = self._held[group] = held_by(self._victims(group), (self._table.width, self._table.size))
        return held

    def _victims(self, group: Group) -> Iterator[Task]:
        closed = self._ssn.budgets.closed
        for job in self._groups[group[0]][group]:
            for status in (S.RUNNING, S.BOUND):
                for task in job.with_status(status).values():
                    if task.preemptable and not closed(task):
                        yield task

    def _follow(self) -> None:
        """Add up anew what changed since the last question."""
        table, position = self._table, self._table.touched.position
        if position == self._position:
            return
        changed = table.touched.since(self._position)
        self._position = position
        self._verdicts.clear()
        if changed is None:
            self._held.clear()
            self._sums.clear()
            return
        for row in changed:
            for held in self._held.values():
                held[:, row] = 0
            node = table.nodes[row]
            for task in node.tasks.values() if node is not None else ():
                self._count(task, row)
            for groups, freed in self._sums.items():
                freed.free[:, row] = soon_free(table, row)
                for group in groups:
                    freed.free[:, row] += self._held[group][:, row]

    def _count(self, task: Task, row: int) -> None:
        """Add what a task on a row holds to its group, if it may be a victim."""
        job = task.job
        if job is None or job.together or not job.in_session or not task.preemptable:
            return
        if task.status not in (S.RUNNING, S.BOUND) or self._ssn.budgets.closed(task):
            return
        held = self._held.get(self._group(job))
        if held is not None:
            for d, v in task.klass.items:
                held[d, row] += v


def reclaimed_for(ssn: Session, queue: Queue) -> FromQueue:
    """Return which queues may be reclaimed for this one."""

    def may_be_reclaimed(name: str) -> bool:
        other = ssn.queues.get(name)
        return other is not None and other is not queue and other.reclaimable

    return may_be_reclaimed
