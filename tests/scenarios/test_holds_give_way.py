"""Room held for many never keeps a gang above them in order from starting, in whatever order the room becomes free."""

from __future__ import annotations

import random

import pytest

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.run_times import RUN_TIME_ANNOTATION
from pumice.framework.session.nominations import Nomination
from pumice.framework.session.runtime import Runtime
from pumice.model.api import Pod
from pumice.model.events import ClusterEvent
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.testing import builders as b
from pumice.testing.world import Given, World, flat

NODES = 8
CONFS = {
    "proportion": [["priority", "gang", "conformance"], ["predicates", "proportion"]],
    "drf": [["priority", "gang", "conformance"], ["drf", "predicates", "proportion", "nodeorder", "binpack"]],
    "capacity": [["priority", "gang"], ["predicates", "capacity"]],
}


class SlowEnds(World):
    """Pods that are evicted leave when they are told to."""

    def pod_deleted(self, key: str, cycles: int = 10**6) -> list[ClusterEvent]:
        return super().pod_deleted(key, 10**6)


class Cluster:
    """Everybody of *low* is on the way out for somebody of *mid*."""

    def __init__(self, tiers: list[list[str]], seed: int) -> None:
        conf = {
            "actions": "enqueue, allocate, preempt, backfill",
            "tiers": [{"plugins": [{"name": name} for name in tier]} for tier in tiers],
        }
        registry = default_registry()
        self.assembly = assemble(from_data(conf, catalogue_of(registry), "conf").conf, registry)
        self.world, self.state, self.runtime = SlowEnds(), ClusterState(), Runtime()
        self.chance = random.Random(seed)
        nodes = [f"n{n}" for n in range(NODES)]
        self.put(b.queue("default"))
        for name in nodes:
            self.put(b.node(name, cpu=1))
        self.put(*b.job("low", tasks=NODES, min_available=0, cpu=1, priority=10, on=nodes))
        for n in range(NODES):
            self.put(*b.job(f"mid{n}", cpu=1, priority=100))
        for _ in range(3):
            self.cycle()
        assert len(self.leaving()) == NODES

    def put(self, *objects: object) -> None:
        for obj in objects:
            self.state.apply_all(self.world.put(obj))  # type: ignore[arg-type]

    def leaving(self) -> list[str]:
        return [p.key for p in self.pods() if p.metadata.deletion_timestamp is not None]

    def pods(self) -> list[Pod]:
        return [o for o in self.world.objects if isinstance(o, Pod)]

    def running(self, job: str) -> int:
        return sum(p.metadata.name.startswith(job) and bool(p.spec.node_name) for p in self.pods())

    def cycle(self) -> None:
        self.state.now += 1.0
        self.state.apply_all(self.world.carry_out(run_cycle(self.state, self.assembly, self.runtime).intents))

    def free(self, many: int) -> None:
        leaving = self.leaving()
        for key in self.chance.sample(leaving, min(many, len(leaving))):
            self.state.apply_all(self.world.remove(Pod, key))


@pytest.mark.parametrize("tiers", CONFS.values(), ids=CONFS)
@pytest.mark.parametrize("gang", [2, 4, 8])
@pytest.mark.part(3)
def test_what_becomes_free_goes_to_the_gang_above_until_it_is_whole(tiers: list[list[str]], gang: int) -> None:
    for seed in range(3):
        cluster = Cluster(tiers, seed)
        cluster.put(*b.job("top", tasks=gang, cpu=1, priority=1000))
        cluster.cycle()
        freed = 0
        while freed < gang:
            assert cluster.running("mid") == 0, f"seed {seed}: {freed} of {NODES} nodes became free"
            many = cluster.chance.randint(0, min(3, gang - freed))
            cluster.free(many)
            freed += many
            for _ in range(cluster.chance.randint(1, 2)):
                cluster.cycle()
        assert cluster.running("top") == gang, f"seed {seed}"
        cluster.free(NODES)
        cluster.cycle()
        cluster.cycle()
        assert cluster.running("mid") == NODES - gang


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("actions", ["allocate", "easybackfill"])
def test_who_was_evicted_for_the_holder_keeps_no_other_like_him_from_its_room(actions: str, known: bool) -> None:
    """*known*: that such tasks fit nowhere was found out before the room became free."""
    conf = {"actions": actions, "tiers": [{"plugins": [{"name": n} for n in ("priority", "gang", "predicates")]}]}
    registry = default_registry()
    assembly = assemble(from_data(conf, catalogue_of(registry), "conf").conf, registry)
    world, state, runtime = World(), ClusterState(), Runtime()
    brief = {RUN_TIME_ANNOTATION: "10s"}
    objects: list[Given] = [b.queue("default"), b.node("n1", cpu=1), b.node("n2", cpu=2), b.job("old", on="n1")]
    objects += [b.job("long", cpu=2, on="n2", annotations={RUN_TIME_ANNOTATION: "100s"})]
    objects += [b.job("wide", cpu=2, priority=4)]  # what easybackfill reserves room for
    for priority, name in enumerate(("holder", "other", "lost")):
        objects.append(b.job(name, priority=priority, annotations=brief))
    for obj in flat(objects):
        state.apply_all(world.put(obj))
    if known:
        assert run_cycle(state, assembly, runtime).binds == {}
    state.apply_all(world.remove(Pod, "default/old-0"))
    runtime.nominations["default/holder-0"] = Nomination("n1", 60.0, frozenset({"default/lost"}))
    assert run_cycle(state, assembly, runtime).binds == {"default/other-0": "n1"}
