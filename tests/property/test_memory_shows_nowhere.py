"""What the scheduler remembers from cycle to cycle shows in nothing that it decides or says, whatever happens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fingerprint import fingerprint, sums
from hypothesis import given
from hypothesis import strategies as st
from law_confs import NEAR_POLICIES, POLICIES, Policy, assembly_of
from law_worlds import WorldDraw, made, node_object, worlds, zoned_worlds
from lawful import lawful
from msgspec.structs import replace as changed

from pumice.framework.session.outcome import Stage
from pumice.framework.session.runtime import Runtime
from pumice.model.api import AnyObject, NodeObject, Pod, PodGroup, QueueObject
from pumice.model.events import ClusterEvent
from pumice.model.intents import Bind, Evict, Nominate
from pumice.saved.cycle import restore
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.recording import record, runtime_of
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.testing.builders import priority_class
from pumice.testing.world import World

pytestmark = pytest.mark.law
DECISIONS = (Bind, Evict, Nominate)
ENDS = ("Succeeded", "Failed", "delete")
CHANGES = ("nothing", "resize", "cordon", "leave", "least", "phase", "queue", "close", "priority", "later")
happenings = st.tuples(st.sampled_from((*ENDS, *ENDS, *CHANGES)), st.integers(0, 9))
stories = st.lists(st.lists(happenings, max_size=2), min_size=4, max_size=20)


class Twins:
    """One cluster, followed by a scheduler that remembers, and by one that takes in events one by one and forgets."""

    def __init__(self, draw: WorldDraw, policy: Policy) -> None:
        draw = replace(draw, jobs=tuple(replace(job, sized=True) for job in draw.jobs))
        self.draw, self.assembly, self.world = draw, assembly_of(policy), World(recreate=True)
        self.live, self.runtime = ClusterState(), Runtime(metered=False)
        self.bare, self.forgetful = ClusterState(), Runtime()
        for obj in made(draw, tree=policy.tree).objects:
            if (
                isinstance(obj, PodGroup) and obj.status.phase == "Pending" and draw.shuffle % 2
            ):  # they were let in before
                obj = changed(obj, status=changed(obj.status, phase="Inqueue"))
            self.put(obj)

    def tell(self, events: list[ClusterEvent]) -> None:
        self.live.apply_all(events)
        for event in events:
            self.bare.apply(event)

    def put(self, obj: AnyObject) -> None:
        self.tell(self.world.put(obj))

    def happens(self, what: str, which: int) -> None:
        if what == "later":
            self.live.now += 50.0 * which
            self.bare.now = self.live.now
        elif what == "priority":
            self.put(priority_class(f"priority-{which % 3}", which))
        elif what in ENDS:
            self._ends(what, which)
        elif what in ("least", "phase"):
            self._group_changes(what, which)
        elif what in ("queue", "close"):
            self._queue_changes(what, which)
        elif what != "nothing":
            self._node_changes(what, which)

    def one_of(self, kind: type[Any], which: int) -> Any:
        found = sorted((o for o in self.world.objects if isinstance(o, kind)), key=lambda o: o.key)
        return found[which % len(found)]

    def _ends(self, what: str, which: int) -> None:
        pod = self.one_of(Pod, which)
        if what == "delete":
            self.tell(self.world.pod_deleted(pod.key))
        elif pod.status.phase == "Running":
            self.tell(self.world.pod_changed(pod.key, phase=what))

    def _group_changes(self, what: str, which: int) -> None:
        group = self.one_of(PodGroup, which)
        if what == "least":
            self.put(changed(group, spec=changed(group.spec, min_member=which % 4)))
        else:
            self.put(changed(group, status=changed(group.status, phase=("Pending", "Inqueue")[which % 2])))

    def _queue_changes(self, what: str, which: int) -> None:
        queue = self.one_of(QueueObject, which)
        if what == "queue":
            fifo = "fifo" if which > 6 else ""
            spec = changed(queue.spec, weight=1 + which, capability={"cpu": 1 + which}, dequeue_strategy=fifo)
            self.put(changed(queue, spec=spec))
        elif queue.metadata.name != "root":
            self.put(changed(queue, status=changed(queue.status, state=("Open", "Closed")[which % 2])))

    def _node_changes(self, what: str, which: int) -> None:
        number = which % len(self.draw.nodes)
        there = [o for o in self.world.objects if isinstance(o, NodeObject) and o.metadata.name == f"n{number}"]
        if what == "leave" and there:
            self.tell(self.world.remove(NodeObject, f"n{number}"))
        elif what == "cordon" and there:
            self.put(changed(there[0], spec=changed(there[0].spec, unschedulable=not there[0].spec.unschedulable)))
        else:
            self.put(node_object(number, replace(self.draw.nodes[number], cpu=1 + which)))

    def cycle(self) -> None:
        """One cycle of both and of a scheduler that starts now."""
        self.tell(self.world.settle())
        saved = record(self.live, self.assembly.conf, self.runtime, objects=False)
        fresh, started = restore(saved, self.world.objects), runtime_of(saved, health=True)
        assert counted(self.live) == counted(self.bare) == counted(fresh)
        self.forgetful.drop_kept()
        self.bare.admission_changes = None
        quiet = not self.runtime.nominations
        live = run_cycle(self.live, self.assembly, self.runtime)
        words, others = told(live), ((self.bare, self.forgetful), (fresh, started))
        for state, runtime in others:
            other = run_cycle(state, self.assembly, runtime)
            assert decided(other) == decided(live)
            assert phases(state) == phases(self.live)
            assert other.pipelined == live.pipelined
            if quiet and not decided(live) and not live.pipelined:
                said = told(other)
                both = words.keys() & said
                assert {at: words[at] for at in both} == {at: said[at] for at in both}
        self.tell(self.world.carry_out(live.intents))


def counted(state: ClusterState) -> dict[str, Any]:
    """Whatever decisions may follow from, but the devices that pods are on: what left before them decides that."""
    found = fingerprint(state)
    state.refresh()
    found["contributed"] = {
        name: [sums(part.amounts) for part in (queue.inqueue, queue.elastic, queue.in_vain)]
        for name, queue in sorted(state.queues.items())
    }
    del found["devices"]
    return found


def decided(report: CycleReport) -> list[Any]:
    assert report.errors == []
    return [intent for intent in report.intents if isinstance(intent, DECISIONS)]


def phases(state: ClusterState) -> dict[str, str]:
    return {uid: str(job.phase) for uid, job in state.session_jobs.items()}


def told(report: CycleReport) -> dict[tuple[str, str], str]:
    """What is said of nodes to jobs that fit nowhere, and to their tasks. Which ground is found first may be another
    one, and with it the words.
    """
    said: dict[tuple[str, str], str] = {}
    for uid, no in report.refusals.items():
        if no.stage is Stage.NODES:
            said[uid, ""] = no.text
            said |= {(uid, task): str(error) for task, error in report.fit_errors.get(uid, {}).items()}
    return {at: words for at, words in said.items() if words.startswith("0/")}


@lawful(400)
@given(draw=worlds, policy=st.sampled_from(POLICIES), story=stories)
def test_a_scheduler_decides_and_says_what_one_that_starts_now_would(
    draw: WorldDraw, policy: Policy, story: list[list[tuple[str, int]]]
) -> None:
    play(draw, policy, story)


@lawful(100)
@given(draw=zoned_worlds, policy=st.sampled_from(NEAR_POLICIES), story=stories)
def test_so_it_does_where_jobs_are_placed_by_hyper_nodes(
    draw: WorldDraw, policy: Policy, story: list[list[tuple[str, int]]]
) -> None:
    play(draw, policy, story)


def play(draw: WorldDraw, policy: Policy, story: list[list[tuple[str, int]]]) -> None:
    twins = Twins(draw, policy)
    for happens in story:
        for what, which in happens:
            twins.happens(what, which)
        twins.cycle()
