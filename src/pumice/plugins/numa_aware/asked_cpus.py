"""A task's request for the CPUs of a node, and the kubelet's answer under each policy."""

from __future__ import annotations

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


class AskedCpus(NamedTuple):
    """CPUs that each container of a pod has for itself, 0 where it has none."""

    passing: tuple[int, ...]
    """The CPUs of init containers, which later containers use again."""
    lasting: tuple[int, ...]
    """The CPUs of containers and sidecars."""


def policy_of(task: Task) -> str:
    """The policy that a task asks for; nothing where it does not care."""
    asked = task.annotations.get(keys.NUMA_POLICY, "")
    return "" if asked == "none" else asked


def cpus_of(klass: TaskClass) -> AskedCpus | None:
    """The requests of a pod's containers; None if it is not of class Guaranteed."""
    if "numa-aware" not in klass.memo:
        klass.memo["numa-aware"] = _cpus_of(klass.spec)
    found: AskedCpus | None = klass.memo["numa-aware"]
    return found


def _cpus_of(spec: PodSpec) -> AskedCpus | None:
    sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
    passing = [c for c in spec.init_containers or () if c.restart_policy != "Always"]
    if not is_guaranteed(spec):
        return None
    return AskedCpus(
        tuple(_whole_cpus(c) for c in passing), tuple(_whole_cpus(c) for c in (*sidecars, *(spec.containers or ())))
    )


def _whole_cpus(container: Container) -> int:
    amount = milli(_amounts(container, "limits")["cpu"])
    return amount // 1000 if amount % 1000 == 0 else 0


def _amounts(container: Container, which: str) -> ResourceList:
    found: ResourceList | None = getattr(container.resources, which) if container.resources is not None else None
    return found or {}


def admit(topology: CpuTopology, free: int, asked: AskedCpus) -> int | Refused:
    """The CPUs that the containers of a task would get of the *free* ones, or why the kubelet would refuse one.

    A container wants the fewest NUMA nodes that hold as many CPUs as it asks for. *best-effort* takes more where it
    must, *restricted* refuses, *single-numa-node* takes no more than one. Init containers leave theirs to the others.
    """
    free &= ~topology.reserved
    for count in asked.passing:
        found = _taken(topology, free, count)
        if isinstance(found, Refused):
            return found
    taken = 0
    for count in asked.lasting:
        found = _taken(topology, free & ~taken, count)
        if isinstance(found, Refused):
            return found
        taken |= found
    return taken


def _taken(topology: CpuTopology, free: int, count: int) -> int | Refused:
    """The CPUs that one container would get."""
    if not count:
        return 0
    inside, zones = topology.narrowest(count, free)
    if not zones:
        return Refused(count, 0, free.bit_count())
    fewest = topology.fewest_zones(count)
    most = {RESTRICTED: fewest, SINGLE: 1 if fewest == 1 else 0}.get(topology.policy, zones)
    if zones > most:
        return Refused(count, max(most, 1), topology.roomiest(free))
    return topology.take(free & inside, count)
