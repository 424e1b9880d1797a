"""A ResourceQuota holds in a simulation from beginning to end: what runs counts, what ended does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.model.api import ResourceQuota, decode
from pumice.sim.results.records import RunRecord
from sim.worlds import by_name, job, nodes, simulation, specs

CONF: dict[str, Any] = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}, {"name": "resourcequota"}]}],
}


def quota(hard: dict[str, Any], used: dict[str, Any] | None = None) -> ResourceQuota:
    data = {"metadata": {"name": "q", "namespace": "default"}, "status": {"hard": hard, "used": used}}
    found = decode("ResourceQuota", data)
    assert isinstance(found, ResourceQuota)
    return found


def most_at_once(record: RunRecord) -> float:
    """The most CPUs that pods held at one time."""
    steps = [(pod.start, pod.cpu_milli) for pod in record.pods]
    steps += [(pod.end, -pod.cpu_milli) for pod in record.pods if pod.end is not None]
    held = most = 0.0
    for _, change in sorted(steps):
        held += change
        most = max(most, held)
    return most / 1000


def simulated(hard: dict[str, Any], *jobs: Any, used: dict[str, Any] | None = None, **more: Any) -> RunRecord:
    return simulation([*nodes(4, cpu=8), quota(hard, used)], conf=CONF, horizon_s=500, **more).run(specs(jobs))


@settings(max_examples=examples(25))
@given(
    hard=st.integers(2, 10),
    shapes=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(1, 4), st.integers(1, 2)), min_size=1, max_size=8
    ),
)
def test_never_more_runs_than_a_quota_allows_and_all_that_fits_it_runs(hard: int, shapes: list[Any]) -> None:
    jobs = [job(f"j{n}", at, long, pods, cpu) for n, (at, long, pods, cpu) in enumerate(shapes)]
    record = simulated({"cpu": hard}, *jobs)
    assert most_at_once(record) <= hard
    ended = {f"j{n}" for n, (_, _, pods, cpu) in enumerate(shapes) if pods * cpu <= hard}
    assert {name for name, one in by_name(record).items() if one.outcome == "completed"} == ended


@pytest.mark.parametrize(("used", "starts"), [(None, 0), ({"cpu": "1"}, 0), ({"cpu": "3"}, None)])
def test_what_others_use_of_a_quota_stays_used(used: dict[str, Any] | None, starts: int | None) -> None:
    record = simulated({"cpu": 4}, job("a", 0, 10, 3), used=used)
    assert by_name(record)["a"].start == starts


def test_a_quota_on_what_nobody_asks_for_by_that_name_limits_nobody() -> None:
    record = simulated({"requests.cpu": 1, "pods": 1}, job("a", 0, 10, 3), job("b", 0, 10, 3))
    assert [one.start for one in by_name(record).values()] == [0, 0]


def test_a_job_that_waits_uses_nothing() -> None:
    record = simulated({"cpu": 4}, job("a", 0, 10, 5), job("b", 1, 10, 4))
    assert {name: one.start for name, one in by_name(record).items()} == {"a": None, "b": 1}
