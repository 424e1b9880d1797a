"""gpuclustering, gpupacking: two rules of thumb for where GPU tasks should go together."""

from __future__ import annotations

import numpy as np

from pumice.engine.rows import NodeRows
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.gpu import WHOLE
from pumice.model.task import Task
from pumice.plugins.openb.common import Floats, add_score, add_tightest_device, free_devices, request_of

_DEVICES = 8
"""Devices of the standard node."""


def kind_of(task: Task) -> int:
    """The kind of a GPU task: a part of a device (-1), or a number of whole ones; 0 without GPU."""
    gpu = task.klass.gpu
    if gpu is None:
        return 0
    return gpu.devices if gpu.whole else -1


class GpuClustering(Plugin):
    """Prefers nodes that hold only tasks of the same kind (a part of a GPU, one, two, four or eight)."""

    name = "gpuclustering"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        add_score(ssn, self.name, self._score)
        add_tightest_device(ssn, self.name)

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        kind = kind_of(task)
        if not kind:
            return np.zeros(len(rows))
        points = np.zeros(len(rows))
        for at, node in enumerate(rows.nodes):
            kinds = {k for other in node.tasks.values() if (k := kind_of(other))}
            if not kinds:
                points[at] = 25
            elif kind in kinds:
                points[at] = 75 if len(kinds) == 1 else 50
        whole = _DEVICES * WHOLE
        used = whole - free_devices(self._ssn, rows).sum(axis=1)
        return np.asarray(points + 25 * used // whole, dtype=np.float64)


class GpuPacking(Plugin):
    """Fills devices in use first, then idle devices of nodes in use, then idle nodes."""

    name = "gpupacking"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        add_score(ssn, self.name, self._score)
        add_tightest_device(ssn, self.name)

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        asked = request_of(task)
        if not asked.devices:
            return np.zeros(len(rows))
        free = free_devices(self._ssn, rows)
        counts = rows._take(self._ssn.state.devices.count)
        idle = (free == WHOLE).sum(axis=1)
        # the fullest fitting devices: the smallest free parts that are large enough
        fitting = np.sort(np.where(free >= asked.milli, free, 10 * WHOLE), axis=1)[:, : asked.devices]
        needed = (fitting == WHOLE).sum(axis=1)
        spare = np.where(fitting <= WHOLE, fitting, 0).sum(axis=1) // 10
        partly = np.maximum(100 - spare // 10, 50)
        score = np.where(needed > 0, np.maximum(50 - needed, 33), partly)
        return np.asarray(np.where(idle == counts, np.maximum(33 - idle, idle), score), dtype=np.float64)
