"""A cluster that a law lets things happen to, told beside its objects what is measured and what time it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import Pod
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing.world import Given, World, flat, with_default_queue

REGISTRY = default_registry()


class ToldWorld:
    """Objects, a state, and cycles of one conf; what they decide is carried out at once."""

    def __init__(
        self, actions: str, tiers: Sequence[Sequence[Mapping[str, Any] | str]], *, recreate: bool = False
    ) -> None:
        listed = [{"plugins": [{"name": p} if isinstance(p, str) else dict(p) for p in tier]} for tier in tiers]
        conf = from_data({"actions": actions, "tiers": listed}, catalogue_of(REGISTRY)).conf
        self.assembly, self.runtime, self.state = assemble(conf, REGISTRY), Runtime(), ClusterState()
        self.state.now = 1_700_000_000.0
        self.world = World(recreate=recreate)
        self.add(*with_default_queue([]))

    def add(self, *objects: Given) -> None:
        """Objects come or change."""
        for obj in flat(objects):
            self.state.apply_all(self.world.put(obj))

    def restart(self) -> None:
        """Another process leads: it knows what the objects say."""
        now, self.runtime, self.state = self.state.now, Runtime(), ClusterState()
        self.state.now = now
        self.add(*self.world.objects)

    def running(self) -> dict[str, Pod]:
        """Pods that are on a node and stay there, by key."""
        pods = [o for o in self.world.objects if isinstance(o, Pod) and o.status.phase == "Running"]
        return {pod.key: pod for pod in pods if pod.metadata.deletion_timestamp is None}

    def cycle(self, **environment: Any) -> CycleReport:
        """One cycle; nobody fails in it, and nothing is over-committed."""
        self.state.apply_all(self.world.settle())
        report = run_cycle(self.state, self.assembly, self.runtime, environment=environment, details=True)
        assert report.errors == []
        assert violations(self.state) == []
        self.state.apply_all(self.world.carry_out(report.intents, self.state.now))
        return report
