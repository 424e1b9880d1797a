"""The CPUs of a node: which belong together, and which a container would get. A set of CPUs is a whole number."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

from pumice.errors import InvalidInput, shown
from pumice.model.quantity import milli

MOST_CPUS: Final = 4096
"""Numbers of CPUs are below this: no machine has more, and what anybody writes costs no more."""
MOST_ZONES: Final = 16
"""A node has at most so many NUMA nodes: the kubelet refuses above 8, unless told otherwise."""
_PART: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def read_cpus(text: str) -> int:
    """The set that a text such as ``0-3,8`` names.

    :raises InvalidInput: it names none, or a number that is too large.
    """
    found = 0
    for part in text.split(",") if text else ():
        match = _PART.fullmatch(part.strip())
        first = int(match[1]) if match is not None else 1
        last = int(match[2] or match[1]) if match is not None else 0
        if not first <= last < MOST_CPUS:
            raise InvalidInput(f"CPUs {shown(text)}: must be numbers below {MOST_CPUS} and ranges such as 0-3,8")
        found |= (1 << last + 1) - (1 << first)
    return found


def write_cpus(cpus: int) -> str:
    """A set as text, such as ``0-3,8``."""
    parts: list[str] = []
    numbers = [*numbers_of(cpus), MOST_CPUS + 1]
    first = 0
    for at in range(1, len(numbers)):
        if numbers[at] != numbers[at - 1] + 1:
            low, high = numbers[first], numbers[at - 1]
            parts.append(str(low) if low == high else f"{low}-{high}")
            first = at
    return ",".join(parts)


def numbers_of(cpus: int) -> Iterator[int]:
    """The CPUs of a set, ascending."""
    while cpus:
        low = cpus & -cpus
        yield low.bit_length() - 1
        cpus ^= low


@dataclass(frozen=True)
class CpuTopology:
    """The data of a Numatopology object about a node."""

    cpu_policy: str
    policy: str
    """The topology manager's policy: none, best-effort, restricted or single-numa-node."""
    offered: int
    """The CPUs that nobody has for himself."""
    zones: tuple[int, ...]
    """The CPUs of each NUMA node, taken or not."""
    sockets: tuple[int, ...]
    cores: tuple[int, ...]
    reserved: int
    """CPUs that no container gets for itself."""

    @property
    def aligns(self) -> bool:
        """Report whether the node looks at the places of a container's CPUs at all."""
        return self.cpu_policy == "static" and self.policy not in ("", "none")

    @property
    def machine(self) -> Hashable:
        """All but what is offered: nodes that are alike in it give the same of the same free CPUs."""
        return self.cpu_policy, self.policy, self.zones, self.sockets, self.cores, self.reserved

    def spans(self, cpus: int) -> int:
        """In how many NUMA nodes these CPUs are."""
        return sum(1 for zone in self.zones if zone & cpus)

    def roomiest(self, free: int) -> int:
        """How many CPUs are free in the NUMA node with most of them."""
        return max(((zone & free).bit_count() for zone in self.zones), default=0)

    def fewest_zones(self, count: int) -> int:
        """In how few NUMA nodes so many CPUs could be on the empty machine; all of them where even these do not do."""
        sizes = sorted((zone.bit_count() for zone in self.zones), reverse=True)
        for n in range(1, len(sizes)):
            if sum(sizes[:n]) >= count:
                return n
        return len(sizes)

    def narrowest(self, count: int, free: int) -> tuple[int, int]:
        """(CPUs, NUMA nodes): the fewest NUMA nodes with so many free CPUs, of equal ones the lowest; (0, 0): none."""
        sizes = sorted(((zone & free).bit_count() for zone in self.zones), reverse=True)
        n = next((n for n in range(1, len(sizes) + 1) if sum(sizes[:n]) >= count), 0)
        for chosen in sorted(combinations(range(len(self.zones)), n), key=lambda zones: zones[::-1]) if n else ():
            inside = sum(self.zones[zone] for zone in chosen)
            if (inside & free).bit_count() >= count:
                return inside, n
        return 0, 0

    def take(self, free: int, count: int) -> int:
        """So many of the *free* CPUs: whole sockets first, then whole cores, then single threads.

        Among equals those of the socket, then of the core with fewest free ones, so that what is whole stays whole.
        """
        taken = 0
        for groups in (self.sockets, self.cores):
            for group in sorted(groups, key=lambda g: self._tightness(g, free)):
                size = group.bit_count()
                if group & free == group and size <= count - taken.bit_count():
                    taken |= group
                    free &= ~group
        for socket in sorted(self.sockets, key=lambda s: (not s & taken, (s & free).bit_count(), s)):
            cores = [core & socket for core in self.cores if core & socket & free]
            for core in sorted(cores, key=lambda c: ((c & free).bit_count(), c)):
                for cpu in numbers_of(core & free):
                    if taken.bit_count() == count:
                        return taken
                    taken |= 1 << cpu
        return taken

    def _tightness(self, group: int, free: int) -> tuple[int, int]:
        socket = next((s for s in self.sockets if s & group), 0)
        return (socket & free).bit_count(), group


