"""Views of a class: brought up to date for the rows that changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pumice import NodeRows, Scope, Session, Task, Unfit, same_class
from pumice.engine.choose import NodeChoice
from pumice.engine.diagnosis import FitError
from pumice.engine.evaluate import Evaluator
from pumice.engine.views import SEVERITY, of_job
from pumice.model.events import Gone, Seen
from pumice.model.reason import Code, reason_id
from pumice.testing import cluster, job, node, queue, session, task_of

Score = Callable[[Task, NodeRows], Any]
FULL = reason_id("p", "full")


def used(task: Task, rows: NodeRows) -> Any:
    return rows.used.milli_cpu.astype(float)


def not_full(task: Task, rows: NodeRows) -> Any:
    return np.where(rows.used.milli_cpu > 3000, FULL, 0)


def asked(ssn: Session) -> Evaluator:
    ssn.add_batch_predicate_fn("p", not_full, scope=Scope.NODE, key=same_class)
    ssn.add_batch_node_order_fn("p", used, scope=Scope.NODE, key=same_class)
    return ssn.search.evaluator


def pieces(evaluator: Evaluator, task: Task) -> tuple[list[int], list[int], list[float], list[bool]]:
    view = evaluator.view(task)
    return view.code.tolist(), view.severity.tolist(), view.masked.tolist(), view.idle_ok.tolist()


def many(nodes: int = 266) -> Session:
    """A large cluster: most nodes empty, some with one task, some full, one gone."""
    made = session(
        *(node(f"n{n:03d}", cpu=4) for n in range(nodes)),
        job("one", tasks=20, cpu=1, on=[f"n{n:03d}" for n in range(0, 200, 10)]),
        job("full", tasks=10, cpu=4, on=[f"n{n:03d}" for n in range(5, 105, 10)]),
        job("new", tasks=3, cpu=1),
    )
    made.state.apply(Gone("Node", "n101"))
    return made


def test_after_that_only_rows_that_changed_are_asked_about() -> None:
    ssn = many()
    rows_asked: list[list[str]] = []

    def score(task: Task, rows: NodeRows) -> Any:
        rows_asked.append(rows.names)
        return used(task, rows)

    ssn.add_batch_node_order_fn("p", score, scope=Scope.NODE, key=same_class)
    view = ssn.search.evaluator.view(task_of(ssn, "new-0"))
    rows_asked.clear()
    ssn.statement().allocate(task_of(ssn, "new-1"), ssn.nodes["n001"])
    ssn.search.evaluator.view(task_of(ssn, "new-0"))
    assert rows_asked == [["n001"]]
    assert view.masked[ssn.nodes["n001"].row] == 1000.0


def test_nobody_is_asked_about_the_row_of_a_node_that_is_gone() -> None:
    """Nor where one that offers nothing at all holds the same amounts as a row that is free."""
    ssn = many()
    ssn.state.apply(Seen(node("n999", cpu=0, memory=0, pods=0)))
    ssn.state.apply(Gone("Node", "n000"))
    names: list[str] = []

    def judge(task: Task, rows: NodeRows) -> Any:
        assert len(rows.names) == len(rows)
        names.extend(rows.names)
        return np.where(rows.max_pods == 0, FULL, 0)

    ssn.add_batch_predicate_fn("p", judge, scope=Scope.NODE, key=same_class)
    view = ssn.search.evaluator.view(task_of(ssn, "new-0"))
    assert ssn.errors == []
    assert "n999" in names
    assert view.code[ssn.nodes["n999"].row] == FULL


@pytest.mark.parametrize("scope", [Scope.STATIC, Scope.NODE])
def test_a_node_that_changed_is_asked_about_again_and_one_that_is_new_too(scope: Scope) -> None:
    ssn = session(cluster("4x4cpu"), job("new"))
    rows_asked: list[list[str]] = []

    def score(task: Task, rows: NodeRows) -> Any:
        rows_asked.append(rows.names)
        return np.zeros(len(rows))

    ssn.add_batch_node_order_fn("p", score, scope=scope, key=same_class)
    task = task_of(ssn, "new-0")
    ssn.search.evaluator.view(task)
    ssn.state.apply(Seen(node("node-2", cpu=8)))
    ssn.search.evaluator.view(task)
    assert rows_asked[1:] == [["node-2"]]
    ssn.state.apply(Seen(node("node-9", cpu=8)))
    view = ssn.search.evaluator.view(task)
    assert sorted(rows_asked[-1]) == ["node-0", "node-1", "node-2", "node-3", "node-9"]
    assert view.size == 5


def test_scores_of_rows_where_nothing_fits_are_worked_out_only_when_asked_for() -> None:
    ssn = session(node("n", cpu=4), job("running", cpu=4, on="n"), job("new", cpu=2))
    calls: list[int] = []

    def score(task: Task, rows: NodeRows) -> Any:
        calls.append(len(rows))
        return np.full(len(rows), 7.0)

    ssn.add_batch_node_order_fn("p", score, scope=Scope.NODE, key=same_class)
    task, evaluator = task_of(ssn, "new-0"), ssn.search.evaluator
    view = evaluator.view(task)
    assert (calls, view.any_stale) == ([], True)
    assert evaluator.scores(view, task, np.array([0])).tolist() == [7.0]
    assert calls == [1]
    assert evaluator.scores(view, task, np.array([0])).tolist() == [7.0]
    assert calls == [1]


def test_room_that_is_being_released_counts_for_later_and_a_promise_takes_it_again() -> None:
    ssn = session(node("n", cpu=4), job("running", cpu=4, on="n"), job("new", cpu=3), job("next", cpu=2))
    evaluator, task = ssn.search.evaluator, task_of(ssn, "new-0")
    assert not evaluator.future_ok(evaluator.view(task)).any()
    statement = ssn.statement()
    statement.evict(task_of(ssn, "running-0"), "test")
    assert evaluator.future_ok(evaluator.view(task)).tolist() == [True]
    assert not evaluator.view(task).idle_ok.any()
    found = ssn.search.chooser.choose(task)
    assert isinstance(found, NodeChoice)
    assert (found.node.name, found.idle) == ("n", False)
    statement.pipeline(task_of(ssn, "next-0"), ssn.nodes["n"])
    assert not evaluator.future_ok(evaluator.view(task)).any()


def test_scalar_callbacks_are_asked_about_imagined_nodes_one_by_one() -> None:
    ssn = session(cluster("1x8cpu"), job("new", tasks=9, cpu=1))

    def alone(task: Task, at: Any) -> None:
        if len(at.tasks) > 2:
            raise Unfit("crowded")

    ssn.add_predicate_fn("p", alone, scope=Scope.NODE, key=same_class)
    ssn.add_node_order_fn("p", lambda task, at: float(at.idle.milli_cpu), scope=Scope.NODE, key=same_class)
    evaluator = ssn.search.evaluator
    view = evaluator.view(task_of(ssn, "new-0"))
    ahead = evaluator.scalars_ahead(view)
    assert ahead is not None
    assert (ahead(0, 1, 5.0), ahead(0, 3, 5.0)) == (7005.0, -np.inf)
    assert list(ssn.search.chooser.plan(task_of(ssn, "new-0"), 9)) == [0, 0, 0]


def test_all_filters_together_give_the_first_objection() -> None:
    ssn = session(cluster("3x4cpu"), job("new"))
    first, later = reason_id("a", "first"), reason_id("b", "later", Code.UNRESOLVABLE)
    ssn.add_batch_predicate_fn("a", lambda task, rows: np.array([first, 0, 0]), scope=Scope.STATIC, key=same_class)
    ssn.add_batch_predicate_fn("b", lambda task, rows: np.array([later, later, 0]), scope=Scope.SESSION)
    evaluator, task = ssn.search.evaluator, task_of(ssn, "new-0")
    assert evaluator.first_objection(task, NodeRows(ssn.state.table)).tolist() == [first, later, 0]
    assert SEVERITY.of(np.array([0, first, later], dtype=np.int32)).tolist() == [0, 1, 2]


def test_how_many_tasks_there_is_room_for_follows_what_is_placed() -> None:
    ssn = session(cluster("2x4cpu"), node("shut", cpu=64), job("new", tasks=20, cpu=1))
    shut = reason_id("p", "shut")
    ssn.add_batch_predicate_fn(
        "p",
        lambda task, rows: np.array([shut if name == "shut" else 0 for name in rows.names]),
        scope=Scope.STATIC,
        key=same_class,
    )
    evaluator, task = ssn.search.evaluator, task_of(ssn, "new-0")
    assert evaluator.room(task) == 8
    statement = ssn.statement()
    statement.allocate(task_of(ssn, "new-1"), ssn.nodes["node-0"])
    assert evaluator.room(task) == 7
    short = ssn.search.chooser.why_not.short_of(task, 9)
    assert short is not None
    assert (short[0], str(short[1])) == (7, "0/3 nodes are unavailable: 2 Insufficient cpu, 1 shut.")
    assert ssn.search.chooser.why_not.short_of(task, 7) is None
    statement.discard()
    assert evaluator.room(task) == 8


def test_a_class_that_fits_nowhere_has_one_error_for_all_its_tasks_while_nothing_changes() -> None:
    ssn = session(cluster("2x4cpu"), job("big", tasks=2, cpu=8), job("small", cpu=1))
    chooser = ssn.search.chooser
    assert chooser.why_not.known_hopeless(task_of(ssn, "big-0")) is None
    error = chooser.why_not.hopeless(task_of(ssn, "big-0"))
    assert isinstance(error, FitError)
    assert chooser.why_not.known_hopeless(task_of(ssn, "big-1")) is error
    assert chooser.why_not.hopeless(task_of(ssn, "small-0")) is None
    ssn.state.apply(Seen(node("larger", cpu=16)))
    assert chooser.why_not.known_hopeless(task_of(ssn, "big-1")) is None
    assert chooser.why_not.hopeless(task_of(ssn, "big-1")) is None


def test_the_search_can_be_kept_within_some_rows_or_prefer_them() -> None:
    ssn = session(cluster("3x4cpu"), job("new", cpu=2), job("big", cpu=8))
    chooser, task = ssn.search.chooser, task_of(ssn, "new-0")
    last, first = np.array([False, False, True]), np.array([True, False, False])
    for options, name in (({"within": last}, "node-2"), ({"soft": last}, "node-2"), ({"within": first}, "node-0")):
        found = chooser.choose(task, **options)
        assert isinstance(found, NodeChoice)
        assert found.node.name == name
    both = chooser.choose(task, within=last, soft=first)
    assert isinstance(both, NodeChoice)
    assert both.node.name == "node-2"
    refused = chooser.choose(task_of(ssn, "big-0"), within=last)
    assert isinstance(refused, FitError)
    assert refused.nodes == 1


def test_a_score_may_refuse_to_let_the_task_be_placed_at_all() -> None:
    ssn = session(cluster("2x4cpu"), job("new"))

    def refuses(task: Task, rows: NodeRows) -> Any:
        raise Unfit("no scores today")

    ssn.add_batch_node_order_fn("p", refuses, scope=Scope.SESSION)
    refused = ssn.search.chooser.choose(task_of(ssn, "new-0"))
    assert isinstance(refused, FitError)
    assert str(refused) == "no scores today"


def test_answers_of_a_callback_without_a_key_hold_for_one_job_and_what_its_tasks_say() -> None:
    ssn = session(
        node("n0"),
        *(
            job("a", tasks=2, task_labels={"x": "1"}),
            job("b", task_labels={"x": "1"}),
            job("c", task_labels={"x": "2"}),
        ),
    )
    asked_about: list[str] = []

    def predicate(task: Task, node: Any) -> None:
        asked_about.append(task.name)
        if task.job.name == "b" or task.labels["x"] == "2":
            raise Unfit("no")

    ssn.add_predicate_fn("p", predicate, scope=Scope.STATIC)
    chooser = ssn.search.chooser
    found = {name: chooser.choose(task_of(ssn, name)) for name in ("a-0", "a-1", "b-0", "c-0")}
    assert {name for name, one in found.items() if isinstance(one, NodeChoice)} == {"a-0", "a-1"}
    assert asked_about == ["a-0", "b-0", "c-0"]  # the tasks of one job share an answer


@pytest.mark.parametrize("change", ["annotations", "labels", "queue", "priority"])
def test_a_callback_without_a_key_is_asked_anew_about_a_job_that_says_something_else(change: str) -> None:
    ssn = session(node("n0"), queue("p"), queue("q"), job("a", annotations={"x": "1"}, queue="p"))
    known = of_job(task_of(ssn, "a-0"))
    assert known == of_job(task_of(ssn, "a-0"))
    said: dict[str, Any] = {
        "annotations": {"annotations": {"x": "2"}},
        "labels": {"labels": {"y": "2"}},
        "queue": {"queue": "q"},
        "priority": {"priority": 7},
    }
    ssn.state.apply_all(Seen(obj) for obj in job("a", **{"annotations": {"x": "1"}, "queue": "p", **said[change]}))
    assert of_job(task_of(ssn, "a-0")) != known
