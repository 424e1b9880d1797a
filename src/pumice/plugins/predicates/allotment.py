"""Which free devices serve the requests of claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

from pumice.engine.matching import untolerated
from pumice.model.api import ResourceClaim, Toleration
from pumice.model.mapping import plain
from pumice.plugins.predicates.offered_device import Counter, Device

Key: TypeAlias = tuple[str, str, str]
"""Driver, pool and name of a device."""
Counters: TypeAlias = dict[Counter, int]
"""The rest of the counters that devices share."""
TRIES: Final = 10_000
"""How many devices and combinations of alternatives are tried on one node before it is given up: some 30 ms."""


@dataclass(slots=True)
class WantedDevices:
    """One way to serve a request: how many devices (all that match, if *every*) that pass."""

    name: str
    """The request, or ``request/alternative``."""
    count: int
    every: bool
    passes: Callable[[Device], bool]
    tolerations: Sequence[Toleration] = ()
    admin: bool = False
    """Access beside those who use the devices: they need not be free."""
    least: Mapping[str, int] = field(default_factory=dict)
    """Capacity that a device must have; it is given whole."""
    config: Sequence[Mapping[str, Any]] = ()
    """The device class's configuration for the driver."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """The data of the request in the results, for later decisions by the claim alone."""

    def takes(self, device: Device) -> bool:
        """Report whether a device passes."""
        if not self.passes(device) or untolerated(self.tolerations, device.taints) is not None:
            return False
        return all(device.capacity.get(qualified(device.driver, k), 0) >= v for k, v in self.least.items())


@dataclass(slots=True)
class AskedDevices:
    """The requests of a claim: per request the ways to serve it, best first."""

    claim: ResourceClaim
    requests: Sequence[Sequence[WantedDevices]]


class Given(NamedTuple):
    """A device that serves a request."""

    request: WantedDevices
    device: Device


def choose(
    asked: Sequence[AskedDevices],
    devices: Sequence[Device],
    taken: set[Key],
    counters: Counters,
    spend: Callable[[int], None] | None = None,
) -> dict[str, tuple[Given, ...]] | None:
    """Free devices for every request of every claim, the first that pass; None when there is no way to serve all.

    Among the alternatives of requests the first combination that can be served counts. *spend* is told what was tried
    in vain.
    """
    used = {d.key for d in devices} & taken
    same = [_constraints(one.claim) for one in asked]
    tries = TRIES
    slots = [[_Way(n, way, devices, used) for way in ways] for n, one in enumerate(asked) for ways in one.requests]
    for ways in product(*([way for way in choices if way.possible] for choices in slots)):
        filling = _Filling(ways, devices, dict(counters), same, tries - len(ways))
        if filling.fill():
            return {
                one.claim.key: tuple(given for owner, given in filling.given if owner == n)
                for n, one in enumerate(asked)
            }
        tries = filling.tries
        if tries <= 0:
            break
    if spend is not None:
        spend(TRIES - tries)
    return None


def _constraints(claim: ResourceClaim) -> list[tuple[set[str], tuple[str, str]]]:
    """Which requests of a claim (none: all) must get devices of which equal attribute."""
    return [
        (set(x.get("requests") or ()), qualified("", str(x["matchAttribute"])))
        for x in (claim.spec.get("devices") or {}).get("constraints") or ()
        if x.get("matchAttribute")
    ]


class _Way:
    """One way to serve a request of a claim: the places of the devices that pass and are free."""

    __slots__ = ("count", "free", "owner", "possible", "wanted")

    def __init__(self, owner: int, wanted: WantedDevices, devices: Sequence[Device], used: set[Key]) -> None:
        self.owner, self.wanted = owner, wanted
        passing = [at for at, d in enumerate(devices) if wanted.takes(d)]
        self.free = passing if wanted.admin else [at for at in passing if devices[at].key not in used]
        self.count = len(passing) if wanted.every else wanted.count
        self.possible = len(self.free) >= max(self.count, 1)


