"""A plugin that misbehaves is contained: attributed, counted, its point's policy applied, and the cycle goes on."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import pytest

from pumice import Arguments, Event, EventHandler, Job, Node, NodeRows, Plugin, Session, Task, Unfit
from pumice.framework.points.guard import QUARANTINE_AFTER
from pumice.model.intents import Note
from pumice.testing import Scenario, job, node, session, task_of


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)


def broken(point: str, answer: Any) -> type[Plugin]:
    """A plugin whose one callback gives an answer, or raises it where it is an exception."""

    def ask(*args: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer(*args) if callable(answer) else answer

    def on_session_open(self: Plugin, ssn: Session) -> None:
        ssn.add(point, self.name, ask)

    return type("Broken", (Plugin,), {"name": "broken", "on_session_open": on_session_open})


def run(scenario: Scenario, plugin: type[Plugin]) -> Any:
    scenario.node("n1", cpu=4).node("n2", cpu=4).job("a", tasks=2)
    return scenario.run(plugins=["gang", plugin])


@pytest.mark.parametrize(
    ("point", "answer", "text"),
    [
        (
            "predicate",
            RuntimeError("boom"),
            "failed at 'predicate': RuntimeError: boom for task default/a-0 on node n1",
        ),
        (
            "predicate",
            True,
            "TypeError: a predicate returns None or raises Unfit, got True for task default/a-0 on node",
        ),
        ("pre_predicate", RuntimeError("boom"), "failed at 'pre_predicate': RuntimeError: boom for task default/a-0"),
        ("batch_predicate", RuntimeError("boom"), "failed at 'batch_predicate': RuntimeError: boom for task"),
        ("batch_predicate", [True], r"one value per node \(2\), got shape \(1,\)"),
        ("batch_predicate", [1.5, 2.5], "returns truth values or reason numbers, got float64"),
        ("job_valid", RuntimeError("boom"), "failed at 'job_valid': RuntimeError: boom"),
        ("job_valid", 5, r"an answer is a truth value or reject\(text\), got 5"),
        ("job_ready", RuntimeError("boom"), "failed at 'job_ready': RuntimeError: boom"),
        ("job_enqueueable", "perhaps", "a vote is a truth value, a number or None, got 'perhaps'"),
        ("allocatable", RuntimeError("boom"), "failed at 'allocatable': RuntimeError: boom for task default/a-0"),
        ("overused", 5, "an answer is True or False, got 5"),
    ],
)
def test_a_point_that_decides_who_may_takes_a_failure_as_a_no(
    scenario: Scenario, point: str, answer: Any, text: str
) -> None:
    cycle = run(scenario, broken(point, answer))
    assert cycle.binds == {}
    assert any(re.search(text, e) for e in cycle.errors), cycle.errors
    assert cycle.errors[0].startswith("plugin 'broken' failed at ")


@pytest.mark.parametrize(
    ("point", "answer", "text"),
    [
        (
            "node_order",
            RuntimeError("boom"),
            "failed at 'node_order': RuntimeError: boom for task default/a-0 on node n1",
        ),
        ("node_order", float("nan"), "a score must be a finite number, got nan"),
        ("node_order", "high", "failed at 'node_order': TypeError: a score is a number, got 'high'"),
        ("batch_node_order", [1.0], r"one value per node \(2\), got shape \(1,\)"),
        ("batch_node_order", [float("nan"), 1.0], "a score must be a finite number, got nan"),
        ("batch_node_order", RuntimeError("boom"), "failed at 'batch_node_order': RuntimeError: boom"),
        ("job_order", RuntimeError("boom"), "failed at 'job_order': RuntimeError: boom"),
        ("job_order", None, "a comparison is a number, got None"),
        ("task_order", "first", "a comparison is a number, got 'first'"),
        ("best_node", RuntimeError("boom"), "failed at 'best_node': RuntimeError: boom"),
        ("node_map", RuntimeError("boom"), "failed at 'node_map': RuntimeError: boom"),
        ("pre_job_allocation", RuntimeError("boom"), "failed at 'pre_job_allocation': RuntimeError: boom"),
        ("bind_request_mutate", 5, "failed at 'bind_request_mutate': TypeError"),
        ("job_enqueued", RuntimeError("boom"), "failed at 'job_enqueued': RuntimeError: boom"),
    ],
)
def test_a_point_that_only_prefers_takes_a_failure_as_no_opinion(
    scenario: Scenario, point: str, answer: Any, text: str
) -> None:
    scenario.job("b")
    cycle = run(scenario, broken(point, answer))
    assert len(cycle.binds) == 3
    assert any(re.search(text, e) for e in cycle.errors), cycle.errors
    assert cycle.counter("pumice_plugin_failures_total", plugin="broken", point=point) or point.startswith("batch")


def test_a_nan_for_one_node_leaves_the_scores_of_the_others(scenario: Scenario) -> None:
    def score(task: Task, node: Node) -> float:
        return float("nan") if node.name == "n1" else 1.0

    cycle = run(scenario, broken("node_order", score))
    assert set(cycle.binds.values()) == {"n2"}
    assert len(cycle.errors) == 2


def test_a_plugin_that_cannot_open_or_close_does_not_stop_the_cycle(scenario: Scenario) -> None:
    class Never(Plugin):
        name = "never"

        def on_session_open(self, ssn: Session) -> None:
            raise RuntimeError("cannot open")

        def on_session_close(self, ssn: Session) -> None:
            raise RuntimeError("cannot close")

    cycle = run(scenario, Never)
    assert len(cycle.binds) == 2
    said = [e.partition(": ")[2].partition(" (")[0] for e in cycle.errors]
    assert said == ["RuntimeError: cannot open", "RuntimeError: cannot close"]


def test_what_a_plugin_registered_before_it_failed_to_open_is_taken_back(scenario: Scenario) -> None:
    class Halfway(Plugin):
        name = "halfway"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_predicate_fn(self.name, self.refuse)
            ssn.add_event_handler(EventHandler(allocate=self.object))
            raise RuntimeError("cannot open")

        def refuse(self, task: Task, node: Node) -> None:
            raise Unfit("never")

        def object(self, event: Event) -> None:
            event.err = "never"

    cycle = run(scenario, Halfway)
    assert len(cycle.binds) == 2
    assert len(cycle.errors) == 1


def test_an_objection_of_a_handler_undoes_the_placement(scenario: Scenario) -> None:
    class Objects(Plugin):
        name = "objects"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_event_handler(EventHandler(allocate=self.told, deallocate=self.undone))

        def told(self, event: Event) -> None:
            if event.task.name == "a-0":
                raise RuntimeError("not this one")
            if event.task.name == "a-1":
                event.err = "nor this one"

        def undone(self, event: Event) -> None:
            raise RuntimeError("also broken")

    cycle = run(scenario, Objects)
    assert cycle.binds == {}
    assert any("failed at 'allocate handler': RuntimeError: not this one" in e for e in cycle.errors)
    assert any("failed at 'deallocate handler': RuntimeError: also broken" in e for e in cycle.errors)


def test_a_plugin_that_fails_again_and_again_is_left_out_with_a_note(scenario: Scenario) -> None:
    plugin = broken("predicate", RuntimeError("boom"))
    run(scenario, plugin)
    for _ in range(QUARANTINE_AFTER - 1):
        assert scenario.run().binds == {} or len(scenario.cycles) == QUARANTINE_AFTER
    notes = [i for i in scenario.last.updates if isinstance(i, Note) and i.reason == "Quarantined"]
    assert [(n.kind, n.key, n.type) for n in notes] == [("Plugin", "broken", "Warning")]
    assert "predicate: boom" in notes[0].message
    assert all(cycle.errors for cycle in scenario.cycles)
    assert len(scenario.run().binds) == 2


def test_failures_are_forgiven_after_one_good_cycle(scenario: Scenario) -> None:
    failing = [True]

    def sometimes(task: Task, node: Node) -> None:
        if failing[0]:
            raise RuntimeError("boom")

    assert run(scenario, broken("predicate", sometimes)).errors
    health = scenario.runtime.health["broken"]
    assert (health.failing_cycles, health.quarantined) == (1, False)
    failing[0] = False
    scenario.run()
    assert health.failing_cycles == 0
    scenario.assert_bound("a")


def test_the_first_failure_is_logged_once_with_its_traceback(
    scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    assert run(scenario, broken("predicate", RuntimeError("boom"))).errors
    records = [r for r in caplog.records if r.name == "pumice.framework"]
    assert len(records) == 1
    assert records[0].exc_info is not None


def test_a_plugin_that_registers_twice_counts_once() -> None:
    ssn = session(node("n1"), job("a"))

    class Twice(Plugin):
        name = "twice"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_node_order_fn(self.name, lambda task, node: 1.0)
            ssn.add_node_order_fn(self.name, lambda task, node: 5.0)

    ssn.open_plugin(Twice(Arguments()))
    assert ssn.node_order(task_of(ssn, "a-0"), ssn.nodes["n1"]) == 5.0


def test_a_batch_score_may_refuse_the_task(scenario: Scenario) -> None:
    def refuse(task: Task, rows: NodeRows) -> Any:
        raise Unfit("not today")

    cycle = run(scenario, broken("batch_node_order", refuse))
    assert cycle.errors == []
    assert "not today" in cycle.why("a").text


def test_a_batch_predicate_may_refuse_all_nodes_at_once_or_give_numpy_truth(scenario: Scenario) -> None:
    cycle = run(scenario, broken("batch_predicate", lambda task, rows: np.array([n == "n2" for n in rows.names])))
    assert set(cycle.binds.values()) == {"n2"}


def test_a_job_is_not_half_placed_by_a_plugin_that_fails_in_between(scenario: Scenario) -> None:
    asked: list[str] = []

    def ready(job: Job) -> bool:
        asked.append(job.name)
        if len(asked) == 1:
            raise RuntimeError("boom")
        return True

    assert len(run(scenario, broken("job_ready", ready)).errors) == 1
    scenario.assert_invariants()
