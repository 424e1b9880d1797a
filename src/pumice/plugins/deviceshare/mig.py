"""MIG: the ways in which a card can be cut into instances, and which instance a container gets."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pumice.errors import InvalidInput, shown
from pumice.model.quantity import whole_number

ARGUMENT: Final = "deviceshare.KnownMigGeometries"
_GROUP: Final = re.compile(r"[A-Za-z0-9_.]{1,63}", re.ASCII)
"""The form of ``uuid[group-position]``."""
_MOST: Final = 64
"""Instances of a card: no card has as many."""


class MigInstance(NamedTuple):
    """Equal instances of one way to cut a card."""

    name: str
    memory: int
    """MiB of each."""
    number: int
    """How many there are."""


class MigGeometry(NamedTuple):
    """One way to cut a card."""

    group: str
    instances: tuple[MigInstance, ...]

    def memory_at(self, position: int) -> int | None:
        """MiB of the instance at a position; None where there is none."""
        for instance in self.instances:
            if position < instance.number:
                return instance.memory
            position -= instance.number
        return None


class MigSlot(NamedTuple):
    """One instance of a card: the geometry that it is cut by, and the number of the instance in it."""

    group: str
    position: int

    def __str__(self) -> str:
        return f"{self.group}-{self.position}"


Geometries: TypeAlias = tuple[MigGeometry, ...]
KnownGeometries: TypeAlias = tuple[tuple[tuple[str, ...], Geometries], ...]
"""Parts of names of card types, and the ways to cut these cards."""


def geometries_of(known: KnownGeometries, kind: str) -> Geometries:
    """The ways to cut a card of this type: those of the first entry that names a part of it."""
    return next((ways for models, ways in known if any(model in kind for model in models)), ())


def pick(ways: Geometries, taken: Collection[MigSlot], memory: int) -> tuple[MigSlot, int] | None:
    """(instance, its MiB): the smallest free one with so much memory, or None.

    A card of which something is taken stays cut as it is; another is cut the first way that has such an instance.
    """
    groups = {slot.group for slot in taken}
    for way in ways:
        if groups and way.group not in groups:
            continue
        found = []
        at = 0
        for instance in way.instances:
            free = [n for n in range(at, at + instance.number) if MigSlot(way.group, n) not in taken]
            if free and instance.memory >= memory:
                found.append((instance.memory, free[0]))
            at += instance.number
        if found:
            size, position = min(found)
            return MigSlot(way.group, position), size
    return None


def memory_of(ways: Geometries, slot: MigSlot) -> int | None:
    """MiB of an instance; None where no known geometry has it."""
    return next((way.memory_at(slot.position) for way in ways if way.group == slot.group), None)


def read_slot(text: str) -> tuple[str, MigSlot | None]:
    """(uuid, instance) of what an annotation names: ``uuid`` or ``uuid[group-position]``."""
    uuid, bracket, rest = text.partition("[")
    group, dash, position = rest.removesuffix("]").rpartition("-")
    number = whole_number(position, most=999)
    if bracket and dash and rest.endswith("]") and number is not None:
        return uuid, MigSlot(group, number)
    return text, None


def read_geometries(given: Any) -> KnownGeometries:
    """The value of the argument, written as ``knownMigGeometries`` of Volcano's device config.

    :raises InvalidInput: a part of it cannot be read; names it.
    """
    return tuple(
        (
            tuple(_texts(entry, "models", f"{ARGUMENT}[{n}]")),
            _ways(entry, f"{ARGUMENT}[{n}]"),
        )
        for n, entry in enumerate(_list(given, ARGUMENT))
    )


def _ways(entry: Mapping[str, Any], where: str) -> Geometries:
    where = f"{where}.allowedGeometries"
    ways = [_way(one, f"{where}[{n}]") for n, one in enumerate(_list(entry.get("allowedGeometries"), where))]
    if len({way.group for way in ways}) < len(ways):
        raise InvalidInput(f"deviceshare: argument {where}: each group needs a name of its own")
    return tuple(ways)


def _way(one: Mapping[str, Any], where: str) -> MigGeometry:
    group = one.get("group")
    if not isinstance(group, str) or not _GROUP.fullmatch(group):
        raise InvalidInput(f"deviceshare: argument {where}.group: must be letters and digits, got {shown(group)}")
    instances = tuple(
        MigInstance(str(i.get("name", "")), _amount(i, "memory", 1 << 40, at), _amount(i, "count", _MOST, at))
        for n, i in enumerate(_list(one.get("geometries"), f"{where}.geometries"))
        for at in [f"{where}.geometries[{n}]"]
    )
    return MigGeometry(group, instances)


def _list(given: Any, where: str) -> Sequence[Mapping[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
        raise InvalidInput(f"deviceshare: argument {where}: must be a list of mappings, got {shown(given)}")
    return given


def _texts(entry: Mapping[str, Any], name: str, where: str) -> list[str]:
    given = entry.get(name)
    if not isinstance(given, list) or not given or not all(isinstance(one, str) and one for one in given):
        raise InvalidInput(f"deviceshare: argument {where}.{name}: must be a list of names, got {shown(given)}")
    return given


def _amount(instance: Mapping[str, Any], name: str, most: int, where: str) -> int:
    given = instance.get(name)
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given <= most:
        raise InvalidInput(f"deviceshare: argument {where}.{name}: must be from 1 to {most}, got {shown(given)}")
    return given
