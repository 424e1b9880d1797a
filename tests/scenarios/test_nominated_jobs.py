"""Jobs that wait for room which is being freed: each cycle decides as a scheduler does that starts now."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from effort import WHOLE
from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.rounds import copied
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.model.api import Condition, NodeObject, Pod, PodGroup, PodSpec, QueueObject
from pumice.model.events import ClusterEvent, Seen
from pumice.model.intents import Bind, Evict, Nominate, StatusUpdate
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.dry import dry_cycle
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
    """Full nodes, a small node for pods of another queue, and a scheduler; evicted pods take long to end."""

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
        """Run one cycle; it decides and says the same as a scheduler that knows only the objects and nominations."""
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

    def afresh(self) -> tuple[Any, Any, list[str]]:
        state, runtime = ClusterState(), Runtime()
        state.now = self.state.now
        for obj in self.world.objects:
            state.apply(Seen(obj))
        runtime.nominations = {k: replace(n) for k, n in self.runtime.nominations.items()}
        runtime.turns = copied(self.runtime.turns)
        return told(run_cycle(state, self.assembly, runtime))

    def stirred(self, **given: Any) -> CycleReport:
        """A cycle after a pod came or ended on a node that no pending job can use."""
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


def told(report: CycleReport) -> tuple[Any, Any, list[str]]:
    """What is decided and which jobs are refused; the words of a refusal may be those of an earlier cycle."""
    decided = [i for i in report.intents if isinstance(i, DECISIONS)]
    return decided, report.pipelined, sorted(report.refusals)


def waiting(made: Assembly | None = None) -> Cluster:
    """Two jobs of one task and a gang of two, for which four pods were evicted."""
    world = Cluster(made or assembly())
    for name, tasks in (("one", 1), ("two", 1), ("gang", 2)):
        world.tell(*job(name, tasks=tasks, cpu=4, priority=100, phase="Inqueue"))
    assert len(world.cycle().evictions) == 4
    return world


def beside_another(jobs: int) -> Cluster:
    """Nominated jobs, and one job that fits on no node."""
    world = Cluster(assembly(), nodes=jobs)
    for n in range(jobs):
        world.tell(*job(f"high{n}", cpu=4, priority=100, phase="Inqueue"))
    world.tell(*job("big", cpu=64, phase="Inqueue"))
    assert len(world.cycle().evictions) == jobs
    for _ in range(3):
        assert len(world.stirred().pipelined) == jobs
    return world


def test_nominated_jobs_keep_their_places_and_write_nothing_new() -> None:
    world = waiting()
    for _ in range(2):
        world.stirred()
    for _ in range(5):
        report = world.stirred()
        assert sorted(report.pipelined) == ["default/gang", "default/one", "default/two"]
        assert not [i for i in report.intents if isinstance(i, StatusUpdate) and i.key != "default/little"]


def test_each_nominated_job_is_bound_when_its_room_is_free() -> None:
    world = waiting()
    bound: dict[str, str] = {}
    for pod in world.terminating():
        world.stirred()
        world.ends(pod)
        bound |= world.cycle().binds
    assert sorted(bound) == ["default/gang-0", "default/gang-1", "default/one-0", "default/two-0"]


def test_beside_another_job_each_is_bound_alone_when_its_room_is_free() -> None:
    world, left = beside_another(4), 4
    for pod in world.terminating():
        world.ends(pod)
        report = world.cycle()
        left -= 1
        assert (len(report.binds), len(report.pipelined)) == (1, left)


def victim_ends(world: Cluster) -> None:
    world.ends(world.terminating()[0])


def job_comes(world: Cluster) -> None:
    world.tell(*job("more", cpu=1, phase="Inqueue"))


def job_comes_to_be_let_in(world: Cluster) -> None:
    world.tell(*job("more", cpu=1))


def pod_that_asks_for_nothing_comes(world: Cluster) -> None:
    world.tell(*job("nothing", cpu=0, phase="Inqueue"))


def node_joins(world: Cluster) -> None:
    world.tell(node("new", cpu=1))


def node_leaves(world: Cluster) -> None:
    world.apply(world.world.remove(NodeObject, "aside"))


def node_changes(world: Cluster) -> None:
    world.tell(node("n0", cpu=4, labels={"a": "b"}))


def queue_changes(world: Cluster) -> None:
    world.tell(queue("default", capability={"cpu": 4}))


def one_is_withdrawn(world: Cluster) -> None:
    world.ends("default/one-0")


def pod_comes_beside_them(world: Cluster) -> None:
    world.tell(*job("beside", on="n0", cpu=0))


def holds_are_over(world: Cluster) -> None:
    world.state.now += 1000


def other_conf(world: Cluster) -> None:
    world.assembly = assembly()


def kept_is_dropped(world: Cluster) -> None:
    world.runtime.drop_kept()


def dry(world: Cluster) -> None:
    dry_cycle(world.state, world.assembly, world.runtime, added=job("asked", cpu=1))


def heart_beats(world: Cluster) -> None:
    known = world.world.get(NodeObject, "n0")
    beat = Condition(type="Ready", status="True", last_transition_time=datetime(2030, 1, 1, tzinfo=UTC))
    world.tell(msgspec.structs.replace(known, status=msgspec.structs.replace(known.status, conditions=(beat,))))


def queue_is_counted(world: Cluster) -> None:
    known = world.world.get(QueueObject, "default")
    world.tell(msgspec.structs.replace(known, status=msgspec.structs.replace(known.status, allocated={"cpu": 3})))


HAPPENINGS: list[Callable[[Cluster], None]] = [
    *(victim_ends, job_comes, job_comes_to_be_let_in, pod_that_asks_for_nothing_comes, node_joins, node_leaves),
    *(node_changes, queue_changes, one_is_withdrawn, pod_comes_beside_them, holds_are_over, other_conf),
    *(kept_is_dropped, dry, heart_beats, queue_is_counted),
]


@pytest.mark.parametrize("happens", HAPPENINGS)
def test_after_any_event_nominated_jobs_are_decided_as_afresh(happens: Callable[[Cluster], None]) -> None:
    world = waiting()
    for _ in range(3):
        world.stirred()
    happens(world)
    world.cycle()  # compares with a scheduler that starts now
    world.stirred()


CHANGES: list[dict[str, Any]] = [
    *({"annotations": {"seen": "later"}}, {"labels": {"a": "b"}}, {"taints": ["a=b:NoSchedule"]}),
    *({"unschedulable": True}, {"pods": 1}, {"cpu": 2}, {"memory": "1Gi"}),
]


@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize(("name", "cpu"), [("aside", 1), ("n0", 4)])
def test_after_any_change_of_a_node_nominated_jobs_are_decided_as_afresh(
    name: str, cpu: int, changed: dict[str, Any]
) -> None:
    world = waiting()
    for obj in (node(name, **{"cpu": cpu, **changed}), node(name, cpu=cpu)):
        world.tell(obj)
        world.cycle()
        world.stirred()


def test_a_nominated_job_takes_room_that_becomes_free_elsewhere() -> None:
    world = Cluster(assembly())
    world.tell(node("spare", cpu=4), *job("there", on="spare", cpu=4, queue="other", priority=1000))
    world.tell(*job("one", cpu=4, priority=100, phase="Inqueue"))
    world.cycle()
    world.stirred()
    world.ends("default/there-0")
    assert world.cycle().binds == {"default/one-0": "spare"}


def test_a_nominated_job_takes_a_node_that_grows() -> None:
    world = waiting()
    world.tell(node("aside", cpu=3))
    assert not world.cycle().binds
    world.tell(node("aside", cpu=4))
    assert list(world.cycle().binds.values()) == ["aside"]


def test_a_nominated_job_takes_a_node_that_is_uncordoned() -> None:
    world = Cluster(assembly(), nodes=3)
    world.tell(node("roomy", cpu=8, unschedulable=True), *job("one", cpu=4, priority=100, phase="Inqueue"))
    assert len(world.cycle().evictions) == 1
    for _ in range(3):
        world.stirred()
    world.tell(node("roomy", cpu=8))
    assert world.cycle().binds == {"default/one-0": "roomy"}


def test_a_job_that_arrives_and_finds_room_is_bound_beside_nominated_ones() -> None:
    world = beside_another(3)
    world.tell(*job("fits", cpu="500m", phase="Inqueue"))
    assert world.cycle().binds == {"default/fits-0": "aside"}


def test_a_queue_that_may_no_longer_take_nominated_jobs_gives_the_reason() -> None:
    world = Cluster(assembly(), nodes=0)
    world.tell(node("wide", cpu=30), *job("runs", on="wide", cpu=24, priority=1000))
    for n in range(4):
        world.tell(node(f"n{n}", cpu=4, gpu=1), *job(f"low{n}", on=f"n{n}", cpu=4, gpu=1, priority=1))
        world.tell(*job(f"high{n}", cpu=4, gpu=1, priority=100, phase="Inqueue"))
    world.cycle()
    world.stirred()
    world.tell(*job("elsewhere", on="wide", cpu=36, queue="other"))  # more than its node has, as others placed it
    report = world.cycle()
    assert {r.text for r in report.refusals.values()} == {"queue resource quota insufficient: insufficient cpu"}


def test_a_job_that_loses_its_place_is_told_why_it_waits() -> None:
    world = beside_another(2)
    assert not [i for i in world.stirred().intents if isinstance(i, StatusUpdate) and "high" in i.key]
    world.tell(queue("default", capability={"cpu": 2}))
    said = {i.key: i.status for i in world.cycle().intents if isinstance(i, StatusUpdate)}
    for name in ("default/high0", "default/high1"):
        assert "queue resource quota insufficient" in said[name]["conditions"][0]["message"]


def test_a_cycle_that_breaks_off_leaves_the_nominations() -> None:
    world = beside_another(3)

    def breaks(_: Session) -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_cycle(world.state, world.assembly, world.runtime, inspect=breaks)
    assert violations(world.state) == []
    assert len(world.stirred().pipelined) == 3


ACTIONS = (
    *("enqueue, allocate, preempt, reclaim, backfill", "enqueue, allocate, backfill, reclaim"),
    *("enqueue, allocate, gangpreempt, gangreclaim", "enqueue, allocate, preempt, allocate"),
)
POOLS = ("red", "blue")


def story(seed: int) -> int:
    """Random events in a cluster with nominated jobs and others; return in how many cycles a job had a nomination."""
    rng = random.Random(seed)
    world = Cluster(assembly(actions=rng.choice(ACTIONS)), nodes=rng.randint(3, 8))
    queues, nominated = ["default", *(f"q{n}" for n in range(rng.randint(1, 2)))], 0
    for name in queues[1:]:
        world.tell(queue(name, dequeue_strategy=rng.choice(["", "", "fifo"])))

    def arrive(name: str, priorities: list[int], phase: str = "Inqueue") -> None:
        asks: dict[str, Any] = {"tasks": rng.randint(1, 2), "cpu": rng.choice([1, 2, 4, 4, 9])}
        if rng.random() < 0.2:
            asks["spec"] = PodSpec(node_selector={"pool": rng.choice(POOLS)})
        world.tell(*job(name, priority=rng.choice(priorities), queue=rng.choice(queues), phase=phase, **asks))

    for n in range(rng.randint(1, 4)):
        world.tell(*job(f"j{n}", tasks=rng.randint(1, 2), cpu=rng.choice([2, 4]), priority=100, phase="Inqueue"))
        arrive(f"o{n}", [1, 1, 100])
    for step in range(12):
        match rng.randint(0, 17):
            case 0 | 1 if world.terminating():
                world.ends(rng.choice(world.terminating()))
            case 2:
                arrive(f"late{step}", [1, 100, 300])
            case 3:
                arrive(f"asks{step}", [1, 100], phase="Pending")
            case 4:
                world.tell(queue(rng.choice(queues), capability={"cpu": rng.choice([4, 12, 100])}))
            case 5:
                world.tell(*job(f"small{step}", on="aside", cpu="50m", queue=rng.choice(queues)))
            case 6:
                world.state.now += 50
            case 7:
                labels = {"pool": rng.choice(POOLS)}
                world.tell(node(f"x{step}", cpu=rng.choice([1, 2, 4]), labels=labels))
            case 8:
                world.tell(*job(f"nothing{step}", cpu=0, queue=rng.choice(queues), phase="Inqueue"))
            case 9:
                pods = [o for o in world.world.objects if isinstance(o, Pod) and o.spec.node_name not in ("", "aside")]
                for pod in sorted(o.key for o in pods if not o.metadata.deletion_timestamp)[:1]:
                    world.ends(pod)
            case 10 | 11:
                labels, cordoned = {"pool": rng.choice(POOLS)}, rng.random() < 0.1
                world.tell(node(f"n{rng.randint(0, 2)}", cpu=4, labels=labels, unschedulable=cordoned))
        nominated += bool(world.stirred().pipelined)
        for _ in range(rng.randint(0, 2)):
            world.cycle()
    return nominated


@pytest.mark.law
def test_random_stories_with_nominated_jobs_are_decided_as_afresh() -> None:
    seeds, least = (200, 400) if WHOLE else (6, 10)
    assert sum(story(seed) for seed in range(seeds)) >= least
