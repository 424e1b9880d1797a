"""rescheduling: running pods leave nodes that are measured to be busy, while others are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pumice.errors import InvalidInput
from pumice.framework.arguments import Argument, Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.node import Node
from pumice.model.resources import CPU, MEMORY
from pumice.model.task import Task

STRATEGY: Final = "lowNodeUtilization"
FRESH: Final = 300.0
"""Seconds for which a measurement counts."""
_MEASURES: Final = {"cpu": CPU, "memory": MEMORY}
_LEAST: Final = 1.0
"""Room, in thousandths of a CPU or bytes, that a node must have to be told to take a pod that asks for nothing."""


@dataclass(frozen=True, slots=True)
class LowNodeUtilization:
    """Percent of cpu and memory below which a node is idle, and above which it is busy."""

    thresholds: Mapping[str, float]
    targets: Mapping[str, float]

    def is_idle(self, percent: Mapping[str, float]) -> bool:
        """Report whether all of it is below the thresholds."""
        return all(percent[name] < self.thresholds[name] for name in _MEASURES)

    def is_busy(self, percent: Mapping[str, float]) -> bool:
        """Report whether any of it is above the targets."""
        return any(percent[name] > self.targets[name] for name in _MEASURES)


def _strategies(arguments: Arguments, key: str, default: list[LowNodeUtilization]) -> list[LowNodeUtilization]:
    given = arguments.get(key, [{"name": STRATEGY}])
    if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
        raise InvalidInput(f"rescheduling: argument strategies: must be a list of names with params, got {given!r}")
    found = []
    for one in given:
        if one.get("name") != STRATEGY:
            raise InvalidInput(f"rescheduling: strategy {one.get('name')!r}: there is only {STRATEGY}")
        params = one.get("params") or {}
        if not isinstance(params, Mapping):
            raise InvalidInput(f"rescheduling: params of {STRATEGY}: must be a mapping, got {params!r}")
        found.append(LowNodeUtilization(_percents(params, "thresholds"), _percents(params, "targetThresholds")))
    return found


def _percents(params: Mapping[str, Any], name: str) -> dict[str, float]:
    section = params.get(name) or {}
    if not isinstance(section, Mapping):
        raise InvalidInput(f"rescheduling: {name}: must be a mapping, got {section!r}")
    out = {}
    for measure in _MEASURES:
        value = section.get(measure, 100)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
            raise InvalidInput(f"rescheduling: {name}.{measure}: must be from 0 to 100, got {value!r}")
        out[measure] = float(value)
    return out


class Rescheduling(Plugin):
    """Names running pods on busy nodes, the least important first, as long as idle nodes could take what they ask for.

    The action shuffle evicts who is named.
    """

    name = "rescheduling"
    persistent = True
    interval = Argument(
        300.0, "The least time between two rounds, and from the start to the first.", read=Arguments.seconds
    )
    strategies = Argument(
        [LowNodeUtilization(dict.fromkeys(_MEASURES, 100.0), dict.fromkeys(_MEASURES, 100.0))],
        "There is one, `lowNodeUtilization`.",
        values="a list of `name` and `params`",
        read=_strategies,
    )
    period = Argument(
        300.0,
        "Has no effect: measurements are over 10 minutes.",
        name="metricsPeriod",
        read=Arguments.seconds,
    )

    def on_session_open(self, ssn: Session) -> None:
        self._ssn, self._memory, self._log = ssn, ssn.memory, ssn.log
        self._due = ssn.now - self._memory.setdefault("last", ssn.now) >= self.interval
        ssn.add_victim_tasks_fn(self.name, self._victims)

    def _victims(self, tasks: Sequence[Task]) -> list[Task]:
        measured = _measured(self._ssn) if self._due else {}
        if not measured:
            return []
        self._memory["last"] = self._ssn.now
        named: dict[str, Task] = {}
        for strategy in self.strategies:
            for task in self._of(strategy, measured, [t for t in tasks if t.uid not in named]):
                named[task.uid] = task
        return [*named.values()]

    def _of(
        self, strategy: LowNodeUtilization, measured: Mapping[str, Mapping[str, float]], tasks: Sequence[Task]
    ) -> list[Task]:
        nodes = self._ssn.nodes
        idle = [nodes[name] for name in sorted(measured) if strategy.is_idle(measured[name])]
        idle = [node for node in idle if not node.unschedulable]
        busy = [name for name in measured if strategy.is_busy(measured[name])]
        if not idle or not busy:
            return []
        rooms = [
            {name: _amount(node, name, strategy.targets[name] - measured[node.name][name]) for name in _MEASURES}
            for node in idle
        ]
        if self._ssn.compat.moves_in_vain:
            rooms = [{name: sum(room[name] for room in rooms) for name in _MEASURES}]
        on: dict[str, list[Task]] = {}
        for task in tasks:
            if task.preemptable:
                on.setdefault(task.node_name, []).append(task)
        victims: list[Task] = []
        for name in sorted(busy, key=lambda n: (-max(measured[n].values()), n)):
            victims += self._from_node(strategy, nodes[name], measured[name], on.get(name, []), rooms)
        return victims

    def _from_node(
        self,
        strategy: LowNodeUtilization,
        node: Node,
        percent: Mapping[str, float],
        tasks: Sequence[Task],
        rooms: Sequence[dict[str, float]],
    ) -> list[Task]:
        """Pods of a node until it is no longer busy, as long as an idle one takes each and stays below the targets."""
        used = {name: _amount(node, name, percent[name]) for name in _MEASURES}
        most = {name: _amount(node, name, strategy.targets[name]) for name in _MEASURES}
        victims: list[Task] = []
        for task in sorted(tasks, key=_importance):
            if all(used[name] <= most[name] for name in _MEASURES):
                break
            asks = {name: float(task.requests.get(d)) for name, d in _MEASURES.items()}
            room = next((r for r in rooms if all(max(asks[name], _LEAST) <= r[name] for name in _MEASURES)), None)
            if room is None:
                continue  # would only make another one busy
            for name in _MEASURES:
                used[name] -= asks[name]
                room[name] -= asks[name]
            victims.append(task)
        if victims:
            shown = ", ".join(f"{name} {percent[name]:.0f} % (target {strategy.targets[name]:g})" for name in _MEASURES)
            self._log.info("rescheduling: %d pods leave %s: %s", len(victims), node.name, shown)
        return victims


def _measured(ssn: Session) -> dict[str, dict[str, float]]:
    """Percent of cpu and memory per node, where that is known and fresh."""
    environment = ssn.environment
    if not 0 <= ssn.now - float(environment.get("usage_time", float("-inf"))) <= FRESH:
        return {}
    told = environment.get("node_usage") or {}
    return {
        name: {what: float(percent.get(what, 0.0)) for what in _MEASURES}
        for name, percent in told.items()
        if name in ssn.nodes
    }


def _amount(node: Node, name: str, percent: float) -> float:
    return float(node.capacity.get(_MEASURES[name])) * percent / 100.0


def _importance(task: Task) -> tuple[int, int, str]:
    """By priority, those without first; then what asks for nothing, for less than its limits, for all of them."""
    spec = task.pod.spec
    priority = spec.priority if spec.priority is not None else -(2**31) - 1
    return priority, _quality(task), task.uid


def _quality(task: Task) -> int:
    if task.best_effort:
        return 0
    containers = task.klass.spec.containers or ()
    whole = all(
        c.resources is not None
        and c.resources.limits
        and all(name in c.resources.limits for name in _MEASURES)
        and all((c.resources.requests or c.resources.limits).get(n) == c.resources.limits[n] for n in _MEASURES)
        for c in containers
    )
    return 2 if whole else 1
