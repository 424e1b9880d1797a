"""With any mix of user plugins, the engine decides as asking everything about every pair would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import Decision, decide
from oracle_rules import Policy, Rule, plugin_of, policies, rules
from oracle_worlds import Happening, JobDraw, NodeDraw, happenings, job_objects, jobs, node_objects, nodes

from effort import examples
from pumice import Scope
from pumice.config import from_data
from pumice.engine import evaluate
from pumice.engine.ahead import AskedAhead
from pumice.engine.by_kind import ByKind
from pumice.engine.evaluate import Evaluator
from pumice.framework.placing.alone import Alone
from pumice.framework.registry import Registry, default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import AnyObject, NodeObject, Pod, PodGroup
from pumice.model.events import ClusterEvent
from pumice.model.gpu import GpuRequest
from pumice.model.job import Job
from pumice.model.keys import GPU_FRACTION
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.state.invariants import over_committed, violations
from pumice.testing import builders
from pumice.testing.world import World

pytestmark = pytest.mark.law

Drawn: TypeAlias = tuple[list[NodeDraw], list[JobDraw], Policy, tuple[str, ...], list[list[Happening]]]


class Story:
    """One drawn cluster under both schedulers; what the real one decides is carried out."""

    def __init__(self, drawn_nodes: list[NodeDraw], drawn_jobs: list[JobDraw], assembly: Assembly) -> None:
        self.assembly = assembly
        self.world, self.state, self.runtime = World(), ClusterState(), Runtime()
        self.made = 0
        for name in ("q1", "q0"):
            self.tell(self.world.put(builders.queue(name)))
        for node in drawn_nodes:
            self.add_node(node)
        for job in drawn_jobs:
            self.add_job(job)

    def tell(self, events: list[ClusterEvent]) -> None:
        self.state.apply_all(events)

    def add_node(self, draw: NodeDraw) -> None:
        self.made += 1
        self.tell(self.world.put(node_objects(f"node-{self.made * 7 % 30}", draw)))

    def add_job(self, draw: JobDraw) -> None:
        self.made += 1
        for obj in job_objects(f"{'j' * (self.made % 3 + 1)}{self.made}", draw, sorted(self.state.nodes)):
            self.tell(self.world.put(obj))

    def happens(self, event: Happening, more_jobs: list[JobDraw]) -> None:
        pods = sorted(o.key for o in self.world.objects if isinstance(o, Pod))
        running = [k for k in pods if self.world.get(Pod, k).spec.node_name]
        names = sorted(o.metadata.name for o in self.world.objects if isinstance(o, NodeObject))
        groups = sorted(o.key for o in self.world.objects if isinstance(o, PodGroup))
        match event.what:
            case "finish" if running:
                self.tell(self.world.pod_changed(running[event.which % len(running)], phase="Succeeded"))
            case "delete" if running:
                self.tell(self.world.pod_deleted(running[event.which % len(running)]))
            case "relabel" | "resize" if names:
                name = names[event.which % len(names)]
                zone, cpu = (event.amount % 4, 2) if event.what == "relabel" else (event.which % 4, event.amount)
                self.tell(self.world.put(node_objects(name, NodeDraw(cpu, 110, zone))))
            case "remove node" if names:
                self.tell(self.world.remove(NodeObject, names[event.which % len(names)]))
            case "add node":
                self.add_node(NodeDraw(event.amount, 110, event.which % 4))
            case "add job" if more_jobs:
                self.add_job(more_jobs[event.which % len(more_jobs)])
            case "remove job" if groups:
                self.tell(self.world.remove(PodGroup, groups[event.which % len(groups)]))
            case _:
                pass

    def cycle(self) -> tuple[Decision, Decision]:
        """(what the real scheduler decided, what the oracle would have)."""
        self.tell(self.world.settle())
        over_before = over_committed(self.state)
        wanted = decide(self.world.objects, self.assembly)
        report = run_cycle(self.state, self.assembly, self.runtime)
        got = Decision(report.binds, {p: n for tasks in report.pipelined.values() for p, n in tasks.items()})
        assert violations(self.state) == []
        assert set(over_committed(self.state)) <= set(over_before)
        self.tell(self.world.carry_out(report.intents))
        return got, wanted


def assembly_of(policy: Policy, plugins: tuple[str, ...]) -> Assembly:
    registry: Registry = default_registry().copy()
    registry.register("user-policy", plugin_of(policy))
    entries = [{"name": name} for name in (*plugins, "user-policy")]
    conf = from_data({"actions": "allocate", "tiers": [{"plugins": entries}]}, catalogue_of(registry)).conf
    return assemble(conf, registry)


stories = st.tuples(
    st.lists(nodes, min_size=2, max_size=7),
    st.lists(jobs, min_size=1, max_size=4),
    policies,
    st.sampled_from([("gang",), ("gang", "priority"), ("priority",), ()]),
    st.lists(st.lists(happenings, min_size=1, max_size=5), min_size=1, max_size=2),
)


def agree(story: Drawn) -> None:
    drawn_nodes, drawn_jobs, policy, plugins, between = story
    told = Story(drawn_nodes, drawn_jobs, assembly_of(policy, plugins))
    got, wanted = told.cycle()
    assert got == wanted
    for events in between:
        for event in events:
            told.happens(event, drawn_jobs)
        got, wanted = told.cycle()
        assert got == wanted


@settings(max_examples=examples(500), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(stories)
def test_the_engine_decides_as_the_oracle_does(story: Drawn) -> None:
    agree(story)


@pytest.mark.oracle
@pytest.mark.timeout(3600)
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(stories)
def test_the_engine_decides_as_the_oracle_does_at_length(story: Drawn) -> None:
    agree(story)


def rows_by_kind(patch: pytest.MonkeyPatch) -> list[int]:
    """How many kinds of rows there were, each time that rows were looked at by kind."""
    reached: list[int] = []
    real = Evaluator._evaluate_kinds

    def noted(self: Evaluator, view: Any, task: Any, kind: Any, reps: Any) -> None:
        reached.append(len(reps))
        real(self, view, task, kind, reps)

    patch.setattr(Evaluator, "_evaluate_kinds", noted)
    return reached


def test_the_engine_decides_so_as_well_where_equal_rows_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on large clusters: there, rows that hold equal amounts are looked at once."""
    monkeypatch.setattr(evaluate, "MANY_ROWS", 0)
    reached = rows_by_kind(monkeypatch)
    times = examples(300)
    settings(max_examples=times, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)(
        given(stories)(agree)
    )()
    assert len(reached) > times


