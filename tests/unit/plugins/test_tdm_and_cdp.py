"""tdm and cdp over time: windows on every minute of the day, rounds of evictions, pods that have just started."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pumice.errors import InvalidInput
from pumice.framework.plugin import Arguments
from pumice.model.api import Condition, Pod
from pumice.plugins.cdp import is_cooling
from pumice.plugins.tdm import Tdm
from pumice.testing import Scenario, job, node

ZONE = "volcano.sh/revocable-zone"
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
minutes = st.integers(0, 24 * 60 - 1)


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def lent(window: str, minute: int, offset: str = "+00:00") -> bool:
    """Is a task that may be revoked placed on a node of the zone at that minute of the day?"""
    scenario = Scenario(node("n1", labels={ZONE: "rz"})).add(*job("a", task_annotations={ZONE: "*"}))
    scenario.advance(MIDNIGHT + 60 * minute)
    arguments = {"tdm.revocable-zone.rz": window, "tdm.utc-offset": offset}
    return bool(scenario.run(actions=["allocate"], plugins=["gang", ("tdm", arguments)]).binds)


@given(minutes, minutes, minutes)
def test_a_window_is_open_from_its_first_minute_to_its_last_also_across_midnight(
    begins: int, ends: int, at: int
) -> None:
    length = (ends - begins) % (24 * 60) or 24 * 60
    inside = (at - begins) % (24 * 60) < length
    assert lent(f"{clock(begins)}-{clock(ends)}", at) is inside


def test_hours_are_of_the_clock_that_the_conf_names() -> None:
    assert lent("22:00-06:00", 20 * 60, "+02:00")
    assert not lent("22:00-06:00", 20 * 60)
    assert lent("22:00-06:00", 3 * 60, "-05:00")
    assert not lent("22:00-06:00", 12 * 60, "-05:00")


def test_a_reason_says_the_hours_of_the_zone() -> None:
    scenario = Scenario(node("n1", labels={ZONE: "night"})).add(*job("a", task_annotations={ZONE: "*"}))
    scenario.advance(MIDNIGHT + 12 * 3600)
    done = scenario.run(actions=["allocate"], plugins=["gang", ("tdm", {"tdm.revocable-zone.night": "22:00-06:00"})])
    assert "1 node(s) of zone night are lent only from 22:00 to 06:00" in done.why("a").text


def test_nodes_are_taken_back_round_by_round_and_given_to_others_at_the_next_hours() -> None:
    scenario = Scenario(node("n1", cpu=4, labels={ZONE: "rz"}))
    scenario.add(*job("a", tasks=3, min_available=1, task_annotations={ZONE: "*"}))
    scenario.advance(MIDNIGHT + 23 * 3600)
    arguments = {"tdm.revocable-zone.rz": "22:00-06:00", "tdm.evict.period": "10m"}
    done = scenario.run(actions=["enqueue", "allocate", "shuffle"], plugins=["gang", ("tdm", arguments)])
    assert len(done.binds) == 3
    scenario.advance(7 * 3600)
    gone = [len(scenario.run().evictions)]
    for _ in range(4):
        scenario.advance(300)
        gone.append(len(scenario.run().evictions))
    assert gone == [1, 0, 1, 0, 1]
    scenario.assert_invariants()


def test_a_task_that_nobody_may_evict_takes_the_place_of_others_on_nodes_of_no_zone() -> None:
    def evicted(where: dict[str, str], **preemptor: Any) -> list[str]:
        scenario = Scenario(node("n1", cpu=1, labels=where))
        scenario.add(*job("low", on="n1", task_annotations={ZONE: "*"}))
        scenario.add(*job("high", priority=5, **preemptor))
        arguments = {"tdm.revocable-zone.rz": "00:00-00:00"}
        plugins = ["priority", ("tdm", arguments)]
        return scenario.run(actions=["enqueue", "preempt"], plugins=[["tdm"], ["priority"]] if 0 else plugins).evictions

    fixed = {"task_annotations": {"volcano.sh/preemptable": "false"}}
    assert evicted({}, **fixed) == ["default/low-0"]
    assert evicted({ZONE: "rz"}, **fixed) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tdm.revocable-zone.rz": "8:00-9:00"}, "must be hours such as 22:00-06:00, got '8:00-9:00'"),
        ({"tdm.revocable-zone.rz": "08:00-24:00"}, "must be hours"),
        ({"tdm.revocable-zone.rz": 600}, "must be hours"),
        ({"tdm.evict.period": "often"}, "often"),
        ({"tdm.utc-offset": "2"}, "must be written"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Tdm(Arguments(arguments))


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_pod_is_left_alone_until_its_cooldown_is_over(age: int, cooldown: int) -> None:
    now = MIDNIGHT
    scenario = Scenario(node("n1")).add(*job("a", on="n1", task_labels={"volcano.sh/cooldown-time": f"{cooldown}s"}))
    [pod] = [o for o in scenario.objects if isinstance(o, Pod)]
    since = datetime.fromtimestamp(now - age, UTC)
    told = Condition(type="PodScheduled", status="True", last_transition_time=since)
    scenario.add(replace(pod, status=replace(pod.status, conditions=(told,))))
    assert is_cooling(scenario.task("a-0"), now) is (age < cooldown)
