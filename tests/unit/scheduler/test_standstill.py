"""A cycle that could only decide what the last one did is not run; whatever lasts has the next one run."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from pumice import Action, Plugin, Session
from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.nominations import Nomination
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Shard
from pumice.model.events import Gone, Seen
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.dry import dry_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.testing import cluster, job, node, queue

PLUGINS = ("priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack")


class Goes(Plugin):
    """Goes on, and says nothing about what its answers follow from."""

    name = "goes"

    def on_session_reopen(self, ssn: Session) -> bool:
        return True


class Steady(Goes):
    """Goes on, and answers by the cluster alone."""

    name = "steady"
    steady = True

    def on_session_reopen(self, ssn: Session) -> bool:
        return True


class Heir(Steady):
    """Made of a steady one, and says nothing itself."""

    name = "heir"

    def on_session_reopen(self, ssn: Session) -> bool:
        return True


def assembly(*plugins: type[Plugin], actions: str = "enqueue, allocate, backfill, preempt, reclaim") -> Assembly:
    registry = default_registry().copy()
    for plugin in plugins:
        registry.register(plugin.name, plugin)
    named = [{"name": n} for n in (*PLUGINS, *(p.name for p in plugins))]
    conf: dict[str, Any] = {"actions": actions, "tiers": [{"plugins": named}]}
    return assemble(from_data(conf, catalogue_of(registry)).conf, registry)


class Cluster:
    """Two nodes, and a gang that is too big for them."""

    def __init__(self, made: Assembly) -> None:
        self.state, self.runtime, self.assembly = ClusterState(), Runtime(), made
        self.state.now = 1000.0
        for obj in [queue("default"), *cluster("2x8gpu"), *job("big", tasks=3, gpu=8, phase="Inqueue")]:
            self.state.apply(Seen(obj))
        self.ran = 0

    def cycle(self, **given: Any) -> CycleReport:
        def count(_: Session) -> None:
            self.ran += 1

        return run_cycle(self.state, self.assembly, self.runtime, inspect=count, **given)

    def settled(self) -> CycleReport:
        """Cycles until one is not run."""
        for _ in range(4):
            before = self.ran
            report = self.cycle()
            if self.ran == before:
                return report
        raise AssertionError("every cycle is run")


def test_a_cycle_in_which_nothing_can_have_changed_is_not_run_and_says_what_is_known() -> None:
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


def joins(world: Cluster) -> None:
    world.state.apply(Seen(node("n-new", cpu=64, gpu=8)))


def leaves(world: Cluster) -> None:
    world.state.apply(Gone("Node", next(iter(world.state.nodes))))


def phase(world: Cluster) -> None:
    world.state.set_phase(world.state.jobs["default/big"], "Pending")


def room_is_freed(world: Cluster) -> None:
    world.state.now += 1000


def nominated(world: Cluster) -> None:
    task = next(iter(world.state.jobs["default/big"].tasks.values()))
    world.state.nominate(task, next(iter(world.state.nodes)))


def other_conf(world: Cluster) -> None:
    world.assembly = assembly()


def dropped(world: Cluster) -> None:
    world.runtime.drop_kept()


def dry(world: Cluster) -> None:
    dry_cycle(world.state, world.assembly, world.runtime, added=job("more", gpu=1))


@pytest.mark.parametrize("happens", [joins, leaves, phase, room_is_freed, nominated, other_conf, dropped, dry])
def test_whatever_lasts_has_the_next_cycle_run(happens: Callable[[Cluster], None]) -> None:
    world = Cluster(assembly())
    task = next(iter(world.state.jobs["default/big"].tasks.values()))
    if happens is room_is_freed:
        world.runtime.nominations[task.uid] = Nomination(next(iter(world.state.nodes)), 1500.0)
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


@pytest.mark.parametrize(("plugin", "stands"), [(Goes, False), (Steady, True), (Heir, False)])
def test_a_plugin_stands_still_only_where_its_own_class_says_so(plugin: type[Plugin], stands: bool) -> None:
    world = Cluster(assembly(plugin))
    for _ in range(4):
        world.cycle()
    assert (world.ran < 4) is stands


def test_an_action_that_does_not_say_that_it_is_steady_is_run_every_time() -> None:
    world = Cluster(assembly(actions="enqueue, easybackfill"))
    for _ in range(4):
        world.cycle()
    assert world.ran == 4


def test_no_built_in_that_says_that_it_is_steady_reads_the_clock_or_the_environment() -> None:
    registry = default_registry()
    steady = []
    for name, info in registry.plugins.items():
        made: Any = info.build
        if not (isinstance(made, type) and vars(made).get("steady")):
            continue
        steady.append(name)
        package = made.__module__.rpartition(".")[0] if made.__module__.count(".") > 2 else made.__module__
        for module in [m for n, m in sorted(sys.modules.items()) if n == package or n.startswith(f"{package}.")]:
            source = inspect.getsource(module)
            for word in (".now", "environment", "random", "import time"):
                assert word not in source, f"{module.__name__}: {word}"
    assert set(PLUGINS) <= set(steady)


class Everywhere(Action):
    """Does something whether anybody waits or not."""

    name = "everywhere"
    steady = True

    def execute(self, ssn: Session) -> None:
        self.seen.append(ssn.now)

    seen: ClassVar[list[float]] = []


class Ended(Cluster):
    """A job ran on two nodes and is gone; nobody waits."""

    def __init__(self, made: Assembly, *, metered: bool = False) -> None:
        super().__init__(made)
        self.runtime.metered = metered
        for gone in job("big", tasks=3, gpu=8):
            self.state.apply(Gone(gone.kind_name, gone.key))
        for obj in [
            *job("small", tasks=2, gpu=8, on=["node-0", "node-1"]),
            *job("other", on="node-0"),
        ]:
            self.state.apply(Seen(obj))
        self.settled()

    def ends(self) -> None:
        for obj in job("small", tasks=2, gpu=8):
            self.state.apply(Gone(obj.kind_name, obj.key))


def a_problem(it: Ended) -> None:
    it.state.apply(Seen(node("broken", cpu="many")))


def a_lost_queue(it: Ended) -> None:
    for obj in job("lost", tasks=1, gpu=1, queue="nowhere"):
        it.state.apply(Seen(obj))


def one_who_is_to_be_let_in(it: Ended) -> None:
    for obj in job("new", tasks=1, gpu=1):
        it.state.apply(Seen(obj))


def one_without_requests(it: Ended) -> None:
    for obj in job("light", tasks=1, cpu="0", phase="Inqueue"):
        it.state.apply(Seen(obj))


def one_whose_status_is_another(it: Ended) -> None:
    for obj in job("half", tasks=1, gpu=1, phase="Pending", on="node-0"):
        it.state.apply(Seen(obj))


@pytest.mark.parametrize(
    "happens", [a_problem, a_lost_queue, one_who_is_to_be_let_in, one_without_requests, one_whose_status_is_another]
)
def test_whoever_waits_or_has_something_to_be_told_has_the_cycle_run(happens: Callable[[Ended], None]) -> None:
    it = Ended(assembly())
    it.ends()
    happens(it)
    before = it.ran
    it.cycle()
    assert it.ran == before + 1


def test_where_figures_are_read_they_follow_a_job_that_ended() -> None:
    it = Ended(assembly(), metered=True)
    it.ends()
    assert it.cycle().gauges["queue_allocated_milli_cpu", (("queue_name", "default"),)] == 1000


def test_an_action_is_left_out_only_where_it_says_that_it_serves_those_who_wait() -> None:
    registry = default_registry().copy()
    registry.actions[Everywhere.name] = Everywhere
    conf: dict[str, Any] = {
        "actions": "enqueue, allocate, everywhere",
        "tiers": [{"plugins": [{"name": n} for n in PLUGINS]}],
    }
    it = Ended(assemble(from_data(conf, catalogue_of(registry)).conf, registry))
    it.ends()
    Everywhere.seen.clear()
    report = it.cycle()
    assert Everywhere.seen == [1000.0]
    assert ("action", "allocate") not in report.timings


class InVain(Cluster):
    """Two nodes in use. For "big" there is too little room, "wide" fits no node, whether or not "short" ends."""

    def __init__(self, *, actions: str = "enqueue, allocate, backfill", metered: bool = False) -> None:
        super().__init__(assembly(actions=actions))
        self.runtime.metered = metered
        for obj in [
            *job("short", gpu=2, on="node-0"),
            *job("long", gpu=4, on="node-0"),
            *job("other", gpu=4, on="node-1"),
            *job("wide", gpu=5, phase="Inqueue"),
        ]:
            self.state.apply(Seen(obj))
        for _ in range(3):
            self.cycle()

    def ends(self, *names: str) -> None:
        for obj in [obj for name in names for obj in job(name)]:
            self.state.apply(Gone(obj.kind_name, obj.key))


def told(report: CycleReport) -> dict[str, tuple[Any, ...]]:
    """Who waits, and everything that is said about it."""
    errors = report.fit_errors
    return {
        uid: (r.stage, r.code, r.text, r.plugin, r.placed, r.limits, [str(e) for e in errors.get(uid, {}).values()])
        for uid, r in report.refusals.items()
    }


def another_gang(it: InVain) -> None:
    for obj in job("again", tasks=3, gpu=8, phase="Inqueue"):
        it.state.apply(Seen(obj))


def a_node(it: InVain) -> None:
    it.state.apply(Seen(node("node-2", gpu=4)))


def another_queue(it: InVain) -> None:
    it.state.apply(Seen(queue("default", weight=2)))


def a_pod_without_requests(it: InVain) -> None:
    for obj in job("light", tasks=1, cpu="0", phase="Inqueue"):
        it.state.apply(Seen(obj))


def one_to_be_let_in(it: InVain) -> None:
    for obj in job("new", gpu=16):
        it.state.apply(Seen(obj))


@pytest.mark.parametrize("happens", [another_gang, a_node, another_queue, a_pod_without_requests, one_to_be_let_in])
def test_what_may_matter_to_who_waits_in_vain_has_the_cycle_run(happens: Callable[[InVain], None]) -> None:
    it = InVain()
    it.ends("short")
    happens(it)
    before = it.ran
    it.cycle()
    assert it.ran == before + 1


@pytest.mark.parametrize("more", ["preempt", "reclaim"])
def test_who_waits_in_vain_for_free_room_may_still_be_served_by_another_action(more: str) -> None:
    it = InVain(actions=f"enqueue, allocate, backfill, {more}")
    it.ends("short")
    before = it.ran
    it.cycle()
    assert it.ran == before + 1


def test_what_plugins_say_of_a_queue_is_asked_in_a_session() -> None:
    it = InVain()
    it.state.apply(Seen(queue("narrow", capability={"nvidia.com/gpu": "1"})))
    for obj in job("denied", gpu=2, queue="narrow", phase="Inqueue"):
        it.state.apply(Seen(obj))
    it.cycle()
    it.ends("short")
    before = it.ran
    report = it.cycle()
    assert it.ran == before + 1
    assert told(report)["default/denied"][0] == "queue"
