"""Who is where: pods are counted per value of a node label, and counts follow what is placed, evicted and undone."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.engine.affinity.neighbours import DomainCounts, Neighbours, SpreadTallies, own_terms, spreads
from pumice.engine.affinity.terms import NO_TERMS, Selector, SelectorPart, TermKind
from pumice.framework.session.session import Session
from pumice.model.api import (
    Affinity,
    LabelSelector,
    Metadata,
    NamespaceObject,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    Requirement,
    SpreadConstraint,
    WeightedPodAffinityTerm,
)
from pumice.model.events import Gone, Seen
from pumice.state.table import NodeTable
from pumice.testing import job, node, session, task_of

WEB = LabelSelector(match_labels={"app": "web"})


def term(selector: LabelSelector = WEB, key: str = "zone", **more: Any) -> PodAffinityTerm:
    return PodAffinityTerm(label_selector=selector, topology_key=key, **more)


def cluster() -> Session:
    """Two zones and a node without one; two web pods in zone 1, one of them evictable, one in zone 2."""
    shy = PodSpec(affinity=Affinity(pod_anti_affinity=PodAffinity(required=(term(),))))
    return session(
        *(node(name, labels={"zone": zone}) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"))),
        node("d"),
        job("web", tasks=3, on=["a", "b", "c"], task_labels={"app": "web"}),
        job("lost", on="d", task_labels={"app": "web"}),
        job("other", on="a", task_labels={"app": "db"}, spec=shy),
        job("new", tasks=2, task_labels={"app": "web"}),
    )


def selector(labels: LabelSelector = WEB, namespaces: tuple[str, ...] = ("default",), **more: Any) -> Selector:
    return Selector((SelectorPart(frozenset(namespaces), more.pop("by_labels", None), labels),), leaving_too=True)


def counts(tally: DomainCounts, ssn: Session) -> dict[str, int]:
    """Value of the label -> pods."""
    return {value: int(tally.counts[code]) for value, code in ssn.state.table.label(tally.key)[1].items()}


def test_pods_are_counted_by_the_label_of_their_node_and_those_without_it_are_not() -> None:
    ssn = cluster()
    index = Neighbours(ssn.state)
    index.sync()
    tally = index.tally(selector(), "zone")
    assert (counts(tally, ssn), tally.total) == ({"1": 2, "2": 1}, 3)
    codes = ssn.state.table.label("zone")[1]
    assert sorted(tally.domains.tolist()) == sorted([codes["1"], codes["2"]])
    assert index.tally(selector(), "zone") is tally


def test_counts_follow_what_a_statement_does_and_undoes() -> None:
    ssn = cluster()
    index = Neighbours(ssn.state)
    index.sync()
    tally = index.tally(selector(), "zone")
    statement = ssn.statement()
    statement.allocate(task_of(ssn, "new-0"), ssn.nodes["c"])
    statement.evict(task_of(ssn, "web-0"), "test")
    index.sync()
    assert counts(tally, ssn) == {"1": 1, "2": 2}
    statement.discard()
    index.sync()
    assert counts(tally, ssn) == {"1": 2, "2": 1}


def test_counts_follow_nodes_that_change_their_label_come_and_go() -> None:
    ssn = cluster()
    index = Neighbours(ssn.state)
    index.sync()
    tally = index.tally(selector(), "zone")
    ssn.state.apply(Seen(node("b", labels={"zone": "3"})))
    index.sync()
    assert counts(tally.current(), ssn) == {"1": 1, "2": 1, "3": 1}
    ssn.state.apply(Gone("Node", "c"))
    index.sync()
    assert counts(tally.current(), ssn)["2"] == 0
    assert tally.total == 2


def test_who_was_evicted_counts_as_at_opening_until_that_is_settled() -> None:
    ssn = cluster()
    index = Neighbours(ssn.state).as_at_opening(counts_evicted=True)
    tally = index.tally(selector(), "zone")
    ssn.statement().evict(task_of(ssn, "web-0"), "test")
    index.sync()
    assert counts(tally, ssn) == {"1": 2, "2": 1}
    index.settle()
    assert counts(tally, ssn) == {"1": 1, "2": 1}


def test_one_that_is_frozen_never_sees_what_comes_later() -> None:
    ssn = cluster()
    frozen = Neighbours.frozen(ssn.state)
    tally = frozen.tally(selector(), "zone")
    ssn.statement().allocate(task_of(ssn, "new-0"), ssn.nodes["c"])
    frozen.sync()
    assert counts(tally, ssn) == {"1": 2, "2": 1}


def test_terms_of_pods_that_select_a_newcomer_are_found_with_where_their_carriers_are() -> None:
    ssn = cluster()
    index = Neighbours(ssn.state)
    index.sync()
    [facing] = index.facing(index.kind_of(task_of(ssn, "new-0")))
    assert (facing.kind, facing.topology_key) == (TermKind.ANTI_AFFINITY, "zone")
    assert counts(index.carriers(facing), ssn) == {"1": 1, "2": 0}
    assert index.facing(index.kind_of(task_of(ssn, "other-0"))) == ()


def test_terms_matter_as_at_opening_only_on_nodes_that_had_such_pods_then() -> None:
    ssn = cluster()
    index = Neighbours(ssn.state).as_at_opening(counts_evicted=False)
    [facing] = index.facing(index.kind_of(task_of(ssn, "new-0")))
    statement = ssn.statement()
    statement.evict(task_of(ssn, "other-0"), "test")
    index.sync()
    assert counts(index.carriers(facing), ssn) == {"1": 0, "2": 0}
    assert index.live().all_carriers(facing).total == 0


def test_a_selector_looks_into_other_namespaces_by_name_or_by_their_labels() -> None:
    ssn = session(
        node("a", labels={"zone": "1"}),
        NamespaceObject(metadata=Metadata(name="prod", labels={"env": "prod"})),
        job("here", on="a", task_labels={"app": "web"}),
        job("there", namespace="prod", on="a", task_labels={"app": "web"}),
    )
    index = Neighbours(ssn.state)
    index.sync()
    by_labels = LabelSelector(match_labels={"env": "prod"})
    assert index.tally(selector(), "zone").total == 1
    assert index.tally(selector(namespaces=("default", "prod")), "zone").total == 2
    assert index.tally(selector(namespaces=(), by_labels=by_labels), "zone").total == 1
    ssn.state.apply(Seen(NamespaceObject(metadata=Metadata(name="prod", labels={"env": "test"}))))
    index.sync()
    assert index.tally(selector(namespaces=(), by_labels=by_labels), "zone").total == 0


def test_the_terms_of_a_class_are_read_once_and_say_what_they_ask_for() -> None:
    weighted = WeightedPodAffinityTerm(weight=5, pod_affinity_term=term(key="rack"))
    affinity = Affinity(
        pod_affinity=PodAffinity(required=(term(),), preferred=(weighted,)),
        pod_anti_affinity=PodAffinity(preferred=(weighted,)),
    )
    ssn = session(node("n"), job("a", spec=PodSpec(affinity=affinity)), job("plain"))
    terms = own_terms(task_of(ssn, "a-0"))
    assert [(t.kind, t.topology_key, t.weight) for t in terms.all] == [
        (TermKind.AFFINITY, "zone", 0),
        (TermKind.PREFERRED, "rack", 5),
        (TermKind.PREFERRED, "rack", -5),
    ]
    assert (len(terms.affinity), len(terms.anti_affinity), len(terms.preferred)) == (1, 0, 2)
    assert terms.together is not None
    assert own_terms(task_of(ssn, "a-0")) is terms
    assert own_terms(task_of(ssn, "plain-0")) is NO_TERMS


def test_a_spread_counts_on_the_nodes_that_take_part() -> None:
    """Those that have the label of every constraint, that the class selects and whose taints it tolerates."""
    rules = (
        SpreadConstraint(1, "zone", "DoNotSchedule", WEB),
        SpreadConstraint(2, "rack", "DoNotSchedule", WEB, node_taints_policy="Honor"),
        SpreadConstraint(1, "zone", "ScheduleAnyway", WEB),
    )
    spec = PodSpec(topology_spread_constraints=rules, node_selector={"kind": "x"})
    ssn = session(
        node("a", labels={"zone": "1", "rack": "1", "kind": "x"}),
        node("b", labels={"zone": "2", "rack": "2", "kind": "x"}, taints=["t:NoSchedule"]),
        node("c", labels={"zone": "3", "kind": "x"}),
        node("d", labels={"zone": "4", "rack": "4", "kind": "y"}),
        job("web", tasks=4, on=["a", "b", "c", "d"], task_labels={"app": "web"}),
        job("new", task_labels={"app": "web"}, spec=spec),
    )
    task = task_of(ssn, "new-0")
    hard = spreads(task, "DoNotSchedule")
    assert [(s.topology_key, s.max_skew, s.min_domains, s.taints_matter) for s in hard] == [
        ("zone", 1, 1, False),
        ("rack", 2, 1, True),
    ]
    assert spreads(task, "DoNotSchedule") is hard
    index = Neighbours(ssn.state)
    index.sync()
    zones, racks = map(SpreadTallies(index, task.klass, hard).of, hard)
    assert counts(zones, ssn) == {"1": 1, "2": 1, "3": 0, "4": 0}
    assert counts(racks, ssn) == {"1": 1, "2": 0, "4": 0}


def test_which_nodes_have_the_labels_of_all_constraints_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pod with a thousand constraints cost a million looks at all nodes."""
    rules = tuple(SpreadConstraint(1, f"key{n}", "ScheduleAnyway", WEB) for n in range(40))
    labels = {f"key{n}": "x" for n in range(40)}
    ssn = session(
        node("a", labels=labels),
        node("b", labels={**labels, "key0": "y"}),
        node("c", labels={"key0": "z"}),
        job("web", tasks=3, on=["a", "b", "c"], task_labels={"app": "web"}),
        job("new", task_labels={"app": "web"}, spec=PodSpec(topology_spread_constraints=rules)),
    )
    index, task = Neighbours(ssn.state), task_of(ssn, "new-0")
    index.sync()
    wished = spreads(task, "ScheduleAnyway")
    looks: list[str] = []
    label = NodeTable.label

    def counted(table: NodeTable, key: str) -> Any:
        looks.append(key)
        return label(table, key)

    monkeypatch.setattr(NodeTable, "label", counted)
    tallies = SpreadTallies(index, task.klass, wished)
    first, *others = [tallies.of(spread) for spread in wished]
    assert len(looks) < 10 * len(rules)
    assert counts(first, ssn) == {"x": 1, "y": 1, "z": 0}
    assert {tally.total for tally in others} == {2}
    ssn.state.apply(Seen(node("c", labels=labels)))
    index.sync()
    assert {tallies.of(spread).total for spread in wished} == {3}


