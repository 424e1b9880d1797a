"""What happened is written as it happens, and can be played again to the same starts."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pumice.cli.app import app
from pumice.framework.registry import default_registry
from pumice.history.files import Folder
from pumice.history.stories import Told, read_history
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.results.records import RunRecord
from pumice.sim.run import Simulation
from pumice.sim.scenario import SimScenario, read_scenario
from pumice.sim.traces.from_history import RecordedRun, recorded, redacted, scenario_path, scenario_text, write_trace

DAY = """\
seed: {seed}
horizon: 100m
cluster:
  nodes:
  - {{name: big, count: 4, cpu: 32, memory: 256Gi, gpu: 8, model: A100}}
  - {{name: small, count: 2, cpu: 16, memory: 64Gi}}
queues: [{{name: research, weight: 2}}, {{name: product, weight: 1}}]
workload:
  generators:
  - name: train
    queue: research
    arrivals: {{every: 9m, until: 70m}}
    duration: {{lognormal: {{median: 20m, p90: 2h}}}}
    pods: {{choice: {{1: 3, 2: 2, 4: 1}}}}
    gpu: 8
    cpu: 4
    declared: 1.5
  - name: serve
    queue: product
    arrivals: {{every: 7m, until: 70m}}
    duration: {{exponential: 15m}}
    gpu: 1
    cpu: 2
    gpuFraction: 0.5
    gpuModels: [A100]
  - {{name: prep, arrivals: {{every: 5m, until: 70m}}, duration: 11m, pods: 3, minAvailable: 2, cpu: 4, priority: 100}}
faults:
  planned:
  - {{at: 50m, fail: [big-1], for: 20m}}
  - {{at: 60m, drain: big-2, for: 10m}}
  - {{at: 30m, cordon: small-0, for: 10m}}
  - {{at: 70m, join: [{{name: late, cpu: 32, memory: 256Gi, gpu: 8, model: A100}}]}}
  - {{at: 40m, evict: {{train-00001: 1, serve-00002: 1, serve-00003: 1, prep-00006: 2, prep-00007: 1}}}}
