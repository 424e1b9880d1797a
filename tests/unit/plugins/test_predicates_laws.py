from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kube_rules import Json, objection
from random_clusters import Board, clusters, moves, nodes

from effort import examples
from pumice.engine.choose import NodeChoice
from pumice.framework.session.session import Session
from pumice.plugins.predicates import Predicates

pytestmark = pytest.mark.law

Cluster = tuple[list[Json], list[Json]]
Steps = list[tuple[str, int, int]]


def assert_filters_follow_the_rules(board: Board, ssn: Session) -> None:
    places = board.places()
    for task in board.waiting():
        pod = board.pods[task.name]
        expected = {p.name: objection(pod, p, places) for p in places}
        said = {n.name: ssn.search.objection(task, n) for n in board.in_order()}
        assert {name: reason.text if reason else None for name, reason in said.items()} == expected
        view = ssn.search.evaluator.view(task)
        rows = ssn.search.chooser.feasible(view, task, np.asarray(view.code == 0))
        kept = {n.name for n in board.in_order() if n.row in rows.tolist()}
        assert kept == {name for name, text in expected.items() if text is None}


@settings(max_examples=examples(100), deadline=None)
@given(clusters(), moves, moves)
def test_every_filter_agrees_with_the_kubernetes_rules_after_placements_and_undo(
    cluster: Cluster, first: Steps, second: Steps
) -> None:
    board = Board(*cluster)
    ssn = board.open(Predicates)
    assert_filters_follow_the_rules(board, ssn)
    board.play(ssn, first)
    assert_filters_follow_the_rules(board, ssn)
    board.play(ssn, second)
    assert_filters_follow_the_rules(board, ssn)


@settings(max_examples=examples(40), deadline=None)
@given(clusters(), moves, st.integers(0, 4).flatmap(lambda i: nodes(f"n{i}")), st.booleans())
def test_filters_follow_nodes_that_change_and_go_between_sessions(
    cluster: Cluster, steps: Steps, node: Json, lose: bool
) -> None:
    board = Board(*cluster)
    ssn = board.open(Predicates)
    assert_filters_follow_the_rules(board, ssn)
    board.play(ssn, steps)
    assert_filters_follow_the_rules(board, ssn)
    board.state.end_session()
    board.see_node(node)
    if lose and len(board.nodes) > 1:
        board.lose_node(min(board.nodes))
    assert_filters_follow_the_rules(board, board.open(Predicates))


@settings(max_examples=examples(80), deadline=None)
@given(clusters(), st.integers(2, 5), st.integers(0, 2))
def test_equal_tasks_placed_in_a_row_get_the_places_that_choosing_one_by_one_gives(
    cluster: Cluster, count: int, which: int
) -> None:
    made, pods = cluster
    waiting = [p for p in pods if "nodeName" not in p["spec"]]
    pattern = waiting[which % len(waiting)]
    twins = [{**pattern, "metadata": {**pattern["metadata"], "name": f"t{i}", "uid": f"t{i}"}} for i in range(count)]
    board = Board(made, [*pods, *twins])
    ssn = board.open(Predicates)
    first = board.state.tasks["t0"]
    in_bulk = ssn.search.chooser.can_plan(ssn.search.evaluator.view(first))
    planned = [board.state.table.nodes[row] for row in ssn.search.chooser.plan(first, count)]
    chosen = []
    for name in sorted(t["metadata"]["uid"] for t in twins):
        task = board.state.tasks[name]
        found = ssn.search.chooser.choose(task)
        if not isinstance(found, NodeChoice):
            break
        ssn.statement().allocate(task, found.node)
        chosen.append(found.node)
    assert planned == (chosen if in_bulk else [])
