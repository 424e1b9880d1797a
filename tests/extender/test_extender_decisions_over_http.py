"""A policy behind our own extender decides as it does in process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from extender_serving import Serving
from extender_world import arguments, cluster, conf, cycle, group, node, pod, queue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.engine.scope import Scope
from pumice.extender.server import app
from pumice.framework.plugin import Arguments, Event, EventHandler, Plugin
from pumice.framework.registry import Registry, default_registry
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import Unfit, Verdict, reject
from pumice.model.task import Task


class Opinionated(Plugin):
    """Has an opinion at every point that the protocol carries, made of nothing but what it is shown."""

    name = "opinionated"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.taken: dict[str, int] = {}

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_predicate_fn(self.name, self.fits, scope=Scope.SESSION)
        ssn.add_node_order_fn(self.name, self.score, scope=Scope.SESSION)
        ssn.add_job_enqueueable_fn(self.name, self.enqueueable)
        ssn.add_job_ready_fn(self.name, self.ready)
        ssn.add_overused_fn(self.name, self.over)
        ssn.add_preemptable_fn(self.name, self.victims)
        ssn.add_reclaimable_fn(self.name, self.victims)
        ssn.add_event_handler(EventHandler(allocate=self.allocated, deallocate=self.freed))

    def fits(self, task: Task, node: Node) -> None:
        wanted = task.labels.get("rack")
        if wanted and node.labels.get("rack") != wanted:
            raise Unfit(f"wants rack {wanted}", unresolvable=True)
        if self.taken.get(node.name, 0) >= 2 and task.priority < 50:
            raise Unfit("two are enough")

    def score(self, task: Task, node: Node) -> float:
        return node.used["cpu"] * 3.0 + node.idle["cpu"] * 0.5 + len(node.labels.get("rack", ""))

    def enqueueable(self, job: Job) -> int:
        return {"no": -1, "yes": 1}.get(job.annotations.get("wish", ""), 0)

    def ready(self, job: Job) -> Verdict | bool:
        return reject("never") if job.annotations.get("wish") == "never" else True

    def over(self, queue: Queue) -> bool:
        return queue.weight > 5

    def victims(self, evictor: Task, evictees: list[Task]) -> list[Task] | None:
        if evictor.priority < 10:
            return None
        return [task for task in evictees if task.priority < evictor.priority and task.labels.get("keep") != "yes"]

    def allocated(self, event: Event) -> None:
        if event.task.labels.get("cursed") == "yes":
            event.err = "cursed"
            return
        self.taken[event.task.node_name] = self.taken.get(event.task.node_name, 0) + 1

    def freed(self, event: Event) -> None:
        name = event.task.node_name
        if name in self.taken:
            self.taken[name] -= 1


VERBS = (
    *("onSessionOpen", "onSessionClose", "predicate", "prioritize", "preemptable", "reclaimable", "queueOverused"),
    *("jobEnqueueable", "jobEnqueued", "jobReady", "allocateFunc", "deallocateFunc"),
)
RACKS = st.sampled_from(["", "a", "bb"])


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    """Objects of a small cluster: some pods run, some wait."""
    nodes = [
        node(f"n{n}", cpu=draw(st.integers(2, 6)), labels={"rack": rack} if (rack := draw(RACKS)) else {})
        for n in range(draw(st.integers(1, 4)))
    ]
    groups, pods = [], []
    for at in range(draw(st.integers(1, 3))):
        name = f"job{at}"
        waiting, running = draw(st.integers(1, 3)), draw(st.integers(0, 2))
        wish = draw(st.sampled_from(["", "yes", "no", "never"]))
        phase = draw(st.sampled_from(["Pending", "Inqueue"])) if not running else "Running"
        groups.append(
            group(
                name,
                draw(st.integers(1, waiting)),
                draw(st.sampled_from(["research", "serving"])),
                phase,
                {"wish": wish} if wish else None,
            )
        )
        priority = draw(st.sampled_from([1, 20, 100]))
        labels = {
            key: value
            for key, value in (
                ("rack", draw(RACKS)),
                ("keep", draw(st.sampled_from(["", "yes"]))),
                ("cursed", draw(st.sampled_from(["", "", "", "yes"]))),
            )
            if value
        }
        for n in range(running):
            on = draw(st.sampled_from([thing["metadata"]["name"] for thing in nodes]))
            pods.append(pod(f"{name}-run-{n}", name, on=on, labels=labels, priority=priority))
        for n in range(waiting):
            pods.append(pod(f"{name}-wait-{n}", name, cpu=draw(st.integers(1, 3)), labels=labels, priority=priority))
    queues = [queue("research", draw(st.sampled_from([1, 9]))), queue("serving", 2)]
    return {"nodes": nodes, "pods": pods, "groups": groups, "queues": queues}


@pytest.fixture(scope="module")
def registry() -> Registry:
    known = default_registry().copy()
    known.register("opinionated", Opinionated)
    return known


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with Serving(app([Opinionated])) as running:
        yield running


def _decided(report: Any) -> Any:
    return report.binds, report.evictions, report.pipelined, report.phases, report.statuses, report.errors


@pytest.mark.parametrize("payload", ["full", "names"])
@pytest.mark.parametrize("dialect", ["documented", "volcano"])
@pytest.mark.part(3)
def test_a_policy_decides_the_same_in_process_and_behind_http(
    registry: Registry, serving: Serving, dialect: str, payload: str
) -> None:
    @settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(clusters())
    def holds(objects: dict[str, Any]) -> None:
        rest = [{"name": "gang"}, {"name": "priority"}]
        actions = "enqueue, allocate, preempt, reclaim, backfill"
        inside = cycle(cluster(**objects), conf([rest, [{"name": "opinionated"}]], actions), registry=registry)
        given_arguments = arguments(serving.url, *VERBS, dialect=dialect, payload=payload)
        over_http = conf([rest, [{"name": "extender", "arguments": given_arguments}]], actions)
        outside = cycle(cluster(**objects), over_http, registry=registry)
        assert _decided(outside) == _decided(inside)

    holds()


def test_answers_in_batch_form_lead_to_the_same_places(registry: Registry, serving: Serving) -> None:
    objects: dict[str, Any] = {
        "nodes": [node(f"n{n}", cpu=4 + n, labels={"rack": "a" if n % 2 else "bb"}) for n in range(6)],
        "pods": [pod(f"train-worker-{n}", labels={"rack": "a"}, priority=100) for n in range(7)],
        "groups": [group(members=7)],
    }
    inside = cycle(cluster(**objects), conf([[{"name": "gang"}, {"name": "opinionated"}]]), registry=registry)
    given_arguments = arguments(serving.url, "batchPredicate", "prioritize", "onSessionOpen", scope="node")
    plugins: list[list[dict[str, Any]]] = [[{"name": "gang"}, {"name": "extender", "arguments": given_arguments}]]
    outside = cycle(cluster(**objects), conf(plugins), registry=registry)
    assert len(inside.binds) == 7
    assert outside.binds == inside.binds
