"""resource-strategy-fit: fill up nodes by some resources and spread by others."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.engine.views import same_class
from pumice.errors import InvalidInput
from pumice.framework.arguments import Argument, Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model import keys
from pumice.model.reason import Code, reason_id
from pumice.model.resources import CPU, MEMORY, dim, dim_name
from pumice.model.task import Task

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Reasons = npt.NDArray[np.int32]

_TYPE_NOTE = keys.SCORING_TYPE
_WEIGHT_NOTE = keys.SCORING_WEIGHT
_MOST = "MostAllocated"
_LEAST = "LeastAllocated"


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one resource is scored: filled up (*most*) or kept free, with what weight."""

    most: bool
    weight: int


def _section(arguments: Arguments, key: str) -> Mapping[str, Any]:
    value = arguments.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"resource-strategy-fit: argument {key}: must be a mapping, got {value!r}")
    return value


def _whole(section: Mapping[str, Any], where: str, key: str, default: int) -> int:
    value = section.get(key, default)
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"resource-strategy-fit: argument {where}.{key}: must be a whole number, got {value!r}"
        ) from None
    return default if number < 0 else number


def _strategies(arguments: Arguments, key: str, default: Mapping[str, Strategy]) -> Mapping[str, Strategy]:
    given = _section(arguments, key)
    if not given:
        return default
    out = {}
    for name, wanted in given.items():
        where = f"resources.{name}"
        if not isinstance(wanted, Mapping):
            raise InvalidInput(f"resource-strategy-fit: argument {where}: must be a mapping, got {wanted!r}")
        kind = wanted.get("type", _LEAST)
        if kind not in (_MOST, _LEAST):
            raise InvalidInput(
                f"resource-strategy-fit: argument {where}.type: must be {_MOST} or {_LEAST}, got {kind!r}"
            )
        out[str(name)] = Strategy(kind == _MOST, _whole(wanted, where, "weight", 1))
    return out


def _proportions(arguments: Arguments, key: str, _: object) -> list[tuple[int, float, float]]:
    """(resource, milli cpu and MB of memory to keep per thousandth of it) for each listed resource."""
    section = _section(arguments, key)
    if not section.get("enable"):
        return []
    rates = section.get("resourceProportion") or {}
    out = []
    for name in (n.strip() for n in str(section.get("resources") or "").split(",")):
        if name:
            out.append((dim(name), _rate(rates, f"{name}.cpu"), _rate(rates, f"{name}.memory")))
    return out


def _rate(rates: Mapping[str, Any], key: str) -> float:
    value = rates.get(key, 1)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"resource-strategy-fit: argument proportional.resourceProportion.{key}: must be a number, got {value!r}"
        ) from None
    return 1.0 if number < 0 else number


def _scarce(arguments: Arguments, key: str, _: object) -> ScarceScore:
    return ScarceScore(_section(arguments, key))


class ScarceScore:
    """The ``sra`` part: the more scarce resources a node has that the task does not ask for, the lower its score."""

    def __init__(self, section: Mapping[str, Any]) -> None:
        on = bool(section.get("enable"))
        self.weight = _whole(section, "sra", "weight", 1) if on else 0
        weights = section.get("resourceWeight") or {}
        names = [n.strip() for n in str(section.get("resources") or "").split(",") if n.strip()]
        self._weights = {dim(n): _whole(weights, "sra.resourceWeight", n, 1) for n in names}

    def score(self, task: Task, rows: NodeRows) -> Floats:
        """0 where the node lacks something the task asks for, else by the scarce resources that are there."""
        whole = sum(self._weights.values())
        if not whole:
            return np.zeros(len(rows))
        there = np.zeros(len(rows))
        for d, weight in self._weights.items():
            there += weight * (rows.allocatable[d] > 0)
        score = (1.0 - there / whole) * (100 * self.weight)
        for d, request in task.klass.items:
            if request:
                score = np.where(rows.allocatable[d] > 0, score, 0.0)
        return score


DEFAULT: Final[Mapping[str, Strategy]] = {"cpu": Strategy(False, 1), "memory": Strategy(False, 1)}
NOTHING_SCARCE: Final = ScarceScore({})


