"""Promised places that stand are promised again without a search, whoever else waits; what is decided is the same."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from promised_cluster import Cluster, acted, assembly, told, waiting

from effort import WHOLE
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Repeated
from pumice.model.api import Pod
from pumice.model.intents import StatusUpdate
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.invariants import violations
from pumice.testing import job, node, queue
from steps import calls_of

ACTIONS = (
    *("enqueue, allocate, preempt, reclaim, backfill", "enqueue, allocate, backfill, reclaim"),
    *("enqueue, allocate, gangpreempt, gangreclaim", "enqueue, allocate, preempt, allocate"),
)


class Counting(Cluster):
    """Counts the tasks that were promised their places again; refusals may be in the words of an earlier cycle."""

    again = 0
    counts = True
    """Not where cycles are to be left out: who looks at a session has the actions run."""

    def cycle(self, **given: Any) -> CycleReport:
        self.state.now += 1.0
        decided, pipelined, refused = self.afresh()
        inspect = self.count if self.counts else None
        report = run_cycle(self.state, self.assembly, self.runtime, inspect=inspect, **given)
        assert violations(self.state) == []
        mine = told(report)
        assert mine[:2] == (decided, pipelined)
        assert mine[2].keys() == refused.keys()
        self.carry_out(report)
        return report

    def count(self, ssn: Session) -> None:
        self.again += sum(len(kept) for kept in ssn.outcome.kept if isinstance(kept, Repeated))


def beside_another(jobs: int) -> Cluster:
    """So many jobs whose places are promised, and one that fits nowhere."""
    world = Cluster(assembly(), nodes=jobs)
    for n in range(jobs):
        world.tell(*job(f"high{n}", cpu=4, priority=100, phase="Inqueue"))
    world.tell(*job("big", cpu=64, phase="Inqueue"))
    assert len(world.cycle().evictions) == jobs
    for _ in range(3):
        assert acted(world.stirred())
    return world


def calls_when_stirred(jobs: int) -> int:
    """The calls of functions of a cycle after a pod came where nobody waits."""
    world = beside_another(jobs)
    world.tell(*job("far", queue="other", on="aside", cpu="100m"))
    report, calls = calls_of(partial(run_cycle, world.state, world.assembly, world.runtime))
    assert len(report.pipelined) == jobs
    return calls


def test_a_promised_job_beside_others_costs_a_fifth_of_placing_it() -> None:
    few, many = calls_when_stirred(5), calls_when_stirred(25)
    assert (many - few) / 20 < 150, "placing it took 630"


def test_a_job_that_arrives_and_finds_room_is_bound_beside_promises() -> None:
    world = beside_another(3)
    world.tell(*job("fits", cpu="500m", phase="Inqueue"))
    assert world.cycle().binds == {"default/fits-0": "aside"}


def test_a_promised_job_is_bound_when_its_room_is_there_and_the_others_wait_on() -> None:
    world = beside_another(4)
    left = 4
    for pod in world.terminating():
        world.ends(pod)
        report = world.cycle()
        left -= 1
        assert len(report.binds) == 1
        assert len(report.pipelined) == left


def test_who_is_not_promised_its_place_again_is_told_why_it_waits() -> None:
    world = beside_another(2)
    assert not [i for i in world.stirred().intents if isinstance(i, StatusUpdate) and "high" in i.key]
    world.tell(queue("default", capability={"cpu": 2}))
    said = {i.key: i.status for i in world.cycle().intents if isinstance(i, StatusUpdate)}
    for name in ("default/high0", "default/high1"):
        assert "queue resource quota insufficient" in said[name]["conditions"][0]["message"]


def test_a_cycle_that_is_broken_off_leaves_no_promise_behind() -> None:
    world = beside_another(3)

    def breaks(ssn: Session) -> None:
        assert sum(len(kept) for kept in ssn.outcome.kept if isinstance(kept, Repeated)) == 3
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_cycle(world.state, world.assembly, world.runtime, inspect=breaks)
    assert violations(world.state) == []
    assert len(world.stirred().pipelined) == 3


def test_cycles_in_which_everybody_is_promised_go_over_into_cycles_beside_others() -> None:
    world = waiting().promised()
    world.tell(*job("big", cpu=64, phase="Inqueue"))
    seen: list[int] = []
    count = partial(map, len)
    assert acted(world.stirred(inspect=lambda ssn: seen.extend(count(ssn.outcome.kept))))
    assert seen == [4]


def story(seed: int) -> int:
    """A cluster with promised jobs and others who wait, to which things happen; how many were promised again."""
    rng = random.Random(seed)
    world = Counting(assembly(actions=rng.choice(ACTIONS)), nodes=rng.randint(3, 8))
    queues = ["default", *(f"q{n}" for n in range(rng.randint(1, 2)))]
    for name in queues[1:]:
        world.tell(queue(name, dequeue_strategy=rng.choice(["", "", "fifo"])))

    def arrive(name: str, priorities: list[int], phase: str = "Inqueue") -> None:
        tasks, cpu, place = rng.randint(1, 2), rng.choice([1, 2, 4, 9]), rng.choice(queues)
        world.tell(*job(name, tasks=tasks, cpu=cpu, priority=rng.choice(priorities), queue=place, phase=phase))

    for n in range(rng.randint(1, 4)):
        world.tell(*job(f"j{n}", tasks=rng.randint(1, 2), cpu=rng.choice([2, 4]), priority=100, phase="Inqueue"))
        arrive(f"o{n}", [1, 1, 100])
    for step in range(12):
        match rng.randint(0, 19):
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
                world.tell(node(f"x{step}", cpu=rng.choice([1, 2, 4])))
            case 8:
                world.tell(*job(f"nothing{step}", cpu=0, queue=rng.choice(queues), phase="Inqueue"))
            case 9:
                pods = [o for o in world.world.objects if isinstance(o, Pod) and o.spec.node_name not in ("", "aside")]
                for pod in sorted(o.key for o in pods if not o.metadata.deletion_timestamp)[:1]:
                    world.ends(pod)
            case _:
                pass
        world.stirred()
        for _ in range(rng.randint(0, 2)):
            world.cycle()
    return world.again


@pytest.mark.law
def test_beside_others_it_is_decided_as_by_a_scheduler_that_starts_now() -> None:
    seeds, again = (40, 400) if WHOLE else (4, 20)
    assert sum(story(seed) for seed in range(seeds)) >= again
