"""The parts of the page: wording of numbers, axes, what is drawn."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_runs import fifo, play, workload

from pumice.sim.report import charts, effects, units
from pumice.sim.report.charts import OTHER_CLASS, queue_colours, time_ticks, value_ticks
from pumice.sim.report.markup import Markup, data, join, tag
from pumice.sim.results import JobRecord, NodeRecord, RunRecord, summarise
from pumice.sim.results.comparison import Change
from pumice.sim.results.intervals import Effect, Interval
from pumice.sim.results.metrics import Unit


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"), (0, "0 s"), (0.25, "0.2 s"), (9.96, "10 s"), (42, "42 s"), (59.7, "1 min"), (60, "1 min"),
        (200, "3 min 20 s"), (3599.6, "1 h"), (3600, "1 h"), (15_120, "4 h 12 min"), (85_526, "23 h 45 min"),
        (86_399, "1 d"), (86_400, "1 d"),
        (273_600, "3 d 4 h"), (12_482_549, "144 d 11 h"), (-90, "−1 min 30 s"),
    ],
)  # fmt: skip
def test_durations_are_worded_in_two_units(seconds: float | None, words: str) -> None:
    assert units.duration(seconds) == words


@given(st.floats(10, 1e8))
def test_a_duration_is_within_half_of_its_smaller_unit(seconds: float) -> None:
    sizes = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
    parts = re.findall(r"([\d,]+) (d|h|min|s)", units.duration(seconds))
    told = sum(int(number.replace(",", "")) * sizes[unit] for number, unit in parts)
    largest = sizes[parts[0][1]]
    smaller = {86_400: 3600, 3600: 60, 60: 1, 1: 1}[largest]
    assert abs(told - seconds) <= smaller / 2 + 1e-6
    assert len(parts) <= 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (0, "0"),
        (12_480, "12,480"),
        (53.46, "53.5"),
        (0.071, "0.07"),
        (1234.5, "1,234"),
        (-3, "−3"),
        (7.0, "7"),
    ],
)
def test_numbers_show_the_digits_that_matter(value: float | None, words: str) -> None:
    assert units.number(value) == words


@pytest.mark.parametrize(
    ("change", "unit", "words"),
    [
        (Change(-30, -0.5), "seconds", "−50.0 %"),
        (Change(0.124, 0.2), "share", "+12.4 points"),
        (Change(0.05, 0.1), "index", "+0.050"),
        (Change(7, None), "count", "+7"),
        (Change(90, 9.0), "seconds", "+1 min 30 s"),
        (Change(0, 0), "hours", "no change"),
        (Change(2.5, None), "hours", "+2.50 h"),
        (Change(-30, -0.5, comparable=False), "seconds", "? not comparable"),
    ],
)
def test_changes_are_worded_by_what_says_most(change: Change, unit: Unit, words: str) -> None:
    assert units.steps([None, change], unit) == ["", words]


def test_the_changes_of_one_row_are_all_percentages_or_all_amounts() -> None:
    near, far = Change(600, 1.0), Change(1800, 3.0)
    assert units.steps([None, near], "seconds") == ["", "+100.0 %"]
    assert units.steps([None, near, far], "seconds") == ["", "+10 min", "+30 min"]


@pytest.mark.parametrize(("value", "words"), [(1.0, "1.00 ×"), (1.004, "1.00 ×"), (12.34, "12.3 ×"), (250.0, "250 ×")])
def test_factors_have_as_many_digits_beside_each_other(value: float, words: str) -> None:
    assert units.amount(value, "ratio") == words


def test_a_lower_bound_is_marked_and_nothing_is_not() -> None:
    assert units.amount(90, "seconds", at_least=True) == "≥ 1 min 30 s"
    assert units.amount(None, "seconds", at_least=True) == "–"


@given(st.floats(1, 1e11))
def test_moments_on_the_time_axis_are_few_in_order_and_within(length: float) -> None:
    ticks = time_ticks(length)
    places = [tick.at for tick in ticks]
    assert places == sorted(places)
    assert places[0] == 0
    assert places[-1] <= 1 + 1e-6
    assert len({tick.label for tick in ticks}) == len(ticks)
    assert len(ticks) <= 10


@given(st.floats(1e-6, 1e12), st.integers(2, 6))
def test_values_on_an_axis_are_few_and_the_top_is_above_all(most: float, count: int) -> None:
    values, top = value_ticks(most, count)
    assert top >= most
    assert values[0] == 0
    assert values[-1] <= top
    assert 2 <= len(values) <= 2 * count + 2


def test_text_is_escaped_and_markup_is_not() -> None:
    assert (
        tag("p", "<b>", tag("i", "&"), class_='a"b', data_x=None, hidden=True)
        == '<p class="a&quot;b" hidden>&lt;b&gt;<i>&amp;</i></p>'
    )
    assert join(["<", Markup("<br/>")]) == "&lt;<br/>"
    assert "</script>" not in data({"x": "</script>"})[:-9]


def test_the_jobs_drawn_are_the_heaviest_and_the_longest_waiting() -> None:
    run = play(workload(300, seed=4, days=0.5), 8, fifo, strict=False)
    drawn = charts.chosen(run)
    assert len(drawn) == len({job.key for job in drawn}) == charts.HEAVIEST + charts.LONGEST
    assert [job.submit for job in drawn] == sorted(job.submit for job in drawn)
    weight = {job.key: job.gpus * (job.duration or 0) for job in run.jobs}
    heaviest = max(run.jobs, key=lambda job: weight[job.key])
    slowest = max(run.jobs, key=lambda job: (job.start or 0) - job.submit)
    assert heaviest in drawn
    assert slowest in drawn


def test_the_heat_map_covers_every_node_at_every_time() -> None:
    run = play(workload(200, seed=4, days=0.3), 9, fifo, strict=False)
    drawn = charts.heatmap(run)
    boxes = re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", drawn)
    cells = {(int(row), int(column) + step) for column, row, width in boxes for step in range(int(width))}
    assert len(cells) == sum(int(width) for _, _, width in boxes) == 9 * 144


def test_a_node_that_failed_and_came_back_has_one_row_with_a_gap() -> None:
    stays = (NodeRecord(name="n", gpus=8, until=10), NodeRecord(name="n", gpus=8, since=20))
    job = JobRecord(name="j", submit=0, start=0, end=30, gpus=1, outcome="completed")
    drawn = charts.heatmap(RunRecord(name="r", horizon=30, nodes=stays, jobs=(job,)))
    boxes = [(level, int(row)) for level, row in re.findall(r'class="h(\w)" d="M\d+ (\d+)h', drawn)]
    assert {row for _, row in boxes} == {0}
    assert {level for level, _ in boxes} == {"x", "0"}


def test_many_nodes_share_rows_and_long_names_are_cut_to_what_differs() -> None:
    nodes = tuple(NodeRecord(name=f"rack-a-machine-{number:04d}", gpus=8) for number in range(1213))
    jobs = (JobRecord(name="a", submit=0, outcome="pending"),)
    drawn = charts.heatmap(RunRecord(name="r", horizon=10, nodes=nodes, jobs=jobs))
    assert "--rows:47" in drawn
    assert ">…0000 to …0025<" in drawn
    assert "rack-a-machine-0000 to rack-a-machine-0025" in drawn, "the pointer reads the full names"


def test_every_job_is_in_one_bar_of_the_waits() -> None:
    jobs = [
        JobRecord(name=f"j{wait}", submit=0, start=wait, outcome="running")
        for wait in (0, 0.5, 1, 9.9, 10, 60, 300, 900, 3600, 14_400, 43_200, 86_400, 259_200, 604_800, 9e6)
    ]
    jobs.append(JobRecord(name="never", submit=0, outcome="pending"))
    counts = re.findall(r'class="value">([\d,]+) ', charts.histogram(jobs))
    assert [int(count) for count in counts] == [2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1]


def test_queues_beyond_the_eighth_share_a_colour() -> None:
    jobs = tuple(
        JobRecord(name=f"j{n}", queue=f"q{n:02d}", submit=0, start=0, end=1, outcome="completed") for n in range(10)
    )
    colours = queue_colours([summarise(RunRecord(name="r", horizon=1, jobs=jobs))])
    assert [colours[f"q{n:02d}"] for n in range(10)] == [*(f"c{n}" for n in range(8)), OTHER_CLASS, OTHER_CLASS]


def test_an_interval_says_a_unit_once_where_it_is_nothing_but_a_unit() -> None:
    assert effects.value_limits(Interval(700, 600, 840), "seconds") == "10 … 14 min"
    assert effects.value_limits(Interval(700, 603, 843), "seconds") == "10 min 3 s … 14 min 3 s"
    assert effects.value_limits(Interval(0.5, 0.1, 0.9), "share") == "10.0 … 90.0 %"


def test_a_limit_that_rounds_to_nothing_has_one_digit_more() -> None:
    def limits(low: float, high: float) -> str:
        found = Interval((low + high) / 2, low, high)
        effect = Effect(scale="ratio", change=found, pairs=7, better=6, worse=1, verdict="better")
        return effects.limits(effect, "seconds")

    assert limits(-0.029, -0.0001) == "−2.9 … −0.01 %"
    assert limits(-0.029, 0.0001) == "−2.9 … +0.01 %"
    assert limits(-0.029, 0.0) == "−2.9 … ±0.0 %"


def test_a_change_beyond_three_times_is_a_factor() -> None:
    effect = Effect(scale="ratio", change=Interval(9.35, 0.004, 149.4), pairs=7, better=0, worse=7, verdict="worse")
    assert effects.change(effect, "seconds") == "10.3 × as long"
    assert effects.limits(effect, "seconds") == "1.00 … 150 ×"
