"""Configurations over many seeds: only whole pairs count, what drives a difference is named, nothing is overstated."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from rich.console import Console

from pumice.errors import InvalidInput
from pumice.sim.report import effects, html_seeds, render_seeds
from pumice.sim.results import JobRecord, RunRecord, Summary, compare_seeds, summarise
from pumice.sim.results.metrics import METRICS


def summary(name: str, seed: int, waits: dict[str, list[float | None]], horizon: float = 10_000) -> Summary:
    """A run whose jobs waited so long, by queue; None never started."""
    jobs = [
        JobRecord(
            name=f"{queue}-{at}",
            queue=queue,
            submit=0,
            start=wait,
            end=None if wait is None else wait + 60,
            duration=60,
            gpus=1 if queue == "a" else 8,
            outcome="pending" if wait is None else "completed",
        )
        for queue, part in waits.items()
        for at, wait in enumerate(part)
    ]
    return summarise(RunRecord(name=name, seed=seed, horizon=horizon, jobs=tuple(jobs)))


SEEDS = range(1, 9)


def study(factor: float = 0.5, spread: float = 10.0) -> dict[str, dict[int, Summary]]:
    """The second configuration lets queue b wait so many times as long, and a as long."""
    first = {s: summary("first", s, {"a": [spread * s], "b": [100.0 * s, 50.0 * s]}) for s in SEEDS}
    second = {s: summary("second", s, {"a": [spread * s], "b": [100.0 * s * factor, 50.0 * s * factor]}) for s in SEEDS}
    return {"first": first, "second": second}


def test_a_steady_effect_is_found_and_its_queue_and_size_are_named() -> None:
    found = compare_seeds(study())
    wait = found.row("wait.mean").effects[1]
    assert wait is not None
    assert (wait.verdict, wait.better, wait.pairs) == ("better", 8, 8)
    assert wait.change.estimate == pytest.approx((10 + 75) / 160 - 1)
    assert [(d.kind, d.name) for d in found.drivers] == [("queue", "b"), ("size", "5 to 8 GPUs")]
    assert all(driver.part == pytest.approx(1.0) for driver in found.drivers)


def test_a_seed_that_makes_most_of_a_difference_is_named() -> None:
    runs = study(factor=1.0)
    runs["second"][5] = summary("second", 5, {"a": [50.0], "b": [9000.0, 250.0]})
    found = compare_seeds(runs)
    assert ("seed", "5") in [(driver.kind, driver.name) for driver in found.drivers]
    wait = found.row("wait.mean").effects[1]
    assert wait is not None
    assert (wait.verdict, wait.worse) == ("too few", 1)


def test_only_seeds_that_all_configurations_have_count() -> None:
    runs = study()
    del runs["second"][3]
    del runs["first"][8]
    assert compare_seeds(runs).seeds == (1, 2, 4, 5, 6, 7)
    with pytest.raises(InvalidInput, match="no seed was played to its end under all of first, second"):
        compare_seeds({"first": {1: runs["first"][1]}, "second": {}})


def test_jobs_that_one_configuration_starves_take_its_verdict_away() -> None:
    runs = study()
    runs["second"][4] = summary("second", 4, {"a": [40.0], "b": [100.0, None]}, horizon=300)
    found = compare_seeds(runs)
    wait = found.row("wait.mean").effects[1]
    assert wait is not None
    assert (wait.verdict, wait.against) == ("not comparable", ("seed 4: default/b-1",))
    assert found.row("wait.mean").at_least == (False, True)
    left = found.row("unfinished").effects[1]
    assert left is not None
    assert left.worse == 1
    assert any("1 of 24 jobs of second, 1 never started" in note for note in found.notes)


@pytest.mark.parametrize("starving", ["first", "second"])
@pytest.mark.parametrize("horizon", [300, 10_000])
def test_no_wait_and_no_makespan_is_judged_where_other_jobs_were_left(starving: str, horizon: float) -> None:
    """Whichever of both left a job, and whichever figure is lower, on one seed of eight."""
    runs = study()
    runs[starving][4] = summary(starving, 4, {"a": [40.0], "b": [100.0, None]}, horizon=horizon)
    found = compare_seeds(runs)
    for row in found.overall:
        effect = row.effects[1]
        assert effect is not None
        assert (effect.verdict == "not comparable") == METRICS[row.key].open, row.key
    by_queue = {
        table.name: {row.effects[1].verdict for row in table.rows if row.effects[1]} for table in found.by_queue
    }
    assert "not comparable" in by_queue["b"]
    assert "not comparable" not in by_queue["a"], "all of its jobs were finished"


def test_seeds_that_all_give_the_same_run_are_no_evidence() -> None:
    same = {s: summary("first", s, {"a": [10.0]}) for s in SEEDS}
    other = {s: summary("second", s, {"a": [900.0]}) for s in SEEDS}
    found = compare_seeds({"first": same, "second": other})
    assert found.seeds == (1,)
    assert {row.effects[1].verdict for row in found.overall if row.effects[1]} <= {
        "too few",
        "no difference seen",
    }
    assert "every seed gave the same run" in found.notes[-1]


def test_seeds_that_differ_in_anything_are_not_one_run() -> None:
    """Nobody waits on any seed, but the days are others."""
    runs = {
        name: {s: msgspec.structs.replace(summary(name, s, {"a": [0.0]}), makespan_s=1000.0 * s) for s in SEEDS}
        for name in ("first", "second")
    }
    found = compare_seeds(runs)
    assert found.seeds == tuple(SEEDS)
    assert not any("the same run" in note for note in found.notes)


def test_who_waits_for_nothing_is_not_said_to_wait_a_second() -> None:
    runs = {name: {s: summary(name, s, {"a": [0.0, 0.0]}) for s in SEEDS} for name in ("first", "second")}
    values = compare_seeds(runs).row("wait.mean").values
    assert [value.estimate for value in values if value is not None] == [0.0, 0.0]


def test_the_value_of_a_time_is_the_arithmetic_mean_and_its_median_stands_beside_it() -> None:
    runs = {name: {s: summary(name, s, {"a": [1.0 if s < 8 else 3993.0]}) for s in SEEDS} for name in ("one", "two")}
    row = compare_seeds(runs).row("wait.mean")
    assert [value.estimate for value in row.values if value] == [500.0, 500.0]
    assert [value.estimate for value in row.medians if value] == [1.0, 1.0]


def test_an_exploratory_verdict_that_does_not_hold_up_among_all_is_marked_and_the_primary_one_is_not() -> None:
    """One figure of many differs by as little as a verdict allows: p is 0.031 by itself, and 0.5 among sixteen."""
    runs = {name: {s: summary(name, s, {"a": [10.0 * s]}) for s in range(1, 7)} for name in ("one", "two")}
    for s, one in runs["two"].items():
        runs["two"][s] = msgspec.structs.replace(one, fairness_share=0.5 + 0.01 * s, fragmentation=0.1 * s % 0.25)
        runs["one"][s] = msgspec.structs.replace(runs["one"][s], fairness_share=0.4, fragmentation=0.1 * (s + 1) % 0.25)
    exploratory = compare_seeds(runs).row("fairness.share").effects[1]
    declared = compare_seeds(runs, primary="fairness.share").row("fairness.share").effects[1]
    assert exploratory is not None
    assert declared is not None
    assert (exploratory.verdict, exploratory.alone) == ("better", True)
    assert (declared.verdict, declared.alone) == ("better", False)


def test_what_a_row_shows_of_both_fits_its_change_however_short_the_times_of_one_are() -> None:
    waits: dict[str, list[float | None]] = {"first": [0.3], "second": [2.0]}
    row = compare_seeds({name: {s: summary(name, s, {"a": w}) for s in SEEDS} for name, w in waits.items()}).row(
        "wait.mean"
    )
    first, second = (value.estimate for value in row.values if value is not None)
    assert row.effects[1] is not None
    assert second / first - 1 == pytest.approx(row.effects[1].change.estimate)


def test_every_figure_of_a_run_has_a_row_with_its_values() -> None:
    found = compare_seeds(study())
    one = next(iter(study()["first"].values()))
    assert {row.key for row in found.overall} == {key for key, metric in METRICS.items() if metric.of(one) is not None}
    for row in found.overall:
        assert all(len(part) == len(found.seeds) for part in row.by_seed)


def test_the_verdict_is_one_sentence_for_each_configuration() -> None:
    told = effects.sentence(compare_seeds(study()))
    assert told.startswith("second is better than first: mean wait −46.9 % (−46.9 … −46.9 %).")
    assert told.endswith("No figure is clearly worse.")


def test_a_report_and_a_table_are_made_of_one_two_and_three_configurations() -> None:
    runs = study()
    runs["third"] = {s: msgspec.structs.replace(one, run="third") for s, one in runs["first"].items()}
    for names in (["first"], ["first", "second"], ["first", "second", "third"]):
        found = compare_seeds({name: runs[name] for name in names})
        page = html_seeds(found, title="study")
        assert all(name in page for name in names)
        assert re.search(r">[^<]*\b(nan|inf|None)\b", page.partition("<main>")[2].partition("<script")[0]) is None
        assert ("play the one you choose on others, such as --seeds 9..16" in page) == (len(names) > 2)
        stream = io.StringIO()
        Console(file=stream, width=80, color_system=None).print(render_seeds(found))
        assert all(name in stream.getvalue() for name in names)


@pytest.mark.parametrize("width", [72, 80, 100, 118, 160])
def test_no_figure_is_cut_off_however_narrow_the_terminal(width: int) -> None:
    found = compare_seeds(study())
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(render_seeds(found, whole=True))
    words = stream.getvalue()
    table = words.partition("Mean wait by queue")[0]
    assert not re.search(r"\w…", words), "only an interval has dots, between blanks"
    effect = found.row("wait.mean").effects[1]
    assert effect is not None
    line = next(line for line in table.splitlines() if line.startswith("Wait, mean"))
    assert all(part in line for part in ("−46.9 %", "−46.9 … −46.9 %", "✓"))
    assert all(row.label.split(",")[0] in table for row in found.overall if any(map(any, row.by_seed)))


def test_a_first_look_shows_six_figures_and_says_where_the_others_are() -> None:
    found = compare_seeds(study())
    stream = io.StringIO()
    Console(file=stream, width=160, color_system=None).print(render_seeds(found))
    words = stream.getvalue()
    shown = [row for row in found.overall if re.search(rf"^{re.escape(row.label)}  ", words, re.MULTILINE)]
    assert 2 <= len(shown) <= 6
    assert found.primary in [row.key for row in shown]
    assert re.search(r"^\d+ more figures, and waits by queue and by size: -o wide, or the report$", words, re.MULTILINE)
    assert words.startswith("second is better than first: ")