def tasks_by_kind(patch: pytest.MonkeyPatch) -> list[tuple[int, Task]]:
    """The rows that were found for tasks by kinds of rows alone."""
    found: list[tuple[int, Task]] = []
    real = ByKind.best_row

    def noted(self: ByKind, task: Any, coming: Any = ()) -> int:
        found.append((real(self, task, coming), task))
        return found[-1][0]

    patch.setattr(ByKind, "best_row", noted)
    return found


def gpus_bound_alone(patch: pytest.MonkeyPatch) -> set[GpuRequest | None]:
    """What the tasks asked of GPUs that were bound alone, without a statement."""
    found: set[GpuRequest | None] = set()
    real = Alone.bind

    def noted(self: Alone, queue: Queue, job: Job) -> bool:
        waiting = list(job.with_status(TaskStatus.PENDING).values())
        done = real(self, queue, job)
        if done:
            found.update(task.klass.gpu for task in waiting)
        return done

    patch.setattr(Alone, "bind", noted)
    return found


AMOUNTS = ("pods", "cpu", "company")
by_amounts = st.builds(
    Policy,
    filters=st.lists(rules(score=False, kinds=AMOUNTS), max_size=1).map(tuple),
    scorers=st.lists(rules(score=True, kinds=AMOUNTS), max_size=2).map(tuple),
    best_node=st.just(False),
    refuses=st.sampled_from([0, 0, 3]),
    queue_limit=st.sampled_from([0, 3000]),
    larger_first=st.booleans(),
)


by_amounts_alone = st.tuples(
    st.lists(nodes, min_size=2, max_size=7),
    st.lists(jobs, min_size=2, max_size=6),
    by_amounts,
    st.just(("gang",)),
    st.lists(st.lists(happenings, min_size=1, max_size=5), min_size=1, max_size=3),
)