def test_a_constraint_may_look_at_labels_of_the_newcomer_itself() -> None:
    rule = SpreadConstraint(1, "zone", "DoNotSchedule", WEB, match_label_keys=("version",))
    spec = PodSpec(topology_spread_constraints=(rule,))
    labels = {"app": "web", "version": "2"}
    ssn = session(
        node("a", labels={"zone": "1"}),
        job("old", on="a", task_labels={"app": "web", "version": "1"}),
        job("now", on="a", task_labels=labels),
        job("new", task_labels=labels, spec=spec),
        job("bare", task_labels={"app": "web"}, spec=spec),
    )
    index = Neighbours(ssn.state)
    index.sync()
    for name, total in (("new-0", 1), ("bare-0", 2)):
        task = task_of(ssn, name)
        [spread] = spreads(task, "DoNotSchedule")
        assert SpreadTallies(index, task.klass, (spread,)).of(spread).total == total


def test_a_tally_of_some_rows_is_of_the_same_pods() -> None:
    ssn = cluster()
    index = Neighbours(ssn.state)
    index.sync()
    tally = index.tally(selector(), "zone")
    part = tally.within([ssn.nodes["a"].row, ssn.nodes["c"].row])
    assert counts(part, ssn) == {"1": 1, "2": 1}
    tally.leave()
    task = task_of(ssn, "new-0")
    ssn.statement().allocate(task, ssn.nodes["a"])
    index.sync()
    assert counts(tally, ssn) == {"1": 2, "2": 1}


