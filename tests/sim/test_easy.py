"""EASY backfilling on several nodes: the reservation of the first job that waits is kept, node by node."""

from __future__ import annotations

from typing import Any

from pumice.sim.results.records import JobRecord
from pumice.sim.traces import TraceJob, TracePod
from sim.worlds import by_name, nodes, simulation, specs

EASY: dict[str, Any] = {
    "actions": "enqueue, easybackfill, backfill",
    "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}, {"name": "binpack"}]}],
}


def job(name: str, submit: float, run: float, *pods: tuple[int, int], declared: float | None = -1) -> TraceJob:
    """A gang of (count, cpu) pods; what it declares is right unless said otherwise."""
    kinds = tuple(TracePod(count, 1000 * cpu) for count, cpu in pods)
    said = run if declared == -1 else declared
    return TraceJob(name, submit, run, kinds, sum(count for count, _ in pods), run_time_declared_s=said)


def play(*jobs: TraceJob, machines: int = 2, cpu: int = 4) -> dict[str, JobRecord]:
    run = simulation(nodes(machines, cpu=cpu), conf=EASY)
    record = run.run(specs(jobs))
    assert not run.failure
    return by_name(record)


def test_a_short_job_goes_ahead_and_a_long_one_waits_behind_the_reservation() -> None:
    jobs = play(
        job("running", 0, 100, (1, 4)),
        job("head", 1, 10, (2, 4)),
        job("long", 2, 99, (1, 2)),
        job("short", 3, 97, (1, 2)),
    )
    assert (jobs["head"].start, jobs["short"].start) == (100, 3)
    assert jobs["long"].start == 110


def test_a_long_job_goes_ahead_where_it_leaves_the_reserved_room() -> None:
    jobs = play(
        job("running", 0, 100, (1, 4)), job("head", 1, 10, (1, 4)), job("long", 2, 500, (1, 2)), machines=1, cpu=6
    )
    assert (jobs["long"].start, jobs["head"].start) == (2, 100)


def test_free_room_on_several_nodes_is_no_room_for_a_large_pod() -> None:
    """Three CPUs are free on each of two nodes: that is not room for one pod of four."""
    jobs = play(
        job("a", 0, 50, (2, 1)),
        job("b", 0, 80, (1, 3)),
        job("head", 1, 10, (1, 4)),
        job("beside", 2, 500, (1, 1)),
    )
    assert jobs["head"].start == 50
    assert jobs["beside"].start == 2


def test_a_gang_of_different_pods_has_a_reservation_too() -> None:
    jobs = play(
        job("running", 0, 60, (1, 4), (1, 2)),
        job("head", 1, 10, (1, 4), (1, 3)),
        job("greedy", 2, 100, (1, 2)),
        job("quick", 3, 30, (1, 2)),
    )
    assert (jobs["head"].start, jobs["quick"].start, jobs["greedy"].start) == (60, 3, 70)


def test_behind_a_job_whose_start_cannot_be_foretold_others_go_ahead() -> None:
    jobs = play(job("running", 0, 100, (2, 4), declared=None), job("head", 1, 10, (1, 4)), job("next", 2, 5, (1, 4)))
    assert (jobs["head"].start, jobs["next"].start) == (100, 100)
    tight = play(job("running", 0, 100, (1, 4), declared=None), job("head", 1, 10, (2, 4)), job("next", 2, 500, (1, 4)))
    assert (tight["next"].start, tight["head"].start) == (2, 502)


def test_a_job_that_declares_nothing_never_delays_the_reservation() -> None:
    jobs = play(job("running", 0, 100, (1, 4)), job("head", 1, 10, (2, 4)), job("unknown", 2, 5, (1, 2), declared=None))
    assert (jobs["head"].start, jobs["unknown"].start) == (100, 110)


def test_a_job_that_runs_longer_than_declared_only_moves_the_reservation() -> None:
    jobs = play(job("running", 0, 100, (1, 4), declared=20), job("head", 1, 10, (2, 4)), job("later", 30, 50, (1, 4)))
    assert (jobs["head"].start, jobs["later"].start) == (100, 110)
