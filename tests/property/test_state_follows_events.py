"""The state is a function of what the cluster says, not of the way it came to say it."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from fingerprint import LEDGERS, fingerprint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import force_setattr

from effort import examples
from pumice.model.api import AnyObject, decode
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing import builders

pytestmark = pytest.mark.law

NODES, GROUPS, QUEUES, PODS = ("n0", "n1", "n2"), ("g0", "g1"), ("default", "gold"), tuple(f"p{n}" for n in range(6))


def node(which: int, variant: int) -> AnyObject:
    return builders.node(
        NODES[which % 3],
        cpu=[4, 8, 2][variant % 3],
        gpu=variant % 2 * 2,
        labels={"zone": str(variant % 2)},
        unschedulable=variant % 4 == 3,
        taints=["a=b:NoSchedule"] if variant % 5 == 4 else [],
    )


def pod(which: int, variant: int) -> AnyObject:
    """A pod in any condition: waiting, bound, running, terminating, done; ours or another scheduler's."""
    on = ["", "n0", "n1", "n2"][variant % 4]
    made = builders.pod(
        PODS[which % len(PODS)],
        group=["g0", "g1", ""][variant % 3],
        cpu=[1, 2, 0][which % 3],
        gpu=which % 2,
        on=on,
        phase=["Pending", "Running", "Succeeded", "Failed", "Unknown"][variant % 5 if on else 0],
        role=["", "worker"][which % 2],
        priority=variant % 2,
        scheduler=["pumice", "other"][variant % 7 == 6],
    )
    if variant % 6 == 5 and on:
        force_setattr(made.metadata, "deletion_timestamp", datetime(2026, 1, 1, tzinfo=UTC))
    return made


def group(which: int, variant: int) -> AnyObject:
    return builders.job(
        GROUPS[which % 2], tasks=0, min_available=variant % 3, queue=QUEUES[variant % 2], min_resources={"cpu": variant}
    )[0]


def queue(which: int, variant: int) -> AnyObject:
    return builders.queue(QUEUES[which % 2], weight=variant + 1)


MAKERS = {"Node": node, "Pod": pod, "PodGroup": group, "Queue": queue}
events = st.tuples(
    st.sampled_from(["Pod", "Pod", "Node", "PodGroup", "Queue"]),
    st.integers(0, 5),
    st.integers(0, 59),
    st.integers(0, 3).map(lambda n: n == 3),
)


def told(script: list[tuple[str, int, int, bool]], objects: dict[tuple[str, str], AnyObject]) -> list[ClusterEvent]:
    """The events of a script; *objects* is left as the cluster then is."""
    out: list[ClusterEvent] = []
    for kind, which, variant, leaves in script:
        made = MAKERS[kind](which, variant)
        if leaves:
            out.append(Gone(kind, made.key))
            objects.pop((kind, made.key), None)
        else:
            out.append(Seen(made))
            objects[kind, made.key] = made
    return out


def state() -> ClusterState:
    return ClusterState(scheduler_names=["pumice"])


@settings(max_examples=examples(250), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(events, max_size=40), st.integers(0, 2**16))
def test_any_history_ends_in_the_state_of_the_objects_it_left(
    script: list[tuple[str, int, int, bool]], seed: int
) -> None:
    objects: dict[tuple[str, str], AnyObject] = {}
    lived, fresh = state(), state()
    for event in told(script, objects):
        lived.apply(event)
        assert violations(lived) == []
    shuffled = list(objects.values())
    random.Random(seed).shuffle(shuffled)
    fresh.apply_all(Seen(obj) for obj in shuffled)
    one, other = fingerprint(lived), fingerprint(fresh)
    del one["devices"], other["devices"]  # who came first holds the first device
    assert one == other
    lived.refresh()
    fresh.refresh()
    for name, q in lived.queues.items():
        same = fresh.queues[name]
        assert (q.inqueue, q.elastic) == (same.inqueue, same.elastic)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(events, max_size=30))
def test_a_cluster_that_is_emptied_leaves_nothing_behind(script: list[tuple[str, int, int, bool]]) -> None:
    objects: dict[tuple[str, str], AnyObject] = {}
    lived = state()
    lived.apply_all(told(script, objects))
    for kind, key in objects:
        lived.apply(Gone(kind, key))
    assert fingerprint(lived) == fingerprint(state())
    table = lived.table
    assert all(not np.any(getattr(table, ledger)) for ledger in LEDGERS)
    assert not table.valid.any()
    assert (lived.tasks, lived.jobs, lived.session_jobs) == ({}, {}, {})


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(events, max_size=25))
def test_hearing_the_same_twice_changes_nothing(script: list[tuple[str, int, int, bool]]) -> None:
    objects: dict[tuple[str, str], AnyObject] = {}
    lived = state()
    for event in told(script, objects):
        lived.apply(event)
        before: dict[str, Any] = fingerprint(lived)
        lived.apply(event)
        assert fingerprint(lived) == before


def test_what_is_written_is_what_is_decoded() -> None:
    """The makers of this file give objects that survive the wire."""
    from pumice.model.api import to_data

    for kind, maker in MAKERS.items():
        for variant in range(12):
            made = maker(variant, variant)
            assert decode(kind, to_data(made)) == made
