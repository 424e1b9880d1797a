"""The embedded cluster keeps the contract of a backend."""

from __future__ import annotations

import pytest

from contract.backend import Backend, BackendContract
from pumice.model.api import Pod
from pumice.sim.cluster import Delays, SimCluster
from pumice.sim.controller import JobController
from pumice.sim.engine import Timeline
from pumice.sim.parts import node
from pumice.sim.recorder import Recorder
from pumice.sim.traces import TraceJob, TracePod
from pumice.sim.workload import TraceJobs


class SimBackend(SimCluster):
    """An embedded cluster on which time passes only in `settle`."""

    def have(self, *, nodes: int, pods: int) -> list[Pod]:
        recorder = Recorder(self.timeline)
        controller = JobController(self, recorder)
        for n in range(nodes):
            self.join(node(f"node-{n}", "64", "256Gi"))
        job = TraceJob("job", 0.0, 1e9, (TracePod(pods, 100),), min_available=pods)
        controller.submit(TraceJobs().job(job))
        return [pod.object for pod in self.pods.values()]

    def settle(self) -> None:
        while self.timeline.next_time() is not None and (self.timeline.next_time() or 0) < 1000:
            self.timeline.advance()


@pytest.fixture(params=[Delays(), Delays(bind=2, start=5, eviction=30)], ids=["at once", "with delays"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return SimBackend(Timeline(), delays=request.param)


class TestSimBackend(BackendContract):
    """Every test of the contract."""
