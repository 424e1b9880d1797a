"""Gangs that were bound in part: when their room is given back, and when not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import force_setattr

from pumice.kube.gangs import HalfGangs
from pumice.model.api import Condition, Pod, PodGroup
from pumice.model.events import EvictFailed, Gone, Seen
from pumice.model.intents import Evict, Note
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing import job, node, pod, queue

S = TaskStatus
BOUND = datetime(2026, 1, 1, 12, tzinfo=UTC)


def member(i: int, *, on: str = "", phase: str = "Running", made: timedelta = timedelta(seconds=-5)) -> Pod:
    """One pod of the gang; a bound one was bound at noon, and all were made five seconds before."""
    found = pod(f"g-{i}", group="g", on=on, phase=phase if on else "Pending")
    force_setattr(found.metadata, "creation_timestamp", BOUND + made)
    if on:
        force_setattr(found.status, "conditions", [Condition("PodScheduled", "True", last_transition_time=BOUND)])
    return found


def gang(*pods: Pod, least: int = 3) -> ClusterState:
    group = next(o for o in job("g", tasks=0, min_available=least) if isinstance(o, PodGroup))
    state = ClusterState()
    state.apply_all(Seen(o) for o in (queue("default"), node("n1", cpu=8), group, *pods))
    return state


def released(state: ClusterState, half: HalfGangs, *at: float) -> list[str]:
    """The pods that are evicted at the last of some moments, none being evicted before."""
    found: list[str] = []
    for moment in at:
        assert found == []
        state.now = moment
        found = [i.pod for i in half.release(state) if isinstance(i, Evict)]
        assert violations(state) == []
    return found


def test_a_gang_that_stays_half_gives_its_room_back_when_its_time_is_over() -> None:
    state = gang(member(0, on="n1"), member(1, on="n1"), member(2))
    half = HalfGangs(60)
    assert released(state, half, 0, 30, 59, 66) == ["default/g-0", "default/g-1"]
    assert {t.status for t in state.tasks.values()} == {S.RELEASING, S.PENDING}
    assert released(state, half, 200) == []


def test_a_clock_that_stood_in_the_future_for_a_moment_does_not_put_it_off() -> None:
    state = gang(member(0, on="n1"), member(1, on="n1"), member(2))
    half = HalfGangs(60)
    assert released(state, half, 1_000_000_000, 0, 30, 59, 66) == ["default/g-0", "default/g-1"]


def test_users_are_told() -> None:
    state = gang(member(0, on="n1"), member(1), member(2))
    half = HalfGangs(10)
    assert released(state, half, 0) == []
    state.now = 10
    note = next(i for i in half.release(state) if isinstance(i, Note))
    assert (note.kind, note.key, note.reason) == ("PodGroup", "default/g", "HalfGangReleased")
    assert note.message.startswith("1 of 3 members were bound, and the rest could not be within 10 s")


def test_the_time_begins_anew_when_a_gang_was_whole_in_between() -> None:
    state = gang(member(0, on="n1"), member(1, on="n1"), member(2))
    half = HalfGangs(60)
    assert released(state, half, 0, 40) == []
    state.apply(Seen(member(2, on="n1")))
    assert released(state, half, 50) == []
    state.apply(Seen(member(2)))
    assert released(state, half, 60, 100, 121) != []


def test_nothing_is_released_while_the_last_member_is_being_bound() -> None:
    state = gang(member(0, on="n1"), member(1, on="n1"), member(2))
    half = HalfGangs(60)
    task = state.tasks["default/g-2"]
    assert released(state, half, 0) == []
    state.set_status(task, S.BINDING, state.nodes["n1"])
    state.assume(task)
    assert released(state, half, 100) == []


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ([member(0, on="n1"), member(1, on="n1"), member(2, on="n1")], "it is whole"),
        ([member(0), member(1), member(2)], "nothing is bound"),
        ([member(0, on="n1"), member(1, on="n1")], "nobody waits"),
        (
            [member(0, on="n1"), member(1, on="n1"), member(2, made=timedelta(hours=1))],
            "it was whole, and the one that waits came later in the place of a lost one",
        ),
        (
            [*(member(i, on="n1", phase="Succeeded") for i in range(2)), member(2, on="n1"), member(3)],
            "those that finished count",
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_gang_keeps_its_room_when(pods: list[Pod], why: str) -> None:
    assert released(gang(*pods), HalfGangs(60), 0, 100) == []


def test_an_elastic_gang_that_was_whole_keeps_its_room_when_it_falls_below_its_minimum() -> None:
    state = gang(*(member(i, on="n1") for i in range(3)), member(3), member(4))
    half = HalfGangs(60)
    assert released(state, half, 0) == []
    for i in range(2):
        state.apply(Gone("Pod", f"default/g-{i}"))
    assert released(state, half, 10, 100) == []


def test_an_eviction_that_is_refused_is_tried_again() -> None:
    state = gang(member(0, on="n1"), member(1, on="n1"), member(2))
    half = HalfGangs(60)
    assert released(state, half, 0, 60) == ["default/g-0", "default/g-1"]
    for name in ("default/g-0", "default/g-1"):
        state.apply(EvictFailed(name, name, "a budget"))
    assert released(state, half, 61, 70) == ["default/g-0", "default/g-1"]


def test_without_a_time_nothing_is_released() -> None:
    state = gang(member(0, on="n1"), member(1, on="n1"), member(2))
    assert released(state, HalfGangs(0), 0, 1e6) == []
