"""The devices that drivers offer: resource slices, read once and again when one of them changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from pumice.engine.matching import term_matches
from pumice.engine.rows import NodeRows
from pumice.errors import InvalidInput
from pumice.model import quantity
from pumice.model.api import NodeSelector, ResourceSlice, Taint
from pumice.plugins.predicates.allotment import Counters, Key, qualified
from pumice.plugins.predicates.cel_values import version_key
from pumice.plugins.predicates.offered_device import Device
from pumice.state.cluster import ClusterState

UNREADABLE: Final = (AttributeError, InvalidInput, KeyError, TypeError, ValueError, msgspec.MsgspecError)
"""The exceptions of reading plain data of a stranger."""


class Slices:
    """Devices by the nodes where they can be used, and the counters that some of them share."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._read_at = -1
        self._by_node: dict[str, list[Device]] = {}
        self._shared: list[tuple[NodeSelector | None, list[Device]]] = []
        self.by_key: dict[Key, Device] = {}
        self.counters: Counters = {}

    @property
    def version(self) -> int:
        """Changes when a slice does."""
        return self._state.versions.get("ResourceSlice", 0)

    def read(self) -> None:
        """Take in the slices: of each pool the newest generation."""
        if self.version == self._read_at:
            return
        self._read_at = self.version
        self._by_node, self._shared, self.by_key, self.counters = {}, [], {}, {}
        slices = [s for _, s in sorted(self._state.kind("ResourceSlice").items()) if isinstance(s, ResourceSlice)]
        pools = [(_pool(one), one) for one in slices]
        newest: dict[tuple[str, str], int] = {}
        for (of, generation), _ in pools:
            newest[of] = max(newest.get(of, 0), generation)
        for (of, generation), one in pools:
            if generation == newest[of]:
                with suppress(*UNREADABLE):  # what cannot be read of a slice is not offered
                    self._take(one.spec, *of)

    def _take(self, spec: Mapping[str, Any], driver: str, pool: str) -> None:
        for told in spec.get("sharedCounters") or ():
            for name, amount in (told.get("counters") or {}).items():
                self.counters[driver, pool, str(told.get("name")), name] = _amount(amount)
        for data in spec.get("devices") or ():
            basic = data.get("basic") or data
            if basic.get("bindingConditions"):
                continue
            place = basic if spec.get("perDeviceNodeSelection") else spec
            device = read_device(driver, pool, data, place)
            self.by_key[device.key] = device
            if "nodeName" in device.place:
                self._by_node.setdefault(device.place["nodeName"], []).append(device)
            elif "nodeSelector" in device.place:
                selector = msgspec.convert(device.place["nodeSelector"], NodeSelector)
                self._shared.append((selector, [device]))
            elif place.get("allNodes"):
                self._shared.append((None, [device]))

    def present(self, rows: NodeRows) -> Iterator[list[Device]]:
        """Per row the devices that can be used there."""
        self.read()
        shared = []
        for selector, devices in self._shared:
            where = np.ones(len(rows), dtype=np.bool_) if selector is None else selected(selector, rows)
            shared.append((where, devices))
        for at, node in enumerate(rows.nodes):
            own = self._by_node.get(node.name, [])
            yield own + [d for where, devices in shared if where[at] for d in devices]


def read_device(driver: str, pool: str, data: Mapping[str, Any], place: Mapping[str, Any]) -> Device:
    """A device as its slice tells of it; *place* says where it can be used."""
    basic = data.get("basic") or data
    attributes: dict[tuple[str, str], Any] = {}
    for name, held in (basic.get("attributes") or {}).items():
        attributes[qualified(driver, name)] = _value(held)
    capacity = {qualified(driver, name): _amount(held) for name, held in (basic.get("capacity") or {}).items()}
    taints = tuple(
        Taint(str(t.get("key", "")), str(t.get("effect", "")), str(t.get("value", "")))
        for t in basic.get("taints") or ()
    )
    consumes = {
        (driver, pool, str(entry.get("counterSet")), name): _amount(amount)
        for entry in basic.get("consumesCounters") or ()
        for name, amount in (entry.get("counters") or {}).items()
    }
    where = {k: place[k] for k in ("nodeName", "nodeSelector") if place.get(k)}
    return Device(driver, pool, str(data.get("name")), attributes, capacity, taints, consumes, where)


def selected(selector: NodeSelector, rows: NodeRows) -> npt.NDArray[np.bool_]:
    """Per row: whether a node selector matches."""
    result = np.zeros(len(rows), dtype=np.bool_)
    for term in selector.node_selector_terms or ():
        result |= term_matches(term, rows)
    return result


def _pool(one: ResourceSlice) -> tuple[tuple[str, str], int]:
    pool = one.spec.get("pool")
    pool = pool if isinstance(pool, Mapping) else {}
    generation = pool.get("generation", 0)
    return (str(one.spec.get("driver")), str(pool.get("name"))), generation if isinstance(generation, int) else 0


def _value(held: Mapping[str, Any]) -> Any:
    """An attribute, written with its type; a version that is none is left out, as if it were not told."""
    if "version" in held:
        try:
            return version_key(str(held["version"]))
        except InvalidInput:
            return None
    return next(iter(held.values()), None)


def _amount(held: Any) -> int:
    """A capacity or counter in thousandths: written as ``{"value": …}``, or bare in the oldest version."""
    return quantity.milli(held.get("value", 0) if isinstance(held, Mapping) else held)
