"""Node selectors and taints against many nodes agree with looking at one node at a time."""

from __future__ import annotations

import numpy as np
import pytest

from pumice import NodeRows
from pumice.engine import matching
from pumice.framework.session.session import Session
from pumice.model.api import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    Requirement,
    Taint,
    Toleration,
)
from pumice.model.task import TaskClass
from pumice.testing import job, node, session, task_of

NODES = (
    node("a", labels={"zone": "1", "size": "10"}),
    node("b", labels={"zone": "2"}, taints=["gpu=yes:NoSchedule"]),
    node("c", taints=["gpu=no:PreferNoSchedule"]),
    node("d", labels={"zone": "2", "size": "3"}, taints=["old:NoExecute", "gpu=yes:NoSchedule"]),
)


def asking(spec: PodSpec | None = None) -> tuple[Session, TaskClass, NodeRows]:
    ssn = session(*NODES, job("a", spec=spec))
    return ssn, task_of(ssn, "a-0").klass, NodeRows(ssn.state.table)


def wanting(*terms: NodeSelectorTerm, **selector: str) -> PodSpec:
    required = NodeSelector(node_selector_terms=terms) if terms else None
    affinity = Affinity(node_affinity=NodeAffinity(required=required)) if terms else None
    return PodSpec(node_selector=selector or None, affinity=affinity)


def names(rows: NodeRows, fits: object) -> str:
    return "".join(name for name, fit in zip(rows.names, np.asarray(fits).tolist(), strict=True) if fit)


@pytest.mark.parametrize(
    ("operator", "values", "fit"),
    [
        ("In", ("2", "9"), "bd"),
        ("In", (), ""),
        ("NotIn", ("2",), "ac"),
        ("Exists", None, "abd"),
        ("DoesNotExist", None, "c"),
        ("Gt", ("1",), "bd"),
        ("Lt", ("2",), "a"),
    ],
)
def test_a_line_about_a_label_matches_the_nodes_that_it_means(
    operator: str, values: tuple[str, ...] | None, fit: str
) -> None:
    _, _, rows = asking()
    line = Requirement(key="zone", operator=operator, values=values)
    assert names(rows, matching.label_matches(line, rows)) == fit
    some = NodeRows(rows._table, np.array([3, 1]))
    assert set(names(some, matching.label_matches(line, some))) == set(fit) & set("bd")


def test_a_node_must_match_the_selector_and_one_of_the_terms() -> None:
    big = NodeSelectorTerm(match_expressions=(Requirement(key="size", operator="Gt", values=("5",)),))
    named = NodeSelectorTerm(match_fields=(Requirement(key="metadata.name", operator="In", values=("d", "x")),))
    empty = NodeSelectorTerm()
    for spec, fit in (
        (wanting(zone="2"), "bd"),
        (wanting(big), "a"),
        (wanting(big, named), "ad"),
        (wanting(named, zone="2"), "d"),
        (wanting(empty), ""),
        (wanting(zone="2", size="10"), ""),
    ):
        _, klass, rows = asking(spec)
        assert matching.has_node_selection(klass)
        assert names(rows, matching.selected(klass, rows)) == fit
    _, klass, rows = asking()
    assert not matching.has_node_selection(klass)
    assert names(rows, matching.selected(klass, rows)) == "abcd"


def test_a_name_is_the_only_field_and_is_found_among_many_as_among_few() -> None:
    few = asking()[2]
    many = NodeRows(session(*(node(f"n{n}") for n in range(12))).state.table)
    for operator, values, of_few, of_many in (
        ("In", ("a", "n3", "n3"), "a", "n3"),
        ("NotIn", ("a", "n3"), "bcd", "".join(f"n{n}" for n in (0, 1, 10, 11, 2, 4, 5, 6, 7, 8, 9))),
    ):
        term = NodeSelectorTerm(match_fields=(Requirement(key="metadata.name", operator=operator, values=values),))
        assert names(few, matching.term_matches(term, few)) == of_few
        found = [n for n, fit in zip(many.names, matching.term_matches(term, many).tolist(), strict=True) if fit]
        assert "".join(sorted(found)) == of_many
    other = NodeSelectorTerm(match_fields=(Requirement(key="metadata.uid", operator="Exists", values=None),))
    assert names(few, matching.term_matches(other, few)) == ""


def test_only_taints_that_keep_pods_away_need_to_be_tolerated() -> None:
    for tolerations, fit in (
        ((), "ac"),
        ((Toleration(key="gpu", operator="Exists"),), "abc"),
        ((Toleration(key="gpu", value="yes", effect="NoSchedule"), Toleration(key="old", operator="Exists")), "abcd"),
        ((Toleration(operator="Exists"),), "abcd"),
    ):
        _, klass, rows = asking(PodSpec(tolerations=tolerations))
        assert names(rows, matching.taints_tolerated(klass, rows)) == fit
    first = matching.untolerated((), (Taint("soft", "PreferNoSchedule"), Taint("hard", "NoSchedule", "1")))
    assert first is not None
    assert first.key == "hard"


def test_each_set_of_taints_is_judged_once_per_class_until_there_is_a_new_one() -> None:
    ssn, klass, rows = asking()
    judged: list[tuple[Taint, ...]] = []

    def judge(tolerations: object, taints: tuple[Taint, ...]) -> int:
        judged.append(taints)
        return len(taints)

    for _ in range(2):
        assert matching.by_taints(klass, rows, "test", np.int64, judge).tolist() == [0, 1, 1, 2]
    assert len(judged) == len(ssn.state.table.taint_sets) == 4
