"""Runs are measured against the first one, and judged by which way is better."""

from __future__ import annotations

import re

import msgspec
import pytest
from simulated_runs import fifo, play, shortest_first, workload

from pumice.errors import InvalidInput
from pumice.sim.results import JobRecord, LeftJob, RunRecord, compare
from pumice.sim.results.comparison import change, left_apart
from pumice.sim.results.metrics import METRICS


def runs() -> list[RunRecord]:
    return [
        play(workload(250, seed=7, days=0.3), 8, fifo, name="fifo"),
        play(workload(250, seed=7, days=0.3), 8, shortest_first, name="shortest first"),
    ]


def test_the_step_from_the_first_run_is_told_and_not_judged() -> None:
    comparison = compare(runs())
    rows = {row.key: row for row in comparison.overall}
    wait = rows["wait.mean"]
    before, after = wait.values
    assert before is not None
    assert after is not None
    assert before > after
    assert wait.changes[0] is None
    assert wait.changes[1] is not None
    assert wait.changes[1].absolute == pytest.approx(after - before)
    assert wait.changes[1].relative == pytest.approx(after / before - 1)
    assert rows["completed"].changes[1] == change(250, 250)
    assert comparison.notes == ()


def test_every_queue_and_size_of_any_run_has_a_table() -> None:
    comparison = compare(runs())
    assert [table.name for table in comparison.by_queue] == [
        "batch", "interactive", "language", "production", "research", "vision",
    ]  # fmt: skip
    assert [table.name for table in comparison.by_size][:2] == ["1 GPU", "2 to 4 GPUs"]
    assert all(len(row.values) == len(row.changes) == 2 for table in comparison.by_queue for row in table.rows)


def test_jobs_that_moved_most_come_first() -> None:
    comparison = compare(runs())
    (movers,) = comparison.movers
    gains = [mover.before_s - mover.after_s for mover in movers.most_shortened]
    assert movers.shorter + movers.longer + movers.same == 250
    assert gains == sorted(gains, reverse=True)
    assert all(mover.after_s > mover.before_s for mover in movers.most_lengthened)


def test_a_change_from_nothing_has_no_percentage_and_one_without_a_value_is_none() -> None:
    step = change(0, 4)
    assert step is not None
    assert step.relative is None
    assert change(None, 4) is change(4, None) is None


def test_what_makes_runs_hard_to_compare_is_said() -> None:
    first, other = runs()
    cut = play(workload(250, seed=7, days=0.3), 7, fifo, name="cut", seed=9, horizon=9_000)
    notes = compare([first, other, msgspec.structs.replace(cut, version="0.2.0")]).notes
    assert notes[:5] == (
        "cut played other jobs than fifo",
        "cut ran on other nodes than fifo",
        "cut used seed 9, fifo seed 0",
        "cut was made by version 0.2.0, fifo by 0.1.0",
        "cut was stopped before its end",
    )
    assert re.fullmatch(
        r"not finished: 17 of 41 jobs of cut \(3 never started: .*\)\. They count .* marked ≥", notes[5]
    )


def test_a_single_run_compares_to_nothing_and_no_run_is_refused() -> None:
    comparison = compare(runs()[:1])
    assert comparison.movers == ()
    assert all(row.changes == (None,) for row in comparison.overall)
    with pytest.raises(InvalidInput, match="at least one is needed"):
        compare([])


def test_two_runs_of_one_name_are_refused() -> None:
    run = runs()[0]
    with pytest.raises(InvalidInput, match="every run must have a name of its own, got fifo, fifo"):
        compare([run, run])


def left(*unstarted: str, running: tuple[str, ...] = (), failed: tuple[str, ...] = ()) -> list[LeftJob]:
    jobs = [LeftJob(name, "q", "1 GPU", False, False) for name in unstarted]
    jobs += [LeftJob(name, "q", "1 GPU", True, False) for name in running]
    return jobs + [LeftJob(name, "q", "1 GPU", True, True) for name in failed]


@pytest.mark.parametrize(
    ("before", "after", "apart"),
    [
        (left(), left(), []),
        (left("a"), left("a"), []),  # the same job waits in both
        (left("a"), left(running=("a",)), []),  # it is finished in neither
        (left("a", "b"), left("a"), ["b"]),  # also where it speaks for the difference
        (left(), left("a"), ["a"]),
        (left("a"), left("b"), ["a", "b"]),
        (left(), left(running=("a",)), ["a"]),
        (left(failed=("a",)), left(), ["a"]),  # failing is no way of being quick
    ],
)
def test_runs_that_left_other_jobs_are_told_apart(
    before: list[LeftJob], after: list[LeftJob], apart: list[str]
) -> None:
    assert left_apart(before, after) == apart


def test_who_starves_jobs_does_not_win_the_comparison() -> None:
    """The second run never starts a job that the first starts late; all others wait a little less there."""

    def run(name: str, waits: list[float | None]) -> RunRecord:
        jobs = [
            JobRecord(name=f"j{at}", submit=0, start=wait, end=None if wait is None else wait + 10, duration=10,
                      outcome="pending" if wait is None else "completed")
            for at, wait in enumerate(waits)
        ]  # fmt: skip
        return RunRecord(name=name, horizon=1000, jobs=tuple(jobs))

    fair, starving = run("fair", [40, 40, 40, 800]), run("starving", [0, 0, 0, None])
    rows = {row.key: row for row in compare([fair, starving]).overall}
    assert rows["wait.mean"].values == (230, 250), "the one that waits counts to the end"
    assert rows["wait.mean"].at_least == (False, True)
    assert rows["wait.p50"].at_least == (False, False)
    assert rows["unfinished"].values == (0, 1)
    for first in (fair, run("fair", [40, 40, 40, 980]), run("fair", [0, 0, 0, 0])):  # whichever figure is lower
        changes = {row.key: row.changes[1] for row in compare([first, starving]).overall}
        told = {key for key, step in changes.items() if step is not None and step.comparable}
        assert told.isdisjoint({key for key, metric in METRICS.items() if metric.open})
        assert {"unfinished", "completed", "utilisation.cpu"} & changes.keys() <= told
    same = compare([run("fair", [40, 40, 40, None]), starving]).overall
    assert all(row.changes[1] is None or row.changes[1].comparable for row in same)


def test_the_figures_that_need_the_same_jobs_are_the_times_the_makespan_and_the_fairness_of_service() -> None:
    assert {key.partition(".")[0] for key, metric in METRICS.items() if metric.open} == {
        "wait", "jct", "slowdown", "makespan", "fairness",
    }  # fmt: skip
    assert not METRICS["fairness.share"].open
    assert all(metric.open for key, metric in METRICS.items() if key.startswith(("wait.", "jct.", "makespan")))


def test_warnings_of_runs_are_told_once_and_those_of_one_run_with_its_name() -> None:
    first, second = runs()
    first = msgspec.structs.replace(first, warnings=("of all", "of one"))
    second = msgspec.structs.replace(second, warnings=("of all",))
    assert compare([first, second]).warnings == ("of all", "fifo: of one")
