"""With any mix of user plugins, the engine decides as asking everything about every pair would."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import Decision, decide
from oracle_rules import Policy, Rule, plugin_of, policies
from oracle_worlds import Happening, JobDraw, NodeDraw, happenings, job_objects, jobs, node_objects, nodes

from effort import examples
from pumice import Scope
from pumice.config import from_data
from pumice.framework.registry import Registry, default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import NodeObject, Pod, PodGroup
from pumice.model.events import ClusterEvent
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