def test_the_engine_decides_so_as_well_where_scores_are_kept_by_kind_of_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MANY_ROWS", 0)
    found = tasks_by_kind(monkeypatch)
    times = examples(300)
    settings(max_examples=times, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)(
        given(by_amounts_alone)(agree)
    )()
    assert sum(row >= 0 for row, _ in found) > times


sizes = st.tuples(st.integers(1, 6), st.sampled_from([1, 2, 3]))
"""Cpus or tenths of them, and GiB or eighths."""


@dataclass(frozen=True)
class Arrival:
    """A job that arrives: what each of its tasks asks for, and whether a pod that runs leaves just before."""

    size: tuple[int, int]
    leaves: bool
    gpus: str = "0"
    """A number of them, or ``half`` of one."""
    tasks: int = 1
    bytes_apart: int = 0
    """By so much more memory each next task asks for: then each is of a class of its own."""

    def objects(self, name: str) -> list[AnyObject]:
        if self.bytes_apart:
            pods = [
                builders.pod(
                    f"{name}-{n}", group=name, cpu=self.size[0] / 10, memory=self.size[1] * 2**27 + n * self.bytes_apart
                )
                for n in range(self.tasks)
            ]
            return [*builders.job(name, queue="q0", tasks=0, min_available=self.tasks), *pods]
        asked: dict[str, Any] = {"cpu": self.size[0] / 10, "memory": f"{128 * self.size[1]}Mi"}
        asked |= {"task_annotations": {GPU_FRACTION: "0.5"}} if self.gpus == "half" else {"gpu": int(self.gpus)}
        return builders.job(name, queue="q0", tasks=self.tasks, **asked)


def usual_confs() -> list[Assembly]:
    entries = [{"name": name} for name in ("gang", "predicates", "nodeorder", "binpack")]
    entries[2]["arguments"] = {"mostrequested.weight": 1, "balancedresource.weight": 2}  # type: ignore[assignment]
    entries[3]["arguments"] = {"binpack.cpu": 3, "binpack.weight": 2}  # type: ignore[assignment]
    registry = default_registry()
    tiers = (entries, [{"name": entry["name"]} for entry in entries])
    return [
        assemble(from_data({"actions": "allocate", "tiers": [{"plugins": one}]}, catalogue_of(registry)).conf, registry)
        for one in tiers
    ]


