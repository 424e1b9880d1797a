"""Promise: whatever a plugin hands over, its failure stays its own.

Enumerates, by signature, every callable parameter of every ``add_*`` method, of EventHandler, of binders, preparations
and of the plugin itself, each times everything that a callable can do wrong when it is asked about one odd job: the
cycle ends whole, the other jobs are placed as without the plugin, and one line names the author's line.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest

from pumice import EventHandler, Job, Node, NodeRows, Plugin, Queue, Scope, Session, Task, Unfit, Verdict
from pumice.framework.points.registration import Registration
from pumice.framework.points.table import POINTS
from pumice.model.intents import Choice
from pumice.state.invariants import violations
from pumice.testing import Scenario, queue

HERE = __file__


# -- what can go wrong ----------------------------------------------------------------------------------------------
def raises(*_: Any) -> Any:
    raise ValueError("wrong on purpose")


def exits(*_: Any) -> Any:
    raise SystemExit(3)


def recurses(*args: Any) -> Any:
    return recurses(*args)


def mutates(*args: Any) -> Any:
    """Changes whatever it was given, and says nothing."""
    for arg in args:
        if isinstance(arg, (list, dict)):
            arg.clear()
        elif isinstance(arg, np.ndarray):
            arg[...] = 0
        else:
            arg.labels["x"] = "y"


class Speechless(Exception):
    """An exception that cannot even be read."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Mute:
    """An answer that cannot be shown, compared, looked up or taken for true or false."""

    def _refuse(self, *_: Any) -> Any:
        raise ValueError("not even this")

    __repr__ = __str__ = __bool__ = __eq__ = __lt__ = __gt__ = __hash__ = __len__ = __iter__ = _refuse


class Further(BaseException):
    """Raised past everybody who catches exceptions."""


class Untold(Unfit):
    """A no whose author forgot to say it."""

    def __init__(self) -> None:
        """Without the text of its base."""


def raising(error: Callable[[], BaseException]) -> Callable[..., Any]:
    def fails(*_: Any) -> Any:
        raise error()

    return fails


WRONG: dict[str, Callable[..., Any]] = {
    "Speechless": raising(Speechless),
    "Mute": lambda *_: Mute(),
    "BaseException": raising(Further),
    "CancelledError": raising(asyncio.CancelledError),
    "Unfit": raising(lambda: Unfit("no")),
    "Unfit without words": raising(Untold),
    "Unfit of no text": raising(lambda: Unfit(None)),
    "verdict of nothing": lambda *_: Verdict(cast("Any", None), cast("Any", 3)),
    "verdict of odd parts": lambda *_: Verdict(False, cast("Any", None), limits=(cast("Any", 3),)),
    "great number": lambda *_: 10**400,
    "generator": lambda *args: (arg for arg in args),
    "array of objects": lambda *_: np.array([object()]),
    "raises": raises,
    "SystemExit": exits,
    "RecursionError": recurses,
    "mutates": mutates,
    "None": lambda *_: None,
    "NaN": lambda *_: float("nan"),
    "inf": lambda *_: float("inf"),
    "text": lambda *_: "perhaps",
    "wrong length": lambda *_: np.zeros(99),
    "wrong kind": lambda *_: object(),
}
OFTEN = ("raises", "wrong kind")
KINDS = [pytest.param(what, marks=pytest.mark.slow) if what not in OFTEN else what for what in WRONG]
"""The rarer ones are tried before a change lands, not in every run."""
NEVER_AN_ANSWER = ("raises", "SystemExit", "RecursionError", "wrong kind", "Speechless", "BaseException")
"""What is wrong whatever was asked; but anything that can be looked up will do as a key."""
KEYS = ("key",)


