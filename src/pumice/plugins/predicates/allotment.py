"""Which free devices serve the requests of claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pumice.model import quantity
from pumice.model.api import ResourceClaim
from pumice.plugins.predicates.cel import Device

Key: TypeAlias = tuple[str, str, str]
"""Driver, pool and name of a device."""


@dataclass(slots=True)
class Wanted:
    """One request of a claim: how many devices (all that match, if *every*) that pass all selectors."""

    name: str
    count: int
    every: bool
    selectors: Sequence[Callable[[Device], bool]]

    def takes(self, device: Device) -> bool:
        """Does a device pass?"""
        return all(s(device) for s in self.selectors)


def choose(
    wanted: Sequence[tuple[ResourceClaim, Sequence[Wanted]]], devices: Sequence[Device], taken: set[Key]
) -> dict[str, tuple[Key, ...]] | None:
    """Free devices for every request of every claim, the first that pass; None when there is no way to serve all."""
    used = set(taken)
    out: dict[str, tuple[Key, ...]] = {}
    for claim, requests in wanted:
        same = [
            (set(x.get("requests") or ()), _qualified("", str(x["matchAttribute"])))
            for x in (claim.spec.get("devices") or {}).get("constraints") or ()
            if x.get("matchAttribute")
        ]
        slots: list[Wanted] = []
        for request in requests:
            if request.every:
                passing = [d for d in devices if request.takes(d)]
                if not passing or any(d.key in used for d in passing):
                    return None
                slots += [request] * len(passing)
            else:
                slots += [request] * request.count
        free = [d for d in devices if d.key not in used]
        found = _fill(slots, free, same, [])
        if found is None:
            return None
        out[claim.key] = tuple(free[at].key for at in found)
        used.update(out[claim.key])
    return out


def _fill(
    slots: Sequence[Wanted],
    free: Sequence[Device],
    same: Sequence[tuple[set[str], tuple[str, str]]],
    so_far: list[int],
) -> list[int] | None:
    """A device (its place in *free*) for each slot, with equal attributes where they must be equal.

    Tried in order and taken back where needed; equal slots take devices in their order, so none is tried twice.
    """
    if len(so_far) == len(slots):
        return so_far
    slot = slots[len(so_far)]
    again = bool(so_far) and slots[len(so_far) - 1] is slot
    passing = [
        at for at in range(so_far[-1] + 1 if again else 0, len(free)) if at not in so_far and slot.takes(free[at])
    ]
    still = sum(1 for s in slots[len(so_far) :] if s is slot)
    for n, at in enumerate(passing):
        if len(passing) - n < still:
            return None
        if all(_agrees(slots, [free[i] for i in so_far], slot, free[at], names, key) for names, key in same):
            found = _fill(slots, free, same, [*so_far, at])
            if found is not None:
                return found
    return None


def _agrees(
    slots: Sequence[Wanted],
    so_far: Sequence[Device],
    slot: Wanted,
    device: Device,
    names: set[str],
    key: tuple[str, str],
) -> bool:
    if names and slot.name not in names:
        return True
    value = device.attributes.get(key)
    others = [d.attributes.get(key) for s, d in zip(slots, so_far, strict=False) if not names or s.name in names]
    return value is not None and all(o == value for o in others)


def read_device(driver: str, pool: str, data: Mapping[str, Any]) -> Device:
    """A device as its slice tells of it."""
    basic = data.get("basic") or data
    attributes: dict[tuple[str, str], Any] = {}
    for name, held in (basic.get("attributes") or {}).items():
        attributes[_qualified(driver, name)] = next(iter(held.values()), None)
    capacity = {}
    for name, held in (basic.get("capacity") or {}).items():
        written = held.get("value", 0) if isinstance(held, Mapping) else held
        capacity[_qualified(driver, name)] = quantity.milli(written)
    return Device(driver, pool, str(data.get("name")), attributes, capacity)


def _qualified(driver: str, name: str) -> tuple[str, str]:
    domain, _, rest = name.rpartition("/")
    return domain or driver, rest
