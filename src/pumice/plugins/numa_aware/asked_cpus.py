"""What a task asks of the CPUs of a node, and what the kubelet would answer under each policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pumice.model import keys
from pumice.model.api import Container, PodSpec, ResourceList
from pumice.model.quantity import milli
from pumice.model.request import is_guaranteed
from pumice.model.task import Task, TaskClass
from pumice.plugins.numa_aware.cpus import CpuTopology

BEST_EFFORT, RESTRICTED, SINGLE = "best-effort", "restricted", "single-numa-node"
POLICIES: Final = ("none", BEST_EFFORT, RESTRICTED, SINGLE)


class Refused(NamedTuple):
    """Why a node does not take a container."""

    asked: int
    """CPUs."""
    zones: int
    """In how many NUMA nodes they would have to be; 0 where it is not a matter of these."""
    free: int
    """How many are free in the roomiest NUMA node, or in all."""


def policy_of(task: Task) -> str:
    """The policy that a task asks for; nothing where it does not care."""
    asked = task.annotations.get(keys.NUMA_POLICY, "")
    return "" if asked == "none" else asked


def cpus_of(klass: TaskClass) -> tuple[int, ...] | None:
    """CPUs that each container has for itself, 0 where it has none; None where the pod is not of class Guaranteed."""
    if "numa-aware" not in klass.memo:
        klass.memo["numa-aware"] = _cpus_of(klass.spec)
    found: tuple[int, ...] | None = klass.memo["numa-aware"]
    return found


def _cpus_of(spec: PodSpec) -> tuple[int, ...] | None:
    sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
    if not is_guaranteed(spec):
        return None
    asked = [milli(_amounts(c, "limits")["cpu"]) for c in (*sidecars, *(spec.containers or ()))]
    return tuple(amount // 1000 if amount % 1000 == 0 else 0 for amount in asked)


def _amounts(container: Container, which: str) -> ResourceList:
    found: ResourceList | None = getattr(container.resources, which) if container.resources is not None else None
    return found or {}


def admit(topology: CpuTopology, free: int, containers: Sequence[int]) -> int | Refused:
    """The CPUs that the containers of a task would get of the *free* ones, or why the kubelet would refuse one.

    A container wants the fewest NUMA nodes that hold as many CPUs as it asks for. *best-effort* takes more where it
    must, *restricted* refuses, *single-numa-node* takes no more than one.
    """
    free &= ~topology.reserved
    taken = 0
    for asked in containers:
        if not asked:
            continue
        inside, zones = topology.narrowest(asked, free)
        if not zones:
            return Refused(asked, 0, free.bit_count())
        fewest = topology.fewest_zones(asked)
        most = {RESTRICTED: fewest, SINGLE: 1 if fewest == 1 else 0}.get(topology.policy, zones)
        if zones > most:
            return Refused(asked, max(most, 1), topology.roomiest(free))
        own = topology.take(free & inside, asked)
        taken |= own
        free &= ~own
    return taken
