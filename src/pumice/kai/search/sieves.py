"""Cheap tests that a set of victims must pass before anybody imagines that they are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.matching import has_node_selection, selected
from pumice.kai.search.placing import WorldRows
from pumice.kai.search.scenarios import Accumulated
from pumice.kai.view.jobs import GroupSet, JobView, Member
from pumice.kai.view.queues import GPU
from pumice.kai.view.tasks import ACTIVE, TaskView
from pumice.kai.view.world import KaiWorld
from pumice.model.api import Topology
from pumice.model.gpu import WHOLE

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
_SLACK: Final = 1e-9


class Sieve:
    """Follows one growing set of victims on behalf of the tasks of a job that are to be placed."""

    def __init__(
        self, world: KaiWorld, job: JobView, tasks: Sequence[TaskView], recorded: Sequence[TaskView], feasible: Bools
    ) -> None:
        ledger = world.nodes
        free = ledger.free_gpus()
        self._seen, self._many = 0, len(tasks)
        self._passed = False
        self._within = feasible.copy()
        selecting = {t.task.klass.id: t.task.klass for t in tasks if has_node_selection(t.task.klass)}
        self._unplaced = [selected(klass, _everything(world)) for klass in selecting.values()]
        self._parts = [_Room([_gpus(t) for t in tasks], free, len(tasks))]
        if not job.anywhere:
            self._parts += _domain_rooms(world, job, free)
        for task in recorded:
            self._gone(task)
        self._recorded = {t.uid for t in recorded}
        self._given = world, tasks, recorded, feasible
        self._whole: _WholeGpus | None = None
        sizes = {t.request.gpus for t in tasks}
        plain = len(sizes) == 1 and 0 not in sizes and not any(t.request.claimed for t in tasks)
        plain = plain and not any(ledger.shared.values())
        self.counts_all = plain and len(self._parts) == 1 and not np.count_nonzero(free < 0)
        """Are equal numbers of whole GPUs all that it counts? Then victims whose leaving was enough pass it."""

    def might(self, pieces: Iterable[Sequence[TaskView]]) -> bool:
        """Report whether the cluster has enough whole GPUs without these and the recorded victims."""
        return self._places().enough([t for piece in pieces for t in piece if t.uid not in self._recorded])

    def node_might(self) -> bool:
        """Report whether some node has enough whole GPUs without its tasks and the recorded victims."""
        return self._many < 2 or self._places().node_alone()

    def _places(self) -> _WholeGpus:
        if self._whole is None:
            self._whole = _WholeGpus(*self._given)
        return self._whole

    def _gone(self, task: TaskView) -> None:
        if task.node is None:
            return
        row, gpus = task.node.row, task.accepted[GPU] if not task.request.mig else 0.0
        self._within[row] = True
        if gpus:
            for part in self._parts:
                part.grow(row, gpus)

    def accepts(self, so_far: Accumulated) -> bool:
        """Could it be enough? Once it could, it can with more."""
        if self._passed:
            return True
        fresh, self._seen = so_far.batches[self._seen :], len(so_far.batches)
        if self.counts_all and not self._unplaced:
            self._passed = self._parts[0].grows_enough(fresh)
            return self._passed
        for batch in fresh:
            for task in batch:
                self._gone(task)
        if self._unplaced:
            self._unplaced = [mask for mask in self._unplaced if not (mask & self._within).any()]
        for part in self._parts:
            if not part.enough():
                return False
        self._passed = not self._unplaced
        return self._passed


class _WholeGpus:
    """Counts the places for tasks that ask for whole GPUs: without so many, no placing can succeed."""

    def __init__(
        self, world: KaiWorld, tasks: Sequence[TaskView], recorded: Sequence[TaskView], feasible: Bools
    ) -> None:
        ledger = self._ledger = world.nodes
        sizes = sorted(t.request.gpus for t in tasks if t.request.gpus)
        self._needed = {size: len(sizes) - at for at, size in reversed(list(enumerate(sizes)))}
        """GPUs -> how many tasks ask for so many or more."""
        self._free = ledger.idle[ledger.gpu] + ledger.releasing[ledger.gpu]
        self._open: set[tuple[int, str]] = set()
        self._within = feasible
        for row, gpus in _freed(recorded, self._open).items():
            self._free[row] += gpus
        free = np.maximum(self._free[feasible], 0)
        self._places = {size: int(np.add.reduce(free // size)) for size in self._needed}

    def enough(self, victims: Sequence[TaskView]) -> bool:
        """Report whether there are enough places without these too."""
        if all(self._places[size] >= n for size, n in self._needed.items()):
            return True
        freed = _freed(victims, set(self._open))
        for size, n in self._needed.items():
            places = self._places[size]
            for row, gpus in freed.items():
                before = int(self._free[row])
                places += max(before + gpus, 0) // size - (max(before, 0) // size if self._within[row] else 0)
            if places < n:
                return False
        return True

    def node_alone(self) -> bool:
        """Could there be places enough if one node were empty? Not told where GPUs are shared."""
        ledger = self._ledger
        if any(ledger.shared.values()):
            return True
        most = int(ledger.allocatable[ledger.gpu].max(initial=0))
        return all(self._places[size] + most // size >= n for size, n in self._needed.items())


def _freed(tasks: Iterable[TaskView], opened: set[tuple[int, str]]) -> dict[int, int]:
    """Row -> whole GPUs at most that are free when the tasks are gone; *opened*: shared ones that are counted."""
    found: dict[int, int] = {}
    for task in tasks:
        if task.node is None:
            continue
        row = task.node.row
        found[row] = found.get(row, 0) + task.request.gpus
        for name in task.groups:
            if (row, name) not in opened:
                opened.add((row, name))
                found[row] += WHOLE
    return found


class _Room:
    """Places for wanted GPUs: largest first, each in the first place with room, the largest places first."""

    def __init__(self, wanted: Sequence[float], free: Floats, most: int, place: dict[int, int] | None = None):
        """*most*: so many places are looked at; *place*: row -> place, where rows are not places themselves."""
        self._wanted = sorted((w for w in wanted if w > 0), reverse=True)
        self._free, self._most, self._place = free.tolist(), most, place
        self._equal = self._wanted[0] if self._wanted and self._wanted[0] == self._wanted[-1] else 0.0
        self._slots = int(np.add.reduce((free[free > 0] + _SLACK) // self._equal)) if self._equal else 0
        self._passed = not self._wanted
        self._many = len(self._wanted)

    def _slots_of(self, free: float) -> int:
        return int((free + _SLACK) // self._equal) if free > 0 else 0

    def grow(self, row: int, gpus: float) -> None:
        """So many GPUs more become free on a node."""
        place = row if self._place is None else self._place.get(row)
        if place is None or self._passed:
            return
        before = self._free[place]
        self._free[place] = before + gpus
        if self._equal:
            self._slots += self._slots_of(before + gpus) - self._slots_of(before)

    def grows_enough(self, batches: Iterable[Sequence[TaskView]]) -> bool:
        """Is there room when these are gone? For equal numbers of whole GPUs, and places that are rows."""
        free, size, slots = self._free, self._equal, self._slots
        for batch in batches:
            for task in batch:
                if task.node is not None and not task.request.mig and (gpus := task.accepted[GPU]):
                    row = task.node.row
                    before, after = free[row], free[row] + gpus
                    free[row] = after
                    if after > 0:
                        slots += int((after + _SLACK) // size) - (int((before + _SLACK) // size) if before > 0 else 0)
        self._slots, self._passed = slots, self._passed or slots >= self._many
        return self._passed

    def enough(self) -> bool:
        """Report whether there is room."""
        if not self._passed:
            self._passed = self._slots >= self._many if self._equal else self._greedy()
        return self._passed

    def _greedy(self) -> bool:
        best = sorted(self._free, reverse=True)[: self._most]
        for wanted in self._wanted:
            at = next((n for n, free in enumerate(best) if free + _SLACK >= wanted), None)
            if at is None:
                return False
            best[at] -= wanted
        return True


def _domain_rooms(world: KaiWorld, job: JobView, free: Floats) -> Iterator[_Room]:
    """One for each level that sub-groups of a job require: its domains, and what each sub-group asks for."""
    wanted: dict[tuple[str, str], list[float]] = {}
    everybody = world.ssn.compat.kai_placed_demand
    for group in _groups(job.root):
        constraint = group.topology
        if constraint is not None and constraint.required_topology_level:
            members = [t for podset in group.pod_sets() for t in podset.tasks]
            asked = sum(_gpus(t) for t in members if everybody or t.stage not in ACTIVE)
            wanted.setdefault((constraint.topology, constraint.required_topology_level), []).append(asked)
    for (name, level), amounts in wanted.items():
        obj = world.state.kind("Topology").get(name)
        levels = (obj.spec.levels or ()) if isinstance(obj, Topology) else ()
        label = next((x.node_label for x in levels if level in (x.node_label, x.alias)), level)
        values: dict[str, int] = {}
        place: dict[int, int] = {}
        for node in world.nodes.nodes:
            value = node.labels.get(label)
            if value:
                place[node.row] = values.setdefault(value, len(values))
        room = np.zeros(len(values))
        for row, at in place.items():
            room[at] += free[row]
        yield _Room(amounts, room, len(room), place)


def _groups(member: Member) -> Iterator[GroupSet]:
    if isinstance(member, GroupSet):
        yield member
        for each in member.members:
            yield from _groups(each)


def _everything(world: KaiWorld) -> WorldRows:
    return WorldRows(world.nodes, np.arange(len(world.nodes.there), dtype=np.intp))


def _gpus(task: TaskView) -> float:
    """GPUs that it asks for, parts included; by memory: not known."""
    return task.request.quota[GPU] if not task.request.mig else 0.0
