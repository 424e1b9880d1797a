"""A recorded cycle is replayed to the same decisions; redacted, to the same ones under new names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from effort import examples
from pumice import saved
from pumice.config import DEFAULT_CONF, load
from pumice.framework.plugin import Plugin
from pumice.framework.points.guard import Health
from pumice.framework.registry import default_registry
from pumice.framework.session.nominations import Nomination
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.saved.redact import redacted
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.recording import decisions_of, record, replay
from pumice.testing import Scenario, job, node, pod

pytestmark = pytest.mark.law

CONF = load(DEFAULT_CONF, catalogue_of(default_registry())).conf
TEAMS = st.sampled_from(["zoo", "default", "alpha", "alpha-2"])


@st.composite
def clusters(draw: st.DrawFn) -> Scenario:
    """A few nodes, queues and jobs, some of them running."""
    scenario = Scenario()
    nodes = [f"n{i}" for i in range(draw(st.integers(1, 4)))]
    for name in nodes:
        scenario.node(name, cpu=draw(st.integers(1, 8)), labels={"pool": draw(TEAMS)})
    for name in ("alpha", "zoo"):
        scenario.queue(name, weight=draw(st.integers(1, 3)))
    for number in range(draw(st.integers(1, 6))):
        tasks = draw(st.integers(1, 4))
        scenario.job(
            f"{draw(TEAMS)}-{number}",
            tasks=tasks,
            min_available=draw(st.integers(1, tasks)),
            cpu=draw(st.integers(0, 4)),
            namespace=draw(TEAMS),
            queue=draw(st.sampled_from(["alpha", "default", "zoo"])),
            priority=draw(st.sampled_from([None, 5])),
        )
    return scenario


@settings(max_examples=examples(40), deadline=None)
@given(clusters(), st.integers(0, 2))
def test_a_replay_decides_the_same_and_a_redacted_one_too(scenario: Scenario, before: int) -> None:
    if before:
        scenario.run(before)
    state, runtime, registry = scenario.state, scenario.runtime, default_registry()
    file = saved.dump(record(state, CONF, runtime))
    decided = decisions_of(run_cycle(state, assemble(CONF, registry), runtime).intents)
    begun = saved.parse(file)
    assert replay(begun, registry).decisions == decided
    again = replay(redacted(begun), registry).decisions
    assert [(d["do"], d["node"]) for d in again] == [(d["do"], d["node"]) for d in decided]


def test_what_the_scheduler_keeps_between_cycles_is_recorded(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).job("a", tasks=1, cpu=1)
    runtime = Runtime(
        seed=3,
        random_ties=True,
        memory={"remembering": {"rounds": 7}},
        health={"gang": Health(2, 1, False, "said")},
        nominations={"default/a-0": Nomination("n1", 9e9)},
        cycle=4,
    )
    registry = default_registry().copy()
    seen: dict[str, Any] = {}

    class Remembering(Plugin):
        name = "remembering"

        def on_session_open(self, ssn: Session) -> None:
            seen.update(ssn.memory, cycle=ssn.runtime.cycle, seed=ssn.runtime.seed, health=ssn.runtime.health["gang"])
            seen["room"] = ssn.runtime.nominations["default/a-0"]

    registry.register("remembering", Remembering)
    text = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: remembering\n'
    conf = load(text, catalogue_of(registry)).conf
    replay(saved.parse(saved.dump(record(scenario.state, conf, runtime))), registry)
    assert seen["rounds"] == 7
    assert (seen["cycle"], seen["seed"], seen["room"]) == (5, 3, Nomination("n1", 9e9))
    assert seen["health"].failures == 2


def test_an_assumed_bind_holds_its_room_in_a_replay(scenario: Scenario) -> None:
    """The pod of the first cycle is not seen bound yet; the second job must not get its place."""
    scenario.node("n1", cpu=2).job("a", tasks=1, cpu=2)
    registry = default_registry()
    run_cycle(scenario.state, assemble(CONF, registry), scenario.runtime)
    scenario.job("b", tasks=1, cpu=1)
    begun = saved.parse(saved.dump(record(scenario.state, CONF, scenario.runtime)))
    assert [entry.uid for entry in begun.assumed] == ["default/a-0"]
    assert replay(begun, registry).decisions == []


@pytest.mark.parametrize(("shown", "named"), [("n2", ""), ("", "n2"), ("n2", "n3")])
def test_a_node_that_was_named_for_a_pod_and_is_not_seen_there_yet_decides_in_a_replay_too(
    scenario: Scenario, shown: str, named: str
) -> None:
    """A room that was held is given up, or named, and what was written of that is still on its way."""
    waiting = pod("a-0", group="a")
    waiting = replace(waiting, status=replace(waiting.status, nominated_node_name=shown))
    scenario.add(*(node(f"n{n}", cpu=2) for n in (1, 2, 3)), *job("a", tasks=0, min_available=1), waiting)
    state, runtime, registry = scenario.state, scenario.runtime, default_registry()
    state.nominate(state.tasks["default/a-0"], named)
    begun = saved.parse(saved.dump(record(state, CONF, runtime)))
    report = run_cycle(state, assemble(CONF, registry), runtime)
    assert report.binds == {"default/a-0": named or "n1"}
    assert replay(begun, registry).decisions == decisions_of(report.intents)
    assert replay(redacted(begun), registry).decisions[0]["node"] == (named or "n1")