def read_topology(spec: Mapping[str, Any]) -> CpuTopology:
    """The data in the spec of a Numatopology object.

    :raises InvalidInput: a part of it cannot be read; the message names it.
    """
    policies = _part(spec, "policies")
    zones: dict[int, int] = {}
    sockets: dict[int, int] = {}
    cores: dict[tuple[int, int], int] = {}
    for number, detail in _part(spec, "cpuDetail").items():
        cpu = read_cpus(str(number))
        if cpu.bit_count() != 1 or not isinstance(detail, Mapping):
            raise InvalidInput(f"cpuDetail: {shown(number)}: must be the number of a CPU with numa, socket and core")
        numa, socket, core = (_number(detail, name) for name in ("numa", "socket", "core"))
        zones[numa] = zones.get(numa, 0) | cpu
        sockets[socket] = sockets.get(socket, 0) | cpu
        cores[socket, core] = cores.get((socket, core), 0) | cpu
    if len(zones) > MOST_ZONES:
        raise InvalidInput(f"cpuDetail: has {len(zones)} NUMA nodes, and at most {MOST_ZONES} are possible")
    known = CpuTopology(
        str(policies.get("CPUManagerPolicy") or ""),
        str(policies.get("TopologyManagerPolicy") or ""),
        _offered(spec),
        tuple(zones[n] for n in sorted(zones)),
        tuple(sockets[n] for n in sorted(sockets)),
        tuple(cores[n] for n in sorted(cores)),
        0,
    )
    every = sum(known.zones)
    kept = max(-(-milli(_part(spec, "resReserved").get("cpu") or 0) // 1000), 0)
    return CpuTopology(
        *(known.cpu_policy, known.policy, known.offered & every, known.zones, known.sockets, known.cores),
        known.take(every, min(kept, every.bit_count())),
    )


_OF_MACHINES: Final = ("policies", "cpuDetail", "resReserved")


def read_like(spec: Mapping[str, Any], other: Mapping[str, Any], known: CpuTopology) -> CpuTopology | None:
    """The difference of a spec from the *other*, which is *known*, in offers alone; None without one.

    :raises InvalidInput: what it offers cannot be read.
    """
    if any(spec.get(part) != other.get(part) for part in _OF_MACHINES):
        return None
    return replace(known, offered=_offered(spec) & sum(known.zones))


def _offered(spec: Mapping[str, Any]) -> int:
    return read_cpus(str(_part(_part(spec, "numares"), "cpu").get("allocatable") or ""))


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name) or {}
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{name}: must be a mapping, got {shown(found)}")
    return found


def _number(detail: Mapping[str, Any], name: str) -> int:
    """A number that Go leaves out where it is 0."""
    found = detail.get(name, 0)
    if isinstance(found, bool) or not isinstance(found, int):
        raise InvalidInput(f"cpuDetail: {name}: must be a whole number, got {shown(found)}")
    return found