def alike(patch: pytest.MonkeyPatch, arrivals: st.SearchStrategy[Arrival], cards: tuple[int, ...], times: int) -> None:
    """Clusters decide the same, in the same words, with every short cut and with none.

    Rows are looked at by kind or one by one, what was found of a row that held the same is taken over or not, jobs of
    one task are bound alone or by a statement. *cards*: GPUs of the nodes in turn.
    """
    bind = Alone.bind

    @settings(max_examples=times, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(
        st.lists(sizes, min_size=2, max_size=5),
        st.lists(st.lists(arrivals, min_size=1, max_size=12), min_size=1, max_size=3),
        st.sampled_from(usual_confs()),
    )
    def decide_the_same(drawn: list[tuple[int, int]], waves: list[list[Arrival]], conf: Assembly) -> None:
        sides = [Story([], [], conf) for _ in range(2)]
        for side in sides:
            for n, (cpu, memory) in enumerate(drawn):
                offered: dict[str, Any] = {"memory": f"{memory}Gi", "gpu": cards[n % len(cards)], "pods": 6}
                side.tell(side.world.put(builders.node(f"n{n * 7 % 5}", cpu=cpu, **offered)))
        for number, wave in enumerate(waves):
            reports = []
            for short, side in zip((True, False), sides, strict=True):
                for n, arrival in enumerate(wave):
                    running = sorted(o.key for o in side.world.objects if isinstance(o, Pod) and o.spec.node_name)
                    if arrival.leaves and running:
                        side.tell(side.world.pod_deleted(running[n % len(running)]))
                    for obj in arrival.objects(f"w{number}-{n}"):
                        side.tell(side.world.put(obj))
                side.tell(side.world.settle())
                patch.setattr(evaluate, "MANY_ROWS", 0 if short else 1000)
                patch.setattr(evaluate, "_FEW", 4 if short else -1)
                patch.setattr(Alone, "bind", bind if short else lambda *_: False)
                reports.append(run_cycle(side.state, side.assembly, side.runtime))
                side.tell(side.world.carry_out(reports[-1].intents))
            assert reports[0].intents == reports[1].intents
            assert reports[0].pipelined == reports[1].pipelined
            devices = [{uid: task.devices for uid, task in side.state.tasks.items()} for side in sides]
            assert devices[0] == devices[1]

    decide_the_same()


def test_the_usual_plugins_decide_by_kinds_of_rows_as_by_looking_at_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers and floating point to the last digit: the same arithmetic, with the classes side by side."""
    found, times = tasks_by_kind(monkeypatch), examples(300)
    alike(monkeypatch, st.builds(Arrival, sizes, st.booleans()), (0,), times)
    assert sum(row >= 0 for row, _ in found) > 3 * times


def test_gangs_and_gpus_are_placed_by_kinds_of_rows_as_by_looking_at_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    found, times = tasks_by_kind(monkeypatch), examples(300)
    alone = gpus_bound_alone(monkeypatch)
    gpus, tasks = st.sampled_from(["1", "1", "0", "2", "half"]), st.sampled_from([1, 2, 2, 3])
    alike(monkeypatch, st.builds(Arrival, sizes, st.booleans(), gpus, tasks), (4, 4, 2), times)
    assert 4 * sum(row >= 0 and task.requires_gpu for row, task in found) > times
    assert {gpu.whole for gpu in alone if gpu is not None} == {True, False}


def test_tasks_that_all_differ_are_asked_about_together_and_placed_as_by_looking_at_every_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered: list[bool] = []
    real = AskedAhead.scores

    def noted(self: AskedAhead, *args: Any) -> Any:
        scores = real(self, *args)
        answered.append(scores is not None)
        return scores

    monkeypatch.setattr(AskedAhead, "scores", noted)
    times = examples(300)
    different = st.builds(
        Arrival,
        sizes,
        st.booleans(),
        tasks=st.integers(3, 20),
        bytes_apart=st.integers(1, 2**26).map(lambda n: 2 * n + 1),
    )
    alike(monkeypatch, different, (0,), times)
    assert sum(answered) > 3 * times


def test_the_engine_decides_so_as_well_on_more_than_256_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    reached, found = rows_by_kind(monkeypatch), tasks_by_kind(monkeypatch)
    times = examples(24)

    @settings(max_examples=times, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.lists(nodes, min_size=2, max_size=4), st.lists(jobs, min_size=1, max_size=2), policies)
    def decides_so(kinds: list[NodeDraw], waiting: list[JobDraw], policy: Policy) -> None:
        told = Story([], [], assembly_of(policy, ("gang",)))
        for n in range(260):
            told.tell(told.world.put(node_objects(f"node-{n}", kinds[n % len(kinds)])))
        for draw in waiting:
            told.add_job(draw)
        got, wanted = told.cycle()
        assert got == wanted

    decides_so()
    assert len(reached) + sum(row >= 0 for row, _ in found) > times // 4


def test_a_job_is_not_passed_over_because_another_one_of_its_class_fits_nowhere() -> None:
    """Tasks of one class may fit other nodes where a filter looks at the job."""
    zone = Rule("zone", batch=False, scope=Scope.STATIC, amount=3)
    policy = Policy((zone,), (), best_node=False, refuses=0, queue_limit=0, larger_first=False)
    waiting = JobDraw(tasks=3, needs=2, milli=250, other=0, queue=0, priority=0, on=0)
    agree(([NodeDraw(4, 110, 1)] * 2, [waiting], policy, ("gang",), [[Happening("add job", 0, 0)]]))


def test_a_task_that_fits_once_others_are_placed_is_tried_again() -> None:
    """The small tasks want company on their node; the first of them comes too early, the next ones do not."""
    company = Rule("company", batch=False, scope=Scope.NODE, amount=2)
    policy = Policy((company,), (), best_node=False, refuses=0, queue_limit=0, larger_first=False)
    mixed = JobDraw(tasks=6, needs=2, milli=250, other=500, queue=0, priority=0, on=-1)
    agree(([NodeDraw(4, 110, 1)] * 2, [mixed], policy, ("gang",), []))
