"""fgd: fragmentation gradient descent. Every task goes where it leaves the least useless GPU capacity behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.errors import InvalidInput
from pumice.framework.arguments import Argument
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model import keys
from pumice.model.api import PodSpec
from pumice.model.gpu import WHOLE
from pumice.model.node import Node
from pumice.model.resources import CPU
from pumice.model.task import Task, TaskClass
from pumice.plugins.openb.common import Floats, Ints, OpenbRequest, add_score, free_devices, request_of

Bools = npt.NDArray[np.bool_]
MODEL_LABEL = keys.GPU_MODEL
_AT_ONCE = 512
"""Rows that are worked on at a time, so that intermediate arrays stay in the processor's cache."""
_LEARN_AFTER = 0.1
"""The workload is looked at again when so much of it has changed."""


class Typical(NamedTuple):
    """A kind of task that is typical of the workload, and how large a part of it."""

    cpu: int
    milli: int
    devices: int
    models: tuple[str, ...]
    part: float


class Fgd(Plugin):
    """Places tasks so that the expected fragment grows least: free GPU capacity that typical tasks could not use."""

    name = "fgd"
    persistent = True
    weight = Argument(1.0, "Factor of the score.")
    coverage = Argument(0.95, "The part of the workload that its typical tasks make up.")
    typical = Argument[list[str]](
        [],
        "What is typical: `cpu milli/gpu milli/devices/models/count`, models joined by a vertical bar. "
        "Without it, the tasks in the cluster.",
    )

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        memory = ssn.memory
        if self.typical:
            if memory.get("given") != self.typical:
                memory.update(given=self.typical, version=0)
                memory["typical"] = typical_of(map(_parse, self.typical), self.coverage)
        else:
            self._learn(ssn, memory)
        self._fragments = Fragments(memory["typical"])
        version = memory["version"]
        add_score(ssn, self.name, self._score, version=version)
        ssn.add_gpu_order_fn(self.name, self._device)

    def _learn(self, ssn: Session, memory: dict[str, object]) -> None:
        """Take the tasks in the cluster as typical; again only when many have come or gone."""
        seen = ssn.state.versions.get("Pod", 0)
        known = memory.get("pods")
        if isinstance(known, int) and seen - known < max(100, _LEARN_AFTER * len(ssn.state.tasks)):
            return
        kinds = Counter(t.klass for t in ssn.state.tasks.values())
        pairs = [((*request_of_class(k), models_of(k.spec)), n) for k, n in kinds.items()]
        fresh = typical_of(pairs, self.coverage)
        memory["pods"] = seen
        if fresh != memory.get("typical"):
            memory["typical"] = fresh
            memory["version"] = int(str(memory.get("version", 0))) + 1

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        asked = request_of(task)
        cpu, free = rows.idle[CPU], free_devices(self._ssn, rows)
        models = self._fragments.models_at(rows)
        out = np.empty(len(rows))
        for begin in range(0, len(rows), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            best = self._by_device(asked, cpu[part], free[part], models[:, part])
            out[part] = best.max(axis=1)
        return out * self.weight

    def _by_device(self, asked: OpenbRequest, cpu: Ints, free: Ints, models: Bools) -> Floats:
        """Scores per row and device for a part of a device; in one column where there is nothing to choose."""
        fragments = self._fragments
        before = fragments.expected(cpu, free, models)
        if not asked.devices or asked.milli == WHOLE:
            after = fragments.expected(cpu - asked.cpu, _without_whole(free, asked.devices), models)
            return _score_of(before - after)[:, None]
        rows, devices = np.nonzero(free >= asked.milli)
        scores = np.full(free.shape, -1.0)
        if len(rows):
            taken = free[rows]
            taken[np.arange(len(rows)), devices] -= asked.milli
            after = fragments.expected(cpu[rows] - asked.cpu, taken, models[:, rows])
            scores[rows, devices] = _score_of(before[rows] - after)
        return scores

    def _device(self, task: Task, node: Node, gpu: str) -> float:
        asked = request_of(task)
        if asked.milli == WHOLE:
            return 0.0
        rows = NodeRows(self._ssn.state.table, np.array([node.row], dtype=np.intp))
        scores = self._by_device(asked, rows.idle[CPU], free_devices(self._ssn, rows), self._fragments.models_at(rows))
        return float(scores[0, int(gpu)])


class Fragments:
    """The expected fragment of nodes, given what is typical of the workload."""

    def __init__(self, typical: Sequence[Typical]) -> None:
        self._cpu = np.array([t.cpu for t in typical], dtype=np.int64)
        self._milli = np.array([t.milli for t in typical], dtype=np.int64)
        self._devices = np.array([t.devices for t in typical], dtype=np.int64)
        self._part = np.array([t.part for t in typical], dtype=np.float64)
        self._models = [t.models for t in typical]
        self._any_model = not any(self._models)

    def models_at(self, rows: NodeRows) -> Bools:
        """Per typical task and row: whether the node's model will do."""
        good = np.ones((len(self._models), len(rows)), dtype=np.bool_)
        if not self._any_model:
            for at, models in enumerate(self._models):
                if models:
                    good[at] = np.logical_or.reduce([rows.labels.equals(MODEL_LABEL, model) for model in models])
        return good

    def expected(self, cpu: Ints, free: Ints, models: Bools) -> Floats:
        """Per row, the free thousandths that a typical task could not use, as a mean over the typical tasks."""
        total = free.sum(axis=1)
        fits = free[None, :, :] >= self._milli[:, None, None]
        runs = (fits.sum(axis=2) >= self._devices[:, None]) & (cpu[None, :] >= self._cpu[:, None]) & models
        runs &= self._devices[:, None] > 0
        stuck = np.where(fits, 0, free[None, :, :]).sum(axis=2)
        fragment = np.where(runs, stuck, total[None, :])
        return np.asarray(self._part @ fragment, dtype=np.float64)


def _score_of(change: Floats) -> Floats:
    """0 to 100, whole: above 50 where the fragment shrinks."""
    return np.trunc(100 / (1 + np.exp(-change / 1000)))


def _without_whole(free: Ints, devices: int) -> Ints:
    """The free amounts after a task has taken the first idle devices."""
    if not devices:
        return free
    idle = free == WHOLE
    first = idle & (np.cumsum(idle, axis=1) <= devices)
    return np.where(first, 0, free)


# -- what is typical ------------------------------------------------------------------------------------------------
Shape = tuple[int, int, int, tuple[str, ...]]


def typical_of(shapes: Iterable[tuple[Shape, int]], coverage: float) -> list[Typical]:
    """The most frequent shapes (cpu, milli, devices, models) that together make up *coverage* of all."""
    counts: Counter[Shape] = Counter()
    for shape, n in shapes:
        counts[shape] += n
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    enough, total, kept = coverage * sum(counts.values()), 0, []
    for shape, n in ranked:
        if total >= enough:
            break
        kept.append((shape, n))
        total += n
    return [Typical(*shape, n / total) for shape, n in kept]


def request_of_class(klass: TaskClass) -> tuple[int, int, int]:
    """(cpu, gpu milli, devices) of a task class."""
    gpu, cpu = klass.gpu, int(klass.requests.get(CPU))
    return (cpu, 0, 0) if gpu is None else (cpu, gpu.milli or WHOLE, gpu.devices)


def models_of(spec: PodSpec) -> tuple[str, ...]:
    """The GPU models that a pod restricts itself to, by node selector or required affinity; empty for any."""
    named = (spec.node_selector or {}).get(MODEL_LABEL)
    if named is not None:
        return (named,)
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    for term in (required.node_selector_terms or []) if required is not None else []:
        for line in term.match_expressions or []:
            if line.key == MODEL_LABEL and line.operator == "In":
                return tuple(sorted(line.values or ()))
    return ()


def _parse(text: str) -> tuple[Shape, int]:
    parts = text.split("/")
    if len(parts) != 5 or not all(parts[n].isascii() and parts[n].isdigit() for n in (0, 1, 2, 4)):
        raise InvalidInput(f"fgd: argument typical: must be cpu milli/gpu milli/devices/models/count, got {text!r}")
    models = tuple(sorted(m for m in parts[3].split("|") if m))
    return (int(parts[0]), int(parts[1]), int(parts[2]), models), int(parts[4])
