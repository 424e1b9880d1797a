"""What there is in each hyper-node: sums of its nodes, and how many tasks of a class would find a slot there."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from pumice.engine.hypernodes import HyperNodeTree, places_of
from pumice.framework.points.table import SUB_JOB_READY
from pumice.framework.session.outcome import Refusal, Stage
from pumice.model.job import Job, SubJob
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass
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
        """What the nodes of each hyper-node offer, per resource."""
        table = self._table
        if len(self._offered) != table.width:
            self._offered = self.total(table.allocatable[:, : table.size])
        return self._offered

    def idle(self) -> Ints:
        """What is idle in each hyper-node, per resource."""
        return self.total(self._table.idle[:, : self._table.size])

    def future_idle(self) -> Ints:
        """What will be idle once what is being released is gone, per resource."""
        t, n = self._table, self._table.size
        return self.total(t.idle[:, :n] + t.releasing[:, :n] - t.pipelined[:, :n])

    def load(self) -> Ints:
        """What is in use or promised in each hyper-node, less what this session evicted, per resource."""
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
        """Per place: could the hyper-node take *needed* of the tasks together, as far as that can be counted?"""
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
