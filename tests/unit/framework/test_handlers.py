"""Event handlers track; only ``event.err`` objects, and what it says is what users read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pumice import Event, EventHandler, Plugin, Session, Task
from pumice.testing import Scenario, pod


def tracker(**told: Any) -> type[Plugin]:
    class Tracker(Plugin):
        name = "tracker"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_event_handler(EventHandler(**told))

    return Tracker


def world() -> Scenario:
    return Scenario().node("n1", cpu=4).job("a", tasks=2, cpu=1)


def boom(_: object) -> None:
    raise RuntimeError("counter is off")


@pytest.mark.parametrize("form", ["allocate", "allocate_many"])
def test_a_handler_that_raises_is_told_of_and_the_placement_stands(form: str) -> None:
    cycle = world().run(plugins=["gang", tracker(**{form: boom})])
    assert len(cycle.binds) == 2
    assert any("counter is off" in error for error in cycle.errors)


def test_under_compat_an_exception_counts_as_the_event_s_error() -> None:
    cycle = world().run(plugins=["gang", tracker(allocate=boom)], compat="volcano")
    assert cycle.binds == {}


def test_what_event_err_says_is_what_users_read() -> None:
    def refuse(event: Event) -> None:
        event.err = "no licence left"

    cycle = world().run(plugins=["gang", tracker(allocate=refuse)])
    assert cycle.binds == {}
    assert "no licence left" in cycle.why("a").text
    assert cycle.why("a").plugin == "tracker"


def test_a_deallocation_still_shows_the_place() -> None:
    places: list[str] = []

    def gone(event: Event) -> None:
        assert event.node is not None
        places.append(event.node.name)

    def many(tasks: Sequence[Task]) -> None:
        raise AssertionError("the one-by-one form goes first")

    scenario = Scenario().node("n1", cpu=3).job("a", min_available=2, cpu=1).add(pod("a-large", group="a", cpu=9))
    scenario.run(plugins=["gang", tracker(allocate=lambda event: None, deallocate=gone, deallocate_many=many)])
    assert places == ["n1"]
