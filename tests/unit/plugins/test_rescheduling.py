"""rescheduling: who leaves a busy node, when, and only as long as idle ones have room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.config import from_data
from pumice.errors import InvalidInput
from pumice.framework.plugin import Arguments
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.plugins.rescheduling import Rescheduling
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.testing import Scenario

REGISTRY = default_registry()
LOW = {"thresholds": {"cpu": 20, "memory": 20}, "targetThresholds": {"cpu": 50, "memory": 50}}


def leave(
    scenario: Scenario,
    usage: Mapping[str, tuple[float, float]],
    *,
    params: Mapping[str, Any] = LOW,
    after: float = 300,
    measured: float = 0,
    compat: str | None = None,
) -> list[str]:
    """Who is evicted *after* seconds from the first cycle, *measured* seconds after the measurement."""
    strategies = [{"name": "lowNodeUtilization", "params": params}]
    plugins = [{"name": "rescheduling", "arguments": {"strategies": strategies}}]
    conf = from_data({"actions": "shuffle", "tiers": [{"plugins": plugins}]}, catalogue_of(REGISTRY)).conf
    assembly, runtime = assemble(conf, REGISTRY, compat), Runtime()
    told = {name: {"cpu": cpu, "memory": memory} for name, (cpu, memory) in usage.items()}
    gone: list[str] = []
    for now in (scenario.state.now, scenario.state.now + after):
        scenario.state.now = now
        environment = {"node_usage": told, "usage_time": now - measured}
        gone += run_cycle(scenario.state, assembly, runtime, environment=environment, details=True).evictions
    return gone


def two_nodes(**more: Any) -> Scenario:
    made = Scenario().node("busy", cpu=10, memory="10Gi").node("calm", cpu=10, memory="10Gi")
    for n, priority in enumerate([5, 1, 3]):
        made.job(f"p{n}", cpu=2, memory="1Gi", on="busy", priority=priority, **more)
    return made


def test_the_least_important_leave_until_the_node_is_no_longer_busy() -> None:
    assert leave(two_nodes(), {"busy": (75, 10), "calm": (5, 5)}) == ["default/p1-0", "default/p2-0"]
    assert leave(two_nodes(), {"busy": (60, 10), "calm": (5, 5)}) == ["default/p1-0"]


def test_nobody_leaves_without_a_busy_node_an_idle_one_or_room_there() -> None:
    assert leave(two_nodes(), {"busy": (50, 10), "calm": (5, 5)}) == []
    assert leave(two_nodes(), {"busy": (75, 10), "calm": (30, 5)}) == []
    tight = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 21}}
    assert leave(two_nodes(), {"busy": (75, 10), "calm": (19, 5)}, params=tight) == []
    cordoned = two_nodes().node("calm", cpu=10, memory="10Gi", unschedulable=True)
    assert leave(cordoned, {"busy": (75, 10), "calm": (5, 5)}) == []
    assert (
        leave(
            two_nodes(preemptible=False, task_annotations={"volcano.sh/preemptable": "false"}),
            {"busy": (75, 10), "calm": (5, 5)},
        )
        == []
    )


def test_nobody_leaves_who_would_make_every_idle_node_busy() -> None:
    """Pods were moved round after round: the room of idle nodes was added up."""
    large = Scenario().node("busy", cpu=10).node("calm", cpu=10).node("quiet", cpu=10).job("p", cpu=6, on="busy")
    usage = {"busy": (60.0, 10.0), "calm": (5.0, 5.0), "quiet": (5.0, 5.0)}
    assert leave(large, usage) == []
    assert leave(large, usage, compat="volcano") == ["default/p-0"]


def test_nobody_leaves_before_the_interval_or_on_a_stale_measurement() -> None:
    usage = {"busy": (75, 10), "calm": (5, 5)}
    assert leave(two_nodes(), usage, after=299) == []
    assert leave(two_nodes(), usage, measured=301) == []
    assert leave(two_nodes(), usage, measured=299)


def test_what_asks_for_nothing_leaves_before_what_asks() -> None:
    scenario = two_nodes()
    scenario.job("nothing", cpu=0, on="busy", priority=1)
    assert leave(scenario, {"busy": (60, 10), "calm": (5, 5)})[0] == "default/nothing-0"


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8),
)
def test_what_leaves_was_on_a_busy_node_and_has_room_on_idle_ones(
    percent: list[tuple[int, int]], pods: list[tuple[int, int]]
) -> None:
    scenario = Scenario()
    for n in range(len(percent)):
        scenario.node(f"n{n}", cpu=10, memory="10Gi")
    for n, (where, cpu) in enumerate(pods):
        scenario.job(f"p{n}", cpu=cpu, on=f"n{where % len(percent)}")
    place = {task.key: task.node_name for task in scenario.state.tasks.values()}
    asks = {task.key: int(task.klass.requests.milli_cpu) for task in scenario.state.tasks.values()}
    gone = leave(scenario, {f"n{n}": one for n, one in enumerate(percent)})
    busy = {f"n{n}" for n, one in enumerate(percent) if max(one) > 50}
    idle = [one for one in percent if max(one) < 20]
    assert {place[pod] for pod in gone} <= busy
    assert sum(asks[pod] for pod in gone) <= sum((50 - cpu) * 100 for cpu, _ in idle)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"strategies": [{"name": "other"}]}, "there is only lowNodeUtilization"),
        ({"strategies": "x"}, "must be a list"),
        ({"strategies": [{"name": "lowNodeUtilization", "params": {"thresholds": {"cpu": 200}}}]}, "from 0 to 100"),
        ({"interval": "soon"}, "soon"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Rescheduling(Arguments(arguments))