def test_a_line_of_a_selector_narrows_what_is_counted() -> None:
    ssn = cluster()
    index = Neighbours(ssn.state)
    index.sync()
    not_db = LabelSelector(match_expressions=(Requirement(key="app", operator="NotIn", values=("db",)),))
    anything = LabelSelector()
    assert index.tally(selector(not_db), "zone").total == 3
    assert index.tally(selector(anything), "zone").total == 4
    assert index.matches([selector(), selector(not_db)], index.kind_of(task_of(ssn, "web-0")))
    assert not index.matches([selector(), selector(not_db)], index.kind_of(task_of(ssn, "other-0")))


def test_a_selector_of_many_parts_is_asked_once_about_a_kind_however_many_labels_are_counted_by() -> None:
    """One pod with a thousand terms of required affinity cost a million questions for each kind of pod."""
    asked: list[str] = []

    class Counting(SelectorPart):
        def matches(self, namespace: str, labels: Any, namespace_labels: Any) -> bool:
            asked.append(namespace)
            return super().matches(namespace, labels, namespace_labels)

    ssn = cluster()
    index = Neighbours(ssn.state)
    index.sync()
    parts = tuple(Counting(frozenset(("default",)), None, WEB) for _ in range(40))
    for n in range(40):
        tally = index.tally(Selector(parts, leaving_too=True), "zone" if n == 0 else f"key{n}")
        assert counts(tally, ssn) == ({"1": 2, "2": 1} if n == 0 else {})
    assert len(asked) == len(parts)  # of the one kind that has the label


def test_whether_it_matches_is_asked_anew_when_namespaces_change() -> None:
    ssn = cluster()
    index = Neighbours(ssn.state)
    index.sync()
    part = SelectorPart(frozenset(), LabelSelector(match_labels={"team": "x"}), WEB)
    both = Selector((part, part), leaving_too=True)
    assert index.tally(both, "zone").total == 0
    ssn.state.apply(Seen(NamespaceObject(metadata=Metadata(name="default", labels={"team": "x"}))))
    index.sync()
    assert index.tally(both, "zone").total == 3