delays: {{eviction: 7s}}
configurations:
  only:
    actions: "enqueue, allocate, preempt, reclaim, backfill"
    tiers:
    - plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
    - plugins: [{{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}, {{name: binpack}}]
"""
REGISTRY = default_registry()


def read(path: Path) -> SimScenario:
    return read_scenario(path, catalogue_of(REGISTRY))


def play(scenario: SimScenario, folder: Path | None = None) -> RunRecord:
    """One run, with its history where a folder is given."""
    (name,) = scenario.configurations
    paper = None if folder is None else Folder(folder, "test", packs=False)
    run = Simulation(scenario.setting_of(name), assemble(scenario.configurations[name], REGISTRY), history=paper)
    record = run.run(scenario.workload())
    assert not run.failure
    if paper is not None:
        paper.close()
    return record


def write(found: RecordedRun, trace: Path) -> Path:
    write_trace(found.jobs, trace)
    scenario_path(trace).write_text(scenario_text(found, trace.name, "again"))
    return scenario_path(trace)


def starts(record: RunRecord, prefix: str = "", zero: float = 0.0) -> dict[str, float]:
    return {prefix + job.name: round(job.start - zero, 3) for job in record.jobs if job.start is not None}


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, Told, Path]:
    home = tmp_path_factory.mktemp("day")
    (home / "day.yaml").write_text(DAY.format(seed=3))
    record = play(read(home / "day.yaml"), home / "history")
    return record, read_history(home / "history"), home


@pytest.mark.slow
def test_a_history_played_again_starts_every_job_at_the_same_second(day: tuple[RunRecord, Told, Path]) -> None:
    record, told, home = day
    again = play(read(write(recorded(told), home / "again.csv.gz")))
    assert record.evictions
    expected = starts(record, "default.", told.begins)
    assert len(expected) > 25
    assert starts(again) == pytest.approx(expected, abs=0.002)
    ends = {f"default.{j.name}": j.end - told.begins for j in record.jobs if j.end is not None}
    assert {j.name: j.end for j in again.jobs if j.end is not None} == pytest.approx(ends, abs=0.01)
    assert len(again.evictions) == len(record.evictions)


@pytest.mark.slow
def test_a_history_tells_what_the_record_of_the_run_tells(day: tuple[RunRecord, Told, Path]) -> None:
    record, told, _ = day
    stories = {story.job: story for story in told.jobs}
    for job in record.jobs:
        story = stories[f"default/{job.name}"]
        assert (story.submitted, story.placed, story.queue) == (job.submit, job.start, job.queue), job.name
        assert (story.how, story.ended) == (("completed", job.end) if job.outcome == "completed" else ("", None))
    assert len(told.evictions) == len(record.evictions)
    assert {(e.pod, e.action, e.beneficiary) for e in told.evictions} == {
        (e.pod, e.action, e.beneficiary) for e in record.evictions
    }
    assert told.eviction_s == [7.0] * len(told.eviction_s)
    assert {stay.node.name for stay in told.nodes if stay.until is not None} == {"big-1"}
    assert sum(loss.pods for story in told.jobs for loss in story.losses) >= 2


@pytest.mark.slow
def test_a_history_costs_no_decision(day: tuple[RunRecord, Told, Path]) -> None:
    record, _, home = day
    assert starts(play(read(home / "day.yaml"))) == starts(record)


@pytest.mark.slow
def test_a_redacted_record_plays_the_same_and_names_nobody(day: tuple[RunRecord, Told, Path]) -> None:
    record, told, home = day
    plain, hidden = recorded(told), redacted(recorded(told))
    scenario = write(hidden, home / "hidden.csv.gz")
    expected = sorted(starts(record, zero=told.begins).values())
    assert sorted(starts(play(read(scenario))).values()) == pytest.approx(expected, abs=0.002)
    text = gzip.decompress((home / "hidden.csv.gz").read_bytes()).decode() + scenario.read_text()
    body = text.partition("configurations:")[0]
    names = {job.name for job in plain.jobs} | {job.user for job in plain.jobs if job.user != "default"}
    names |= {node["name"] for node in plain.nodes} | {"research", "product", "late"}
    assert len(names) > 30
    assert not [name for name in names if re.search(rf"\b{re.escape(name)}\b", body)]


@pytest.mark.slow
def test_the_commands_make_and_show_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("day.yaml").write_text(DAY.format(seed=3).replace("horizon: 100m", "horizon: 1h"))

    def pumice(*words: str) -> str:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        return result.stdout

    pumice("simulate", "day.yaml", "--history", "past")
    shown = pumice("trace", "past")
    assert "Evictions" in shown
    assert "pumice simulate week.yaml plays it" in pumice("trace", "past", "--write", "week.csv.gz")
    about = json.loads(pumice("trace", "week.csv.gz", "-o", "json"))
    assert about["format"] == "native"
    assert (
        about["total"][1] == len(json.loads(pumice("simulate", "week.yaml", "-o", "json"))["runs"]) * about["total"][1]
    )
    hidden = json.loads(
        pumice("trace", "week.csv.gz", "--kind", "native", "--redact", "--write", "out.csv", "-o", "json")
    )
    assert hidden["redacted"]
    assert "train" not in Path("out.csv").read_text()
    again = CliRunner().invoke(app, ["simulate", "day.yaml", "--history", "past"])
    assert again.exit_code == 1
    assert "there is a history in it already" in again.stderr
    wrong = CliRunner().invoke(app, ["trace", "past", "--write", "week.txt"])
    assert wrong.exit_code == 2
    assert "must end in .csv or .csv.gz" in wrong.stderr
    nothing = CliRunner().invoke(app, ["trace", "nowhere.jsonl"])
    assert nothing.exit_code == 1
    assert "there is no history" in nothing.stderr
