"""What is free on the nodes, now and when what is leaving has left, as a session changes it in its mind."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from pumice.kai.view.devices import ClaimHolds, SharedGpu, booking_marks, held_together
from pumice.kai.view.gpu_labels import gpu_memory, is_divided
from pumice.kai.view.room import KaiRoom
from pumice.kai.view.stage import TaskStage
from pumice.kai.view.tasks import GPU_NAMES, TaskView, mig_slices
from pumice.model import keys
from pumice.model.gpu import DEVICE, WHOLE, GpuRequest
from pumice.model.node import Node
from pumice.model.quantity import whole_number
from pumice.model.resources import dim, dim_count, dim_name
from pumice.state.table import NodeTable

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
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
        """Do the rows stand in the order of their nodes' names?"""

    def _instances(self) -> list[int]:
        """Dimensions of MIG instances that a node has."""
        names = [(d, dim_name(d)) for d in range(min(dim_count(), len(self.idle)))]
        return [d for d, name in names if name.startswith(keys.MIG_RESOURCES) and self.allocatable[d].any()]

    def lift(self, task: TaskView, node: Node) -> None:
        """What the state holds for a task does not count here; who must leave it alone is told (`promised`)."""
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
        """The index of a GPU of a node; of a whole one that of the first that nobody has; itself where not known."""
        devices, row = self.table.devices, node.row
        if devices is None or whole_number(name) is not None:
            return name
        if name == WHOLE_GPU:
            held = devices.held_on(row)
            return str(next((n for n, taken in enumerate(held) if not taken), 0))
        for mark in self.shared[row][name].holds if name in self.shared.get(row, {}) else ():
            task = self.tasks.get(row, {}).get(mark.rpartition("/")[0])
            if task is not None and name in task.groups and len(task.task.devices) == len(task.groups):
                return str(task.task.devices[task.groups.index(name)])
        return name

    def used_part(self, row: int, name: str) -> float:
        """The part of a shared GPU that is taken."""
        gpu = self.shared.get(row, {}).get(name)
        return gpu.used / DEVICE if gpu is not None else 0.0

    def takes_at_once(self, row: int, name: str, request: GpuRequest) -> bool:
        """Has a shared GPU room now?"""
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
        """Per row: is some GPU, or a part of one, free or being given back?"""
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
    """Of how many GPUs it wants a share."""
    return task.request.devices if task.request.shared is not None else 0