# -- what can be handed over ----------------------------------------------------------------------------------------
NEUTRAL: dict[str, Callable[..., Any]] = {
    "batch_predicate": lambda task, rows: np.zeros(len(rows), dtype=np.int32),
    "batch_node_order": lambda task, rows: np.zeros(len(rows)),
    "node_order": lambda task, node: 0.0,
    "node_map": lambda task, node: 0.0,
    "gpu_order": lambda task, node, gpu: 0.0,
    "hyper_node_order": lambda sub_job, groups: {},
    "subset_nodes": lambda job, sub_job, tasks, nodes: [list(nodes)],
    "preemptable": lambda who, tasks: None,
    "reclaimable": lambda who, tasks: None,
    "unified_evictable": lambda who, tasks: None,
    "victim_tasks": lambda tasks: [],
    "overused": lambda queue: False,
    "job_starving": lambda job: True,
    "bind_request_mutate": lambda task, node: {},
}
"""Answers that change nothing, for points at which None is no such answer."""
NEUTRAL_HINTS: dict[str, Callable[..., Any]] = {
    "key": lambda *_: 0,
    "normalize": lambda raw, mask: raw,
    "max_tasks": lambda queue, task: 99,
}


def _neutral(point: str) -> Callable[..., Any]:
    if point.endswith("_order") and point not in NEUTRAL:
        return lambda *_: 0
    return NEUTRAL.get(point, lambda *_: None)


def odd(arg: Any) -> bool:
    """Is the odd job meant, or its queue, or one of its tasks?"""
    if isinstance(arg, Task):
        return arg.job is not None and odd(arg.job)
    if isinstance(arg, Job):
        return arg.queue == "odd"
    if isinstance(arg, Queue):
        return arg.name == "odd"
    if isinstance(arg, (list, tuple)):
        return any(odd(one) for one in arg)
    return False


class Spoilt:
    """A callable that is right but for the odd job, about which it does something wrong."""

    def __init__(self, right: Callable[..., Any], wrong: Callable[..., Any], parameters: int) -> None:
        self.right, self.wrong, self.asked = right, wrong, 0
        names = ", ".join(f"a{n}" for n in range(parameters))
        scope: dict[str, Any] = {"call": self._call}
        exec(compile(f"def spoilt({names}): return call({names})", HERE, "exec"), scope)
        self.fn: Callable[..., Any] = scope["spoilt"]

    def _call(self, *args: Any) -> Any:
        if any(odd(arg) for arg in args):
            self.asked += 1
            return self.wrong(*args)
        return self.right(*args)


def registrations() -> list[tuple[str, str]]:
    """(method, parameter) for every callable that a registration can carry."""
    found = []
    for name, method in inspect.getmembers(Registration, inspect.isfunction):
        if name.startswith("add_"):
            for parameter in inspect.signature(method).parameters.values():
                if "Fn" in str(parameter.annotation) and parameter.name != "name":
                    found.append((name, parameter.name))
    return found


ARITY = {
    "key": 1,
    "normalize": 2,
    "max_tasks": 2,
}


def _point(method: str) -> str:
    return method.removeprefix("add_").removesuffix("_fns").removesuffix("_fn").removesuffix("_key")


def _plugin(method: str, parameter: str, wrong: Callable[..., Any], scope: Scope) -> tuple[type[Plugin], Spoilt]:
    point = _point(method)
    sorts = method.endswith("_key_fn")
    right = (lambda *_: 0) if sorts else _neutral(point)
    arity = 1 if sorts else POINTS[point].arity[0]
    takes = inspect.signature(getattr(Registration, method)).parameters
    if parameter == "fn":
        spoilt = Spoilt(right, wrong, arity)
        hints: dict[str, Any] = {}
        fn = spoilt.fn
    else:
        spoilt = Spoilt(NEUTRAL_HINTS[parameter], wrong, ARITY.get(parameter, 1))
        fn = right if sorts else Spoilt(right, right, arity).fn
        hints = {parameter: spoilt.fn}
    if "scope" in takes:
        hints["scope"] = scope

    class Bad(Plugin):
        name = "bad"

        def on_session_open(self, ssn: Session) -> None:
            getattr(ssn, method)(self.name, fn, **hints)

    return Bad, spoilt


