"""The terminal shows the figures in the words of the page."""

from __future__ import annotations

import io
import re

import msgspec
from rich.console import Console, RenderableType
from simulated_runs import fifo, play, shortest_first, workload

from pumice.sim.report import render_comparison, render_summary
from pumice.sim.results import JobRecord, RunRecord, compare, summarise
from pumice.sim.results.records import JobOutcome


def shown(content: RenderableType) -> str:
    stream = io.StringIO()
    Console(file=stream, width=160, color_system=None).print(content)
    return stream.getvalue()


def test_a_summary_shows_figures_queues_sizes_and_reasons() -> None:
    run = play(workload(300, seed=2, days=0.6), 8, fifo, strict=False, preempt=True, horizon=60_000, name="mine")
    words = shown(render_summary(summarise(msgspec.structs.replace(run, notes=("something was left out",)))))
    assert words.startswith("mine  ")
    for part in (
        "Wait, mean",
        "GPU utilisation",
        "Fairness of shares",
        "research",
        "1 GPU",
        "too few free GPUs",
        "Lost",
        "Evicted",
    ):
        assert part in words
    assert "note: something was left out" in words


def test_a_comparison_shows_every_run_and_its_step_without_a_verdict() -> None:
    runs = [
        play(workload(300, seed=2, days=0.4), 8, fifo, name="fifo"),
        play(workload(300, seed=2, days=0.4), 8, shortest_first, name="shortest"),
    ]
    words = shown(render_comparison(compare(runs)))
    (wait,) = (line for line in words.splitlines() if line.startswith("Wait, mean"))
    assert wait.rstrip().endswith("−88.4 %")
    assert not re.search("[✓✗]", words)
    assert "Mean wait by queue" in words
    assert words.splitlines()[0].split() == ["fifo", "shortest"]


def test_names_that_look_like_styles_are_shown_as_they_are() -> None:
    jobs = tuple(
        JobRecord(name=name, queue=f"[red]{name}[/red]", submit=0, start=0, end=1, outcome="completed") for name in "ab"
    )
    words = shown(render_summary(summarise(RunRecord(name="[bold]x", horizon=1, jobs=jobs, partial=True))))
    assert "[bold]x" in words
    assert "[red]a[/red]" in words
    assert "jobs done, 0 nodes, 1 s simulated  partial" in words


def test_a_run_of_nothing_is_shown_too() -> None:
    assert "0 of 0 jobs done" in shown(render_summary(summarise(RunRecord(name="empty", horizon=0))))


def test_every_job_is_in_one_of_the_rows_of_jobs() -> None:
    """Also those that run and have no end: they are neither done nor unfinished."""
    states: dict[JobOutcome, int] = {"completed": 3, "running": 4, "pending": 5, "failed": 6}
    for endless in (0, 7):
        jobs = [
            JobRecord(
                name=f"{outcome}-{n}",
                submit=0,
                start=None if outcome == "pending" else 0,
                end=1 if outcome in ("completed", "failed") else None,
                duration=1,
                outcome=outcome,
            )
            for outcome, count in states.items()
            for n in range(count)
        ]
        jobs += [JobRecord(name=f"endless-{n}", submit=0, start=0, outcome="running") for n in range(endless)]
        words = shown(render_summary(summarise(RunRecord(name="run", horizon=1, jobs=tuple(jobs)))))
        rows = dict(re.findall(r"^(Jobs .*?) {2,}(\d+)", words, re.MULTILINE))
        without = {"Jobs without an end": "7"} if endless else {}
        assert rows == {"Jobs completed": "3", "Jobs not finished": "15", "Jobs never started": "5", **without}
        said = f"3 of {len(jobs)} jobs done" + (", 7 run without an end" if endless else "")
        assert words.startswith(f"run  {said}, 0 nodes")


def test_a_summary_fits_into_eighty_columns() -> None:
    run = play(workload(300, seed=2, days=0.6), 8, fifo, strict=False, preempt=True, horizon=60_000, name="mine")
    stream = io.StringIO()
    Console(file=stream, width=80, color_system=None).print(render_summary(summarise(run)))
    (row,) = (line for line in stream.getvalue().splitlines() if line.startswith("2 to 4 GPUs"))
    assert len(row.split("  ")) > 5


def test_columns_of_zeros_are_left_out() -> None:
    run = play(workload(100, seed=2, days=0.4), 8, fifo, name="mine")
    assert "Evicted" not in shown(render_summary(summarise(run)))
