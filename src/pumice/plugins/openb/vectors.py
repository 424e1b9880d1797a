"""random, dotprod, bestfit: nodes as vectors of free CPU and free GPU."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.framework.arguments import Argument
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.node import Node
from pumice.model.resources import CPU
from pumice.model.task import Task
from pumice.plugins.openb.common import Floats, add_score, add_tightest_device, free_devices, request_of


class RandomNode(Plugin):
    """Any node that fits, and any device: equally likely, by a seeded draw for each task."""

    name = "random"
    persistent = True
    seed = Argument(0, "Another seed is another draw.")

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_batch_node_order_fn(self.name, self._score, scope=Scope.SESSION)
        ssn.add_gpu_order_fn(self.name, self._device)

    def _draw(self, what: str) -> int:
        return zlib.crc32(f"{self.seed}/{what}".encode())

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        # the draw belongs to task and node, so that it does not matter which rows are asked about, or in which order
        state = np.uint64(self._draw(task.uid) * 0xBF58476D1CE4E5B9 % 2**64)
        mixed = (rows._take(rows._table.ranks()).astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= state
        mixed ^= mixed >> np.uint64(31)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(29)
        return (mixed >> np.uint64(11)).astype(np.float64) / 2**53 * 100

    def _device(self, task: Task, node: Node, gpu: str) -> float:
        return 0.0 if (asked := task.klass.gpu) is not None and asked.whole else self._draw(f"{task.uid}/{gpu}")


class _Vectors(Plugin):
    """Base of scores over free CPU and GPU in parts of a standard node."""

    cpu = Argument(128.0, "Cores of the standard node that amounts are measured by.")
    gpu = Argument(8.0, "Devices of that node.")
    _ssn: Session | None = None

    def _free(self, rows: NodeRows) -> tuple[Floats, Floats]:
        assert self._ssn is not None
        return rows.idle[CPU].astype(np.float64), free_devices(self._ssn, rows).sum(axis=1).astype(np.float64)


class DotProd(_Vectors):
    """Prefers nodes whose free CPU and GPU point away from what the task asks for: the scarcer fit first."""

    name = "dotprod"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        add_score(ssn, self.name, self._score)
        add_tightest_device(ssn, self.name)

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        asked = request_of(task)
        cpu, gpu = self._free(rows)
        product = cpu / (1000 * self.cpu) * (asked.cpu / (1000 * self.cpu)) + gpu / (1000 * self.gpu) * (
            asked.gpu / (1000 * self.gpu)
        )
        return np.trunc(100 * (1 - product / 2))


class BestFit(_Vectors):
    """Prefers nodes on which the least is left over once the task is there."""

    name = "bestfit"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        add_score(ssn, self.name, self._score, normalize=_spread)
        add_tightest_device(ssn, self.name)

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        asked = request_of(task)
        cpu, gpu = self._free(rows)
        left = (cpu - asked.cpu) / (1000 * self.cpu) + (gpu - asked.gpu) / (1000 * self.gpu)
        return np.trunc(100 * (1 - left / 2))


def _spread(raw: Floats, mask: npt.NDArray[np.bool_]) -> Floats:
    """Whole scores from 0 to 100 over the candidates."""
    low, high = raw[mask].min(initial=np.inf), raw[mask].max(initial=-np.inf)
    if not high > low:
        return np.zeros(len(raw))
    return np.asarray(np.floor((raw - low) * 100 / (high - low)), dtype=np.float64)
