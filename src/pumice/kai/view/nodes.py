"""Nodes of a session of KAI: free amounts now, and after all releases."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from pumice.kai.view.queues import GPU_NAMES
from pumice.kai.view.tasks import TaskRequest, TaskStage, TaskView, mig_slices
from pumice.model import keys
from pumice.model.gpu import DEVICE, WHOLE, GpuRequest
from pumice.model.node import Node
from pumice.model.quantity import whole_number
from pumice.model.resources import dim, dim_count, dim_name
from pumice.state.devices import device_memory
from pumice.state.table import NodeTable

_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")


def gpu_memory(node: Node) -> int | None:
    """MiB of each GPU of a node, in hundreds; None where no label tells."""
    memory = device_memory(node)
    return None if memory is None else memory - memory % 100


def is_divided(node: Node, instances: Iterable[int]) -> bool:
    """Report whether its GPUs are divided into MIG instances. As its labels say, else where it has such; *instances*:
    their names."""
    said = node.labels.get(keys.MIG_ENABLED)
    return said in _TRUE if said is not None else any(node.allocatable.get(d) for d in instances)


_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def is_ready(node: Node) -> bool:
    """Report whether pods could be placed there: it is not cordoned, and no condition speaks against it.

    An unknown condition speaks against a node; a missing one does not.
    """
    if node.unschedulable:
        return False
    for condition in node.object.status.conditions or ():
        wanted = "True" if condition.type == "Ready" else "False" if condition.type in _PRESSURES else condition.status
        if condition.status != wanted:
            return False
    return True


class SharedGpu:
    """One physical GPU that tasks share, in units of `DEVICE`.

    In the node's amounts it stands as a whole: taken while it has a user, being released when all its users are leaving
    and no pod waits for it, and owed by releases while it has only promises.
    """

    __slots__ = ("holds",)

    def __init__(self) -> None:
        self.holds: dict[str, tuple[int, bool, bool]] = {}
        """The bookings -> (units, is promised, is being released)."""

    @property
    def allocated(self) -> int:
        """Held now."""
        return sum(m for m, promised, _ in self.holds.values() if not promised)

    @property
    def releasing(self) -> int:
        """Being given back, less what is promised of it."""
        return sum(-m if promised else m for m, promised, leaving in self.holds.values() if promised or leaving)

    @property
    def used(self) -> int:
        """Held or promised."""
        return sum(m for m, _, _ in self.holds.values())

    def whole(self) -> tuple[int, int]:
        """The amount that it takes from the node's idle GPUs, and adds to those being released."""
        if not self.holds:
            return 0, 0
        held = [leaving for _, promised, leaving in self.holds.values() if not promised]
        promised = len(held) < len(self.holds)
        if not held:
            return 0, -1
        return -1, int(all(held) and not promised)

    @property
    def is_held(self) -> bool:
        """Report whether a task has a part of it now, and not only a promise."""
        return any(not promised for _, promised, _ in self.holds.values())

    def takes(self, share: int) -> bool:
        """Report whether it has room for a share beside its users, after all releases."""
        if not self.holds or self.whole()[1] == 1:
            return False
        return DEVICE - self.allocated + self.releasing >= share

    def unused(self) -> int:
        """Units that no task has or waits for, or that are being given back; nothing where it counts as a whole."""
        if self.whole()[1] == 1:
            return 0
        return max(DEVICE - self.allocated + self.releasing, 0)

    def unheld(self) -> int:
        """Units that no task has or that are being given back; nothing where it counts as a whole."""
        allocated, releasing = self.allocated, self.releasing
        free = DEVICE - allocated if allocated else 0
        return free + (releasing if releasing > 0 and self.whole()[1] != 1 else 0)

    def left_over(self) -> float:
        """As `unheld`, as a part of the device, with what is taken or given back rounded up to hundredths."""
        allocated, releasing = self.allocated, self.releasing
        free = 1 - _hundredths(allocated) if allocated else 0.0
        if releasing > 0 and self.whole()[1] != 1:
            free += _hundredths(releasing)
        return free


