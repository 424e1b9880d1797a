"""Who was refused stays so until something that the refusal follows from changes, and is not visited meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from pumice import Job, Node, Plugin, Queue, Scope, Session, Task, Unfit, Verdict, reject
from pumice.config import from_data
from pumice.engine.views import same_class
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import AnyObject
from pumice.model.events import Gone, Seen
from pumice.model.intents import Bind
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, pod, queue

asked: Counter[str] = Counter()
PLUGINS = ("priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack")


class Watches(Plugin):
    """Counts the jobs that are looked at."""

    name = "watches"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_valid_fn(self.name, self._valid)

    def _valid(self, job: Job) -> bool:
        asked[job.name] += 1
        return True


class Hesitates(Watches):
    """Has a say about queues, and does not say what it follows from."""

    name = "hesitates"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        super().on_session_open(ssn)
        ssn.add_allocatable_fn(self.name, self._allocatable, max_tasks=lambda queue, task: 0)

    def _allocatable(self, queue: Queue, task: Task) -> Verdict:
        return reject("not today")


def assembly(*plugins: type[Plugin]) -> Assembly:
    registry = default_registry().copy()
    for plugin in plugins:
        registry.register(plugin.name, plugin)
    named = [{"name": n} for n in (*PLUGINS, *(p.name for p in plugins))]
    conf: dict[str, Any] = {"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": named}]}
    return assemble(from_data(conf, catalogue_of(registry)).conf, registry)


class World:
    """Objects that a live state follows, and from which a fresh one can be made."""

    def __init__(self, made: Assembly, *objects: AnyObject) -> None:
        self.assembly, self.state, self.runtime = made, ClusterState(), Runtime()
        self.objects: dict[tuple[str, str], AnyObject] = {}
        for obj in objects:
            self.put(obj)
        asked.clear()

    def put(self, obj: AnyObject) -> None:
        self.objects[obj.kind_name, obj.key] = obj
        self.state.apply(Seen(obj))

    def remove(self, kind: str, key: str) -> None:
        del self.objects[kind, key]
        self.state.apply(Gone(kind, key))

    def cycle(self) -> CycleReport:
        return run_cycle(self.state, self.assembly, self.runtime)

    def afresh(self) -> CycleReport:
        state = ClusterState()
        for obj in self.objects.values():
            state.apply(Seen(obj))
        return run_cycle(state, self.assembly, Runtime(), details=True)


def told(report: CycleReport) -> dict[str, str]:
    return {uid: refusal.told for uid, refusal in report.refusals.items()}


def unfit(report: CycleReport) -> dict[str, list[str]]:
    return {uid: sorted(map(str, errors.values())) for uid, errors in report.fit_errors.items() if errors}


def full(*more: AnyObject) -> list[AnyObject]:
    """Two queues; a node that is full, one of two CPUs with a pod that can end; waiting jobs of several grounds."""
    objects: list[AnyObject] = [queue("a"), queue("b"), node("n0", cpu=8), node("n1", cpu=2)]
    objects += job("big", queue="a", cpu=8, on="n0", phase="Running")
    objects += job("small", queue="b", cpu=2, on="n1", phase="Running")
    objects += job("nowhere", queue="a", cpu=9, phase="Inqueue")
    objects += job("gang", queue="b", tasks=3, cpu=2, phase="Inqueue")
    objects += job("one", queue="b", cpu=2, phase="Inqueue")
    objects += job("two", queue="b", cpu=2, phase="Inqueue")
    return [*objects, *more]


@pytest.mark.parametrize("plugin", [Hesitates])
def test_everybody_is_visited_where_a_plugin_does_not_say_what_its_answer_follows_from(plugin: type[Plugin]) -> None:
    world = World(assembly(plugin), *full())
    for n in range(3):
        asked.clear()
        world.put(queue(f"c{n}"))
        world.cycle()
        assert asked["one"] == 1


def test_what_a_report_says_stays_although_later_cycles_find_otherwise() -> None:
    world = World(assembly(), *full())
    world.cycle()
    world.put(queue("c"))
    for obj in job("tiny", queue="c", cpu=16, phase="Inqueue"):
        world.put(obj)
    world.cycle()
    world.put(node("n3", cpu=1))
    before = world.cycle()
    world.remove("Pod", "default/one-0")
    world.cycle()
    assert set(before.refusals) == {f"default/{name}" for name in ("nowhere", "gang", "one", "two", "tiny")}


def test_live_cycles_decide_and_refuse_as_a_scheduler_that_starts_now() -> None:
    """Random comings and goings: what is remembered never shows."""
    draw = random.Random(7)
    made = assembly()
    for _ in range(12):
        world = World(made, *(queue(f"q{n}", weight=1 + n) for n in range(3)))
        for n in range(draw.randint(2, 4)):
            world.put(node(f"n{n}", cpu=draw.choice([2, 4, 8])))
        for step in range(14):
            what = draw.random()
            pods = sorted(key for kind, key in world.objects if kind == "Pod")
            if what < 0.55:
                tasks = draw.choice([1, 1, 2, 3])
                wants = draw.choice([1, 2, 3, 9])
                for obj in job(f"j{step}", queue=f"q{draw.randrange(3)}", tasks=tasks, cpu=wants, phase="Inqueue"):
                    world.put(obj)
            elif what < 0.9 and pods:
                world.remove("Pod", draw.choice(pods))
            elif what < 0.95:
                world.put(node(f"n{draw.randrange(6)}", cpu=draw.choice([1, 2, 8])))
            fresh, live = world.afresh(), world.cycle()
            assert live.binds == fresh.binds
            assert set(live.refusals) == set(fresh.refusals)
            assert all(told(live).values())
            follow(world, live)


def follow(world: World, report: CycleReport) -> None:
    """Let the pods that were bound run."""
    for intent in report.intents:
        if isinstance(intent, Bind):
            world.put(bound(world.objects["Pod", intent.pod], intent.node))


def bound(placed: Any, name: str) -> Any:
    spec = msgspec.structs.replace(placed.spec, node_name=name)
    return msgspec.structs.replace(placed, spec=spec, status=msgspec.structs.replace(placed.status, phase="Running"))


def test_a_first_one_who_joins_such_jobs_is_looked_at() -> None:
    world = World(assembly(Watches), *full())
    world.cycle()
    world.cycle()
    asked.clear()
    for obj in job("first", queue="b", cpu=2, phase="Inqueue", priority=10):
        world.put(obj)
    world.cycle()
    assert "first" in asked


def shared() -> list[AnyObject]:
    """Four queues that hold about what they deserve and want more, and one aside with a node of its own."""
    objects: list[AnyObject] = [queue(name) for name in ("q0", "q1", "q2", "q3", "aside")]
    for n in range(4):
        objects += [node(f"n{n}", cpu=10), *job(f"r{n}", queue=f"q{n}", cpu=7, on=f"n{n}", phase="Running")]
        objects += [*job(f"one{n}", queue=f"q{n}", cpu=3, phase="Inqueue"), *job(f"two{n}", queue=f"q{n}", cpu=3)]
        objects += job(f"gang{n}", queue=f"q{n}", tasks=3, cpu="1500m", phase="Inqueue")
    return [*objects, node("own", cpu=4)]


def of_the_aside(cpu: str) -> list[AnyObject]:
    return list(job("aside", queue="aside", cpu=cpu, on="own", phase="Running"))


@pytest.mark.parametrize("seed", range(8))
def test_shares_that_come_and_go_refuse_and_serve_as_a_scheduler_that_starts_now(seed: int) -> None:
    rng = random.Random(seed)
    world = World(assembly(), *shared(), *of_the_aside("3"))
    served = 0
    for _ in range(25):
        match rng.randrange(4):
            case 0:
                for obj in of_the_aside(f"{rng.randrange(100, 4000, 100)}m"):
                    world.put(obj)
            case 1:
                for obj in job(f"more{rng.randrange(9)}", queue=f"q{rng.randrange(4)}", cpu=rng.choice((1, 3))):
                    world.put(obj)
            case 2:
                gone = f"r{rng.randrange(4)}"
                for kind, key in (("Pod", f"default/{gone}-0"), ("PodGroup", f"default/{gone}")):
                    if (kind, key) in world.objects:
                        world.remove(kind, key)
            case _:
                world.put(queue(f"q{rng.randrange(4)}", weight=rng.randrange(1, 4)))
        fresh, live = world.afresh(), world.cycle()
        assert live.binds == fresh.binds
        said, right = told(live), told(fresh)
        assert said.keys() == right.keys()
        for uid in said:  # of two true reasons either may be told
            if "quota" in said[uid] and "quota" in right[uid]:
                assert said[uid] == right[uid]
        served += len(live.binds)
        follow(world, live)
    assert served


@pytest.mark.parametrize("seed", range(8))
def test_nodes_that_change_serve_and_refuse_as_a_scheduler_that_starts_now(seed: int) -> None:
    """Labels, taints, sizes and cordons come and go under jobs that may go to some nodes only."""
    rng = random.Random(seed)
    world = World(assembly(), queue("a"), queue("b"))
    pools = ("red", "blue")

    def changed(name: str) -> AnyObject:
        more: dict[str, Any] = {"labels": {"pool": rng.choice(pools)}, "unschedulable": rng.random() < 0.15}
        if rng.random() < 0.2:
            more["taints"] = ["no:NoSchedule"]
        return node(name, cpu=rng.choice([2, 4, 4, 8]), **more)

    for n in range(8):
        world.put(changed(f"n{n}"))
    served = 0
    for step in range(60):
        what = rng.random()
        pods = sorted(key for kind, key in world.objects if kind == "Pod")
        if what < 0.35:
            wants: dict[str, Any] = {"tasks": rng.choice([1, 1, 3]), "cpu": rng.choice([1, 2, 4, 6])}
            if rng.random() < 0.7:
                selector = {"pool": rng.choice(pools)}
                wants["spec"] = msgspec.structs.replace(pod("any", cpu=wants["cpu"]).spec, node_selector=selector)
            for obj in job(f"j{step}", queue=rng.choice("ab"), phase="Inqueue", **wants):
                world.put(obj)
        elif what < 0.6 and pods:
            world.remove("Pod", rng.choice(pods))
        else:
            world.put(changed(f"n{rng.randrange(8)}"))
        fresh, live = world.afresh(), world.cycle()
        assert live.binds == fresh.binds
        assert told(live).keys() == told(fresh).keys()
        served += len(live.binds)
        follow(world, live)
    assert served > 10


@pytest.mark.parametrize("changed", ["weight", "capability", "labels", "annotations", "state"])
def test_whatever_else_a_queue_says_has_everybody_looked_at(changed: str) -> None:
    world = World(assembly(Watches), *full())
    world.cycle()
    world.cycle()
    asked.clear()
    replace, obj = msgspec.structs.replace, world.state.queues["b"].object
    match changed:
        case "weight":
            obj = replace(obj, spec=replace(obj.spec, weight=5))
        case "capability":
            obj = replace(obj, spec=replace(obj.spec, capability={"cpu": 100}))
        case "state":
            obj = replace(obj, status=replace(obj.status, state="Closing"))
        case _:
            obj = replace(obj, metadata=replace(obj.metadata, **{changed: {"a": "b"}}))
    world.put(obj)
    live = world.cycle()
    looked = set(asked)
    fresh = world.afresh()
    assert {"gang", "one"} <= looked or changed == "state"
    assert live.binds == fresh.binds
    assert told(live).keys() == told(fresh).keys()


def singles(classes: int) -> list[AnyObject]:
    """As `shared`, but only jobs of one task wait, of so many classes in each queue."""
    objects: list[AnyObject] = [queue(name) for name in ("q0", "q1", "q2", "q3", "aside")]
    for n in range(4):
        objects += [node(f"n{n}", cpu=10), *job(f"r{n}", queue=f"q{n}", cpu=7, on=f"n{n}", phase="Running")]
        for k in range(classes):
            objects += job(f"w{n}-{k}", queue=f"q{n}", cpu=f"{2900 + k}m", phase="Inqueue")
            objects += job(f"x{n}-{k}", queue=f"q{n}", cpu=f"{2900 + k}m", phase="Inqueue")
    return [*objects, node("own", cpu=4)]


def test_where_a_queue_may_take_the_one_who_asks_for_least_its_jobs_are_visited() -> None:
    world = World(assembly(Watches), *singles(6), *of_the_aside("3"))
    for _ in range(2):
        follow(world, world.cycle())
    for cpu in ("3100m", "3200m"):
        for obj in of_the_aside(cpu):
            world.put(obj)
        world.cycle()
    for obj in job("small", queue="q1", cpu="100m", phase="Inqueue"):
        world.put(obj)
    fresh, live = world.afresh(), world.cycle()
    assert (live.binds, told(live).keys()) == (fresh.binds, told(fresh).keys())
    follow(world, live)
    for name in ("r0", "r2"):
        world.remove("Pod", f"default/{name}-0")
        world.remove("PodGroup", f"default/{name}")
        fresh, live = world.afresh(), world.cycle()
        assert live.binds
        assert (live.binds, told(live).keys()) == (fresh.binds, told(fresh).keys())
        follow(world, live)


def test_what_is_published_of_queues_over_cycles_is_what_a_scheduler_that_starts_now_publishes() -> None:
    world, gauges = World(assembly(), *singles(2), *of_the_aside("3")), {}
    for cpu in ("3", "3100m", "3200m", "2000m"):
        for obj in of_the_aside(cpu):
            world.put(obj)
        report = world.cycle()
        gauges.update(report.gauges)
        follow(world, report)
    changed = {(name, labels[0][1]) for name, labels in report.gauges}
    assert ("queue_deserved_milli_cpu", "q0") in changed
    assert ("queue_request_milli_cpu", "aside") in changed
    assert ("queue_request_milli_cpu", "q0") not in changed  # it changed in nothing but what it deserves
    gauges.update(world.cycle().gauges)
    fresh = world.afresh().gauges
    assert {key: value for key, value in gauges.items() if key in fresh} == fresh
    assert any(name == "queue_request_milli_cpu" for name, _ in fresh)


class Labelled(Watches):
    """Objects to nodes by their labels, and counts how often it is asked outside of a session."""

    name = "labelled"
    persistent = True
    strays: Counter[str] = Counter()

    def on_session_open(self, ssn: Session) -> None:
        self._open = True
        ssn.add_predicate_fn(self.name, self._fits, scope=Scope.STATIC, key=same_class)

    def on_session_close(self, ssn: Session) -> None:
        self._open = False

    def _fits(self, task: Task, place: Node) -> None:
        if not self._open:
            Labelled.strays[place.name] += 1
        if "shut" in place.labels:
            raise Unfit("shut")


def test_nobody_is_asked_about_a_node_that_changed_before_a_session_is_open() -> None:
    objects = [queue("a"), node("n0", cpu=2), node("n1", cpu=1, labels={"shut": "a"})]
    world = World(assembly(Labelled), *objects, *job("gang", queue="a", tasks=4, cpu=1, phase="Inqueue"))
    world.runtime = Runtime(metered=False)
    Labelled.strays.clear()
    world.cycle()
    for number in range(3):
        world.put(node("n1", cpu=1, labels={"shut": str(number)}))
        assert told(world.cycle()) == {"default/gang": "2 of 4 required tasks have a place"}
    assert not Labelled.strays


def pinned(classes: int) -> World:
    """Jobs that all differ and wait for a pool that is full, beside another one with room."""
    objects = [queue("a"), node("n0", cpu=8, labels={"pool": "mine"}), *job("runs", queue="a", cpu=8, on="n0")]
    objects += [node(f"free{n}", cpu=8, labels={"pool": "other"}) for n in range(40)]
    for n in range(classes):
        wants = f"{1000 + n}m"
        picky = msgspec.structs.replace(pod("any", cpu=wants).spec, node_selector={"pool": "mine"})
        objects += job(f"w{n}", queue="a", cpu=wants, phase="Inqueue", spec=picky)
    world = World(assembly(), *objects)
    for number in range(3):
        world.cycle()
        world.put(node("free1", cpu=8, labels={"pool": "other"}, annotations={"seen": str(number)}))
    return world


def test_who_may_use_a_node_that_changed_is_served_and_the_others_are_told_of_it() -> None:
    world = pinned(60)
    world.put(node("free1", cpu=8, labels={"pool": "mine"}, taints=["no:NoSchedule"]))
    live = world.cycle()
    assert not live.binds
    assert (told(live), unfit(live)) == (told(world.afresh()), unfit(world.afresh()))
    assert all("untolerated taint" in text for text in told(live).values())
    world.put(node("free1", cpu=8, labels={"pool": "mine"}))
    fresh, live = world.afresh(), world.cycle()
    assert live.binds == fresh.binds
    assert set(live.binds.values()) == {"free1"}
    assert told(live).keys() == told(fresh).keys()


@pytest.mark.parametrize("seed", range(6))
def test_nodes_that_change_are_told_of_as_by_a_scheduler_that_starts_now(seed: int) -> None:
    """Classes that want the same nodes, and others; nodes with room that may be used by nobody, some or all."""
    rng = random.Random(seed)
    pools = ("red", "blue", "green")
    world = World(assembly(), queue("a"))
    for n, pool in enumerate(pools):
        world.put(node(f"full{n}", cpu=4, labels={"pool": pool}))
        for obj in job(f"r{n}", queue="a", cpu=4, on=f"full{n}", phase="Running"):
            world.put(obj)
    for n in range(12):
        world.put(node(f"n{n}", cpu=4, labels={"pool": "none"}))
    for n in range(30):
        wants: dict[str, Any] = {"cpu": f"{1000 + 10 * n}m"}
        spec = msgspec.structs.replace(pod("any", **wants).spec, node_selector={"pool": rng.choice(pools)})
        for obj in job(f"w{n}", queue="a", phase="Inqueue", spec=spec, **wants):
            world.put(obj)
    served = 0
    for _ in range(30):
        for _ in range(rng.choice((1, 1, 2))):
            more: dict[str, Any] = {"labels": {"pool": rng.choice((*pools, "none", "none", "none"))}}
            more["taints"] = ["no:NoSchedule"] if rng.random() < 0.6 else []
            world.put(node(f"n{rng.randrange(12)}", cpu=rng.choice((1, 4)), **more))
        fresh, live = world.afresh(), world.cycle()
        assert live.binds == fresh.binds
        if not live.binds:  # else it matters when somebody is told
            assert (told(live), unfit(live)) == (told(fresh), unfit(fresh))
        served += len(live.binds)
        follow(world, live)
    assert served
