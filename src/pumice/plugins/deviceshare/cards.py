"""The cards of a node that are shared, what containers ask of them, and both as annotations write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from pumice.errors import InvalidInput, shown
from pumice.model import keys
from pumice.model.api import Container, Quantity
from pumice.model.node import Node
from pumice.model.quantity import value, whole_number
from pumice.model.task import Task, TaskClass
from pumice.plugins.deviceshare.mig import Geometries, MigSlot, memory_of, pick, read_slot

HAMI_CORE: Final = "hami-core"
MIG: Final = "mig"
ALL_CORES: Final = 100
_NUMBER, _MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
_PERCENT, _CORES = "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"
_MOST: Final = 1024
"""A node has at most so many cards: what anybody writes costs no more."""
_MOST_NUMBER: Final = 10**12 - 1


@dataclass(frozen=True, slots=True)
class Card:
    """One card, and how much of it is taken."""

    uuid: str
    users: int
    """How many tasks may share it."""
    memory: int
    """MiB."""
    kind: str
    healthy: bool
    mode: str
    """How it is shared: `HAMI_CORE`, or `MIG`."""
    used: int = 0
    used_memory: int = 0
    used_cores: int = 0
    ways: Geometries = ()
    """How it can be cut, if it is shared by MIG."""
    slots: frozenset[MigSlot] = frozenset()
    """Its instances that are taken."""

    def with_part(self, part: Part) -> Card:
        """The card with one more user. An instance is taken whole, whatever was asked of it."""
        memory = memory_of(self.ways, part.slot) if part.slot is not None else None
        return replace(
            self,
            used=self.used + 1,
            used_memory=self.used_memory + (part.memory if memory is None else memory),
            used_cores=self.used_cores + part.cores,
            slots=self.slots if part.slot is None else self.slots | {part.slot},
        )

    def part_for(self, asked: CardRequest) -> Part | None:
        """The part that one container would get, or None where there is no room."""
        memory = asked.memory_of(self)
        if not self.healthy or self.used >= self.users or self.memory - self.used_memory < memory:
            return None
        if self.used_cores + asked.cores > ALL_CORES or (asked.cores >= ALL_CORES and self.used):
            return None  # all cores are the card for oneself
        if self.used_cores >= ALL_CORES and asked.cores == 0:
            return None
        if self.mode != MIG:
            return Part(self.uuid, memory, asked.cores)
        found = pick(self.ways, self.slots, memory)
        return Part(self.uuid, memory, asked.cores, found[0]) if found is not None else None

    def free_memory(self) -> int:
        """MiB that one container could have at most."""
        if not self.healthy or self.used >= self.users:
            return 0
        if self.mode != MIG:
            return self.memory - self.used_memory
        sizes = {i.memory for way in self.ways for i in way.instances}
        return max((size for size in sizes if pick(self.ways, self.slots, size) is not None), default=0)


class Part(NamedTuple):
    """A part of a card that a container has."""

    uuid: str
    memory: int
    """MiB that were asked for."""
    cores: int
    slot: MigSlot | None = None
    """The instance, of a card that is shared by MIG."""


class CardRequest(NamedTuple):
    """The request of one container: a number of cards, and the amounts of each."""

    cards: int
    memory: int
    """MiB; 0 where *percent* says it."""
    percent: int
    cores: int
    """Percent; 100 means the card for itself alone."""

    def memory_of(self, card: Card) -> int:
        """MiB of this card."""
        return self.memory or card.memory * self.percent // 100


def read_cards(node: Node, ways_of: Callable[[str], Geometries], *, fall_back: bool = False) -> tuple[Card, ...]:
    """The cards that a node registered; none where it did not, or has taken them back.

    *ways_of* says how a type of card can be cut by MIG; *fall_back*: one that nobody knows of is shared otherwise.

    :raises InvalidInput: a card cannot be read.
    """
    text = node.annotations.get(keys.VGPU_REGISTER, "")
    if not text or "Deleted" in node.annotations.get(keys.VGPU_HANDSHAKE, ""):
        return ()
    cards: list[Card] = []
    for part in text.split(":"):
        fields = part.split(",")
        if not part.strip():
            continue
        if len(fields) < 5 or len(cards) == _MOST:
            raise InvalidInput(f"{keys.VGPU_REGISTER}: must be uuid,count,memory,type,health,mode, got {shown(part)}")
        mode = MIG if fields[5:6] == [MIG] else HAMI_CORE
        ways = ways_of(fields[3]) if mode == MIG else ()
        if fall_back and not ways:
            mode = HAMI_CORE
        healthy = fields[4].strip().lower() in ("true", "1", "t")
        cards.append(Card(fields[0], _whole(fields[1]), _whole(fields[2]), fields[3], healthy, mode, ways=ways))
    return tuple(cards)


def _whole(text: str) -> int:
    number = whole_number(text, most=_MOST_NUMBER)
    if number is None:
        raise InvalidInput(f"{keys.VGPU_REGISTER}: must be a whole number, got {shown(text)}")
    return number


def asked_of(klass: TaskClass) -> tuple[CardRequest, ...]:
    """The requests of a class's containers, empty ones left out; read once."""
    known: tuple[CardRequest, ...] | None = klass.memo.get("deviceshare")
    if known is None:
        found = (_asked(container) for container in klass.spec.containers or ())
        known = klass.memo["deviceshare"] = tuple(one for one in found if one is not None)
    return known


def _asked(container: Container) -> CardRequest | None:
    resources = container.resources
    limits = (resources.limits if resources is not None else None) or {}
    requests = (resources.requests if resources is not None else None) or {}
    if _NUMBER not in limits and _MEMORY not in limits:
        return None
    amounts: Mapping[str, Quantity] = {**requests, **limits}
    memory, percent = value(amounts.get(_MEMORY, 0)), value(amounts.get(_PERCENT, 0))
    return CardRequest(
        value(limits[_NUMBER]) if _NUMBER in limits else 1,
        memory,
        percent or (0 if memory else 100),
        value(amounts.get(_CORES, 0)),
    )


def wants(task: Task, card: Card) -> bool:
    """Report whether the task's annotations allow the card, by its type and by its way of sharing."""
    if task.annotations.get(keys.VGPU_MODE, card.mode) != card.mode:
        return False
    kind = card.kind.upper()
    use, avoid = task.annotations.get(keys.USE_GPU_TYPE), task.annotations.get(keys.NO_USE_GPU_TYPE)
    if use is not None:
        return any(word.upper() in kind for word in use.split(","))
    return avoid is None or not any(word.upper() in kind for word in avoid.split(","))


def write_parts(containers: Sequence[Sequence[Part]]) -> str:
    """The cards of containers, as the device plugin reads them."""
    return ";".join(
        "".join(f"{p.uuid}{f'[{p.slot}]' if p.slot else ''},NVIDIA,{p.memory},{p.cores}:" for p in parts)
        for parts in containers
    )


def read_parts(text: str) -> Iterator[Part]:
    """The cards of containers by an annotation; unreadable values are left out."""
    for part in text.replace(";", ":").split(":"):
        fields = part.split(",")
        memory, cores = (whole_number(n, most=_MOST_NUMBER) for n in fields[2:]) if len(fields) == 4 else (None, None)
        if memory is not None and cores is not None:
            uuid, slot = read_slot(fields[0])
            yield Part(uuid, memory, cores, slot)
