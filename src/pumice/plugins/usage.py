"""usage: nodes that are busy get no more tasks, and idle ones are preferred, by what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pumice import (
    Argument,
    Arguments,
    EventHandler,
    InvalidInput,
    Node,
    NodeRows,
    Plugin,
    Resources,
    Session,
    Task,
    TaskStatus,
    reason_id,
)

S = TaskStatus
Reasons = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

FRESH: Final = 300.0
"""Seconds for which a measurement counts."""
INTERVAL: Final = 30.0
"""Seconds between two measurements, if nobody says."""
_MEASURED: Final = ("cpu", "memory")
_STEP: Final = 5
"""Reasons say percents in steps of so many, so that they stay few and do not change with every measurement."""
_UNSEEN: Final = (S.ALLOCATED, S.BINDING, S.BOUND, S.PIPELINED)


@dataclass(frozen=True, slots=True)
class Estimator:
    """The estimated use of a task before it is measured."""

    request_ratio: float = 0.7
    burst_ratio: float = 0.0
    risk_threshold: float = 0.6
    risk_factor: float = 1.2
    best_effort: tuple[float, float] = (250.0, 200.0 * 2**20)

    def of(self, task: Task, load: float) -> tuple[float, float]:
        """(milli cpu, bytes) that the task is taken to use on a node of this load, from 0 to 1."""
        risk = self.risk_factor if load >= self.risk_threshold else 1.0
        if task.best_effort:
            return self.best_effort[0] * risk, self.best_effort[1] * risk
        requests, limits = task.requests, _limits(task)
        found = []
        for request, limit in ((requests.milli_cpu, limits.milli_cpu), (requests.memory, limits.memory)):
            more = max(limit - request, 0.0) * self.burst_ratio
            found.append(min(max((request * self.request_ratio + more) * risk, 0.0), limit or request))
        return found[0], found[1]


# -- arguments ------------------------------------------------------------------------------------------------------
def _section(arguments: Arguments, key: str) -> Mapping[str, Any]:
    found = arguments.get(key)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise InvalidInput(f"usage: argument {key}: must be a mapping, got {found!r}")
    return found


def _number(section: Mapping[str, Any], where: str, key: str, default: float, least: float, most: float) -> float:
    found = section.get(key, default)
    try:
        number = float(found)
    except (TypeError, ValueError):
        raise InvalidInput(f"usage: argument {where}.{key}: must be a number, got {found!r}") from None
    if not least <= number <= most:
        raise InvalidInput(f"usage: argument {where}.{key}: must be from {least:g} to {most:g}, got {found!r}")
    return number


def _thresholds(arguments: Arguments, key: str, default: object) -> tuple[float, float]:
    section = _section(arguments, key)
    return (
        _number(section, "thresholds", "cpu", 80, 0, 100),
        _number(section, "thresholds", "mem", 80, 0, 100),
    )


def _estimator(arguments: Arguments, key: str, usual: Estimator) -> Estimator:
    section, most = _section(arguments, key), float("inf")
    best_effort = Resources.of(cpu=section.get("be_cpu", "250m"), memory=section.get("be_mem", "200Mi"))
    return Estimator(
        _number(section, "estimator", "request_ratio", usual.request_ratio, 0, most),
        _number(section, "estimator", "burst_ratio", usual.burst_ratio, 0, most),
        _number(section, "estimator", "risk_threshold", usual.risk_threshold, 0, most),
        _number(section, "estimator", "risk_factor", usual.risk_factor, 1, most),
        (float(best_effort.milli_cpu), float(best_effort.memory)),
    )


# -- the plugin -----------------------------------------------------------------------------------------------------
class Usage(Plugin):
    """Keeps tasks off nodes whose measured cpu or memory is above a threshold, and prefers nodes of little load."""

    name = "usage"
    persistent = True
    weight = Argument(5, "Weight of the whole score.", name="usage.weight", minimum=0, lenient=True)
    cpu_weight = Argument(1, "Weight of cpu.", name="cpu.weight", minimum=0, lenient=True)
    memory_weight = Argument(1, "Weight of memory.", name="memory.weight", minimum=0, lenient=True)
    thresholds = Argument(
        (80.0, 80.0),
        "Nodes above take no tasks. `cpu` and `mem`, each 80.",
        values="a mapping, percent from 0 to 100",
        read=_thresholds,
    )
    estimator = Argument(
        Estimator(), "What tasks are taken to use that no measurement shows yet.", values="a mapping", read=_estimator
    )

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        self._guesses = not ssn.compat.unmeasured_nodes
        self._load: _Load | None = None
        self._parts = np.array([[self.cpu_weight], [self.memory_weight]])
        ssn.add_batch_predicate_fn(self.name, self._not_busy)
        ssn.add_batch_node_order_fn(self.name, self._score)
        ssn.add_event_handler(
            EventHandler(
                allocate=lambda event: self._count([event.task], 1),
                deallocate=lambda event: self._count([event.task], -1),
                allocate_many=lambda tasks: self._count(tasks, 1),
                deallocate_many=lambda tasks: self._count(tasks, -1),
            )
        )

    @property
    def load(self) -> _Load:
        """The measured and estimated amounts; computed when first asked for."""
        if self._load is None:
            self._load = _Load(self._ssn, self.estimator, self._parts)
        return self._load

    def _count(self, tasks: Iterable[Task], sign: int) -> None:
        if self._load is not None:
            self._load.count(tasks, sign)

    def _not_busy(self, _: Task, rows: NodeRows) -> Reasons:
        measured = self.load.measured[:, rows.index]
        out = np.zeros(len(rows), dtype=np.int32)
        for which in (1, 0):
            busy = measured[which] * 100 > self.thresholds[which] + 1e-9  # NaN, not measured, is not above
            steps = (measured[which, busy] * 100 // _STEP).astype(np.int64)
            out[busy] = [self._busy(which, int(step) * _STEP) for step in steps.tolist()]
        return out

    def _busy(self, which: int, percent: int) -> int:
        """The objection to a node that is used to so many percent, or somewhat more."""
        limit = f"{self.thresholds[which]:g} %"
        text = f"node(s) {_MEASURED[which]} usage is above the threshold of {limit}: {percent} % or more"
        return reason_id("usage", text, unresolvable=True)

    def _score(self, _: Task, rows: NodeRows) -> Floats:
        load = self.load
        return self._scored(load.composite(rows.index), load.requested(rows))

    def _scored(self, busy: Floats, asked: Floats) -> Floats:
        """The scores of nodes of which these parts are in use, NaN where nothing was measured, and asked for."""
        total = float(self._parts.sum())
        if not total:
            return np.zeros(busy.shape[1])
        if self._guesses:
            busy = np.where(np.isnan(busy), asked * self.estimator.request_ratio, busy)
        free = ((1.0 - np.clip(busy, 0.0, 1.0)) * self._parts).sum(axis=0) / total
        scores: Floats = np.nan_to_num(free * 100.0 * self.weight, nan=0.0)
        return scores


class _Load:
    """Parts of each node's cpu and memory that are in use: as measured, and of tasks that no measurement shows yet."""

    def __init__(self, ssn: Session, estimator: Estimator, weights: Floats) -> None:
        self.estimator, self._parts = estimator, weights
        size = 1 + max((node.row for node in ssn.nodes.values()), default=0)
        self.measured: Floats = np.full((2, size), np.nan)
        environment = ssn.environment
        if 0 <= ssn.now - float(environment.get("usage_time", ssn.now)) <= FRESH:
            for name, percent in (environment.get("node_usage") or {}).items():
                node = ssn.nodes.get(name)
                if node is not None:
                    self.measured[:, node.row] = (percent.get("cpu", 0.0) / 100, percent.get("memory", 0.0) / 100)
        self.shadow: Floats = np.zeros((2, size))
        self._weighs = max(float(weights.sum()), 1e-9)
        self._known: dict[str, Floats] = {}
        young = ssn.now - float(environment.get("usage_interval", INTERVAL))
        for job in ssn.jobs.values():
            for status in _UNSEEN:
                self.count(job.with_status(status).values(), 1)
            self.count([t for t in job.with_status(S.RUNNING).values() if _started(t) > young], 1)

    def count(self, tasks: Iterable[Task], sign: int) -> None:
        """Tasks came to their nodes, or left them."""
        for task in tasks:
            node = task.node
            if node is None:
                continue
            if sign > 0:
                added = self._known[task.uid] = self.added(task, node)
                self.shadow[:, node.row] += added
            else:
                self.shadow[:, node.row] -= self._known.pop(task.uid, 0.0)

    def added(self, task: Task, node: Node) -> Floats:
        """The parts of a node that a task is taken to use, beside those that are estimated already."""
        parts = np.nan_to_num(self.composite(np.array([node.row])))
        load = float((parts * self._parts).sum()) / self._weighs
        capacity = max(node.capacity.milli_cpu, 1), max(node.capacity.memory, 1)
        found: Floats = np.array(self.estimator.of(task, load)) / capacity
        return found

    def composite(self, rows: npt.NDArray[np.intp]) -> Floats:
        """Parts in use on these rows, cpu and memory; NaN where nothing was measured."""
        return np.clip(self.measured[:, rows] + self.shadow[:, rows], 0.0, 1.0)

    def requested(self, rows: NodeRows) -> Floats:
        """Parts that are asked for."""
        asked: Floats = rows.used["cpu", "memory"] / np.maximum(rows.capacity["cpu", "memory"], 1)
        return asked


def _started(task: Task) -> float:
    since = task.pod.status.start_time
    return since.timestamp() if since is not None else 0.0


def _limits(task: Task) -> Resources:
    known: Resources | None = task.klass.memo.get("usage limits")
    if known is None:
        known = Resources({})
        for container in task.klass.spec.containers or ():
            if container.resources is not None and container.resources.limits:
                known = known + Resources.parse(container.resources.limits)
        task.klass.memo["usage limits"] = known
    return known
