"""What happened over time is exact, however the time is cut."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_runs import fifo, play, workload

from pumice.sim.results import JobRecord, PodRecord, RunRecord, timeline

STAYS = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 50), st.integers(0, 9)).map(lambda s: (s[0], s[0] + s[1], s[2])),
    max_size=20,
)


@given(STAYS, st.lists(st.integers(0, 160), min_size=1, max_size=6, unique=True))
def test_the_total_up_to_a_point_is_the_sum_of_what_each_interval_gave(
    intervals: list[tuple[int, int, int]], points: list[int]
) -> None:
    at = np.array(sorted(points), dtype=np.float64)
    starts, ends, amounts = ([float(item[column]) for item in intervals] for column in range(3))
    expected = [sum(n * max(0, min(e, point) - s) for s, e, n in intervals if s < point) for point in at]
    assert timeline.total(starts, ends, amounts, at) == pytest.approx(expected)


@given(STAYS)
def test_stays_are_apart_in_order_and_cover_every_pod(intervals: list[tuple[int, int, int]]) -> None:
    pods = [PodRecord(job="default/j", name="p", node="n", start=s, end=e) for s, e, _ in intervals]
    merged = timeline.stays(pods, horizon=1000)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(merged))
    assert all(any(a <= s and e <= b for a, b in merged) for s, e, _ in intervals)


def test_use_by_queue_adds_up_to_use_of_all_and_never_passes_the_capacity() -> None:
    run = play(workload(200, seed=5, days=0.3), 4, fifo, strict=False)
    borders = timeline.edges(run, 37)
    by_queue = timeline.use_by_queue(run, "gpu", borders)
    everything = timeline.mean_use(run.pods, "gpu", borders, run.horizon)
    capacity = timeline.mean_capacity(run.nodes, "gpu", borders, run.horizon)
    assert sum(by_queue.values()) == pytest.approx(everything)
    assert capacity == pytest.approx(np.full(37, 32_000))
    assert (everything <= capacity + 1e-6).all()
    assert everything.max() > 30_000


def test_a_finer_cut_gives_the_same_mean() -> None:
    run = play(workload(100, seed=6, days=0.3), 4, fifo)
    means = [timeline.mean_use(run.pods, "cpu", timeline.edges(run, n), run.horizon).mean() for n in (1, 10, 333)]
    assert means == pytest.approx([means[0]] * 3)


def test_jobs_wait_from_submission_to_their_first_start() -> None:
    jobs = (
        JobRecord(name="a", submit=1, start=5, end=9, outcome="completed"),
        JobRecord(name="b", submit=2, outcome="pending"),
    )
    assert timeline.waiting(jobs, np.array([0.0, 1.0, 2.0, 4.9, 5.0, 99.0])).tolist() == [0, 1, 2, 2, 1, 1]


def test_a_run_without_any_span_is_cut_like_one_second() -> None:
    jobs = (JobRecord(name="a", submit=7, start=7, end=7, outcome="completed"),)
    assert timeline.edges(RunRecord(name="r", horizon=7, jobs=jobs), 2).tolist() == [7.0, 7.5, 8.0]
