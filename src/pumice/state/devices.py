"""The ledger of GPU devices: how much of each is held and by whom. Whole and shared requests live in one model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.model import keys
from pumice.model.gpu import DEVICE, WHOLE, WHOLE_NAMES, GpuRequest
from pumice.model.node import Node
from pumice.model.quantity import whole_number
from pumice.model.resources import Resources, dim
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.writing import find, set_devices

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]

MEMORY_LABEL: Final = keys.GPU_MEMORY_LABEL
MOST_DEVICES: Final = 1024
"""So many GPUs of a node are told apart; each takes a column for every node."""
_PIPELINED: Final = TaskStatus.PIPELINED
_RELEASING: Final = TaskStatus.RELEASING
_THOUSANDTH: Final = DEVICE // WHOLE
_MOST_MEMORY: Final = 2**30 - 1
"""MiB of a device: more than any has, and so few that a product with `DEVICE` does not overflow."""
GROUP_LABEL: Final = keys.GPU_GROUP
_SHARED_MEMORY: Final = "volcano.sh/gpu-memory"


def groups_named(task: Task) -> tuple[str, ...]:
    """The shared GPUs of a pod by KAI's names: as its labels or its bind say."""
    for said in (task.labels, task.annotations):
        if not said:
            continue
        many = sorted(value for key, value in said.items() if key.startswith(f"{GROUP_LABEL}/"))
        if many:
            return tuple(many)
        one = said.get(GROUP_LABEL)
        if one is not None:
            return (one,)
    return ()


