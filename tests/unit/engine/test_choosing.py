"""Choosing a node: ties, reasons, bulk plans, and answers that are kept for as long as they hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from pumice import NodeRows, Scope, Session, Task, Unfit, same_class
from pumice.engine.choose import NodeChoice
from pumice.engine.diagnosis import FitError
from pumice.engine.scope import skip_unless
from pumice.framework.compat import PUMICE, VOLCANO, Compat
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Gone, Seen
from pumice.model.reason import Code, forget_reason, reason_count, reason_id
from pumice.testing import Scenario, cluster, job, node, session, task_of


def chosen(ssn: Session, pod: str = "a-0") -> str:
    found = ssn.search.chooser.choose(task_of(ssn, pod))
    assert isinstance(found, NodeChoice), str(found)
    return found.node.name


def test_equal_scores_are_settled_by_the_smallest_name_whatever_the_rows() -> None:
    state = session(node("c"), node("b"), node("a"), job("a")).state
    assert chosen(Session(state)) == "a"
    state.apply(Gone("Node", "a"))
    state.apply(Seen(node("z")))
    assert chosen(Session(state)) == "b"


def test_ties_may_be_settled_at_random_and_then_the_seed_decides() -> None:
    state = session(cluster("8x4cpu"), job("a")).state
    picks = {seed: chosen(Session(state, runtime=Runtime(seed=seed, random_ties=True))) for seed in range(20)}
    again = {seed: chosen(Session(state, runtime=Runtime(seed=seed, random_ties=True))) for seed in range(20)}
    assert picks == again
    assert len(set(picks.values())) > 1


def test_reasons_are_counted_over_all_nodes_most_frequent_first() -> None:
    ssn = session(cluster("3x1cpu, 1x8cpu"), job("a", cpu=4))
    ssn.add_predicate_fn("p", lambda task, node: _refuse(node.name == "node-3", "not the last"), scope=Scope.STATIC)
    error = ssn.search.chooser.choose(task_of(ssn, "a-0"))
    assert isinstance(error, FitError)
    assert str(error) == "0/4 nodes are unavailable: 3 Insufficient cpu, 1 not the last."
    assert [(r.text, n) for r, n in error.reasons()] == [("Insufficient cpu", 3), ("not the last", 1)]
    assert error.nodes == 4


@pytest.mark.parametrize("compat", [PUMICE, VOLCANO])
def test_a_node_counts_for_every_resource_that_it_lacks_and_the_rarest_comes_first(compat: Compat) -> None:
    """GPUs are short on all nodes, cpu on three, memory on one; under compat the first of each node counts alone."""
    nodes = [node("a", cpu=1, memory="8Gi", gpu=1), node("b", cpu=1, memory="1Gi"), node("c", cpu=1, memory="8Gi")]
    objects = [*nodes, node("d", cpu=8, memory="8Gi", gpu=1)], job("a", cpu=4, memory="4Gi", gpu=2)
    ssn = Session(session(*objects).state, compat=compat)
    error = ssn.search.chooser.choose(task_of(ssn, "a-0"))
    assert isinstance(error, FitError)
    every = [("Insufficient nvidia.com/gpu", 4), ("Insufficient cpu", 3), ("Insufficient memory", 1)]
    first = [("Insufficient cpu", 3), ("Insufficient nvidia.com/gpu", 1)]
    assert [(r.text, n) for r, n in error.reasons()] == (first if compat is VOLCANO else every)
    words = ", ".join(f"{n} {text}" for text, n in every)
    old = "1 Insufficient nvidia.com/gpu, 3 Insufficient cpu"
    assert str(error) == f"0/4 nodes are unavailable: {old if compat is VOLCANO else words}."
    ssn.state.apply(Seen(node("b", cpu=8, memory="1Gi")))
    after = ssn.search.chooser.choose(task_of(ssn, "a-0"))
    assert isinstance(after, FitError)
    counted = {r.text: n for r, n in after.reasons()}
    assert counted["Insufficient cpu"] == 2


def test_reasons_of_resources_that_nothing_uses_any_more_are_forgotten_in_every_company() -> None:
    for text in ("Insufficient x/y", "Insufficient cpu, Insufficient x/y", "Insufficient x/yz"):
        reason_id("resources", text)
    before = reason_count()
    forget_reason("resources", "Insufficient x/y")
    assert reason_id("resources", "Insufficient x/yz")
    for text in ("Insufficient p/q", "Insufficient cpu, Insufficient p/q"):
        reason_id("resources", text)
    assert reason_count() == before
    forget_reason("resources", "Insufficient p/q")
    forget_reason("resources", "Insufficient x/yz")


def _refuse(when: bool, text: str) -> None:
    if when:
        raise Unfit(text)


@pytest.mark.parametrize(("scope", "first", "again"), [(Scope.STATIC, 3, 0), (Scope.NODE, 3, 1), (Scope.SESSION, 3, 3)])
def test_an_answer_is_asked_for_again_when_its_scope_says_so(scope: Scope, first: int, again: int) -> None:
    """Static answers stand, answers about a node are asked again for the one that changed, others always."""
    ssn = session(cluster("3x4cpu"), job("a", tasks=3))
    asked: Counter[str] = Counter()

    def score(task: Task, rows: NodeRows) -> Any:
        asked.update(rows.names)
        return np.zeros(len(rows))

    ssn.add_batch_node_order_fn("p", score, scope=scope, key=same_class)
    assert chosen(ssn) == "node-0"
    assert asked.total() == first
    asked.clear()
    ssn.statement().allocate(task_of(ssn, "a-0"), ssn.nodes["node-0"])
    chosen(ssn, "a-1")
    assert asked.total() == again


def test_static_answers_are_kept_across_sessions_until_the_node_changes(scenario: Scenario) -> None:
    from pumice import Node, Plugin, scope

    asked: list[str] = []

    class Labelled(Plugin):
        name = "labelled"

        @scope(Scope.STATIC)
        def predicate(self, task: Task, node: Node) -> None:
            asked.append(node.name)
            _refuse(node.labels.get("ok") != "yes", "not ok")

    scenario.cluster("4x1cpu").job("a")
    scenario.run(plugins=["gang", Labelled])
    scenario.assert_pending("a", because="not ok")
    asked.clear()
    scenario.run()
    assert asked == []
    scenario.node("node-2", cpu=1, labels={"ok": "yes"}).run()
    assert asked == ["node-2"]
    scenario.assert_bound("a", to="node-2")


def test_a_plan_for_many_is_what_choosing_one_by_one_would_give() -> None:
    def spread(task: Task, rows: NodeRows) -> Any:
        return -(rows.used.milli_cpu // 1000).astype(float)

    def make() -> Session:
        ssn = session(cluster("3x3cpu, 2x1cpu"), job("a", tasks=9))
        ssn.add_batch_node_order_fn("spread", spread, scope=Scope.NODE, key=same_class)
        return ssn

    planned = make()
    rows = planned.search.chooser.plan(task_of(planned, "a-0"), 9)
    names = [at.name for row in rows if (at := planned.state.table.nodes[row]) is not None]
    single = make()
    one_by_one = []
    statement = single.statement()
    for n in range(9):
        name = chosen(single, f"a-{n}")
        one_by_one.append(name)
        statement.allocate(task_of(single, f"a-{n}"), single.nodes[name])
    assert names == one_by_one


def test_nothing_is_planned_where_an_answer_may_depend_on_anything() -> None:
    ssn = session(cluster("2x4cpu"), job("a", tasks=2))
    ssn.add_node_order_fn("p", lambda task, node: 1.0)
    assert ssn.search.chooser.plan(task_of(ssn, "a-0"), 2) == []


def test_a_callback_that_does_not_apply_is_not_asked() -> None:
    ssn = session(cluster("2x4cpu"), job("a"), job("b", gpu=1))

    def never(task: Task, rows: NodeRows) -> Any:
        raise AssertionError("must not be asked")

    def for_gpus(task: Task) -> bool:
        return task.requires_gpu

    ssn.add_batch_predicate_fn("p", never, scope=Scope.STATIC, key=skip_unless(for_gpus))
    ssn.add_batch_node_order_fn("p", never, scope=Scope.NODE, key=skip_unless(for_gpus))
    assert chosen(ssn) == "node-0"
    assert ssn.errors == []


def test_a_reason_that_eviction_cannot_mend_outweighs_one_that_it_can() -> None:
    ssn = session(node("n1"), job("a"))
    soft, hard = reason_id("p", "soft"), reason_id("p", "hard", Code.UNRESOLVABLE)
    ssn.add_batch_predicate_fn("p", lambda task, rows: np.full(len(rows), soft), scope=Scope.NODE)
    ssn.add_batch_predicate_fn("p", lambda task, rows: np.full(len(rows), hard), scope=Scope.NODE)
    view = ssn.search.evaluator.view(task_of(ssn, "a-0"))
    assert (int(view.code[0]), int(view.severity[0])) == (soft, 2)
