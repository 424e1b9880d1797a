"""What waits to be sent is looked at once more against what happened since it was decided."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import force_setattr

from pumice.kube.outbox import StaleIntents
from pumice.model.api import NodeObject, Pod, Toleration
from pumice.model.events import BindFailed, Gone, Seen
from pumice.model.intents import Bind, Evict
from pumice.model.status import TaskStatus as S
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, pod, queue
from pumice.testing.world import flat


def state_of(*objects: Any) -> ClusterState:
    state = ClusterState()
    tell(state, *objects)
    return state


def tell(state: ClusterState, *objects: Any) -> None:
    state.apply_all(Seen(obj) for obj in flat(objects))


def bound(state: ClusterState, look: StaleIntents, name: str, to: str = "n1") -> None:
    """Decide a bind, and hand it over."""
    task = state.task_by_key[f"default/{name}"]
    state.now += 1.0
    state.move(task, S.ALLOCATED, state.nodes[to])
    state.confirm(task)
    look.handed_over([Bind(task.key, task.uid, to)])


def world() -> tuple[ClusterState, StaleIntents]:
    state = state_of(node("n1", cpu=4), node("n2", cpu=4), queue("default"), *(pod(f"p{i}", cpu=1) for i in range(4)))
    look = StaleIntents()
    for i in range(3):
        bound(state, look, f"p{i}")
    return state, look


def test_nothing_is_withdrawn_while_nothing_happens_and_what_is_seen_bound_is_forgotten() -> None:
    state, look = world()
    assert look.look(state) == {}
    for i in range(3):
        tell(state, pod(f"p{i}", cpu=1, on="n1"))
    tell(state, pod("other", cpu=4, on="n1"))
    assert look.look(state) == {}
    assert not look._binds


def test_the_last_binds_to_a_node_whose_room_somebody_else_took_are_withdrawn_until_the_rest_fits() -> None:
    state, look = world()
    tell(state, pod("other", cpu=3, on="n1"))
    assert look.look(state) == {
        "default/p2": "cpu of node n1 was taken by others",
        "default/p1": "cpu of node n1 was taken by others",
    }


def test_a_bind_that_holds_nothing_of_what_is_short_stays() -> None:
    state, look = world()
    tell(state, pod("light", cpu=0, memory="1Gi"))
    bound(state, look, "light")
    tell(state, pod("other", cpu=2, on="n1"))
    assert set(look.look(state)) == {"default/p2"}


def test_binds_to_a_node_that_shrank_or_was_cordoned_are_withdrawn() -> None:
    state, look = world()
    tell(state, node("n1", cpu=2))
    assert set(look.look(state)) == {"default/p2"}
    state, look = world()
    cordoned = node("n1", cpu=4)
    assert isinstance(cordoned, NodeObject)
    force_setattr(cordoned.spec, "unschedulable", True)
    tell(state, cordoned)
    assert look.look(state) == {f"default/p{i}": "node n1 was cordoned" for i in range(3)}


@pytest.mark.parametrize(
    "toleration", [Toleration(operator="Exists"), Toleration(key="node.kubernetes.io/unschedulable")]
)
def test_who_tolerates_a_cordoned_node_goes_there(toleration: Toleration) -> None:
    state, look = world()
    daemon = pod("daemon", cpu=1)
    assert isinstance(daemon, Pod)
    force_setattr(daemon.spec, "tolerations", [toleration])
    tell(state, daemon)
    bound(state, look, "daemon", to="n2")
    cordoned = node("n2", cpu=4)
    assert isinstance(cordoned, NodeObject)
    force_setattr(cordoned.spec, "unschedulable", True)
    tell(state, cordoned)
    assert look.look(state) == {}


def test_a_bind_of_a_pod_that_is_gone_or_leaving_is_withdrawn_and_one_that_failed_is_forgotten() -> None:
    state, look = world()
    state.apply(Gone("Pod", "default/p0"))
    leaving = pod("p1", cpu=1)
    force_setattr(leaving.metadata, "deletion_timestamp", datetime(2026, 1, 1, tzinfo=UTC))
    tell(state, leaving)
    state.apply(BindFailed("default/p2", "default/p2", "no", "n1"))
    assert look.look(state) == dict.fromkeys(("default/p0", "default/p1"), "the pod is gone or leaving")
    assert look.look(state) == {}


def evicting() -> tuple[ClusterState, StaleIntents]:
    state = state_of(node("n1", cpu=4), queue("default"), job("low", tasks=1, on="n1", cpu=4), job("high", cpu=4))
    victim = state.task_by_key["default/low-0"]
    state.move(victim, S.RELEASING, state.nodes["n1"])
    state.assume(victim)
    look = StaleIntents()
    look.handed_over([Evict(victim.key, victim.uid, "n1", "preempt", "default/low", "default/high", "default/high-0")])
    return state, look


def test_an_eviction_whose_beneficiary_waits_stays_and_one_in_vain_is_withdrawn() -> None:
    state, look = evicting()
    assert look.look(state) == {}
    tell(state, node("n2", cpu=4))
    bound(state, look, "high-0", to="n2")
    victim = "default/low-0"
    assert look.look(state) == {victim: "default/high-0, for which it was to make room, has its place"}
    state, look = evicting()
    state.apply(Gone("Pod", "default/high-0"))
    assert look.look(state) == {victim: "default/high-0, for which it was to make room, is gone"}


def test_an_eviction_that_is_seen_is_forgotten() -> None:
    state, look = evicting()
    state.apply(Gone("Pod", "default/low-0"))
    state.apply(Gone("Pod", "default/high-0"))
    assert look.look(state) == {}
    assert not look._evictions
