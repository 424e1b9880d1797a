from __future__ import annotations

from typing import Any

import kube_rules as kube
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kube_rules import Json
from random_clusters import Board, clusters, moves

from effort import examples
from pumice.plugins.binpack import Binpack
from pumice.plugins.nodeorder import NodeOrder
from pumice.plugins.resource_strategy_fit import ResourceStrategyFit

pytestmark = pytest.mark.law

Cluster = tuple[list[Json], list[Json]]
Steps = list[tuple[str, int, int]]

SCORES = (
    *("leastrequested", "mostrequested", "balancedresource", "tainttoleration", "nodeaffinity", "podaffinity"),
    *("podtopologyspread", "imagelocality"),
)


def expected(board: Board, pod: Json, weights: dict[str, int]) -> list[float]:
    places = board.places()
    parts = {
        "leastrequested": [kube.least_requested(pod, p) for p in places],
        "mostrequested": [kube.most_requested(pod, p) for p in places],
        "balancedresource": [kube.balanced(pod, p) for p in places],
        "tainttoleration": kube.avoided(pod, places),
        "nodeaffinity": kube.preferred_nodes(pod, places),
        "podaffinity": kube.preferred_company(pod, places),
        "podtopologyspread": kube.soft_spread(pod, places),
        "imagelocality": [0] * len(places),
    }
    return [float(sum(weights[name] * parts[name][i] for name in weights)) for i in range(len(places))]


def assert_scores_follow_the_rules(board: Board, ssn: Any, weights: dict[str, int]) -> None:
    for task in board.waiting():
        scores = ssn.batch_node_order(task, board.in_order())
        assert list(scores.values()) == expected(board, board.pods[task.name], weights), task


@settings(max_examples=examples(80), deadline=None)
@given(clusters(), moves, st.fixed_dictionaries({name: st.integers(0, 3) for name in SCORES}))
def test_every_score_of_nodeorder_agrees_with_the_kubernetes_rules_after_placements_and_undo(
    cluster: Cluster, steps: Steps, weights: dict[str, int]
) -> None:
    board = Board(*cluster)
    ssn = board.open(NodeOrder, **{f"{name}__weight": str(weight) for name, weight in weights.items()})
    assert_scores_follow_the_rules(board, ssn, weights)
    board.play(ssn, steps)
    assert_scores_follow_the_rules(board, ssn, weights)


@settings(max_examples=examples(40), deadline=None)
@given(clusters(), moves, st.integers(1, 5), st.integers(0, 3), st.integers(0, 3))
def test_binpack_gives_the_weighted_used_part_of_each_node(
    cluster: Cluster, steps: Steps, weight: int, cpu: int, memory: int
) -> None:
    board = Board(*cluster)
    ssn = board.open(Binpack, binpack__weight=weight, binpack__cpu=cpu, binpack__memory=str(memory))
    board.play(ssn, [s for s in steps if s[0] in ("allocate", "undo")])
    for task in board.waiting():
        pod = board.pods[task.name]
        weights = {"cpu": cpu, "memory": memory}
        want = [kube.binpack(pod, p, weights, weight) for p in board.places()]
        assert list(ssn.batch_node_order(task, board.in_order()).values()) == pytest.approx(want, rel=1e-12)


@settings(max_examples=examples(40), deadline=None)
@given(clusters(), moves, st.integers(1, 5))
def test_filling_up_by_strategy_is_binpack_and_keeping_room_is_what_is_left_of_it(
    cluster: Cluster, steps: Steps, weight: int
) -> None:
    both = {"cpu": {"type": "MostAllocated", "weight": 1}, "memory": {"type": "MostAllocated", "weight": 1}}
    given_to: list[tuple[Any, dict[str, Any]]] = [
        (Binpack, {"binpack__weight": weight}),
        (ResourceStrategyFit, {"resourceStrategyFitWeight": weight, "resources": both}),
        (ResourceStrategyFit, {"resourceStrategyFitWeight": weight}),
    ]
    answers = []
    for plugin, arguments in given_to:
        board = Board(*cluster)
        ssn = board.open(plugin, **arguments)
        board.play(ssn, [s for s in steps if s[0] in ("allocate", "undo")])
        waiting = [t for t in board.waiting() if any(kube.asked(board.pods[t.name], False))]
        answers.append([s for t in waiting for s in ssn.batch_node_order(t, board.in_order()).values()])
    packed, most, least = answers
    assert most == pytest.approx(packed)
    assert least == pytest.approx([100 * weight - score if score else 0.0 for score in packed])
