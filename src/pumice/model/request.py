"""From a pod's spec to what it asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pumice.errors import InvalidInput
from pumice.model.api import Container, PodSpec, ResourceList
from pumice.model.quantity import milli
from pumice.model.resources import CPU, MEMORY, PODS, Number, Resources, dim_name

_DEFAULT_CPU = 100
_DEFAULT_MEMORY = 200 * 1024 * 1024


class PodRequest(NamedTuple):
    """The requests of a pod, and the cpu and memory that scorers assume for containers without requests."""

    requests: Resources
    nonzero_cpu: int
    nonzero_memory: int


_OF_ONE_CARD = "volcano.sh/vgpu-memory-percentage"
"""Says how much of each card is meant: no amount of which a node has some."""


def _requests_of(container: Container) -> ResourceList:
    asked = (container.resources.requests if container.resources else None) or {}
    return {name: amount for name, amount in asked.items() if name != _OF_ONE_CARD} if _OF_ONE_CARD in asked else asked


def _sum_containers(spec: PodSpec, *, assume: bool) -> dict[int, Number]:
    """Largest of: all regular and sidecar containers together, or any init step with the sidecars before it."""

    def amounts(container: Container) -> dict[int, Number]:
        out = dict(Resources.parse(_requests_of(container)).items())
        if assume:
            out.setdefault(CPU, _DEFAULT_CPU)
            out.setdefault(MEMORY, _DEFAULT_MEMORY)
        return out

    def add(into: dict[int, Number], what: dict[int, Number]) -> None:
        for d, v in what.items():
            into[d] = into.get(d, 0) + v

    regular: dict[int, Number] = {}
    for container in spec.containers or ():
        add(regular, amounts(container))
    sidecars: dict[int, Number] = {}
    largest: dict[int, Number] = {}
    for container in spec.init_containers or ():
        own = amounts(container)
        if container.restart_policy == "Always":
            add(regular, own)
            add(sidecars, own)
            step = dict(sidecars)
        else:
            step = dict(own)
            add(step, sidecars)
        for d, v in step.items():
            largest[d] = max(largest.get(d, 0), v)
    for d, v in largest.items():
        regular[d] = max(regular.get(d, 0), v)
    return regular


def _pod_level(dims: Iterable[int]) -> set[int]:
    """Pod-level requests override cpu, memory and hugepages only."""
    return {d for d in dims if d in (CPU, MEMORY) or dim_name(d).startswith("hugepages-")}


def asked_by(spec: PodSpec) -> PodRequest:
    """The requests of a pod: containers, init containers, sidecars, pod-level requests, overhead and one pod slot.

    :raises InvalidInput: a quantity that is none.
    """
    total = _sum_containers(spec, assume=False)
    assumed = _sum_containers(spec, assume=True)
    if spec.resources is not None and spec.resources.requests:
        own = Resources.parse(spec.resources.requests)
        for d in _pod_level(d for d, _ in own.items()):
            total[d] = assumed[d] = own.get(d)
    for d, v in Resources.parse(spec.overhead).items():
        total[d] = total.get(d, 0) + v
        assumed[d] = assumed.get(d, 0) + v
    total[PODS] = total.get(PODS, 0) + 1
    for d, v in total.items():
        if v < 0:
            raise InvalidInput(f"request {dim_name(d)}: must not be negative, got {v}")
    return PodRequest(Resources(total), int(assumed.get(CPU, 0)), int(assumed.get(MEMORY, 0)))


def is_guaranteed(spec: PodSpec) -> bool:
    """Report whether a pod is of class Guaranteed: every container has limits of CPU and memory, and asks for as
    much."""
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    return bool(containers) and all(_asks_for_its_limits(c) for c in containers)


def _asks_for_its_limits(container: Container) -> bool:
    """A missing request is the limit."""
    given = container.resources
    limits, requests = (given.limits if given else None) or {}, (given.requests if given else None) or {}
    return all(
        name in limits and 0 < milli(limits[name]) == milli(requests.get(name, limits[name]))
        for name in ("cpu", "memory")
    )