# -- the cycle ------------------------------------------------------------------------------------------------------
ACTIONS = ("enqueue", "allocate", "preempt", "reclaim", "backfill", "gangpreempt", "gangreclaim", "shuffle")
TIERS: list[list[Any]] = [["priority", "gang"], ["predicates", "proportion", "nodeorder"]]


def world() -> Scenario:
    scenario = Scenario(queue("even"), queue("odd"))
    for n in range(3):
        scenario.node(f"n{n}", cpu=8, gpu=2)
    scenario.job("runs", tasks=4, cpu=3, on=["n0", "n0", "n1", "n1"], queue="even", priority=1, min_available=1)
    scenario.job("odd", tasks=2, cpu=1, gpu=1, queue="odd", priority=2)
    scenario.job("odd-mate", tasks=1, cpu=1, queue="odd", priority=2)
    scenario.job("good", tasks=2, cpu=1, queue="even", priority=5)
    return scenario.job("high", tasks=2, cpu=2, queue="even", priority=9).job("free", cpu=0, queue="even")


def binds(scenario: Scenario, plugins: Sequence[Any]) -> dict[str, str]:
    cycle = scenario.run(actions=ACTIONS, plugins=plugins)
    return {pod: node for pod, node in cycle.binds.items() if "odd" not in pod}


EXPECTED = binds(world(), TIERS)


def _ends_whole(scenario: Scenario, plugins: Sequence[Any]) -> None:
    got = binds(scenario, plugins)
    assert violations(scenario.state) == []
    assert set(got) == set(EXPECTED), "the other jobs are placed as without the plugin"
    again = scenario.run(actions=ACTIONS, plugins=TIERS)  # without the plugin nothing of it is left
    assert again.errors == []
    assert {"default/odd-0", "default/odd-1"} <= {t.key for t in scenario.state.tasks.values() if t.node is not None}


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize(("method", "parameter"), registrations())
@pytest.mark.part(4)
def test_what_a_registration_carries_is_contained(
    method: str, parameter: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    for scope in Scope if "predicate" in method or "node_order" in method else (Scope.SESSION,):
        caplog.clear()
        bad, spoilt = _plugin(method, parameter, WRONG[what], scope)
        scenario = world()
        _ends_whole(scenario, [[*TIERS[0], bad], TIERS[1]])
        is_answer = what == "wrong kind" and (parameter in KEYS or POINTS[_point(method)].rule.name == "broadcast")
        if spoilt.asked and what in NEVER_AN_ANSWER and not is_answer:
            told = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR and "'bad'" in r.getMessage()]
            assert len(told) >= 1, f"{method}({parameter}) failed {spoilt.asked} times and nobody was told"
            assert len(told) <= 6, "each kind of failure is told once"
            assert all(HERE in line for line in told), told


# -- handlers, binders, preparations, the plugin itself -------------------------------------------------------------
HANDLERS = [f.name for f in fields(EventHandler) if f.name != "plugin"]


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("handler", HANDLERS)
def test_what_an_event_handler_does_is_contained(handler: str, what: str) -> None:
    def told(about: Any) -> Any:
        tasks = about if isinstance(about, list) else [about.task]
        return WRONG[what](*tasks) if odd(tasks) else None

    class Bad(Plugin):
        name = "bad"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_event_handler(EventHandler(**cast("Any", {handler: told})))

    _ends_whole(world(), [[*TIERS[0], Bad], TIERS[1]])


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("part", ["wants", "prepare"])
def test_what_has_to_do_with_binds_is_contained(part: str, what: str) -> None:
    class Binder:
        def wants(self, task: Task) -> Any:
            return WRONG[what](task) if odd(task) else False

    class Bad(Plugin):
        name = "bad"

        def on_session_open(self, ssn: Session) -> None:
            if part == "wants":
                ssn.register_binder("bad", Binder())
            else:
                ssn.prepare_binds(lambda task: WRONG[what](task) if odd(task) else ())

    _ends_whole(world(), [[*TIERS[0], Bad], TIERS[1]])


