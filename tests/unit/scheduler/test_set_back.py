"""A clock that stood in the future for a moment changes nothing that lasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pumice.config import load
from pumice.framework.registry import default_registry
from pumice.framework.session.nominations import HOLD_SECONDS, Nomination
from pumice.framework.session.rounds import Turn
from pumice.model.events import ClusterEvent, EvictFailed, Seen
from pumice.model.intents import Bind, Evict
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.loop import Loop
from pumice.testing import job, node, queue

TODAY = 1_700_000_000.0
YEARS = 3600.0 * 24 * 3650
CONF = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}]
"""


@dataclass
class Backend:
    """Hands over what it is given, once; says what time it is."""

    time: float = TODAY
    events: list[ClusterEvent] = field(default_factory=list)
    intents: list[Any] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def drain(self) -> list[ClusterEvent]:
        events, self.events = self.events, []
        return events

    def submit(self, intents: Sequence[Any]) -> None:
        self.intents += intents


def world() -> tuple[Backend, Loop]:
    objects = [
        queue("default"),
        node("n1", cpu=4),
        *job("low", tasks=1, cpu=4, on="n1", priority=1),
        *job("high", tasks=1, cpu=4, priority=9),
    ]
    backend = Backend(events=[Seen(obj) for obj in objects])
    assembly = assemble(load(CONF, catalogue_of(default_registry())).conf, default_registry())
    return backend, Loop(backend, backend, assembly, backend)


def test_what_was_to_last_until_a_time_lasts_no_longer_when_the_clock_is_set_back() -> None:
    backend, loop = world()
    backend.time = TODAY + YEARS
    loop.step()
    assert loop.runtime.nominations, "room is held for high on n1"
    backend.events = [EvictFailed("default/low-0", "default/low-0", "a budget")]
    loop.take_in()
    loop.runtime.turns["default/low"] = {"default/high": Turn(loop.state.now)}
    loop.runtime.nominations["other"] = Nomination("n1", loop.state.now + HOLD_SECONDS)
    assert loop.state.refused

    backend.time = TODAY
    loop.take_in()
    times = {
        "nominations": [n.until for n in loop.runtime.nominations.values()],
        "refused evictions": [no.until for no in loop.state.refused.values()],
        "turns": [turn.until for helped in loop.runtime.turns.values() for turn in helped.values()],
    }
    for what, until in times.items():
        assert until, what
        assert all(TODAY < one <= TODAY + 3600 for one in until), what
    assert loop.runtime.last_cycle is None


def test_a_step_back_of_less_than_a_second_is_none() -> None:
    backend, loop = world()
    loop.step()
    held = {uid: nomination.until for uid, nomination in loop.runtime.nominations.items()}
    backend.time -= 0.5
    loop.step()
    assert {uid: nomination.until for uid, nomination in loop.runtime.nominations.items()} == held


def test_a_cycle_in_the_future_leaves_decisions_as_they_were() -> None:
    decided = []
    for leaps in (False, True):
        backend, loop = world()
        for step in range(40):
            backend.time = TODAY + step + (YEARS if leaps and step == 3 else 0.0)
            loop.step()
            if step == 10:
                backend.events += [Seen(node("n2", cpu=4))]
        decided.append([(type(i), i.pod) for i in backend.intents if isinstance(i, Bind | Evict)])
    assert decided[0] == decided[1]
