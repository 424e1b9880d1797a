"""gpuspread: shared GPUs are used evenly."""

from __future__ import annotations

from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.gpu import DEVICE
from pumice.model.node import Node
from pumice.model.task import Task


class GpuSpread(Plugin):
    """Scores a device by the part of it that is free: the emptiest goes first."""

    name = "gpuspread"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        held = ssn.state.devices.held

        def free(_: Task, node: Node, gpu: str) -> float:
            return 1.0 - float(held[node.row, int(gpu)]) / DEVICE

        ssn.add_gpu_order_fn(self.name, free)
