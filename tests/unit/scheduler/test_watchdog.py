"""The watchdog names the plugin that does not return, the point and the line; a cycle that goes on is left alone."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from pumice import Arguments, Event, EventHandler, Job, Node, Plugin, Session, Task
from pumice.clock import ManualClock
from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.loop import Loop
from pumice.scheduler.watchdog import Overrun, Watchdog
from pumice.testing import Scenario, job, node, queue
from pumice.testing.world import World

WAIT = 20.0


class Gate:
    """Holds a callback until the watchdog has spoken; a test fails if it never does."""

    def __init__(self) -> None:
        self.reports: list[Overrun] = []
        self.open = threading.Event()

    def report(self, overrun: Overrun) -> None:
        self.reports.append(overrun)
        self.open.set()

    def hold(self) -> None:
        assert self.open.wait(WAIT), "the watchdog said nothing"


@contextmanager
def watching(gate: Gate, **options: float) -> Iterator[Watchdog]:
    watchdog = Watchdog(report=gate.report, **{"interval": 0.005, "budget": 0.02, "plugin_budget": 60.0, **options})
    try:
        yield watchdog
    finally:
        watchdog.close()


class Slow(Plugin):
    """Holds wherever the test says."""

    name = "slow"
    gate: Gate
    at: str

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)

    def hold(self, point: str) -> None:
        if self.at == point:
            self.gate.hold()

    def on_session_open(self, ssn: Session) -> None:
        self.hold("on_session_open")
        ssn.add_predicate_fn(self.kai)
        ssn.add_node_order_fn(self.name, functools.partial(self.score, 1))
        ssn.add_job_order_fn(self.name, Order(self))
        ssn.add_event_handler(EventHandler(allocate=self.allocated))

    def on_session_close(self, ssn: Session) -> None:
        self.hold("on_session_close")

    def kai(self, task: Task, job: Job, node: Node) -> None:
        self.hold("predicate")

    def score(self, factor: int, task: Task, node: Node) -> float:
        self.hold("node_order")
        return 0.0

    def job_ready(self, job: Job) -> bool:
        self.hold("job_ready")
        return True

    def allocated(self, event: Event) -> None:
        self.hold("allocate handler")


class Order:
    """A comparison that is an object, not a function."""

    def __init__(self, plugin: Slow) -> None:
        self.plugin = plugin

    def __call__(self, left: Job, right: Job) -> int:
        self.plugin.hold("job_order")
        return 0


POINTS = [
    "on_session_open",
    "on_session_close",
    "predicate",
    "node_order",
    "job_ready",
    "job_order",
    "allocate handler",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_callback_that_does_not_return_is_named_with_its_point_and_line(point: str) -> None:
    gate = Gate()
    scenario = Scenario(node("n1"), job("a"), job("b"))
    cls = type("SlowHere", (Slow,), {"gate": gate, "at": point})
    with watching(gate) as watchdog, watchdog.cycle():
        scenario.run(plugins=["gang", cls])
    first = gate.reports[0]
    assert (first.sighting.plugin, first.sighting.point, first.stuck) == ("slow", point, True)
    assert ".py:" in first.sighting.where
    assert f"plugin 'slow' has not returned from {point} for " in str(first)


def test_liveness_can_see_a_stuck_plugin_until_it_returns() -> None:
    gate = Gate()
    seen: list[Overrun | None] = []
    scenario = Scenario(node("n1"), job("a"))

    def report(overrun: Overrun) -> None:
        seen.append(watchdog.stuck)
        gate.report(overrun)

    watchdog = Watchdog(report=report, interval=0.005, budget=0.02)
    with watchdog.cycle():
        scenario.run(plugins=[type("SlowHere", (Slow,), {"gate": gate, "at": "predicate"})])
    assert seen[0] is not None
    assert watchdog.stuck is None
    watchdog.close()


def test_a_plugin_that_takes_too_much_of_a_cycle_is_named_once() -> None:
    gate = Gate()
    scenario = Scenario(node("n1"), job("a"))
    cls = type("SlowHere", (Slow,), {"gate": gate, "at": "predicate"})
    with watching(gate, budget=60.0, plugin_budget=0.02) as watchdog, watchdog.cycle():
        scenario.run(plugins=[cls])
    assert [r.stuck for r in gate.reports] == [False]
    assert str(gate.reports[0]).startswith("plugin 'slow' has used about 0.0 s of this cycle, last at predicate")


def test_a_thread_that_asks_no_plugin_is_not_reported() -> None:
    gate = Gate()
    with watching(gate) as watchdog, watchdog.cycle():
        assert not gate.open.wait(0.1)
    assert gate.reports == []


def test_what_is_not_a_cycle_is_not_looked_at() -> None:
    gate = Gate()
    looked: list[Any] = []
    with watching(gate, budget=0.0) as watchdog:
        look: Callable[[], None] = watchdog._look
        look()
        looked.append(watchdog.stuck)
    assert looked == [None]
    assert gate.reports == []


def test_a_loop_is_watched_while_it_decides() -> None:
    gate = Gate()
    world = World()
    for obj in [queue("default"), node("n1"), *job("a")]:
        world.put(obj)
    slow = type("SlowHere", (Slow,), {"gate": gate, "at": "predicate"})
    registry = default_registry().copy()
    registry.register("slow", slow)
    conf = {"actions": "allocate", "tiers": [{"plugins": [{"name": "slow"}]}]}
    assembly = assemble(from_data(conf, catalogue_of(registry)).conf, registry)

    class Backend:
        """Everything there is as events, once; intents are only kept."""

        def __init__(self) -> None:
            self.intents: list[Any] = []

        def drain(self) -> list[Seen]:
            return [Seen(obj) for obj in world.objects]

        def submit(self, intents: Sequence[Any]) -> None:
            self.intents += intents

    backend = Backend()
    with watching(gate) as watchdog:
        loop = Loop(backend, backend, assembly, ManualClock(5.0), watchdog=watchdog)
        assert loop.step().binds == {"default/a-0": "n1"}
    assert gate.reports[0].sighting.plugin == "slow"
    assert backend.intents


def test_a_cycle_that_does_not_end_is_reported_with_its_line_also_where_no_plugin_is_asked() -> None:
    gate = Gate()
    with watching(gate, cycle_budget=0.03) as watchdog, watchdog.cycle():
        gate.hold()
        assert watchdog.stuck is not None
    (overrun,) = gate.reports
    assert str(overrun).startswith("a cycle has not ended for 0.")
    assert "threading.py:" in overrun.sighting.where
    assert watchdog.stuck is None


def test_a_session_that_is_half_made_does_not_end_the_watching() -> None:
    """The thread that runs cycles goes on while it is looked at, so that what is seen may be in any state."""
    gate = Gate()
    ours: dict[str, Any] = {"__name__": "pumice.made", "Session": Session, "gate": gate}
    exec("def begins():\n    ssn = Session.__new__(Session)\n    gate.hold()\n", ours)
    with watching(gate, cycle_budget=0.05) as watchdog, watchdog.cycle():
        ours["begins"]()
    assert [(o.sighting.plugin, o.stuck) for o in gate.reports] == [("", True)]
