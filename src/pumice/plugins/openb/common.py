"""The common parts of scores for shared GPUs: capacities, requests, free devices, registration."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP, Scope
from pumice.framework.session.session import Session
from pumice.model.gpu import WHOLE
from pumice.model.node import Node
from pumice.model.resources import CPU
from pumice.model.task import Task

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Score = Callable[[Task, NodeRows], Floats]
Normalize = Callable[[Floats, npt.NDArray[np.bool_]], Floats]


class OpenbRequest(NamedTuple):
    """The request of a task: CPU in thousandths, devices, and thousandths of each."""

    cpu: int
    devices: int
    milli: int

    @property
    def gpu(self) -> int:
        """Thousandths of GPUs, all devices together."""
        return self.devices * self.milli


def request_of(task: Task) -> OpenbRequest:
    """The request of a task. Requests by GPU memory count as whole devices here."""
    gpu = task.klass.gpu
    cpu = int(task.klass.requests.get(CPU))
    return OpenbRequest(cpu, 0, 0) if gpu is None else OpenbRequest(cpu, gpu.devices, gpu.milli or WHOLE)


def free_devices(ssn: Session, rows: NodeRows) -> Ints:
    """Per row and device, thousandths that are free; 0 where there is no such device."""
    return ssn.state.devices.free(rows.index)


def alone(task: Task) -> bool:
    """Report whether it is the only task of its job."""
    return task.job is None or len(task.job.tasks) == 1


def add_score(
    ssn: Session, name: str, score: Score, normalize: Normalize | None = None, version: Hashable = None
) -> None:
    """Register a score that reads devices. Another *version* than before means that nothing kept is right any more.

    Its answer about a node is kept until the node changes. Tasks of larger jobs are asked about one by one: a score of
    devices cannot be imagined for several equal tasks on one node.
    """

    def single(task: Task) -> Hashable:
        return ("single", version) if alone(task) else SKIP

    def in_company(task: Task) -> Hashable:
        return SKIP if alone(task) else ("in company", version)

    ssn.add_batch_node_order_fn(name, score, scope=Scope.NODE, key=single, normalize=normalize)
    ssn.add_batch_node_order_fn(name, score, scope=Scope.SESSION, key=in_company, normalize=normalize)


def add_tightest_device(ssn: Session, name: str) -> None:
    """Register the order of devices that takes the fullest one that still fits; idle ones by index."""
    held = ssn.state.devices.held

    def taken(_: Task, node: Node, gpu: str) -> float:
        return float(held[node.row, int(gpu)])

    ssn.add_gpu_order_fn(name, taken)
