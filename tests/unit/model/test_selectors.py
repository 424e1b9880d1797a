"""Selectors and tolerations: what matches what."""

from __future__ import annotations

import pytest

from pumice.model.api import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement, Taint, Toleration
from pumice.model.selectors import (
    label_selector_matches,
    node_selector_matches,
    node_term_matches,
    requirement_matches,
    selector_keys,
    tolerated,
    tolerates,
)

LABELS = {"zone": "a", "size": "5"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ("b",), False),
        ("none", "In", ("a",), False),
        ("zone", "In", None, False),
        ("zone", "NotIn", ("b",), True),
        ("zone", "NotIn", ("a",), False),
        ("none", "NotIn", ("a",), True),
        ("zone", "Exists", None, True),
        ("none", "Exists", None, False),
        ("none", "DoesNotExist", None, True),
        ("zone", "DoesNotExist", None, False),
        ("size", "Gt", ("4",), True),
        ("size", "Gt", ("5",), False),
        ("size", "Lt", ("6",), True),
        ("zone", "Lt", ("6",), False),
        ("none", "Gt", ("6",), False),
        ("size", "Gt", None, False),
        ("size", "Near", ("5",), False),
    ],
)
def test_one_line_of_a_selector(key: str, operator: str, values: tuple[str, ...] | None, matches: bool) -> None:
    assert requirement_matches(Requirement(key=key, operator=operator, values=values), LABELS) is matches


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not label_selector_matches(None, LABELS)
    assert label_selector_matches(LabelSelector(), LABELS)
    assert label_selector_matches(LabelSelector(match_labels={"zone": "a"}), LABELS)
    both = LabelSelector(
        match_labels={"zone": "a"}, match_expressions=(Requirement(key="size", operator="DoesNotExist"),)
    )
    assert not label_selector_matches(both, LABELS)
    assert selector_keys(both) == {"zone", "size"}
    assert selector_keys(None) == set()


def test_a_node_selector_takes_any_term_and_an_empty_term_takes_nothing() -> None:
    zone = NodeSelectorTerm(match_expressions=(Requirement(key="zone", operator="In", values=("b",)),))
    named = NodeSelectorTerm(match_fields=(Requirement(key="metadata.name", operator="In", values=("n1",)),))
    assert not node_term_matches(NodeSelectorTerm(), LABELS, "n1")
    assert node_selector_matches(NodeSelector(node_selector_terms=(zone, named)), LABELS, "n1")
    assert not node_selector_matches(NodeSelector(node_selector_terms=(zone, named)), LABELS, "n2")
    assert not node_selector_matches(NodeSelector(), LABELS, "n1")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration(key="k", value="5", effect="NoSchedule"), True),
        (Toleration(key="k", value="5"), True),
        (Toleration(key="k", value="6"), False),
        (Toleration(key="x", value="5"), False),
        (Toleration(key="k", value="5", effect="NoExecute"), False),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(value="5"), False),
        (Toleration(key="k", operator="Gt", value="4"), True),
        (Toleration(key="k", operator="Lt", value="4"), False),
        (Toleration(key="k", operator="Gt", value="x"), False),
        (Toleration(key="k", operator="Odd", value="5"), False),
    ],
)
def test_a_toleration_covers_a_taint(toleration: Toleration, covers: bool) -> None:
    taint = Taint(key="k", value="5", effect="NoSchedule")
    assert tolerates(toleration, taint) is covers
    assert tolerated([Toleration(key="no"), toleration], taint) is covers
