"""Promise: a point does what it declares. Whatever of a declaration is swapped, the session's answer changes.

Enumerates every point of the table: its rule, what holds when nobody answers, its failure policy and its flag.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pumice
from pumice import Arguments
from pumice.framework.loading import check_class
from pumice.framework.point_examples import example_of
from pumice.framework.points import POINTS, OnFailure, Point, rules
from pumice.framework.points import table as t
from pumice.framework.session.questions import PluginEntry
from pumice.framework.session.session import Session
from pumice.model.reason import Unfit, Verdict, reason_id
from pumice.testing import job, node, queue, session

NOT_ASKED_BY_NAME = {"node_map": "batch_node_order", "node_reduce": "batch_node_order"}
"""Points that are asked as a part of another question."""


def world(*plugins: str, off: str = "") -> Session:
    """A session with plugins, a tier each, of which the flag *off* is off."""
    made = session(
        *(node("n1", cpu=8, gpu=2), node("n2", cpu=8, gpu=2), queue("q1"), queue("q2")),
        *(job("a", tasks=2, cpu=1, queue="q1"), job("b", tasks=2, cpu=1, queue="q2")),
    )
    tiers = [[PluginEntry(name, object, lambda flag: flag != off)] for name in plugins]
    return Session(made.state, tiers=tiers)


def asked(ssn: Session, point: str) -> Any:
    """What the session answers at a point, asked by its name with things of the small cluster."""
    a, b = ssn.jobs["default/a"], ssn.jobs["default/b"]
    tasks = sorted(a.tasks.values(), key=lambda task: task.name)
    nodes = [ssn.nodes["n1"], ssn.nodes["n2"]]
    q1, q2 = ssn.queues["q1"], ssn.queues["q2"]
    whole, other = a.whole(), b.whole()
    clusters = (SimpleNamespace(name="x"), SimpleNamespace(name="y"))
    plan = SimpleNamespace(job=a, recorded=(tasks,), scenario=lambda pieces: pieces)
    arguments: dict[str, tuple[Any, ...]] = {
        "job_order": (a, b),
        "task_order": tuple(tasks),
        "queue_order": (q1, q2),
        "victim_queue_order": (q1, q2, q1),
        "sub_job_order": (whole, other),
        "cluster_order": clusters,
        "pre_predicate": (tasks[0],),
        "batch_predicate": (tasks[0], nodes),
        "node_order": (tasks[0], nodes[0]),
        "batch_node_order": (tasks[0], nodes),
        "hyper_node_order": (whole, {"h": nodes}),
        "hyper_node_gradient_for_job": (a, "h", "Allocate"),
        "hyper_node_gradient_for_sub_job": (whole, "h", "Allocate"),
        "best_node": (tasks[0], {"n1": 1.0, "n2": 2.0}),
        "gpu_order": (tasks[0], nodes[0], "0"),
        "node_pre_order": (tasks[0], nodes),
        "subset_nodes": (a, None, tasks, nodes),
        "sub_job_ready": (a, whole),
        "sub_job_pipelined": (a, whole),
        "preemptable": (tasks[0], tasks),
        "reclaimable": (tasks[0], tasks),
        "unified_evictable": (None, tasks),
        "preemptive": (q1, tasks),
        "victim_tasks": (tasks,),
        "victim_filter": (a, b),
        "scenario_validator": (plan,),
        "queue_claim_order": (SimpleNamespace(queue=q1), SimpleNamespace(queue=q2)),
        "sub_group_order": clusters,
        "job_within_capacity": (a, tasks),
        "job_within_quota": (a, tasks),
        "task_within_capacity": (tasks[0], nodes[0]),
        "victim_invariant_pre_predicate": (tasks[0],),
        "reclaim_victim_filter": (a, b),
        "preempt_victim_filter": (a, b),
        "reclaim_scenario_validator": (plan,),
        "preempt_scenario_validator": (plan,),
        "on_job_solution_start": (),
        "scenario_generator": (plan,),
        "overused": (q1,),
        "allocatable": (q1, tasks[0]),
        "target_job": ([a, b],),
        "reserved_nodes": (),
        "bind_request_mutate": (tasks[0], "n1"),
    }
    name = NOT_ASKED_BY_NAME.get(point, point)
    if name == "predicate":
        return ssn.search.objection(tasks[0], nodes[0])
    answer = getattr(ssn, name)(*arguments.get(name, (a,)))
    return {k: v for k, v in answer.items() if v} if isinstance(answer, dict) else answer


@contextmanager
def declared(point: Point[..., Any, Any], **other: Any) -> Iterator[None]:
    """Within the block the point is declared otherwise."""
    before = {name: getattr(point, name) for name in other}
    for name, value in other.items():
        object.__setattr__(point, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(point, name, value)


def test_every_point_can_be_asked_by_its_name() -> None:
    ssn = world()
    for point in POINTS:
        asked(ssn, point)


@pytest.mark.parametrize("point", POINTS)
def test_the_example_of_a_point_answers_it(point: str) -> None:
    """As it is printed: made into a plugin, opened, asked once."""
    names = {name: getattr(pumice, name) for name in pumice.__all__}
    names |= {name: getattr(typing, name) for name in ("Any", "Iterator", "Mapping", "Sequence")}
    exec(compile(f"from __future__ import annotations\n{example_of(point)}", point, "exec"), {**names, "np": np}, names)
    check_class(names["MyPlugin"])
    told: list[str] = []

    def counted(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def answer(*args: Any) -> Any:
            told.append(point)
            return fn(*args)

        return answer

    setattr(names["MyPlugin"], point, counted(vars(names["MyPlugin"])[point]))
    ssn = world("my-plugin")
    if point == "node_reduce":
        _with_map_of(ssn, "my-plugin")
    ssn.open_plugin(names["MyPlugin"](Arguments()))
    answer = asked(ssn, point)
    if isinstance(answer, Iterator):
        list(answer)
    assert told
    assert ssn.errors == []


# -- nobody ---------------------------------------------------------------------------------------------------------
OTHER_NOBODY: dict[type, Any] = {Verdict: Verdict(False, "nobody said so"), int: 7, float: 7.0}


def other_nobody(point: Point[..., Any, Any]) -> Any:
    """What could hold instead when nobody answers."""
    special: dict[str, Any] = {
        "predicate": reason_id("nobody", "declared so"),
        "batch_predicate": reason_id("nobody", "declared so"),
        "best_node": "n1",
        "subset_nodes": [[]],
        "bind_request_mutate": {"x": "y"},
        "target_job": "somebody",
    }
    if point.name in special:
        return special[point.name]
    if isinstance(point.nobody, Verdict):
        return Verdict(not point.nobody.passed, "nobody said so")
    return OTHER_NOBODY.get(type(point.nobody), ["swapped"])


@pytest.mark.parametrize("point", [p for p in POINTS.values() if p.name != "node_reduce"], ids=lambda p: p.name)
def test_what_holds_when_nobody_answers_is_executed(point: Point[..., Any, Any]) -> None:
    if point.name in ("preemptable", "reclaimable", "unified_evictable", "victim_tasks"):
        some = list(world().jobs["default/a"].tasks.values())[:1]
        swapped: Any = some
    else:
        swapped = other_nobody(point)
    filled = _with_map if point.name == "node_map" else (lambda ssn: None)
    before, after = world("p"), world("p")
    filled(before)
    filled(after)
    plain = asked(before, point.name)
    with declared(point, nobody=swapped):
        assert asked(after, point.name) != plain


def _with_map(ssn: Session) -> None:
    _with_map_of(ssn, "p")


def _with_map_of(ssn: Session, plugin: str) -> None:
    ssn.add_node_map_fn(plugin, lambda task, node: 1.0)


# -- failure policy -------------------------------------------------------------------------------------------------
def boom(*_: Any) -> Any:
    raise RuntimeError("boom")


def _registered(ssn: Session, point: str, plugin: str, fn: Callable[..., Any]) -> None:
    getattr(ssn, POINTS[point].register)(plugin, fn)


SAME_EITHER_WAY = {
    "job_enqueued": "nobody reads an answer",
    "node_pre_order": "nobody reads an answer",
    "reserved_nodes": "nobody reads an answer",
    "pre_job_allocation": "nobody reads an answer",
    "on_job_solution_start": "nobody reads an answer",
    "scenario_generator": "to give no scenarios and to say nothing are the same",
    "victim_tasks": "to name nobody and to say nothing are the same in a union",
    "target_job": "to name nobody and to say nothing are the same",
    "bind_request_mutate": "to add nothing and to say nothing are the same",
    "hyper_node_order": "to add nothing and to say nothing are the same",
    "subset_nodes": "a set that cannot be made cannot be tried",
}


@pytest.mark.parametrize("point", POINTS.values(), ids=lambda p: p.name)
def test_what_a_failure_does_is_executed(point: Point[..., Any, Any]) -> None:
    seen = []
    for policy in OnFailure:
        ssn = world("p")
        if point.name == "node_reduce":
            _with_map(ssn)
        _registered(ssn, point.name, "p", boom)
        with declared(point, on_failure=policy):
            seen.append(asked(ssn, point.name))
        assert ssn.errors, "it is told"
    if point.name in SAME_EITHER_WAY:
        assert seen[0] == seen[1]
    else:
        assert seen[0] != seen[1]


# -- rule -----------------------------------------------------------------------------------------------------------
def _sentinel_fold(tiers: rules.Tiers, nobody: Any) -> Callable[..., Any]:
    return lambda *_: SENTINEL


class _Sentinel(dict[str, Any]):
    """An answer that no rule gives, in whatever form it is looked at."""

    passed = False


SENTINEL = _Sentinel(swapped=1.0)


def _swapped(point: Point[..., Any, Any]) -> rules.Rule:
    """Another rule: its fold and its merge give what no other would."""
    merge: Callable[[Any, Any], Any] = (lambda so_far, own: so_far * 0) if point.rule is rules.FITS else np.minimum
    return replace(point.rule, fold=_sentinel_fold, merge=merge)


BY_ROW = {"predicate", "batch_predicate", "node_order", "batch_node_order", "node_map"}


FOLDED = [p for p in POINTS.values() if p.name not in BY_ROW and p.rule is not rules.EDITS]
"""Those whose answers become one by a fold; where each plugin edits its own scores there is nothing to fold."""


@pytest.mark.parametrize("point", FOLDED, ids=lambda p: p.name)
def test_the_rule_is_executed(point: Point[..., Any, Any]) -> None:
    with declared(point, rule=_swapped(point), switch=None):
        ssn = world("p")
        if point.name in ("preemptable", "reclaimable", "unified_evictable", "victim_tasks"):
            assert ssn.bind(point)(None, None) is SENTINEL
        elif point.name == "best_node":
            assert ssn.ask(point, None, {}) is SENTINEL
        else:
            assert asked(ssn, point.name) == SENTINEL


@pytest.mark.parametrize("name", sorted(BY_ROW))
def test_the_rule_of_answers_per_node_is_executed(name: str) -> None:
    """Two plugins answer; a rule that puts them together otherwise gives another answer."""
    refuse = reason_id("p", "never")
    answers: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "predicate": (lambda task, node: None, _unfit),
        "batch_predicate": (
            lambda task, rows: np.zeros(len(rows), dtype=np.int32),
            lambda task, rows: np.full(len(rows), refuse, dtype=np.int32),
        ),
        "node_order": (lambda task, node: 2.0, lambda task, node: 3.0),
        "batch_node_order": (lambda task, rows: np.full(len(rows), 2.0), lambda task, rows: np.full(len(rows), 3.0)),
        "node_map": (lambda task, node: 2.0, lambda task, node: 3.0),
    }
    point = POINTS[name]
    seen = []
    for rule in (point.rule, _swapped(point)):
        with declared(point, rule=rule):
            ssn = world("p", "q")
            for plugin, fn in zip("pq", answers[name], strict=True):
                _registered(ssn, name, plugin, fn)
            seen.append(asked(ssn, name))
    assert seen[0] != seen[1]


def _unfit(task: Any, node: Any) -> None:
    raise Unfit("never")


# -- flag -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("point", [p for p in POINTS.values() if p.flag], ids=lambda p: p.name)
def test_the_flag_is_executed(point: Point[..., Any, Any]) -> None:
    assert point.flag is not None
    on, off = world("p"), world("p", off=point.flag)
    for ssn in (on, off):
        _registered(ssn, point.name, "p", boom)
    assert on.anybody(point)
    assert not off.anybody(point)
    with declared(point, flag=None):
        assert world_with(point, off=point.flag or "x").anybody(point)


def world_with(point: Point[..., Any, Any], off: str) -> Session:
    ssn = world("p", off=off)
    _registered(ssn, point.name, "p", boom)
    return ssn


# -- one home -------------------------------------------------------------------------------------------------------
def test_every_rule_says_what_a_failure_means_for_every_policy() -> None:
    found = [rule for rule in vars(rules).values() if isinstance(rule, rules.Rule)]
    assert len(found) > 15
    for rule in found:
        assert set(rule.failed) == set(OnFailure), rule.name
        assert rule.text, rule.name


def test_hints_are_points_too() -> None:
    for hint in (t.MAX_TASKS, t.ENQUEUE_KEY, t.PREEMPTIVE_KEY):
        assert hint.at in POINTS
        assert hint.on_failure is OnFailure.ABSTAIN


SRC = Path(__file__).parents[2] / "src" / "pumice"


def test_tiers_are_walked_in_one_package() -> None:
    walk = re.compile(r"for tier in .*chain\(")
    found = {p.relative_to(SRC).as_posix() for p in SRC.rglob("*.py") if walk.search(p.read_text())}
    assert found <= {
        "framework/session/questions.py",
        "framework/session/search.py",  # filters and scores are handed to the engine one by one
        "sim/policies.py",  # sees whether an order tells jobs apart, and combines no answers
        "testing/check.py",  # a check of one plugin asks each callback by itself and combines no answers
    }


def test_a_callback_is_called_in_one_package() -> None:
    call = re.compile(r"\b(f|s|c|scorer|filter|callback)\.(fn|call|normalize|key)\(")
    found = {
        f"{path.relative_to(SRC)}:{n}: {line.strip()}"
        for path in [*SRC.glob("engine/*.py"), *SRC.rglob("framework/**/*.py"), *SRC.glob("extender/server/*.py")]
        for n, line in enumerate(path.read_text().splitlines(), 1)
        if call.search(line) and path.parent.name != "points"
    }
    assert found == set()
