"""A cluster of full nodes in which evicted pods take long to end, beside a scheduler that starts anew each cycle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.rounds import copied
from pumice.framework.session.runtime import Runtime
from pumice.model.api import Pod, PodGroup
from pumice.model.events import ClusterEvent, Seen
from pumice.model.intents import Bind, Evict, Nominate
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing import job, node, queue
from pumice.testing.world import World

PLUGINS: tuple[Any, ...] = (
    *("priority", {"name": "gang", "enablePreemptable": False}, "conformance", "overcommit"),
    *({"name": "drf", "enablePreemptable": False}, "predicates", "proportion", "nodeorder", "binpack"),
)
DECISIONS = (Bind, Evict, Nominate)
LONG = 1000
"""Cycles for which evicted pods terminate, unless they are let go."""


def assembly(*, extra: str = "", actions: str = "enqueue, allocate, preempt, reclaim, backfill") -> Assembly:
    registry = default_registry()
    plugins = [p if isinstance(p, dict) else {"name": p} for p in (*PLUGINS, *extra.split())]
    conf: dict[str, Any] = {"actions": actions, "tiers": [{"plugins": plugins}]}
    return assemble(from_data(conf, catalogue_of(registry)).conf, registry)


class Cluster:
    """Nodes that are full, a node aside for small pods of another queue, and a scheduler; evicted pods take long."""

    def __init__(self, made: Assembly, *, nodes: int = 4) -> None:
        self.world, self.state, self.runtime, self.assembly = World(), ClusterState(), Runtime(), made
        self.state.now = 1000.0
        self.tell(queue("default"), queue("other"), node("aside", cpu=1))
        for n in range(nodes):
            self.tell(node(f"n{n}", cpu=4), *job(f"low{n}", on=f"n{n}", cpu=4, priority=1))
        self.little = 0

    def tell(self, *objects: Any) -> None:
        for obj in objects:
            self.apply(self.world.put(obj))

    def apply(self, events: list[ClusterEvent]) -> None:
        self.state.apply_all(events)

    def cycle(self, **given: Any) -> CycleReport:
        """One cycle: it decides and says what a scheduler does that knows only the objects and nominations."""
        self.state.now += 1.0
        known = self.afresh()
        report = run_cycle(self.state, self.assembly, self.runtime, **given)
        assert violations(self.state) == []
        assert told(report) == known
        self.carry_out(report)
        return report

    def carry_out(self, report: CycleReport) -> None:
        self.apply(self.world.carry_out([i for i in report.intents if not isinstance(i, Evict)]))
        for intent in report.intents:
            if isinstance(intent, Evict):
                self.apply(self.world.pod_deleted(intent.pod, LONG))

    def afresh(self) -> tuple[Any, Any, dict[str, str]]:
        state, runtime = ClusterState(), Runtime()
        state.now = self.state.now
        for obj in self.world.objects:
            state.apply(Seen(obj))
        runtime.nominations = {k: replace(n) for k, n in self.runtime.nominations.items()}
        runtime.turns = copied(self.runtime.turns)
        return told(run_cycle(state, self.assembly, runtime))

    def promised(self) -> Cluster:
        """Cycles until one runs no action."""
        for _ in range(6):
            if not acted(self.stirred()):
                return self
        raise AssertionError("actions are run in every cycle")

    def stirred(self, **given: Any) -> CycleReport:
        """A cycle after a pod came or ended where nobody waits."""
        self.little += 1
        if self.little % 2:
            self.tell(*job("little", queue="other", on="aside", cpu="100m"))
        else:
            self.apply(self.world.remove(Pod, "default/little-0"))
            self.apply(self.world.remove(PodGroup, "default/little"))
        return self.cycle(**given)

    def terminating(self) -> list[str]:
        return sorted(o.key for o in self.world.objects if isinstance(o, Pod) and o.metadata.deletion_timestamp)

    def ends(self, pod: str) -> None:
        self.apply(self.world.remove(Pod, pod))


def told(report: CycleReport) -> tuple[Any, Any, dict[str, str]]:
    decided = [i for i in report.intents if isinstance(i, DECISIONS)]
    return decided, report.pipelined, {uid: r.told for uid, r in report.refusals.items()}


def acted(report: CycleReport) -> bool:
    return ("action", "allocate") in report.timings


def waiting(made: Assembly | None = None) -> Cluster:
    """Two jobs of one task and a gang of two, for which four pods were evicted."""
    world = Cluster(made or assembly())
    for name, tasks in (("one", 1), ("two", 1), ("gang", 2)):
        world.tell(*job(name, tasks=tasks, cpu=4, priority=100, phase="Inqueue"))
    assert len(world.cycle().evictions) == 4
    return world