class ResourceStrategyFit(Plugin):
    """Scores nodes by resource: ``MostAllocated`` fills them up, ``LeastAllocated`` keeps room.

    A pod's annotations override ``resources``.
    """

    name = "resource-strategy-fit"
    persistent = True
    weight = Argument(10, "Weight of the score.", name="resourceStrategyFitWeight", minimum=0, lenient=True)
    resources = Argument(
        DEFAULT,
        "Name or `prefix*` to `type` (`MostAllocated` or `LeastAllocated`) and `weight`; without it cpu and memory, "
        "`LeastAllocated`.",
        values="a mapping",
        read=_strategies,
    )
    scarce = Argument(
        NOTHING_SCARCE,
        "Keeps tasks off nodes with scarce resources that they do not ask for: `enable`, `resources` (comma text), "
        "`weight`, `resourceWeight` (name to weight, 1).",
        name="sra",
        values="a mapping",
        read=_scarce,
    )
    shares = Argument[list[tuple[int, float, float]]](
        [],
        "Keeps cpu and memory for the idle part of a scarce resource: `enable`, `resources` (comma text), "
        "`resourceProportion` (`<name>.cpu`, `<name>.memory`; 1).",
        name="proportional",
        values="a mapping",
        read=_proportions,
    )

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_batch_node_order_fn(self.name, self._score, scope=Scope.NODE, key=_notes)
        if self.scarce.weight:
            ssn.add_batch_node_order_fn(self.name, self.scarce.score, scope=Scope.STATIC, key=same_class)
        if self.shares:
            ssn.add_batch_predicate_fn(self.name, self._keeps_shares, scope=Scope.NODE, key=same_class)

    # -- score ----------------------------------------------------------------------------------------------------
    def _score(self, task: Task, rows: NodeRows) -> Floats:
        strategies = _own(task) or self.resources
        total = np.zeros(len(rows))
        over = np.zeros(len(rows), dtype=np.bool_)
        divisor = 0
        for d, request in task.klass.items:
            strategy = _find(strategies, dim_name(d)) if request else None
            if strategy is None:
                continue
            divisor += strategy.weight
            if not strategy.weight:
                continue
            offered = rows.allocatable[d]
            after = rows.used[d] + request
            there = offered > 0
            part = after if strategy.most else offered - after
            total += np.where(there, part * strategy.weight / np.where(there, offered, 1), 0.0)
            over |= there & (after > offered)
        if not divisor:
            return np.zeros(len(rows))
        total = total / divisor * (100 * self.weight)
        total[over] = 0.0
        return total

    # -- proportional -----------------------------------------------------------------------------------------------
    def _keeps_shares(self, task: Task, rows: NodeRows) -> Reasons:
        """The task leaves enough cpu and memory for the idle part of each scarce resource, or asks for one itself."""
        requests = task.klass.requests
        out = np.zeros(len(rows), dtype=np.int32)
        if any(requests.get(d) > 0 for d, _, _ in self.shares):
            return out
        idle = rows.idle
        cpu = idle[CPU] - int(requests.get(CPU))
        memory = idle[MEMORY] - int(requests.get(MEMORY))
        for d, cpu_rate, memory_rate in reversed(self.shares):
            free = idle[d]
            short = (rows.allocatable[d] > 0) & ((cpu < free * cpu_rate) | (memory < free * (memory_rate * 10**6)))
            text = f"proportional of resource {dim_name(d)} check failed"
            out[short] = reason_id(self.name, text, Code.UNRESOLVABLE)
        return out


def _notes(task: Task) -> Hashable:
    notes = task.annotations
    kind = notes.get(_TYPE_NOTE)
    return None if kind is None else (kind, notes.get(_WEIGHT_NOTE))


def _own(task: Task) -> Mapping[str, Strategy] | None:
    """The strategies that a pod's annotations ask for; None when they ask for none or cannot be read."""
    notes = task.annotations
    kind = notes.get(_TYPE_NOTE)
    if kind not in (_MOST, _LEAST):
        return None
    try:
        weights = json.loads(notes.get(_WEIGHT_NOTE) or "")
    except ValueError:
        return None
    if not isinstance(weights, dict) or not all(type(w) is int and w >= 0 for w in weights.values()):
        return None
    return {name: Strategy(kind == _MOST, weight) for name, weight in sorted(weights.items())}


def _find(strategies: Mapping[str, Strategy], name: str) -> Strategy | None:
    """The strategy of a resource: its own name first, then the longest prefix."""
    exact = strategies.get(name)
    if exact is not None:
        return exact
    prefixes = [p for p in strategies if p.endswith("*") and name.startswith(p[:-1])]
    return strategies[max(prefixes, key=len)] if prefixes else None