def device_memory(node: Node) -> int | None:
    """MiB of each GPU of a node as its label says; None where no label does."""
    memory = whole_number(node.labels.get(MEMORY_LABEL, ""))
    if memory is None:
        return None
    return min(memory if memory <= _MOST_MEMORY else memory // 2**20, _MOST_MEMORY)  # else it is written in bytes


def devices_offered(allocatable: Resources) -> tuple[int, int]:
    """How many devices a node offers, and how much memory of shared ones."""
    whole = sum([allocatable.get(d) for d in map(dim, WHOLE_NAMES)])
    return int(whole) // 1000, int(allocatable.get(dim(_SHARED_MEMORY))) // 1000


class DeviceTable:
    """Devices as rows of matrices (node row by device): what is held, being released, and promised to others.

    All are in units of `DEVICE`. Memory requests become shares of the node's device memory, so that no device is ever
    held beyond its whole.
    """

    def __init__(self) -> None:
        self._cap = 64
        self._width = 8
        self.held: Ints = np.zeros((self._cap, self._width), dtype=np.int64)
        self.releasing: Ints = np.zeros((self._cap, self._width), dtype=np.int64)
        self.promised: Ints = np.zeros((self._cap, self._width), dtype=np.int64)
        self.broken: Bools = np.zeros((self._cap, self._width), dtype=np.bool_)
        """Devices that their node says are unhealthy: nobody new gets them."""
        self._with_broken: set[int] = set()
        """Rows with such devices."""
        self.count: Ints = np.zeros(self._cap, dtype=np.int64)
        self.memory: Ints = np.zeros(self._cap, dtype=np.int64)
        """MiB of each device of a node; 0 where unknown."""
        self.holders: dict[tuple[int, int], dict[str, int]] = {}
        """(row, device) -> UID -> units."""
        self.groups: dict[tuple[int, int], str] = {}
        """(row, device) -> KAI's name of a shared GPU, while somebody holds a part of it."""
        self.sharing: set[str] = set()
        """UIDs of tasks that hold devices but did not ask for whole ones."""
        self._promises: dict[str, tuple[int, list[int], int]] = {}
        """UID -> (row, devices, units of each)."""

    # -- nodes ------------------------------------------------------------------------------------------------------
    def set_node(self, node: Node, told: int, shared: int) -> None:
        """Take over what a node offers of devices, and what its object says of them."""
        count = min(told, MOST_DEVICES)
        self._ensure(node.row, count)
        self.count[node.row] = count
        self._mark_broken(node, count)
        memory = device_memory(node)
        self.memory[node.row] = memory if memory is not None else min(shared // count, _MOST_MEMORY) if count else 0

    def tell_apart(self, node: Node, devices: int) -> None:
        """Be able to book tasks on so many devices of a node, also where it offers fewer."""
        self._ensure(node.row, devices)

    def _mark_broken(self, node: Node, count: int) -> None:
        if node.row not in self._with_broken and keys.GPU_UNHEALTHY not in node.annotations:
            return
        told = [whole_number(n, most=count - 1) for n in node.annotations.get(keys.GPU_UNHEALTHY, "").split(",")]
        broken = [n for n in told if n is not None]
        self.broken[node.row] = False
        self.broken[node.row, broken] = True
        (self._with_broken.add if broken else self._with_broken.discard)(node.row)

    def clear_node(self, row: int) -> None:
        """Forget a node's devices."""
        if row < self._cap:
            self.held[row] = self.releasing[row] = self.promised[row] = 0
            self.broken[row] = False
            self._with_broken.discard(row)
            self.count[row] = self.memory[row] = 0
            for device in range(self._width):
                self.holders.pop((row, device), None)
                self.groups.pop((row, device), None)

    def _ensure(self, row: int, devices: int) -> None:
        cap, width = self._cap, self._width
        while cap <= row:
            cap *= 2
        while width < devices:
            width *= 2
        if (cap, width) == (self._cap, self._width):
            return
        for name in ("held", "releasing", "promised", "broken"):
            wider = np.zeros((cap, width), dtype=getattr(self, name).dtype)
            wider[: self._cap, : self._width] = getattr(self, name)
            setattr(self, name, wider)
        for name in ("count", "memory"):
            longer = np.zeros(cap, dtype=np.int64)
            longer[: self._cap] = getattr(self, name)
            setattr(self, name, longer)
        self._cap, self._width = cap, width

    # -- asking -----------------------------------------------------------------------------------------------------
    def free(self, index: Index, *, future: bool = False) -> Ints:
        """Per row and device, thousandths that are free and promised to nobody; none where there is no such device.

        *future*: once everything that is being released is gone.
        """
        return self._free(index, future=future) // _THOUSANDTH

    def _free(self, index: Index, *, future: bool = False) -> Ints:
        """As `free`, in units."""
        self._ensure(int(index.max(initial=0)), 0)
        free = DEVICE - self.held[index]
        if future or self._promises:
            left = np.maximum(free + self.releasing[index] - self.promised[index], 0)
            free = left if future else np.minimum(free, left)
        there = np.arange(self._width)[None, :] < self.count[index][:, None]
        if self._with_broken:
            there &= ~self.broken[index]
        return np.where(there, free, 0)

    def held_on(self, row: int, request: GpuRequest | None = None, extra: int = 0) -> list[int]:
        """Per device of a node, the thousandths held; with *extra* more such requests, each on the lowest with room."""
        if row >= self._cap:
            return []
        held: list[int] = self.held[row, : int(self.count[row])].tolist()
        if request is not None:
            share = min(self._share_on(row, request), DEVICE)
            for _ in range(extra):
                for device in [d for d, taken in enumerate(held) if taken + share <= DEVICE][: request.devices]:
                    held[device] += share
        return [-(-taken // _THOUSANDTH) for taken in held]

    def used_on(self, node: Node) -> Resources:
        """The used amounts of a node, with the parts of GPUs held by tasks without whole ones."""
        sharing = [task for task in node.tasks.values() if task.uid in self.sharing] if self.sharing else ()
        parts = sum(self.holders[node.row, device].get(task.uid, 0) for task in sharing for device in task.devices)
        name = next((d for d in map(dim, WHOLE_NAMES) if node.allocatable.get(d)), None)
        if not parts or name is None:
            return node.used
        return node.used + Resources({name: -(-parts // _THOUSANDTH)})

    def share(self, index: Index, request: GpuRequest) -> Ints:
        """Per row, the units of one device that the request comes to; above a whole where it cannot."""
        if not request.memory:
            return np.full(len(index), request.share, dtype=np.int64)
        self._ensure(int(index.max(initial=0)), 0)
        memory = self.memory[index]
        fits = memory >= request.memory
        share = np.where(fits, request.memory if request.memory <= _MOST_MEMORY else 0, 0) * DEVICE
        return np.where(fits, share // np.maximum(memory, 1), DEVICE + 1)

    def _free_on(self, row: int, *, future: bool = False) -> list[int]:
        """As `_free`, of the devices of one node."""
        self._ensure(row, 0)
        count = self.count.item(row)
        free = [DEVICE - held for held in self.held[row, :count].tolist()]
        if future or self._promises:
            soon = zip(self.releasing[row, :count].tolist(), self.promised[row, :count].tolist(), free, strict=True)
            left = [max(now + releasing - promised, 0) for releasing, promised, now in soon]
            free = left if future else [min(now, then) for now, then in zip(free, left, strict=True)]
        if row in self._with_broken:
            free = [0 if broken else left for broken, left in zip(self.broken[row, :count].tolist(), free, strict=True)]
        return free

    def _share_on(self, row: int, request: GpuRequest) -> int:
        """As `share`, on one node."""
        if not request.memory:
            return DEVICE if request.milli == WHOLE else request.share
        self._ensure(row, 0)
        memory = self.memory.item(row)
        return request.memory * DEVICE // memory if memory >= request.memory else DEVICE + 1

    def follows_amounts(self, request: GpuRequest) -> bool:
        """Report whether there are enough free devices whenever the amounts say so. Whole ones are, while nobody shares
        any."""
        return request.whole and not self.sharing and not self._promises and not self._with_broken

    def fits(self, index: Index, request: GpuRequest, extra: Ints | None = None, *, future: bool = False) -> Bools:
        """Per row: whether enough devices are free enough, after *extra* more such tasks."""
        if extra is None and len(index) == 1:
            return np.array([self.fits_on(index.item(), request, future=future)])
        free = self._free(index, future=future)
        share = self.share(index, request)[:, None]
        if extra is None:
            enough: Bools = (free >= share).sum(axis=1) >= request.devices
            return enough
        # each round takes one slot on each of the n devices with most slots left: possible while
        # the slots, none counted more than once a round, make up all rounds
        slots = np.minimum(free // share, (extra + 1)[:, None])
        rounds: Bools = slots.sum(axis=1) >= (extra + 1) * request.devices
        return rounds

    def fits_on(self, row: int, request: GpuRequest, *, future: bool = False) -> bool:
        """As `fits`, on one node."""
        share = self._share_on(row, request)
        return sum([left >= share for left in self._free_on(row, future=future)]) >= request.devices

    # -- holding ----------------------------------------------------------------------------------------------------
    def pick(self, task: Task, node: Node, order: Callable[[Sequence[int]], Sequence[int]] | None = None) -> list[int]:
        """Devices for a task on a node, lowest index first or as *order* sorts them; fewer if over-full."""
        request = task.klass.gpu
        if request is None:
            return []
        fitting = self.fitting(request, node)
        if order is not None:
            fitting = list(order(fitting))
        return fitting[: request.devices]

    def fitting(self, request: GpuRequest, node: Node) -> list[int]:
        """The devices of a node that are free enough for a request."""
        row = node.row
        share = DEVICE if request.milli == WHOLE else self._share_on(row, request)
        if self._promises or self._with_broken or row >= self._cap:
            return [d for d, left in enumerate(self._free_on(row)) if left >= share]
        most, held = DEVICE - share, self.held[row, : self.count.item(row)].tolist()
        return [d for d, taken in enumerate(held) if taken <= most]

    def device_of(self, row: int, group: str) -> int | None:
        """The device that KAI calls by a name; None where nobody holds a part of such a one."""
        return next((d for (r, d), name in self.groups.items() if r == row and name == group), None)

    def of_groups(self, task: Task, groups: Sequence[str], row: int) -> list[int]:
        """The devices that KAI calls by these names; for a new name the first that nobody holds or is promised.

        None where a share has no room beside others.
        """
        found: list[int] = []
        request = task.klass.gpu
        if request is None or not groups:
            return found
        most = DEVICE - min(self._share_on(row, request), DEVICE)
        for group in groups:
            device = self.device_of(row, group)
            if device is None:
                count = int(self.count[row]) if row < self._cap else 0
                idle = [d for d in range(count) if not self.held[row, d] and d not in found]
                device = min(idle, key=lambda d: (int(self.promised[row, d]), d), default=None)
            if device is not None and self.held[row, device] <= most:
                found.append(device)
        return found if len(found) == len(groups) else []

    def name_groups(self, devices: Sequence[int], groups: Sequence[str], row: int) -> None:
        """Call shared GPUs as KAI does; no two devices of a node have one name."""
        if len(groups) == len(devices):
            for device, group in zip(devices, groups, strict=True):
                if self.device_of(row, group) is None:
                    self.groups[row, device] = group

    def groups_of(self, task: Task, row: int) -> tuple[str, ...]:
        """KAI's names of the GPUs of which a task holds a part, as far as all have one."""
        names = tuple(self.groups.get((row, device), "") for device in task.devices)
        return names if all(names) else ()

    def _named(self, task: Task, node: Node) -> list[int]:
        """The devices that a pod says it got, where it can have got them."""
        if task.klass.gpu is not None and not task.klass.gpu.whole and (groups := groups_named(task)):
            return self.of_groups(task, groups, node.row) if len(groups) == task.klass.gpu.devices else []
        named: str = find(task.annotations, keys.GPU_INDEX, "")
        if not named:
            return []
        request = task.klass.gpu
        parts = named.split(",") if request is not None and len(named) <= 256 else []
        devices = [n for p in parts if (n := whole_number(p)) is not None]
        if request is None or not len(parts) == len(devices) == request.devices:
            return []
        share, free = self._share_on(node.row, request), self._free_on(node.row)
        fits = all(d < len(free) and free[d] >= share for d in devices)
        return devices if fits and len(set(devices)) == len(devices) else []

    def promise(self, task: Task, node: Node) -> None:
        """Keep devices of a node for a task, among those that will be free; as many as there are."""
        request = task.klass.gpu
        if request is None:
            return
        share = self._share_on(node.row, request)
        free = self._free_on(node.row, future=True)
        devices = [d for d, left in enumerate(free) if left >= share][: request.devices]
        self.promised[node.row, devices] += share
        self._promises[task.uid] = node.row, devices, share

    def withdraw(self, task: Task) -> None:
        """Keep nothing for a task any more."""
        row, devices, share = self._promises.pop(task.uid, (0, [], 0))
        self.promised[row, devices] -= share

    def take(self, task: Task, node: Node, devices: Sequence[int]) -> None:
        """Book a task on devices; those that it shares have a name from then on."""
        request = task.klass.gpu
        if request is None:
            return
        row, uid, share, held, holders = node.row, task.uid, DEVICE, self.held, self.holders
        if request.milli != WHOLE:
            share = min(self._share_on(row, request), DEVICE)
            self.sharing.add(uid)
        for device in devices:
            held[row, device] += share
            known = holders.get((row, device))
            if known is None:
                holders[row, device] = {uid: share}
            else:
                known[uid] = share
        set_devices(task, tuple(devices))
        if request.milli != WHOLE:
            nameless = [device for device in devices if (row, device) not in self.groups]
            if len(nameless) == len(devices):
                self.name_groups(devices, groups_named(task), row)
            for device in nameless:
                self.groups.setdefault((row, device), f"{task.name}-gpu{devices.index(device)}")

    def take_in_turn(self, tasks: Sequence[Task], node: Node) -> None:
        """Book equal tasks that ask for whole devices, each on the first that those before it left."""
        request = tasks[0].klass.gpu
        if request is None:
            return
        left, many, row, holders = self.fitting(request, node), request.devices, node.row, self.holders
        for task in tasks:
            named = self._named(task, node) if task.annotations and keys.GPU_INDEX in task.annotations else ()
            devices = named or left[:many]
            left = [d for d in left if d not in devices] if named else left[many:]
            for device in devices:
                self.held[row, device] += DEVICE
                holders.setdefault((row, device), {})[task.uid] = DEVICE
            set_devices(task, tuple(devices))

    def give_back(self, task: Task, row: int) -> None:
        """Take a task off its devices."""
        held, holders, uid = self.held, self.holders, task.uid
        for device in task.devices:
            known = holders.get((row, device))
            if known is not None and uid in known:
                held[row, device] -= known.pop(uid)
                if not known:
                    self.groups.pop((row, device), None)
        if self.sharing:
            self.sharing.discard(uid)
        set_devices(task, ())

    def follow(
        self, task: Task, before: int, after: int, old: Node | None, place: Node | None, wanted: Sequence[int]
    ) -> None:
        """A task that asks for GPUs went from one status and place to another, and would have the *wanted* ones.

        A promised place holds no device yet, but keeps it.
        """
        if before == _PIPELINED:
            self.withdraw(task)
        held_before = old is not None and before != _PIPELINED
        holds_now = place is not None and after != _PIPELINED
        if held_before and old is not None:
            if before == _RELEASING:
                self.set_releasing(task, old.row, -1)
            if not holds_now or place is not old:
                self.give_back(task, old.row)
        if holds_now and place is not None:
            if not held_before or place is not old:
                self.take(task, place, wanted or self._named(task, place) or self.pick(task, place))
            if after == _RELEASING:
                self.set_releasing(task, place.row, 1)
        if after == _PIPELINED and place is not None:
            self.promise(task, place)

    def set_releasing(self, task: Task, row: int, sign: int) -> None:
        """A task on devices began (+1) or ceased (-1) to be released."""
        for device in task.devices:
            self.releasing[row, device] += sign * self.holders.get((row, device), {}).get(task.uid, 0)
