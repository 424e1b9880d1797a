"""The ledger: every move is the difference of two lines of one table, and what a session does is checked."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from fingerprint import fingerprint

import pumice
from pumice.errors import IllegalMove
from pumice.model.events import Gone, Seen
from pumice.model.job import Job
from pumice.model.resources import EMPTY, Resources
from pumice.model.status import MOVES, TaskStatus
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.state.ledger import COUNTS, OUT
from pumice.testing import job, node, pod, queue

S = TaskStatus
PLACES = (None, "n1", "n2")
EVERYWHERE = list(itertools.product(S, PLACES))


def cluster(gpu: int = 0) -> ClusterState:
    state = ClusterState()
    for obj in (node("n1", gpu=4), node("n2", gpu=4), queue("default"), *job("a", tasks=2, cpu=2, gpu=gpu)):
        state.apply(Seen(obj))
    return state


def go(state: ClusterState, status: TaskStatus, place: str | None) -> None:
    state.set_status(state.tasks["default/a-0"], status, state.nodes[place] if place else None)


@pytest.mark.parametrize("gpu", [0, 1])
@pytest.mark.part(9)
def test_every_way_between_two_statuses_and_places_keeps_the_sums_right_and_leads_back(gpu: int) -> None:
    for (before, old), (after, new) in itertools.product(EVERYWHERE, EVERYWHERE):
        state = cluster(gpu)
        go(state, before, old)
        then = fingerprint(state)
        assert violations(state) == []
        go(state, after, new)
        assert violations(state) == [], f"{before.title} on {old} to {after.title} on {new}"
        go(state, before, old)
        assert fingerprint(state) == then, f"{before.title} on {old} to {after.title} on {new} and back"


@pytest.mark.parametrize(("status", "place"), EVERYWHERE)
def test_a_task_that_goes_takes_all_with_it_that_counted_it(status: TaskStatus, place: str | None) -> None:
    state = cluster()
    state.apply(Gone("Pod", "default/a-0"))
    without = fingerprint(state)
    state = cluster()
    go(state, status, place)
    state.apply(Gone("Pod", "default/a-0"))
    assert violations(state) == []
    assert fingerprint(state) == without


def test_the_table_knows_every_status_and_what_is_outside() -> None:
    assert set(COUNTS) == {*S, OUT}
    assert not any(COUNTS[OUT])


@pytest.mark.parametrize(("before", "after"), [pair for pair in itertools.product(S, S) if pair not in MOVES])
def test_a_session_makes_no_move_that_is_not_in_the_table(before: TaskStatus, after: TaskStatus) -> None:
    state = cluster()
    go(state, before, "n1")
    then = fingerprint(state)
    task = state.tasks["default/a-0"]
    with pytest.raises(IllegalMove, match=f"task default/a-0: cannot go from {before.title} to {after.title}"):
        state.move(task, after, state.nodes["n1"], evicted=after is S.RELEASING)
    if before is not S.ALLOCATED:
        with pytest.raises(IllegalMove):
            state.confirm(task)
    if before is not S.PENDING:
        with pytest.raises(IllegalMove):
            state.place_many([state.tasks["default/a-1"], task], [state.nodes["n1"]] * 2, S.ALLOCATED)
    assert fingerprint(state) == then


def test_nobody_who_decides_goes_around_the_table_of_moves() -> None:
    root = Path(pumice.__file__).parent
    around = [
        str(path.relative_to(root))
        for package in ("framework", "actions", "plugins", "engine")
        for path in (root / package).rglob("*.py")
        if ".set_status(" in path.read_text(encoding="utf-8")
    ]
    assert around == []


def minimum(job: Job) -> Resources:
    return job.min_resources or EMPTY


def test_a_sum_that_was_declared_follows_the_jobs() -> None:
    state = cluster()
    kept = state.keep_sum("mine", minimum)
    assert kept.total.is_empty
    for obj in job("b", tasks=1, min_resources={"cpu": 3}):
        state.apply(Seen(obj))
    state.refresh()
    assert state.keep_sum("mine", minimum) is kept
    assert kept.total == Resources.of(cpu=3)
    state.apply(Gone("PodGroup", "default/b"))
    state.refresh()
    assert kept.total.is_empty


def test_a_contribution_that_fails_counts_as_nothing_and_is_kept_for_who_declared_it() -> None:
    state = cluster()
    for obj in (*job("b"), pod("alone")):
        state.apply(Seen(obj))

    def broken(job: Job) -> Any:
        return 3 if job.name == "a" else job.nothing  # type: ignore[attr-defined]

    kept = state.keep_sum("mine", broken)
    assert kept.total.is_empty
    said = [f"{type(exc).__name__}: {exc}" for exc in kept.take_failures()]
    assert said[0] == "TypeError: the contribution of job default/a must be a Resources, got 3"
    assert [text.split(":")[0] for text in said] == ["TypeError", "AttributeError"]
    assert kept.take_failures() == []
