"""A record keeps what it was given, and refuses what cannot be."""

from __future__ import annotations

import pytest
from simulated_runs import fifo, play, workload

from pumice.errors import InvalidInput
from pumice.sim.results import JobRecord, PodRecord, RunRecord, decode, encode


def test_a_record_reads_back_as_it_was_written() -> None:
    run = play(workload(80, seed=3, days=0.2), 2, fifo, strict=False, preempt=True, horizon=40_000)
    assert {job.outcome for job in run.jobs} == {"completed", "running", "pending"}
    again = decode(encode(run))
    assert again == run
    assert encode(decode(encode(again))) == encode(again)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "not the record of a run: name: is missing"),
        (b"{", "not the record of a run: Input data was truncated"),
        (b'{"name": "x", "horizon": "late"}', "horizon: must be a number, got text"),
    ],
)
def test_what_is_no_record_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        decode(data)


def test_a_job_cannot_start_before_it_is_submitted() -> None:
    with pytest.raises(InvalidInput, match="job default/a: start 3 must not be before submit 5"):
        JobRecord(name="a", submit=5, start=3, outcome="running")


def test_a_job_cannot_end_before_it_starts_or_without_a_start() -> None:
    with pytest.raises(InvalidInput, match="job default/a: end 6 must not be before 7"):
        JobRecord(name="a", submit=5, start=7, end=6, outcome="failed")
    with pytest.raises(InvalidInput, match="outcome 'completed' needs a start and an end"):
        JobRecord(name="a", submit=5, end=6, outcome="completed")
    assert JobRecord(name="a", submit=5, end=6, outcome="failed").start is None


def test_a_pod_cannot_end_before_it_starts() -> None:
    with pytest.raises(InvalidInput, match="pod p of default/a: end 1 must not be before start 2"):
        PodRecord(job="default/a", name="p", node="n", start=2, end=1)


def test_a_run_knows_the_job_of_every_pod_and_each_job_once() -> None:
    job = JobRecord(name="a", submit=0, outcome="pending")
    with pytest.raises(InvalidInput, match="run 'r': pod p belongs to job default/b, which is not there"):
        RunRecord(name="r", horizon=1, jobs=(job,), pods=(PodRecord(job="default/b", name="p", node="n", start=0),))
    with pytest.raises(InvalidInput, match="run 'r': every job must be there once"):
        RunRecord(name="r", horizon=1, jobs=(job, job))
