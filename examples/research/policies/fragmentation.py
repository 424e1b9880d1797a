"""Fragmentation gradient descent (Weng et al., USENIX ATC 2023): a task goes where the least becomes useless."""

from collections import Counter

import numpy as np
import numpy.typing as npt

from pumice import Argument, Node, Plugin, Scope, Session, Task, scope

Floats = npt.NDArray[np.float64]
FRACTION, DEVICES, MODEL, GPU = "gpu-fraction", "gpu-fraction-num-devices", "nvidia.com/gpu.product", "nvidia.com/gpu"


def asked(task: Task) -> tuple[int, int, int]:
    """CPU in thousandths, devices, and thousandths of each."""
    part = float(task.annotations.get(FRACTION, 0))
    if part:
        return int(task.requests.milli_cpu), int(task.annotations.get(DEVICES, 1)), round(1000 * part)
    devices = int(task.requests[GPU])
    return int(task.requests.milli_cpu), devices, 1000 if devices else 0


class Fragmentation(Plugin):
    """Scores nodes and devices by how much the expected fragment shrinks.

    The fragment of a node is the free GPU capacity that a task which is typical of the workload could not use.
    """

    name = "fragmentation"
    typical = Argument[list[str]]([], "`cpu milli/gpu milli/devices/models/count`, models joined by a vertical bar.")

    def on_session_open(self, ssn: Session) -> None:
        counts: Counter[tuple[int, int, int, str]] = Counter()
        for text in self.typical:
            cpu, milli, devices, models, many = text.split("/")
            counts[int(cpu), int(milli), int(devices), models] += int(many)
        kept: dict[tuple[int, int, int, str], int] = {}
        for shape, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            if sum(kept.values()) < 0.95 * counts.total():
                kept[shape] = count
        self.cpu, self.milli, self.devices = np.array([shape[:3] for shape in kept], int).reshape(-1, 3).T
        self.models = [set(shape[3].split("|")) - {""} for shape in kept]
        self.part = np.array(list(kept.values())) / max(1, sum(kept.values()))
        ssn.add_node_order_fn(self.name, self.score)
        ssn.add_gpu_order_fn(self.name, self.device)

    def fragment(self, node: Node, cpu: float, free: Floats) -> float:
        """Free thousandths of GPUs that a typical task could not use, as a mean."""
        model = node.labels.get(MODEL, "")
        fits = free >= self.milli[:, None]
        runs = (fits.sum(1) >= self.devices) & (cpu >= self.cpu) & (self.devices > 0)
        runs &= [not models or model in models for models in self.models]
        return float(self.part @ np.where(runs, np.where(fits, 0, free).sum(1), free.sum()))

    def gains(self, task: Task, node: Node) -> Floats:
        """How much the fragment shrinks, by device that is taken; one number if there is no choice."""
        cpu, devices, milli = asked(task)
        free = np.full(int(node.gpus), 1000.0)
        for other in node.tasks.values():
            free[list(other.devices)] -= asked(other)[2]
        before, left = self.fragment(node, node.idle.milli_cpu, free), node.idle.milli_cpu - cpu
        if milli in (0, 1000):
            whole = np.where((free == 1000) & (np.cumsum(free == 1000) <= devices), 0, free)
            return np.array([before - self.fragment(node, left, whole)])
        taken = free - milli * np.eye(len(free))
        return np.array([before - self.fragment(node, left, row) if row.min() >= 0 else -np.inf for row in taken])

    @scope(Scope.NODE, key=asked)
    def score(self, task: Task, node: Node) -> float:
        return float(np.trunc(100 / (1 + np.exp(-self.gains(task, node).max(initial=-np.inf) / 1000))))

    def device(self, task: Task, node: Node, gpu: str) -> float:
        gains = self.gains(task, node)
        return float(gains[int(gpu)]) if len(gains) > 1 else 0.0