def _hundredths(units: int) -> float:
    return -(-units * 100 // DEVICE) / 100


def booking_marks(stage: TaskStage) -> tuple[bool, bool]:
    """(is promised, is being released) of what a task of a stage holds."""
    return stage is TaskStage.PIPELINED, stage is TaskStage.RELEASING


ClaimHolds: TypeAlias = dict[str, tuple[bool, bool]]
"""The claims on a node -> whether each is only promised, and whether the holder is leaving."""


def held_together(holds: ClaimHolds) -> tuple[int, int]:
    """How often the GPUs of a claim count as idle and as being given back, with these holders."""
    there = [leaving for promised, leaving in holds.values() if not promised]
    waits = any(promised for promised, _ in holds.values())
    if not there:
        return 0, -1 if waits else 0
    return -1, 1 if all(there) and not waits else 0


Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_FEW: Final = 8
"""So many rows are looked at one by one; it is quicker to look at all where more changed."""
_MOST: Final = 4096
"""Changes that are remembered; then everything is found anew."""


@dataclass(slots=True)
class _Found:
    request: TaskRequest
    """It is kept alive, so that no other has its identity."""
    rows: Bools
    at: int
    """How many changes it knows of."""


class KaiRoom:
    """Room on the nodes of a ledger, at once or when what is leaving has left."""

    def __init__(self, ledger: NodeLedger) -> None:
        self._ledger = ledger
        self.changes = 0
        """Grows with every change."""
        self._touched: list[int] = []
        self._found: dict[tuple[int, bool], _Found] = {}

    def touch(self, row: int) -> None:
        """The tasks on a node change."""
        self.changes += 1
        self._touched.append(row)
        if len(self._touched) > _MOST:
            self._touched, self._found = [], {}

    def fits(self, request: TaskRequest, *, now: bool) -> Bools:
        """Per row: is there room, at once or when what is leaving has left? To be read only."""
        key, latest = (id(request), now), len(self._touched)
        found = self._found.get(key)
        if found is not None and found.at == latest:
            return found.rows
        rows = set(self._touched[found.at :]) if found is not None else ()
        if found is None or len(rows) > _FEW or request.claimed:
            self._found[key] = _Found(request, fits := self._on_all(request, now), latest)
            return fits
        there = self._ledger.there
        for row in rows:
            found.rows[row] = bool(there[row]) and self.fits_on(row, request, now=now)
        found.at = latest
        return found.rows

    def _on_all(self, request: TaskRequest, now: bool) -> Bools:
        ledger = self._ledger
        ok: Bools = ledger.there.copy()
        for d, v in request.items:
            ok &= self._free(d, now) >= v if d < len(ledger.idle) else v <= 0
        if not request.devices and not request.claimed:
            return ok
        gpus_free = self._free(ledger.gpu, now)
        if request.claimed:
            ok &= self._claims_fit(request, gpus_free)
        elif request.gpus:
            ok &= gpus_free >= request.gpus
        elif request.shared is not None:
            wanted = request.devices
            whole = gpus_free // WHOLE
            enough = whole >= wanted
            if request.shared.memory:
                enough &= ledger.memory >= request.shared.memory
            for row, gpus in ledger.shared.items():
                if ok[row] and not enough[row]:
                    share = ledger.share(row, request.shared)
                    more = sum(1 for g in gpus.values() if g.takes(share))
                    enough[row] = share <= DEVICE and whole[row] + more >= wanted
            ok &= enough
        return ok

    def _free(self, d: int, now: bool) -> Ints:
        """Per row: the free amount of one dimension, now or after all releases."""
        ledger = self._ledger
        free: Ints = ledger.idle[d] if now else ledger.idle[d] + ledger.releasing[d]
        return free

    def _claims_fit(self, request: TaskRequest, free: Ints) -> Bools:
        """Per row: whether there are enough GPUs for the claims that no task has there yet."""
        needed = np.full(len(free), request.gpus + request.claimed, dtype=np.int64)
        for row, held in self._ledger.claims.items():
            needed[row] -= sum(n for key, n in request.claims if held.get(key)) * WHOLE
        return np.asarray(free >= needed)

    def many_on(self, row: int, request: TaskRequest) -> int:
        """How many equal tasks that ask for no part of a GPU have room on a row at once, one after the other."""
        if request.shared is not None or request.claimed or not self.fits_on(row, request, now=True):
            return 0
        _, idle, releasing = self._ledger.cells
        free = [(idle[d, row], releasing[d, row], v) for d, v in request.booked if v > 0]
        return max(min((min(now, now + later) // v for now, later, v in free), default=_MOST), 0)

    def fits_on(self, row: int, request: TaskRequest, *, now: bool) -> bool:
        """As `fits`, for one row that is there."""
        ledger = self._ledger
        _, idle, releasing = ledger.cells
        width = len(idle)
        for d, v in request.items:
            free: int = (idle[d, row] if now else idle[d, row] + releasing[d, row]) if d < width else 0
            if free < v:
                return False
        if not request.devices and not request.claimed:
            return True
        if request.claimed:
            return bool(self._claims_fit(request, self._free(ledger.gpu, now))[row])
        free = idle[ledger.gpu, row] if now else idle[ledger.gpu, row] + releasing[ledger.gpu, row]
        if request.shared is None:
            return free >= request.gpus
        share = ledger.share(row, request.shared)
        more = sum(1 for g in ledger.shared.get(row, {}).values() if g.takes(share))
        return share <= DEVICE and free // WHOLE + more >= request.devices


Floats = npt.NDArray[np.float64]

UNSYNCED: Final = 100
"""MiB that a GPU counts as where no label tells; a request by memory is refused there."""
WHOLE_GPU: Final = "whole"
"""Stands for a GPU that nobody shares yet, where GPUs are put in order."""


class NodeLedger:
    """Amounts per node row: `idle` and `releasing`, and the shared GPUs of each node."""

    def __init__(
        self,
        table: NodeTable,
        nodes: Iterable[Node] | None = None,
        *,
        claimable: Mapping[str, int] | None = None,
    ) -> None:
        """*nodes*: only these are seen.

        *claimable*: node -> GPUs that are had by device claims; they count where a node has no others.
        """
        self.table = table
        self.nodes = sorted(table.by_name.values() if nodes is None else nodes, key=lambda n: n.name)
        size = table.size
        self.gpu = dim(GPU_NAMES[0])
        other = dim(GPU_NAMES[1])
        table.ensure_width()
        self.allocatable: Ints = table.allocatable[:, :size].copy()
        self.idle: Ints = table.idle[:, :size].copy()
        self.releasing: Ints = table.releasing[:, :size] - table.pipelined[:, :size]
        for matrix in (self.allocatable, self.idle, self.releasing):
            matrix[self.gpu] += matrix[other]
            matrix[other] = 0
        nothing = self.allocatable == 0
        self.idle[nothing] = 0
        self.releasing[nothing] = 0
        self.cells = tuple(memoryview(cast(Any, m)) for m in (self.allocatable, self.idle, self.releasing))
        """The three of them again, for who reads and writes single amounts: at a third of the cost."""
        self.by_claim: set[int] = set()
        """Rows of nodes whose GPUs are had by device claims."""
        self.claims: dict[int, dict[str, ClaimHolds]] = {}
        """Row -> claim -> who has it there."""
        for node in self.nodes if claimable else ():
            gpus = (claimable or {}).get(node.name, 0)
            if gpus and not self.allocatable[self.gpu, node.row]:
                self.by_claim.add(node.row)
                self.allocatable[self.gpu, node.row] = self.idle[self.gpu, node.row] = gpus * WHOLE
        self.memory: Ints = np.zeros(size, dtype=np.int64)
        self.synced: Bools = np.zeros(size, dtype=np.bool_)
        self.there: Bools = np.zeros(size, dtype=np.bool_)
        self.shared: dict[int, dict[str, SharedGpu]] = {}
        self.room = KaiRoom(self)
        self._free: tuple[int, Floats] = (-1, np.empty(0))
        """Free GPUs, and when they were counted."""
        self.minted = 0
        self.tasks: dict[int, dict[str, TaskView]] = {}
        """Row -> who is on the node or promised a place there."""
        self.came: list[tuple[int, str]] = []
        """Row and task of every placement in this session."""
        for node in self.nodes:
            self.there[node.row] = True
            memory = gpu_memory(node)
            self.synced[node.row] = memory is not None
            self.memory[node.row] = memory if memory is not None else UNSYNCED
        instances = self._instances()
        self.mig = [(d, mig_slices(dim_name(d))) for d in instances]
        """(dimension, GPUs that an instance counts as) of every kind of MIG instance that a node has."""
        self.of_mig = {n.row for n in self.nodes if is_divided(n, instances)}
        """Rows of nodes whose GPUs are divided into MIG instances."""
        self.order = np.array([n.row for n in self.nodes], dtype=np.intp)
        """Rows by the names of their nodes."""
        self.rows_by_name = bool((np.diff(self.order) > 0).all())
        """Whether the rows stand in the order of their nodes' names."""

    def _instances(self) -> list[int]:
        """Dimensions of MIG instances that a node has."""
        names = [(d, dim_name(d)) for d in range(min(dim_count(), len(self.idle)))]
        return [d for d, name in names if name.startswith(keys.MIG_RESOURCES) and self.allocatable[d].any()]

    def lift(self, task: TaskView, node: Node) -> None:
        """The state's hold for a task does not count here; other tasks learn of it (`promised`)."""
        self.add(node.row, task.request.booked, 0, 1)

    def give_back(self, task: TaskView, node: Node) -> None:
        """The whole GPUs that a task has on a node are not taken by it."""
        gpus = task.request.gpus
        leaves = task.stage is TaskStage.RELEASING
        self.add(node.row, ((self.gpu, gpus),), 1, -1 if leaves else 0)

    @contextmanager
    def promised(self, rooms: Sequence[tuple[TaskView, Node]]) -> Iterator[None]:
        """Within the block these tasks have a promise of room on these nodes."""
        booked = [(task, node, tuple(self.mint(node) for _ in range(_devices(task)))) for task, node in rooms]
        for task, node, groups in booked:
            self.book(task, node, TaskStage.PIPELINED, groups, 1)
        try:
            yield
        finally:
            for task, node, groups in reversed(booked):
                self.book(task, node, TaskStage.PIPELINED, groups, -1)

    # -- asking -----------------------------------------------------------------------------------------------------
    def share(self, row: int, request: GpuRequest) -> int:
        """Units of one device that a request comes to on a node; more than a whole where it cannot."""
        if not request.memory:
            return request.share
        size = int(self.memory[row])
        return request.memory * DEVICE // size if request.memory <= size else DEVICE + 1

    def portion(self, row: int, request: GpuRequest) -> float:
        """The part of one device that a request comes to on a node, in hundredths rounded up."""
        if not request.memory:
            return request.part
        size = int(self.memory[row])
        return -(-request.memory * 100 // size) / 100 if size else 0.0

    def fitting_gpus(self, row: int, request: GpuRequest) -> list[str]:
        """The shared GPUs of a node that can take one more, and a mark for each whole one."""
        share = self.share(row, request)
        found = [name for name, g in self.shared.get(row, {}).items() if g.takes(share)]
        whole = max(int(self.idle[self.gpu, row] + self.releasing[self.gpu, row]), 0) // WHOLE
        return sorted(found) + [WHOLE_GPU] * whole

    def index_of(self, node: Node, name: str) -> str:
        """The index of a GPU of a node; of a whole one, or a promised one, that of the first that is idle."""
        devices, row = self.table.devices, node.row
        if devices is None or whole_number(name) is not None:
            return name
        for mark in self.shared[row][name].holds if name in self.shared.get(row, {}) else ():
            task = self.tasks.get(row, {}).get(mark.rpartition("/")[0])
            if task is not None and name in task.groups and len(task.task.devices) == len(task.groups):
                return str(task.task.devices[task.groups.index(name)])
        return str(next((n for n, taken in enumerate(devices.held_on(row)) if not taken), 0))

    def used_part(self, row: int, name: str) -> float:
        """The part of a shared GPU that is taken."""
        gpu = self.shared.get(row, {}).get(name)
        return gpu.used / DEVICE if gpu is not None else 0.0

    def takes_at_once(self, row: int, name: str, request: GpuRequest) -> bool:
        """Report whether a shared GPU has room now."""
        gpu = self.shared[row][name]
        return gpu.is_held and DEVICE - gpu.allocated >= self.share(row, request)

    def idle_gpus(self, row: int) -> float:
        """Whole GPUs that are free."""
        return int(self.idle[self.gpu, row]) / WHOLE

    def releasing_gpus(self, row: int) -> float:
        """Whole GPUs that are being given back."""
        return int(self.releasing[self.gpu, row]) / WHOLE

    def free_gpus(self) -> Floats:
        """Per row: GPUs that are free or being given back, what is left of shared ones included. To be read only."""
        if self._free[0] == self.room.changes:
            return self._free[1]
        free: Floats = (self.idle[self.gpu] + self.releasing[self.gpu]) / WHOLE
        for d, slices in self.mig:
            free += slices * (self.idle[d] + self.releasing[d]) / 1000
        for row, gpus in self.shared.items():
            free[row] += sum(g.left_over() for g in gpus.values())
        self._free = (self.room.changes, free)
        return free

    def free_gpu_memory(self) -> Ints:
        """Per row: MiB of GPUs that are free or being given back."""
        free: Ints = self.memory * (self.idle[self.gpu] // WHOLE + self.releasing[self.gpu] // WHOLE)
        for row, gpus in self.shared.items():
            free[row] += sum(g.unheld() for g in gpus.values()) * int(self.memory[row]) // DEVICE
        return free

    def has_free_gpus(self) -> Bools:
        """Per row: whether a GPU, or a part of one, is free or being given back."""
        found: Bools = (self.idle[self.gpu] > 0) | (self.releasing[self.gpu] > 0)
        for d, _ in self.mig:
            found |= (self.idle[d] > 0) | (self.releasing[d] > 0)
        for row, gpus in self.shared.items():
            found[row] |= any(g.left_over() > 0 for g in gpus.values())
        return found

    # -- booking ----------------------------------------------------------------------------------------------------
    def book(self, task: TaskView, node: Node, stage: TaskStage, groups: tuple[str, ...], sign: int) -> None:
        """Add (+1) or take away (-1) what a task of a stage has on a node."""
        row, request = node.row, task.request
        idle = 0 if stage is TaskStage.PIPELINED else -sign
        releasing = sign if stage is TaskStage.RELEASING else -sign if stage is TaskStage.PIPELINED else 0
        self.add(row, request.booked, idle, releasing)
        if request.claimed and row in self.by_claim:
            self.claim(row, task, stage, sign)
        if request.shared is not None and groups:
            self.share_out(row, task, request.shared, stage, groups, sign)

    def book_likes(self, tasks: Sequence[TaskView], node: Node) -> None:
        """Add what equal tasks, which ask for no part of a GPU, take of a node."""
        row, request, many = node.row, tasks[0].request, len(tasks)
        self.add(row, request.booked, -many, 0)
        self.tasks.setdefault(row, {}).update((task.uid, task) for task in tasks)
        self.came += [(row, task.uid) for task in tasks]

    def claim(self, row: int, task: TaskView, stage: TaskStage, sign: int) -> None:
        """Add (+1) or take away (-1) what a task has by its device claims; pods of one claim have it together."""
        self.room.touch(row)
        promised, leaving = booking_marks(stage)
        mark = f"{task.uid}/{promised:d}"
        for key, gpus in task.request.claims:
            holds = self.claims.setdefault(row, {}).setdefault(key, {})
            before = held_together(holds)
            if sign > 0:
                holds[mark] = (promised, leaving)
            else:
                holds.pop(mark, None)
            after = held_together(holds)
            self.idle[self.gpu, row] += (after[0] - before[0]) * gpus * WHOLE
            self.releasing[self.gpu, row] += (after[1] - before[1]) * gpus * WHOLE

    def add(self, row: int, items: tuple[tuple[int, int], ...], idle: int, releasing: int) -> None:
        """Add amounts so many times to what is idle and being given back on a node, where it offers any."""
        self.room.touch(row)
        offered, now, later = self.cells
        for d, v in items:
            if offered[d, row]:
                if idle:
                    now[d, row] += idle * v
                if releasing:
                    later[d, row] += releasing * v

    def share_out(
        self, row: int, task: TaskView, request: GpuRequest, stage: TaskStage, groups: tuple[str, ...], sign: int
    ) -> None:
        """Add (+1) or take away (-1) what a task of a stage has of shared GPUs of a node."""
        self.room.touch(row)
        gpus = self.shared.setdefault(row, {})
        m = self.share(row, request)
        promised, leaving = booking_marks(stage)
        key = f"{task.uid}/{promised:d}"  # a victim that is moved has its old place and its new one
        for name in groups:
            gpu = gpus.get(name)
            if gpu is None:
                gpu = gpus[name] = SharedGpu()
            before = gpu.whole()
            if sign > 0:
                gpu.holds[key] = (m, promised, leaving)
            else:
                gpu.holds.pop(key, None)
            after = gpu.whole()
            if not gpu.holds:
                del gpus[name]
            self.idle[self.gpu, row] += (after[0] - before[0]) * WHOLE
            self.releasing[self.gpu, row] += (after[1] - before[1]) * WHOLE

    def mint(self, node: Node) -> str:
        """A name for a GPU that is shared from now on."""
        taken = self.shared.get(node.row, {})
        while True:
            self.minted += 1
            name = f"gpu-{zlib.crc32(node.name.encode()):08x}-{self.minted}"  # a label's value, and of one node only
            if name not in taken:
                return name


def _devices(task: TaskView) -> int:
    """The number of GPUs of which it wants a share."""
    return task.request.devices if task.request.shared is not None else 0
