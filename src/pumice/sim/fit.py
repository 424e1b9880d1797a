"""Which jobs can never run: those for which the whole cluster, empty, would be too small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pumice.model.api import NodeObject
from pumice.model.quantity import bytes_text
from pumice.model.resources import MEMORY, PODS, Resources, dim, dim_name, unit
from pumice.model.task import GPU_RESOURCES
from pumice.sim.jobs import GPU_MILLI, Demand, JobSpec, PodKind

Amounts = tuple[tuple[int, int], ...]


def capacity(obj: NodeObject) -> dict[int, int]:
    """The amounts of an empty node, by dimension, in ledger units; thousandths of GPUs stand under `GPU_MILLI`."""
    whole = {d: int(v) for d, v in Resources.parse(obj.status.allocatable).items()}
    whole[GPU_MILLI] = sum(whole.get(dim(name), 0) for name in GPU_RESOURCES)
    return whole


class Room:
    """The amounts of all nodes of the run together, without pods."""

    def __init__(self, nodes: Iterable[NodeObject]) -> None:
        shapes = Counter(tuple(sorted(capacity(obj).items())) for obj in nodes)
        self._shapes = [(dict(shape), count) for shape, count in shapes.items()]
        self._places: dict[Amounts, int] = {}

    def objection(self, spec: JobSpec) -> str:
        """Why a job can never run, or nothing. Only amounts count, not labels, taints or quotas."""
        if not self._shapes or spec.placed:
            return ""
        places = 0
        for kind in spec.kinds:
            places = self._places_for(kind.demand)
            if not places:
                return self._too_large(kind, kind.role if len(spec.kinds) > 1 else "")
        together = spec.min_available
        if len(spec.kinds) == 1:
            return _too_many("", together, places)
        for kind in spec.kinds:
            least = len(kind.names) if together >= spec.tasks else (spec.role_minimums or {}).get(kind.role, 0)
            places = self._places_for(kind.demand)
            if least > places:
                return _too_many(kind.role, least, places)
        return self._too_much(spec) if together >= spec.tasks else ""

    def _places_for(self, demand: Demand) -> int:
        """How many such pods fit on the empty nodes."""
        known = self._places.get(demand.held)
        if known is None:
            asked = [(d, v) for d, v in demand.held if v > 0]
            known = self._places[demand.held] = sum(
                count * min((shape.get(d, 0) // v for d, v in asked), default=10**9) for shape, count in self._shapes
            )
        return known

    def _too_large(self, kind: PodKind, role: str) -> str:
        asked = [(d, v) for d, v in kind.demand.held if v > 0]
        who = f"a pod of role {role}" if role else "a pod"
        for d, v in asked:
            most = max(shape.get(d, 0) for shape, _ in self._shapes)
            if v > most:
                return f"{who} asks for {_asks(d, v)}, the largest node has {_amount(d, most)}"
        named = ", ".join(_asks(d, v) for d, v in asked if d not in (PODS, GPU_MILLI))
        return f"{who} asks for {named}, which no node has together"

    def _too_much(self, spec: JobSpec) -> str:
        wanted: Counter[int] = Counter()
        for kind in spec.kinds:
            wanted.update({d: v * len(kind.names) for d, v in kind.demand.held})
        for d, v in wanted.items():
            have = sum(shape.get(d, 0) * count for shape, count in self._shapes)
            if v > have:
                return f"its {spec.tasks} pods ask for {_asks(d, v)} together, the cluster has {_amount(d, have)}"
        return ""


def _too_many(role: str, needed: int, places: int) -> str:
    if needed <= places:
        return ""
    who = f" of role {role}" if role else ""
    return f"it needs {needed:,} pods{who} together, the empty cluster has room for {places:,}"


def _asks(d: int, value: int) -> str:
    return f"{_amount(d, value)} of {'GPU' if d == GPU_MILLI else dim_name(d)}"


def _amount(d: int, value: int) -> str:
    if d == MEMORY:
        return bytes_text(value)
    return f"{value / (1000 if d == GPU_MILLI else unit(d)):g}"