RAISED = ("raises", "SystemExit", "RecursionError", "Speechless", "BaseException", "CancelledError")


@pytest.mark.parametrize("what", RAISED)
@pytest.mark.parametrize("moment", ["on_session_open", "on_session_close"])
def test_opening_and_closing_are_contained(moment: str, what: str) -> None:
    def wrong(self: Plugin, ssn: Session) -> None:
        WRONG[what]()

    bad = type("Bad", (Plugin,), {"name": "bad", moment: wrong})
    _ends_whole(world(), [[*TIERS[0], bad], TIERS[1]])


@pytest.mark.parametrize("what", KINDS)
def test_a_sum_over_jobs_is_contained(what: str) -> None:
    def contribution(job: Job) -> Any:
        return WRONG[what](job) if odd(job) else job.allocated

    class Bad(Plugin):
        name = "bad"

        def on_session_open(self, ssn: Session) -> None:
            ssn.keep_sum("held", contribution)

    scenario = world()
    _ends_whole(scenario, [[*TIERS[0], Bad], TIERS[1]])
    scenario.job("odd-late", tasks=1, cpu=1, queue="odd")  # is asked about before the session opens
    cycle = scenario.run(actions=ACTIONS, plugins=[[*TIERS[0], Bad], TIERS[1]])
    assert any("'keep_sum'" in error and HERE in error for error in cycle.errors), cycle.errors


@pytest.mark.parametrize("what", RAISED)
def test_a_plugin_that_fails_while_it_is_opened_leaves_nothing_behind(what: str) -> None:
    asked: list[str] = []

    def prepared(task: Task) -> tuple[Choice, ...]:
        asked.append("prepare_binds")
        return ()

    class Bad(Plugin):
        name = "bad"

        def on_session_open(self, ssn: Session) -> None:
            for point in ("bad", "another name"):
                ssn.add_job_valid_fn(point, lambda job: asked.append("job_valid"))
            ssn.prepare_binds(prepared)
            ssn.add_event_handler(EventHandler(allocate=lambda event: asked.append("allocate")))
            WRONG[what]()

    _ends_whole(world(), [[*TIERS[0], Bad], TIERS[1]])
    assert asked == []


def test_who_wants_to_end_the_process_or_a_test_does() -> None:
    for wanted in (KeyboardInterrupt, pytest.fail.Exception):

        class Bad(Plugin):
            name = "bad"

            def job_order(self, left: Job, right: Job) -> int:
                raise wanted  # noqa: B023

        scenario = world()
        with pytest.raises(wanted):
            scenario.run(actions=ACTIONS, plugins=[[*TIERS[0], Bad], TIERS[1]])
        _ends_whole(scenario, TIERS)


def test_a_callable_that_has_every_attribute_is_contained() -> None:
    class Bad(Plugin):
        name = "bad"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_job_order_fn(self.name, Mock(side_effect=ValueError("wrong on purpose")))

    _ends_whole(world(), [[*TIERS[0], Bad], TIERS[1]])


@pytest.mark.parametrize("what", RAISED)
def test_a_builder_that_fails_in_a_later_cycle_is_contained(what: str) -> None:
    class Bad(Plugin):
        name = "bad"
        built = 0

        def __init__(self, arguments: Mapping[str, Any]) -> None:
            type(self).built += 1
            if type(self).built > 2:
                WRONG[what]()

    scenario = world()
    scenario.run(actions=ACTIONS, plugins=[[*TIERS[0], Bad], TIERS[1]])
    Bad.built = 3
    cycle = scenario.run()
    assert any("'bad'" in error for error in cycle.errors)
    assert violations(scenario.state) == []


def test_the_enumeration_is_not_empty() -> None:
    assert len(registrations()) > 60
    assert {"Task", "Job", "Queue", "Node", "NodeRows"} <= {c.__name__ for c in (Task, Job, Queue, Node, NodeRows)}
