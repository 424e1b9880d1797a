"""The report of the last cycle is returned as long as the next cycle could only decide the same, and no longer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pumice import Plugin, Session, Unfit
from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.nominations import Nomination
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Shard
from pumice.model.api import AnyObject
from pumice.model.events import EvictFailed, Gone, Seen
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.task import Task
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.dry import dry_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.testing import cluster, job, node, queue
from pumice.testing.world import World

PLUGINS = ("priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack")
BEGIN = 1000.0


def of_plugins(actions: str, *plugins: str | type[Plugin] | dict[str, Any]) -> Assembly:
    """The actions, the first plugin in a tier and the others in the next, made ready."""
    registry, named = default_registry().copy(), list[Any]()
    for plugin in plugins:
        if isinstance(plugin, type):
            registry.register(plugin.name, plugin)
            named.append({"name": plugin.name})
        else:
            named.append({"name": plugin} if isinstance(plugin, str) else plugin)
    tiers = [{"plugins": named[:1]}, {"plugins": named[1:]}]
    return assemble(from_data({"actions": actions, "tiers": tiers}, catalogue_of(registry)).conf, registry)


def assembly(*more: type[Plugin], actions: str = "enqueue, allocate, backfill, preempt, reclaim") -> Assembly:
    return of_plugins(actions, *PLUGINS, *more)


class Cluster:
    """Two nodes, and a gang that is too big for them. What is decided is carried out."""

    def __init__(self, made: Assembly, objects: Iterable[AnyObject] | None = None) -> None:
        self.state, self.runtime, self.assembly, self.world = ClusterState(), Runtime(), made, World(recreate=False)
        self.state.now = BEGIN
        big = [*cluster("2x8gpu"), *job("big", tasks=3, gpu=8, phase="Inqueue")]
        for obj in [queue("default"), *(big if objects is None else objects)]:
            self.state.apply_all(self.world.put(obj))
        self.ran = 0

    def cycle(self, **given: Any) -> CycleReport:
        def count(_: Session) -> None:
            self.ran += 1

        self.state.apply_all(self.world.settle())
        report = run_cycle(self.state, self.assembly, self.runtime, inspect=count, **given)
        self.state.apply_all(self.world.carry_out(report.intents, self.state.now))
        return report

    def settled(self) -> CycleReport:
        """Run cycles until one is not run."""
        for _ in range(6):
            before = self.ran
            report = self.cycle()
            if self.ran == before:
                return report
        raise AssertionError("every cycle is run")

    def first_that_acts(self, step: float, most: int) -> float:
        """Let time pass in steps until a cycle binds or evicts; return how long that took."""
        for n in range(1, most + 1):
            self.state.now += step
            report = self.cycle()
            if report.binds or report.evictions:
                return n * step
        raise AssertionError("no cycle acts")


def test_a_cycle_that_would_only_be_repeated_is_not_run_and_reports_what_is_known() -> None:
    world = Cluster(assembly())
    first = world.cycle()
    world.state.now += 1
    again = world.settled()
    assert not again.intents
    assert again.now == world.state.now
    assert {uid: r.told for uid, r in again.refusals.items()} == {uid: r.told for uid, r in first.refusals.items()}
    assert again.refusals.keys() == {"default/big"}
    cycle = world.runtime.cycle
    world.cycle()
    assert world.runtime.cycle == cycle + 1


# -- what has the next cycle run -----------------------------------------------------------------------------------
def joins(world: Cluster) -> None:
    world.state.apply_all(world.world.put(node("n-new", cpu=64, gpu=8)))


def leaves(world: Cluster) -> None:
    world.state.apply(Gone("Node", next(iter(world.state.nodes))))


def phase(world: Cluster) -> None:
    world.state.set_phase(world.state.jobs["default/big"], "Pending")


def a_nomination_expires(world: Cluster) -> None:
    world.state.now += 55


def an_hour_passes(world: Cluster) -> None:
    world.state.now += 3600


def nominated(world: Cluster) -> None:
    task = next(iter(world.state.jobs["default/big"].tasks.values()))
    world.state.nominate(task, next(iter(world.state.nodes)))


def other_conf(world: Cluster) -> None:
    world.assembly = assembly()


def dropped(world: Cluster) -> None:
    world.runtime.drop_kept()


def dry(world: Cluster) -> None:
    dry_cycle(world.state, world.assembly, world.runtime, added=job("more", gpu=1))


def a_problem(world: Cluster) -> None:
    world.state.apply(Seen(node("broken", cpu="many")))


def arrives(queue_name: str, cpu: str = "1", **given: Any) -> Callable[[Cluster], None]:
    def job_arrives(world: Cluster) -> None:
        for obj in job("new", queue=queue_name, cpu=cpu, **given):
            world.state.apply_all(world.world.put(obj))

    return job_arrives


@pytest.mark.parametrize(
    "happens",
    [
        *(joins, leaves, phase, a_nomination_expires, an_hour_passes, nominated, other_conf, dropped, dry, a_problem),
        *(arrives("default"), arrives("nowhere"), arrives("default", "0", phase="Inqueue")),
        arrives("default", phase="Pending", on="node-0"),
    ],
)
def test_whatever_may_change_a_decision_has_the_next_cycle_run(happens: Callable[[Cluster], None]) -> None:
    world = Cluster(assembly())
    task = next(iter(world.state.jobs["default/big"].tasks.values()))
    if happens is a_nomination_expires:
        world.runtime.nominations[task.uid] = Nomination(next(iter(world.state.nodes)), BEGIN + 50.0)
    world.settled()
    before = world.ran
    happens(world)
    world.cycle()
    assert world.ran == before + 1


@pytest.mark.parametrize("given", [{"details": True}, {"shard": Shard(False, frozenset())}, {"environment": {"a": 1}}])
def test_a_cycle_that_is_asked_for_more_or_for_something_else_is_run(given: dict[str, Any]) -> None:
    world = Cluster(assembly())
    world.settled()
    before = world.ran
    world.cycle(**given)
    assert world.ran == before + 1


def test_a_free_node_is_used_after_any_number_of_cycles_that_were_not_run() -> None:
    world = Cluster(assembly())
    for _ in range(5):
        assert not world.cycle().binds
    joins(world)
    assert len(world.cycle().binds) == 3


# -- what a plugin depends on --------------------------------------------------------------------------------------
class Answers(Plugin):
    """Objects to each node."""

    name = "answers"

    def on_session_open(self, ssn: Session) -> None:
        self.ssn = ssn
        ssn.add_predicate_fn(self.name, self.fits)

    def fits(self, task: Task, place: Node) -> None:
        self.depend()
        raise Unfit("not now")

    def depend(self) -> None:
        """Read what the answer depends on."""


class ReadsTime(Answers):
    def depend(self) -> None:
        assert self.ssn.now


class ReadsEnvironment(Answers):
    def depend(self) -> None:
        assert self.ssn.environment == {"usage": 1}


class CountsCycles(Answers):
    def on_session_open(self, ssn: Session) -> None:
        super().on_session_open(ssn)
        ssn.memory["cycles"] = ssn.memory.get("cycles", 0) + 1


class AsksServer(Answers):
    def depend(self) -> None:
        self.ssn.wake_at(0)


@pytest.mark.parametrize(
    ("plugin", "idle"), [(Answers, True), (ReadsTime, False), (ReadsEnvironment, False), (CountsCycles, False)]
)
def test_a_plugin_that_reads_time_environment_or_its_memory_is_asked_in_every_cycle(
    plugin: type[Answers], idle: bool
) -> None:
    world = Cluster(assembly(plugin), [*cluster("2x8gpu"), *job("one", gpu=1, phase="Inqueue")])
    for _ in range(6):
        world.cycle(environment={"usage": 1})
    assert (world.ran < 6) is idle


def test_a_plugin_names_the_time_at_which_its_answer_changes() -> None:
    class Opens(Answers):
        def on_session_open(self, ssn: Session) -> None:
            super().on_session_open(ssn)
            ssn.wake_at(BEGIN + 30)

    world = Cluster(assembly(Opens))
    world.settled()
    before = world.ran
    world.state.now = BEGIN + 29
    world.cycle()
    assert world.ran == before
    world.state.now = BEGIN + 30
    world.cycle()
    assert world.ran == before + 1


def test_a_plugin_that_draws_random_numbers_of_its_own_is_asked_once_a_minute() -> None:
    class Own(Answers):
        def depend(self) -> None:
            random.random()

    world = Cluster(assembly(Own))
    world.settled()
    before = world.ran
    for _ in range(180):
        world.state.now += 1
        world.cycle()
    assert world.ran == before + 3


def test_ties_that_are_settled_at_random_are_drawn_in_every_cycle() -> None:
    world = Cluster(assembly())
    world.runtime.random_ties = True
    for _ in range(5):
        world.cycle()
    assert world.ran == 5


# -- what acts in a quiet cluster ----------------------------------------------------------------------------------
class LeastAttained(Plugin):
    """Preempts a job that has run for its quantum for one that has not."""

    name = "least-attained"

    def on_session_open(self, ssn: Session) -> None:
        self.ssn = ssn
        ssn.add_job_order_key_fn(self.name, lambda job: self.has_run(job) >= 100)
        ssn.add_job_starving_fn(self.name, lambda job: job.is_starving)
        ssn.add_preemptable_fn(self.name, lambda task, tasks: [t for t in tasks if self.has_run(t.job) >= 100])

    def has_run(self, job: Job) -> float:
        return self.ssn.now - BEGIN if job.allocated.milli_cpu else 0.0


def test_an_idle_policy_preempts_at_its_quantum() -> None:
    made = of_plugins("allocate, preempt", LeastAttained, "gang", "predicates")
    objects = [node("n", cpu=1), *job("old", cpu=1, on="n"), *job("new", cpu=1, phase="Inqueue")]
    world = Cluster(made, objects)
    assert world.first_that_acts(10, 30) == 100


def test_sla_lets_a_job_in_when_it_has_waited_long_enough() -> None:
    sla = {"name": "sla", "arguments": {"sla-waiting-time": f"{BEGIN + 90:.0f}s"}}
    objects = [node("n", cpu=4), *job("late", cpu=4, min_resources={"cpu": "400"}, phase="Pending")]
    world = Cluster(of_plugins("enqueue, allocate", sla, *PLUGINS), objects)
    late = world.state.jobs["default/late"]
    due = late.creation + BEGIN + 90
    while world.state.now < due + 20:
        world.cycle()
        assert (late.phase != "Pending") is (world.state.now >= due)
        world.state.now += 10


def test_a_refused_eviction_is_tried_again_when_its_time_has_come() -> None:
    low = job("low", cpu=1, min_available=0, priority=1, on="n")
    objects = [node("n", cpu=1), *low, *job("high", cpu=1, priority=9, phase="Inqueue")]
    world = Cluster(of_plugins("allocate, preempt", "priority", "gang", "predicates"), objects)
    world.world.carry_out = lambda intents, now=0.0: []  # type: ignore[method-assign]
    (victim,) = world.cycle().evictions
    task = world.state.task_by_key[victim]
    world.state.apply(EvictFailed(victim, task.uid, "a webhook says no", "n", "default/high"))
    world.settled()
    assert world.first_that_acts(1, 5) == 2
