"""Runs are measured against the first one, and judged by which way is better."""

from __future__ import annotations

import re

import msgspec
import pytest
from simulated_runs import fifo, play, shortest_first, workload

from pumice.errors import InvalidInput
from pumice.sim.results import JobRecord, LeftJob, RunRecord, compare
from pumice.sim.results.comparison import change, left_against
from pumice.sim.results.metrics import Open


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


BOTH, FIRST, SECOND, NEITHER = (True, True), (True, False), (False, True), (False, False)


@pytest.mark.parametrize(
    ("open_", "step", "before", "after", "at_least", "against"),
    [
        ("unstarted", -5, left("a"), left("a"), BOTH, []),  # the same job waits in both
        ("unstarted", -5, left("a", "b"), left("a"), BOTH, []),  # b would have waited even longer before
        ("unstarted", -5, left(), left("a"), SECOND, ["a"]),  # a may still wait long: not lower for sure
        ("unstarted", -5, left("a"), left("b"), BOTH, ["b"]),
        ("unstarted", +5, left("a"), left(), FIRST, ["a"]),
        ("unstarted", +5, left(), left("a"), SECOND, []),  # it is higher already, and may grow
        ("unstarted", 0, left("a"), left("b"), BOTH, ["a", "b"]),
        ("unstarted", -5, left("a"), left("b"), FIRST, []),  # a percentile that b does not touch is exact
        ("unstarted", -5, left("a"), left("b"), NEITHER, []),
        ("unstarted", -5, left(), left(running=("a",)), SECOND, []),  # its wait is over
        ("unfinished", -5, left(), left(running=("a",)), SECOND, ["a"]),
        ("unfinished", -5, left(), left(failed=("a",)), NEITHER, ["a"]),  # failing is no way of being quick
        ("", -5, left(), left("a"), BOTH, []),
    ],
)
def test_jobs_that_are_left_speak_against_a_change_that_they_could_turn_round(
    open_: Open,
    step: float,
    before: list[LeftJob],
    after: list[LeftJob],
    at_least: tuple[bool, bool],
    against: list[str],
) -> None:
    assert left_against(open_, step, before, after, at_least) == against


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
    changes = {key: row.changes[1] for key, row in rows.items()}
    assert {key for key, step in changes.items() if step is not None and not step.comparable} == set()
    assert rows["unfinished"].values == (0, 1)
    starving = run("starving", [0, 0, 0, None])
    fair = run("fair", [40, 40, 40, 980])
    changes = {row.key: row.changes[1] for row in compare([fair, starving]).overall}
    assert {key for key, step in changes.items() if step is not None and not step.comparable} == {
        "wait.mean", "jct.mean", "slowdown.mean",
    }  # fmt: skip


def test_warnings_of_runs_are_told_once_and_those_of_one_run_with_its_name() -> None:
    first, second = runs()
    first = msgspec.structs.replace(first, warnings=("of all", "of one"))
    second = msgspec.structs.replace(second, warnings=("of all",))
    assert compare([first, second]).warnings == ("of all", "fifo: of one")