class _Filling:
    """Devices for slots, tried in order and taken back where needed. A slot is a claim's number and a request."""

    def __init__(
        self,
        ways: Sequence[_Way],
        devices: Sequence[Device],
        left: Counters,
        same: Sequence[Sequence[tuple[set[str], tuple[str, str]]]],
        tries: int,
    ) -> None:
        self._devices, self._left, self._same = devices, left, same
        self._slots: list[tuple[int, WantedDevices]] = []
        self._passing: list[list[int]] = []
        """Per slot the places of the devices that pass and are free."""
        self._still: list[int] = []
        """Per slot how many of its request are to be served, itself included."""
        self._at: list[int] = []
        self.tries = tries
        self.given: list[tuple[int, Given]] = []
        for way in ways:
            self._slots += [(way.owner, way.wanted)] * way.count
            self._passing += [way.free] * way.count
            self._still += range(way.count, 0, -1)

    def fill(self) -> bool:
        """Serve the slots that are left; False, with nothing changed, if there is no way."""
        n = len(self._at)
        if n == len(self._slots):
            return True
        (owner, slot), passing, still = self._slots[n], self._passing[n], self._still[n]
        again = n > 0 and self._slots[n - 1][1] is slot
        for nth, at in enumerate(passing):
            if len(passing) - nth < still or self.tries <= 0:
                return False
            # equal slots take devices in their order, so that no set is tried twice
            if at in self._at or (again and at < self._at[-1]):
                continue
            device = self._devices[at]
            if not self._agrees(owner, slot, device) or not (slot.admin or _suffices(self._left, device)):
                continue
            self.tries -= 1
            self._at.append(at)
            self.given.append((owner, Given(slot, device)))
            _consume(self._left, device, 0 if slot.admin else 1)
            if self.fill():
                return True
            _consume(self._left, device, 0 if slot.admin else -1)
            self.given.pop()
            self._at.pop()
        return False

    def _agrees(self, owner: int, slot: WantedDevices, device: Device) -> bool:
        """Report whether the device has the attributes of those that it must be equal to."""
        for names, key in self._same[owner]:
            if not _named(slot, names):
                continue
            value = device.attributes.get(key)
            if value is None:
                return False
            others = (given for other, given in self.given if other == owner and _named(given.request, names))
            if any(given.device.attributes.get(key) != value for given in others):
                return False
        return True


def _named(slot: WantedDevices, names: set[str]) -> bool:
    """Report whether the request of a slot is among *names*. No names mean all."""
    return not names or slot.name in names or slot.name.partition("/")[0] in names


def _suffices(left: Counters, device: Device) -> bool:
    return all(left.get(counter, 0) >= amount for counter, amount in device.consumes.items())


def _consume(left: Counters, device: Device, times: int) -> None:
    for counter, amount in device.consumes.items():
        left[counter] = left.get(counter, 0) - times * amount


def counters_left(totals: Counters, users: Sequence[Device]) -> Counters:
    """The rest of shared counters beside the devices in use."""
    left = dict(totals)
    for device in users:
        _consume(left, device, 1)
    return left


def allocation_of(claim: ResourceClaim, given: Sequence[Given]) -> dict[str, Any]:
    """The allocation to write into a claim's status: devices, what their drivers are told, where it can be used."""
    results, config = [], []
    for request, device in given:
        result: dict[str, Any] = {"request": request.name, "driver": device.driver, "pool": device.pool}
        result["device"] = device.name
        results.append({**result, **request.told})
    served = {g.request.name: g.request for g in given}
    for name, request in served.items():
        config += [{"source": "FromClass", "requests": [name], **line} for line in request.config]
    names = set(served) | {name.partition("/")[0] for name in served}
    for line in (claim.spec.get("devices") or {}).get("config") or ():
        if not line.get("requests") or names & set(line["requests"]):
            config.append({"source": "FromClaim", **line})
    devices = {"results": results, **({"config": config} if config else {})}
    where = _node_selector([g.device for g in given])
    allocation: dict[str, Any] = plain({"devices": devices, **({"nodeSelector": where} if where is not None else {})})
    return allocation


def _node_selector(devices: Sequence[Device]) -> dict[str, Any] | None:
    """The nodes on which all the devices can be used; None: all nodes. One term, as the API demands."""
    fields: list[Any] = []
    lines: list[Any] = []
    for device in devices:
        if "nodeName" in device.place:
            on = {"key": "metadata.name", "operator": "In", "values": [device.place["nodeName"]]}
            return {"nodeSelectorTerms": [{"matchFields": [on]}]}
        for term in (device.place.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
            fields += [line for line in term.get("matchFields") or () if line not in fields]
            lines += [line for line in term.get("matchExpressions") or () if line not in lines]
    term = {**({"matchFields": fields} if fields else {}), **({"matchExpressions": lines} if lines else {})}
    return {"nodeSelectorTerms": [term]} if term else None


def qualified(driver: str, name: str) -> tuple[str, str]:
    """Domain and name of an attribute; the driver's own have none written."""
    domain, _, rest = name.rpartition("/")
    return domain or driver, rest
