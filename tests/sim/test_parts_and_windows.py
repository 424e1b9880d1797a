"""Parts of a trace played as pairs, and windows of an open system in which jobs are measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pumice.cli.app import app
from pumice.errors import InvalidInput
from pumice.sim.results import compare, compare_seeds, decode, encode, summarise
from pumice.sim.results.records import BLOCKS, SHAKEN
from pumice.sim.scenario import SimScenario, open_scenario
from pumice.sim.study.running import StudyRun, play
from sim.worlds import by_name, job, nodes, simulation, specs

DAY = 86_400
SCENARIO = """
cluster: {{nodes: [{{name: n, cpu: 4}}]}}
workload: {{trace: {{file: jobs.csv{trace}}}}}
{more}
configurations:
  plain: {{actions: allocate, tiers: [{{plugins: [{{name: gang}}, {{name: predicates}}]}}]}}
  sorted: {{actions: allocate, tiers: [{{plugins: [{{name: gang}}, {{name: sjf}}, {{name: predicates}}]}}]}}
"""


def scenario_of(tmp_path: Path, days: int, *, trace: str = "", more: str = "") -> Path:
    """Days on which long jobs and short ones queue for one node; on each the short ones come later."""
    rows = [
        f"d{day}-{n},{day * DAY + 600 * n},{9000 if n % 3 == 0 else 1200 + 60 * (day + n) % 600},{4 - n % 2}"
        for day in range(days)
        for n in range(12)
    ]
    lines = [f"{row},{row.split(',')[2]}" for row in rows]
    (tmp_path / "jobs.csv").write_text("job,submit_s,duration_s,cpu,declared_s\n" + "\n".join(lines) + "\n")
    path = tmp_path / "weeks.yaml"
    path.write_text(SCENARIO.format(trace=trace, more=more))
    return path


def read(path: Path) -> SimScenario:
    return open_scenario(path)


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())


# -- windows --------------------------------------------------------------------------------------------------------
JOBS = [job(f"j{n}", 100.0 * n, 150.0) for n in range(20)]


def test_jobs_submitted_in_the_window_count_and_are_played_to_their_end() -> None:
    record = simulation(nodes(1, cpu=1), measure=(500.0, 1000.0)).run(specs(JOBS))
    jobs = by_name(record)
    assert [name for name, one in jobs.items() if record.measures(one)] == ["j5", "j6", "j7", "j8", "j9"]
    assert jobs["j9"].end == record.horizon == 1500.0, "it ends when the last of them does"
    assert jobs["j11"].outcome == "pending", "later jobs are load"
    found = summarise(record)
    assert (found.total.jobs, found.total.unfinished, found.makespan_s, found.span_s) == (5, 0, None, 500.0)
    assert found.total.wait is not None
    assert found.total.wait.mean == pytest.approx(sum(50.0 * n for n in range(5, 10)) / 5)
    assert found.utilisation.cpu == 1.0
    assert decode(encode(record)) == record


def test_figures_of_a_window_are_those_of_the_whole_run_if_all_is_in_it() -> None:
    whole = summarise(simulation(nodes(2, cpu=1)).run(specs(JOBS)))
    windowed = summarise(simulation(nodes(2, cpu=1), measure=(0.0, 2000.0)).run(specs(JOBS)))
    assert windowed.total == whole.total
    assert windowed.fairness_service == whole.fairness_service


def test_an_open_system_is_comparable_though_it_leaves_other_jobs() -> None:
    """A horizon cuts both runs at another job; a window is played to its end in both."""
    cut = [simulation(nodes(1, cpu=n), name=str(n), horizon_s=1000.0).run(specs(JOBS)) for n in (1, 2)]
    row = next(row for row in compare(cut).overall if row.key == "wait.mean")
    assert row.changes[1] is not None
    assert not row.changes[1].comparable
    measured = [simulation(nodes(1, cpu=n), name=str(n), measure=(500.0, 1000.0)).run(specs(JOBS)) for n in (1, 2)]
    found = compare(measured)
    row = next(row for row in found.overall if row.key == "wait.mean")
    assert row.changes[1] is not None
    assert row.changes[1].comparable
    assert not any("other jobs" in note for note in found.notes), "jobs that are load need not be the same"
    assert found.movers[0].shorter == 5


def test_a_job_that_waits_for_ever_is_told_when_nothing_more_comes() -> None:
    big = job("big", 600.0, 10.0, cpu=64)
    record = simulation(nodes(1, cpu=1), measure=(500.0, 1000.0)).run(specs([*JOBS, big]))
    assert summarise(record).total.unstarted == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("measure: {from: 2d}", "measure: needs the key 'to'"),
        ("measure: {from: 2d, to: 1d}", "measure.to: must be later than from"),
        ("measure: {till: 1d}", "unknown key 'till'"),
    ],
)
def test_a_window_that_is_none_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read(scenario_of(tmp_path, 2, more=text))


# -- parts ----------------------------------------------------------------------------------------------------------
def test_parts_have_a_lead_in_and_what_follows_as_load(tmp_path: Path) -> None:
    scenario = read(scenario_of(tmp_path, 9, more="measure: {leadIn: 2h}")).split_into(DAY)
    assert scenario.split is not None
    assert scenario.split.numbers == tuple(range(1, 9)), "the ninth day is shorter than a day"
    third = scenario.drawn(3)
    assert (third.setting.measure, third.setting.unit) == ((2 * DAY, 3 * DAY), "part of 1 d")
    names = [one.name for one in third.workload()]
    assert names[0] == "d2-0"
    assert names[-1] == "d8-11"
    early = read(scenario_of(tmp_path, 9, more="measure: {leadIn: 1d}")).split_into(DAY).drawn(3)
    assert next(iter(early.workload())).name == "d1-0"
    with pytest.raises(InvalidInput, match="the trace has parts 1 to 8"):
        scenario.drawn(9)


def test_parts_of_a_measured_window_are_cut_from_it(tmp_path: Path) -> None:
    cut = read(scenario_of(tmp_path, 9, more="measure: {from: 2d, to: 5d}")).split_into(DAY).split
    assert cut is not None
    assert (cut.numbers, cut.window(1)) == ((1, 2, 3), (2 * DAY, 3 * DAY))


def test_a_part_measures_what_the_whole_trace_measures_there(tmp_path: Path) -> None:
    """With a lead-in that goes back to an idle cluster, jobs of a part start as in the whole trace."""
    scenario = read(scenario_of(tmp_path, 5))
    whole = play(scenario.split_into(5 * DAY - DAY), StudyRun("plain", 1), keep=True).record()
    part = play(scenario.split_into(DAY), StudyRun("plain", 3), keep=True).record()
    starts = {one.key: one.start for one in whole.jobs}
    measured = [one for one in part.jobs if part.measures(one)]
    assert len(measured) == 12
    assert [one.start for one in measured] == [starts[one.key] for one in measured]


def test_split_plays_each_part_once_and_says_how_far_it_reaches(tmp_path: Path) -> None:
    path = scenario_of(tmp_path, 9)
    code, out, err = run("simulate", path, "--split", "1d", "--workers", 1)
    assert code == 0, err
    assert "96 jobs in 8 runs of each configuration (parts 1 to 8 (of 1 d))" in out
    assert "mean of 8 parts" in out
    assert "rough: from 8 parts of one trace; 10 are good" in out
    code, out, _ = run("simulate", path, "--split", "2d", "--workers", 1)
    assert "this trace has 4 parts; 6 are the least to speak of other weeks, 10 are good" in out
    record = tmp_path / "parts.jsonl"
    code, out, _ = run("simulate", path, "--split", "1d", "--workers", 1, "--record", record)
    code, again, _ = run("report", record)
    assert again[again.index("mean of 8 parts") :] == out[out.index("mean of 8 parts") :]


@pytest.mark.parametrize(
    "words", [("--split", "0d"), ("--split", "soon"), ("--split", "9d"), ("--split", "1d", "--seeds", "3")]
)
def test_a_split_that_makes_no_sense_is_wrong_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, out, err = run("simulate", scenario_of(tmp_path, 9), *words)
    assert (code, out) == (2, "")
    assert "--split" in err


def test_shaken_seeds_speak_of_this_trace_and_drawn_parts_of_nothing(tmp_path: Path) -> None:
    path = scenario_of(tmp_path, 6)
    _, out, _ = run("simulate", path, "--seeds", "1..6", "--workers", 1)
    assert "(seeds 1 to 6 (of this trace))" in out
    assert "on this trace: its jobs, moved a little by the seed; other weeks may differ" in out

    scenario = read(scenario_of(tmp_path, 6, trace=", shake: {blocks: 1d}"))
    names = tuple(scenario.configurations)
    played = {name: {seed: play(scenario, StudyRun(name, seed)).summary for seed in range(1, 9)} for name in names}
    found = compare_seeds(played)
    assert found.each == BLOCKS
    effects = [row.effects[1] for row in found.overall if row.effects[1] is not None and row.effects[1].differ]
    assert effects
    for effect in effects:
        assert (effect.change.low, effect.change.high, effect.verdict) == (None, None, "cannot tell")
    assert all(value is None or not value.bounded for row in found.overall for value in row.values)
    code, out, _ = run("simulate", path, "--seeds", "1..6", "--workers", 1, "--fail-if", "wait.mean > -90%")
    assert code == 3, "nothing can be told of them"
    assert "they are no independent evidence" in out

    one = {name: dict(runs) for name, runs in played.items()}
    other = play(read(scenario_of(tmp_path, 6)), StudyRun(names[1], 8)).summary
    assert other.unit == SHAKEN
    one[names[1]][8] = other
    with pytest.raises(InvalidInput, match="some are of a"):
        compare_seeds(one)
