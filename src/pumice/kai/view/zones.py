"""NUMA zones: what a pod asks of them, what the kubelet would give it, and what a session leaves of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final, TypeAlias

from pumice.errors import InvalidInput
from pumice.model import quantity
from pumice.model.api import Container, NodeResourceTopology, PodSpec
from pumice.model.request import is_guaranteed
from pumice.model.task import TaskClass

Needs: TypeAlias = Mapping[str, int]
"""Resource -> thousandths."""
_MEMO: Final = "kai.zones"


def is_native(name: str) -> bool:
    """Report whether the kubelet itself hands it out of a zone, and only to pods of class Guaranteed."""
    return name in ("cpu", "memory") or name.startswith("hugepages")


@dataclass(frozen=True, slots=True)
class ZonedRequest:
    """The requests of the pods of a class, with whole CPUs only."""

    guaranteed: bool
    whole: Needs
    together: tuple[Needs, ...]
    """The requests of containers that run side by side."""
    alone: tuple[Needs, ...]
    """The requests of containers that run before these, one after the other."""
    names: frozenset[str]


def zoned_request(klass: TaskClass) -> ZonedRequest:
    """The requests of a class's tasks for zones."""
    known: ZonedRequest | None = klass.memo.get(_MEMO)
    if known is None:
        known = klass.memo[_MEMO] = _read(klass.spec)
    return known


def _read(spec: PodSpec) -> ZonedRequest:
    guaranteed = is_guaranteed(spec)
    sidecars: list[Needs] = []
    alone: list[Needs] = []
    peak: dict[str, int] = {}
    for container in spec.init_containers or ():
        needs = _needs(container, guaranteed)
        if container.restart_policy == "Always":
            sidecars.append(needs)
            continue
        alone.append(needs)
        for name, amount in _sum((needs, *sidecars)).items():
            peak[name] = max(peak.get(name, 0), amount)
    together = (*sidecars, *(_needs(c, guaranteed) for c in spec.containers or ()))
    running = _sum(together)
    whole = {name: max(running.get(name, 0), peak.get(name, 0)) for name in {**running, **peak}}
    for name, text in (spec.overhead or {}).items():
        if name != "cpu":
            whole[name] = whole.get(name, 0) + _milli(text)
    return ZonedRequest(guaranteed, whole, together, tuple(alone), frozenset(n for n, v in whole.items() if v > 0))


def _needs(container: Container, guaranteed: bool) -> Needs:
    given = container.resources
    asked = {**((given.limits if given else None) or {}), **((given.requests if given else None) or {})}
    needs = {name: _milli(text) for name, text in asked.items()}
    if "cpu" in needs and (not guaranteed or needs["cpu"] % 1000):
        needs["cpu"] = 0
    return needs


def _sum(parts: Iterable[Needs]) -> dict[str, int]:
    out: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            out[name] = out.get(name, 0) + amount
    return out


def _milli(text: str | int | float) -> int:
    try:
        return quantity.milli(text)
    except InvalidInput:
        return 0


NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
POLICIES: Final = (NONE, BEST_EFFORT, RESTRICTED, SINGLE)
Amounts: TypeAlias = dict[str, int]
"""Resource -> thousandths."""
ZonePlacement: TypeAlias = tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
"""Zone and what is taken of it, in order."""
MOST_ZONES: Final = 16
"""A node that tells of more is taken to tell of none: the kubelet by itself aligns to eight at most."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}$", re.ASCII)


@dataclass(slots=True)
class NumaZone:
    """One zone of a node."""

    name: str
    allocatable: Amounts
    available: Amounts


@dataclass(slots=True)
class ZonedNode:
    """The zones of a node, by number, and how the kubelet aligns pods to them."""

    policy: str
    by_pod: bool
    """Whether a pod is aligned as a whole, rather than each container."""
    zones: list[NumaZone]
    ignored: frozenset[str] = frozenset()
    reported: frozenset[str] = field(init=False)
    """Resources that some zone has."""

    def __post_init__(self) -> None:
        names = {name for z in self.zones for name in (*z.allocatable, *z.available)}
        self.reported = frozenset(names - self.ignored)

    def aligns(self, asked: ZonedRequest) -> bool:
        """Report whether the kubelet looks for zones for such a pod at all."""
        return self.policy != NONE and self.concerns(asked)

    def concerns(self, asked: ZonedRequest) -> bool:
        """Report whether the pod has CPUs of its own, or devices of a zone."""
        return asked.guaranteed or any(not is_native(name) for name in self.reported & asked.names)

    def admits(self, asked: ZonedRequest) -> bool:
        """Report whether the kubelet would take the pod."""
        return self.policy not in (RESTRICTED, SINGLE) or not self.concerns(asked) or self.place(asked) is not None

    def place(self, asked: ZonedRequest) -> ZonePlacement | None:
        """The zones that the pod would get, and the amounts; None if it cannot be aligned."""
        aware = self.reported if asked.guaranteed else frozenset(n for n in self.reported if not is_native(n))
        free = [dict(z.available) for z in self.zones]
        if not self.by_pod and any(self._fit(_part(unit, aware), free) is None for unit in asked.alone):
            return None
        got: dict[int, Amounts] = {}
        for unit in (asked.whole,) if self.by_pod else asked.together:
            needed = _part(unit, aware)
            order = self._fit(needed, free)
            if order is None:
                return None
            for name, amount in needed.items():
                for at in order:
                    taken = min(amount, max(free[at].get(name, 0), 0))
                    if taken:
                        free[at][name] -= taken
                        mine = got.setdefault(at, {})
                        mine[name] = mine.get(name, 0) + taken
                        amount -= taken
        return tuple((at, tuple(sorted(got[at].items()))) for at in sorted(got))

    def _fit(self, needed: Mapping[str, int], free: Sequence[Mapping[str, int]]) -> Sequence[int] | None:
        """The zones that serve a unit, in order of use; None without any."""
        if not needed:
            return ()
        everywhere = range(len(free))
        if self.policy == BEST_EFFORT:
            return _greedily(needed, free)
        width = 1
        if self.policy == RESTRICTED:
            widths = {self._width(name, amount) for name, amount in needed.items()}
            if len(widths) > 1 or 0 in widths:
                return None
            width = widths.pop()
        for some in combinations(everywhere, width):
            if all(sum(free[at].get(name, 0) for at in some) >= amount for name, amount in needed.items()):
                return some
        return None

    def _width(self, name: str, amount: int) -> int:
        """The fewest zones that could ever hold so much; 0 where all of them cannot."""
        for n, z in enumerate(sorted((z.allocatable.get(name, 0) for z in self.zones), reverse=True), start=1):
            amount -= z
            if amount <= 0:
                return n
        return 0

    def book(self, placement: ZonePlacement, sign: int) -> None:
        """Take (+1) what a pod has of the zones, or give it back (-1)."""
        for at, amounts in placement:
            free = self.zones[at].available
            for name, amount in amounts:
                if name in free:
                    free[name] -= sign * amount

    # -- what is told of pods -----------------------------------------------------------------------------------------
    def read(self, record: object) -> ZonePlacement | None:
        """A placement as KAI writes it down; None for what is none, or names a zone that does not exist."""
        if not isinstance(record, list) or not record:
            return None
        numbers = {z.name: at for at, z in enumerate(self.zones)}
        got: list[tuple[int, tuple[tuple[str, int], ...]]] = []
        for entry in record:
            said = entry.get("amount") if isinstance(entry, Mapping) else None
            if not isinstance(said, Mapping) or entry.get("zone") not in numbers:
                return None
            try:
                amounts = sorted((str(name), quantity.milli(text)) for name, text in said.items())
            except (InvalidInput, TypeError):
                return None
            got.append((numbers[entry["zone"]], tuple(amounts)))
        return tuple(got)

    def written(self, placement: ZonePlacement) -> list[dict[str, Any]]:
        """A placement as KAI writes it down."""
        return [
            {"zone": self.zones[at].name, "amount": {name: quantity.milli_text(v) for name, v in amounts}}
            for at, amounts in placement
        ]


def _part(unit: Mapping[str, int], aware: frozenset[str]) -> Amounts:
    return {name: amount for name, amount in unit.items() if amount > 0 and name in aware}


def _greedily(needed: Mapping[str, int], free: Sequence[Mapping[str, int]]) -> Sequence[int] | None:
    """Zones one by one, each time the one that has most of what is still missing."""
    rest, picked = dict(needed), list[int]()
    while any(rest.values()):
        gains = [
            (sum(_counted(name, min(amount, max(free[at].get(name, 0), 0))) for name, amount in rest.items()), -at)
            for at in range(len(free))
            if at not in picked
        ]
        most, minus = max(gains, default=(0, 0))
        if not most:
            return None
        picked.append(-minus)
        rest = {name: amount - min(amount, max(free[-minus].get(name, 0), 0)) for name, amount in rest.items()}
    return picked


def _counted(name: str, amount: int) -> int:
    """An amount where those of several resources are added up: CPUs in thousandths, all else in whole units."""
    return amount if name == "cpu" else amount // 1000


def zoned(told: NodeResourceTopology, offered: frozenset[str], ignored: frozenset[str]) -> ZonedNode | None:
    """The zones of a node as an object tells them, of resources that some node offers; None where it tells of none."""
    said = {str(a.get("name")): str(a.get("value")) for a in told.attributes or ()}
    policy, by_pod = said.get("topologyManagerPolicy", ""), said.get("topologyManagerScope", "") == "pod"
    if not policy and told.topology_policies:
        policy, by_pod = _old_policy(told.topology_policies[0])
    zones = [
        NumaZone(str(z.get("name", "")), _amounts(z, "allocatable", offered), _amounts(z, "available", offered))
        for z in told.zones or ()
        if z.get("type") == "Node"
    ]
    zones.sort(key=lambda z: _number(z.name))
    if not 0 < len(zones) <= MOST_ZONES:
        return None
    return ZonedNode(policy if policy in POLICIES else NONE, by_pod, zones, ignored)


def _old_policy(text: str) -> tuple[str, bool]:
    """The deprecated way to tell policy and scope in one word, such as ``SingleNUMANodePodLevel``."""
    names = {"BestEffort": BEST_EFFORT, "Restricted": RESTRICTED, "SingleNUMANode": SINGLE}
    for name, policy in names.items():
        if text.startswith(name):
            return policy, text.endswith("PodLevel")
    return NONE, False


def _number(name: str) -> tuple[int, int, str]:
    found = _NUMBER.search(name)
    return (0, int(found[0]), name) if found is not None else (1, 0, name)


def _amounts(zone: Mapping[str, Any], key: str, offered: frozenset[str]) -> Amounts:
    return {name: amount for name, amount in _told(zone, key) if name in offered}


def _told(zone: Mapping[str, Any], key: str) -> Iterator[tuple[str, int]]:
    for entry in zone.get("resources") or ():
        try:
            yield str(entry["name"]), quantity.milli(entry[key])
        except (KeyError, TypeError, InvalidInput):
            continue
