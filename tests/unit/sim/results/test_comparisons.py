"""Runs are measured against the first one, and judged by which way is better."""

from __future__ import annotations

import msgspec
import pytest
from simulated_runs import fifo, play, shortest_first, workload

from pumice.errors import InvalidInput
from pumice.sim.results import RunRecord, compare
from pumice.sim.results.comparison import change
from pumice.sim.results.metrics import Better


def runs() -> list[RunRecord]:
    return [
        play(workload(250, seed=7, days=0.3), 8, fifo, name="fifo"),
        play(workload(250, seed=7, days=0.3), 8, shortest_first, name="shortest first"),
    ]


def test_a_better_policy_is_told_as_better() -> None:
    comparison = compare(runs())
    rows = {row.key: row for row in comparison.overall}
    wait = rows["wait_mean"]
    before, after = wait.values
    assert before is not None
    assert after is not None
    assert before > after
    assert wait.changes[0] is None
    assert wait.changes[1] is not None
    assert wait.changes[1].verdict == "better"
    assert wait.changes[1].absolute == pytest.approx(after - before)
    assert wait.changes[1].relative == pytest.approx(after / before - 1)
    assert rows["completed"].changes[1] == change(250, 250, "higher")
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


@pytest.mark.parametrize(
    ("before", "after", "better", "verdict"),
    [
        (10, 5, "lower", "better"),
        (10, 5, "higher", "worse"),
        (10, 20, "higher", "better"),
        (0, 1, "lower", "worse"),
        (0, 0, "lower", "same"),
        (1000, 1000.5, "lower", "same"),
    ],
)
def test_a_change_is_judged_by_which_way_is_better(before: float, after: float, better: Better, verdict: str) -> None:
    step = change(before, after, better)
    assert step is not None
    assert step.verdict == verdict


def test_a_change_from_nothing_has_no_percentage_and_one_without_a_value_is_none() -> None:
    step = change(0, 4, "lower")
    assert step is not None
    assert step.relative is None
    assert change(None, 4, "lower") is change(4, None, "lower") is None


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
    assert "jobs of cut were not done at its end" in notes[5]


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
