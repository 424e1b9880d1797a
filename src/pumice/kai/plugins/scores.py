"""KAI's scores of nodes and GPUs, each in a band of its own."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.scope import skip_unless
from pumice.framework.arguments import Argument, Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.search.placing import WorldRows
from pumice.kai.view.nodes import WHOLE_GPU
from pumice.kai.view.points import NodeRank, Numbers
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.node import Node
from pumice.model.resources import CPU

Floats = npt.NDArray[np.float64]
DENSITY: Final = 9.0
RESOURCE_TYPE: Final = 10.0
AVAILABILITY: Final = 1_000.0
GPU_SHARING: Final = 10_000.0
NOMINATED: Final = 10_000_000.0
BINPACK, SPREAD = "binpack", "spread"


class NodePlacement(Plugin):
    """Packs tasks (``binpack``) or spreads them, by GPUs or, for tasks without any, by cpu."""

    name = "nodeplacement"
    persistent = True
    gpu = Argument(BINPACK, "Tasks with GPUs.", choices=(BINPACK, SPREAD, ""))
    cpu = Argument(BINPACK, "Tasks without GPUs.", choices=(BINPACK, SPREAD, ""))

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._ways = {"cpu": self.cpu or BINPACK, "gpu": self.gpu or BINPACK}

    def on_session_open(self, ssn: Session) -> None:
        """Say that a node which is filled stays the best, and that of GPUs what is free is all that counts."""
        world = world_of(ssn)
        ledger = self._nodes = world.nodes

        def free(task: TaskView) -> Numbers:
            return np.asarray(ledger.idle[ledger.gpu] + ledger.releasing[ledger.gpu])

        def applies(task: TaskView) -> bool:
            return task.request.gpus > 0 and self._ways["gpu"] == BINPACK

        world.steady[self.batch_node_order] = lambda task: self._ways[_kind(task)] == BINPACK
        world.ranks[self.batch_node_order] = NodeRank(DENSITY, applies, free)

    def batch_node_order(self, task: TaskView, rows: WorldRows) -> Floats:
        """More for a fuller or an emptier node."""
        ledger, index = self._nodes, rows.index
        kind = _kind(task)
        d = CPU if kind == "cpu" else ledger.gpu
        free = (ledger.idle[d, index] + ledger.releasing[d, index]).astype(np.float64)
        offered = ledger.allocatable[d, index].astype(np.float64)
        has = offered > 0
        if self._ways[kind] == SPREAD:
            return np.asarray(np.divide(free, offered, out=np.zeros(len(index)), where=has))
        if not has.any():
            return np.zeros(len(index))
        least, most = free[has].min(), max(free[has].max(), 0.0)
        if most == 0:
            return np.zeros(len(index))
        if least == most:
            return np.where(has, DENSITY, 0.0)
        return np.where(has, DENSITY * (1 - (free - least) / (most - least)), 0.0)


def _kind(task: TaskView) -> str:
    return "cpu" if task.request.cpu_only else "gpu"


class NodeAvailability(Plugin):
    """Prefers nodes on which the task can start at once."""

    name = "nodeavailability"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """Say that it changes nothing as long as there is room."""
        world = world_of(ssn)
        self._nodes, room = world.nodes, world.nodes.room
        world.steady[self.batch_node_order] = lambda task: True
        world.ranks[self.batch_node_order] = NodeRank(
            AVAILABILITY, lambda task: True, lambda task: ~room.fits(task.request, now=True)
        )

    def batch_node_order(self, task: TaskView, rows: WorldRows) -> Floats:
        """A fixed amount where there is room now."""
        return np.where(self._nodes.room.fits(task.request, now=True)[rows.index], AVAILABILITY, 0.0)


class ResourceType(Plugin):
    """Keeps tasks without GPUs on nodes without GPUs."""

    name = "resourcetype"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """Say something of such tasks only, and always the same."""
        world = world_of(ssn)
        self._nodes = world.nodes
        world.steady[self._score] = lambda task: True
        ssn.add_batch_node_order_fn(self.name, self._score, key=skip_unless(lambda task: task.request.cpu_only))

    def _score(self, task: TaskView, rows: WorldRows) -> Floats:
        """A fixed amount on such nodes."""
        ledger = self._nodes
        without = ledger.allocatable[ledger.gpu] == 0
        without[list(ledger.of_mig)] = False
        return np.where(without[rows.index], RESOURCE_TYPE, 0.0)


class GpuSharingOrder(Plugin):
    """Prefers nodes with a GPU in use that can still take the request."""

    name = "gpusharingorder"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """Know whether tasks without GPUs count too."""
        everybody, ledger = ssn.compat.kai_sharing_score, world_of(ssn).nodes
        self._nodes = ledger

        def concerns(task: TaskView) -> bool:
            request = task.request
            return bool(ledger.shared) and (request.shared is not None or (everybody and request.cpu_only))

        ssn.add_batch_node_order_fn(self.name, self._score, key=skip_unless(concerns))

    def _score(self, task: TaskView, rows: WorldRows) -> Floats:
        """A fixed amount where such a GPU is."""
        out = np.zeros(len(rows))
        shared, ledger = task.request.shared, self._nodes
        for at, row in enumerate(rows.index.tolist()):
            gpus = ledger.shared.get(row)
            if gpus:
                share = ledger.share(row, shared) if shared is not None else 0
                if any(g.takes(share) for g in gpus.values()):
                    out[at] = GPU_SHARING
        return out


class NominatedNode(Plugin):
    """Prefers the node that the pod is nominated to."""

    name = "nominatednode"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """Say something of such pods only."""
        ssn.add_batch_node_order_fn(self.name, self._score, key=skip_unless(_is_nominated))

    def _score(self, task: TaskView, rows: WorldRows) -> Floats:
        """A large amount for that node."""
        out = np.zeros(len(rows))
        wanted = task.task.nominated_node
        if wanted:
            out[[n == wanted for n in rows.names]] = NOMINATED
        return out


class _GpuOrder(Plugin):
    def on_session_open(self, ssn: Session) -> None:
        """Look at the world."""
        self._world: KaiWorld = world_of(ssn)


class KaiGpuPack(_GpuOrder):
    """Fills GPUs that are shared already."""

    name = "gpupack"
    persistent = True

    def gpu_order(self, task: TaskView, node: Node, gpu: str) -> float:
        """The fuller the better; a whole one last."""
        return 0.0 if gpu == WHOLE_GPU else self._world.nodes.used_part(node.row, gpu)


class KaiGpuSpread(_GpuOrder):
    """Spreads tasks over GPUs."""

    name = "gpuspread"
    persistent = True

    def gpu_order(self, task: TaskView, node: Node, gpu: str) -> float:
        """The emptier the better; a whole one first."""
        return 1.0 if gpu == WHOLE_GPU else 1.0 - self._world.nodes.used_part(node.row, gpu)


def _is_nominated(task: TaskView) -> bool:
    return bool(task.task.nominated_node)
