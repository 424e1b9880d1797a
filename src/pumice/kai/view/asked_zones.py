"""What a pod asks of NUMA zones: its containers one by one, and all of it together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pumice.errors import InvalidInput
from pumice.model import quantity
from pumice.model.api import Container, PodSpec
from pumice.model.request import is_guaranteed
from pumice.model.task import TaskClass

Needs: TypeAlias = Mapping[str, int]
"""Resource -> thousandths."""
_MEMO: Final = "kai.zones"


def is_native(name: str) -> bool:
    """Is it what the kubelet itself hands out of a zone, and only to pods of class Guaranteed?"""
    return name in ("cpu", "memory") or name.startswith("hugepages")


@dataclass(frozen=True, slots=True)
class ZonedRequest:
    """What the pods of a class ask for, with whole CPUs only."""

    guaranteed: bool
    whole: Needs
    together: tuple[Needs, ...]
    """Of containers that run side by side."""
    alone: tuple[Needs, ...]
    """Of containers that run before these, one after the other."""
    names: frozenset[str]


def zoned_request(klass: TaskClass) -> ZonedRequest:
    """What the tasks of a class ask of zones."""
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
