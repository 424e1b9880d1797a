"""Promise: an action that cannot work is an error for who names it alone, and one that fails is named by its line.

Enumerates what a package can offer in the place of an action, and what an action can raise; the state is as before it.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, cast

import pytest

from pumice import Action, Argument, Plugin, PumiceError, Session, TaskStatus
from pumice.framework.registry import Registry
from pumice.testing import Scenario


class FirstFit(Action):
    """Places what waits on the first node with room."""

    name = "first-fit"
    most = Argument(100, "How many tasks it places at most.")

    def execute(self, ssn: Session) -> None:
        statement = ssn.statement()
        waiting = [task for job in ssn.jobs.values() for task in job.with_status(TaskStatus.PENDING).values()]
        for task in sorted(waiting, key=lambda task: task.name)[: self.most]:
            fits = [node for node in ssn.nodes.values() if task.requests.less_equal(node.idle)]
            if fits:
                statement.allocate(task, min(fits, key=lambda node: node.name))
        statement.commit()


def action(**parts: Any) -> Any:
    return type("Odd", (Action,), {"name": "odd", "execute": lambda self, ssn: None, **parts})


def _needs(self: Any, what: object) -> None:
    """A constructor that wants something."""


def _refuses(self: Any) -> None:
    raise ValueError("not today")


async def _awaits(self: Any, ssn: Session) -> None:
    pass


def _yields(self: Any, ssn: Session) -> Any:
    yield 1


USELESS: dict[str, tuple[Any, str]] = {
    "a number": (3, "must be a subclass of pumice.Action, got 3"),
    "a function": (_yields, "must be a subclass of pumice.Action"),
    "an object": (FirstFit(), "must be a subclass of pumice.Action"),
    "a plugin": (type("Odd", (Plugin,), {"name": "odd"}), "must be a subclass of pumice.Action"),
    "nothing to do": (type("Odd", (Action,), {"name": "odd"}), "has no execute(ssn)"),
    "no parameter": (action(execute=lambda self: None), "execute must take one parameter, the session"),
    "a parameter too many": (action(execute=lambda self, ssn, more: None), "execute must take one parameter"),
    "async": (action(execute=_awaits), "nobody awaits it"),
    "a generator": (action(execute=_yields), "nobody iterates"),
    "a constructor with parameters": (action(__init__=_needs), "is built without arguments"),
    "a constructor that raises": (action(__init__=_refuses), "ValueError: not today"),
    "points by name": (action(asks=("predicate",)), "asks must be a list of points, got ('predicate',)"),
    "points as a number": (action(asks=7), "asks must be a list of points, got 7"),
    "another name": (action(name="other"), "its name is 'other', and that of its entry point 'odd'"),
    "no name": (action(name=""), "its name is '', and that of its entry point 'odd'"),
}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """One in which ``odd`` is what the module says, and ``first-fit`` is fine."""
    known = Registry()
    for name, value in (("odd", "odd_thing"), ("first-fit", "FirstFit")):
        known.actions.offer(name, EntryPoint(name, f"{__name__}:{value}", "pumice.actions"))
    return known


def scene(registry: Registry) -> Scenario:
    return Scenario(registry=registry).node("n1", cpu=4).node("n2", cpu=4).job("a", tasks=3, cpu=1)


def test_an_action_is_an_entry_point(registry: Registry) -> None:
    scenario = scene(registry)
    assert set(scenario.run(actions=["enqueue", "first-fit"], plugins=["gang"]).binds.values()) == {"n1"}
    few = {"actions": "enqueue, first-fit", "tiers": [{"plugins": [{"name": "gang"}]}]}
    few["configurations"] = cast("Any", [{"name": "first-fit", "arguments": {"most": "2"}}])
    scenario = Scenario(registry=registry).node("n1", cpu=4).job("a", tasks=3, min_available=1)
    assert len(scenario.run(conf=few).binds) == 2


@pytest.mark.parametrize("what", USELESS)
def test_what_cannot_work_is_an_error_for_who_names_it(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    thing, rule = USELESS[what]
    monkeypatch.setattr(sys.modules[__name__], "odd_thing", thing, raising=False)
    assert registry.askers(), "the others can be listed"
    assert scene(registry).run(actions=["enqueue", "first-fit"], plugins=["gang"]).binds
    with pytest.raises(PumiceError, match=re.escape(rule)) as refused:
        scene(registry).run(actions=["enqueue", "odd"], plugins=["gang"])
    assert "odd" in str(refused.value)


class Further(BaseException):
    pass


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit, Further, Speechless, RecursionError, StopIteration])
def test_one_that_fails_is_named_and_leaves_nothing(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    def fails(self: Any, ssn: Session) -> None:
        FirstFit().execute(ssn)
        raise kind

    monkeypatch.setattr(sys.modules[__name__], "odd_thing", action(execute=fails), raising=False)
    scenario = scene(registry)
    with pytest.raises(PumiceError, match=rf"action 'odd' failed: {kind.__name__}.*{re.escape(__file__)}:\d+"):
        scenario.run(actions=["enqueue", "odd"], plugins=["gang"])
    assert len(scenario.run(actions=["enqueue", "allocate"], plugins=["gang"]).binds) == 3


def test_ctrl_c_is_nobodys_failure(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Any, ssn: Session) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules[__name__], "odd_thing", action(execute=interrupted), raising=False)
    with pytest.raises(KeyboardInterrupt):
        scene(registry).run(actions=["odd"], plugins=["gang"])


def test_a_name_that_is_taken_is_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    known = entry_points()
    twice = [EntryPoint("allocate", f"{__name__}:FirstFit", "pumice.actions"), *known.select(group="pumice.actions")]
    monkeypatch.setattr("pumice.framework.registry.entry_points", lambda: EntryPoints(twice))
    with pytest.raises(PumiceError, match=r"action 'allocate' from .*: the name is taken by the one from"):
        Registry()
