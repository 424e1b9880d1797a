"""gpupack: shared GPUs are filled up before a fresh one is opened."""

from __future__ import annotations

from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.gpu import DEVICE
from pumice.model.node import Node
from pumice.model.task import Task


class GpuPack(Plugin):
    """Scores a device by the part of it that is taken: the fullest that still fits goes first."""

    name = "gpupack"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        held = ssn.state.devices.held

        def taken(_: Task, node: Node, gpu: str) -> float:
            return float(held[node.row, int(gpu)]) / DEVICE

        ssn.add_gpu_order_fn(self.name, taken)
