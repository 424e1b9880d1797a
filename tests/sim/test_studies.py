"""Studies: the same figures on any executor, what is done is kept, and Python gets tables."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pumice
from pumice.cli.app import app
from pumice.errors import InvalidInput
from pumice.sim.results import decode, encode
from pumice.sim.results.metrics import METRICS
from pumice.sim.scenario import SimScenario, open_scenario
from pumice.sim.study import Study
from pumice.sim.study.running import LOOKS, MOST_SEEDS, StudyRun, parse_seeds, parse_sure, run_all, seeds_from
from pumice.sim.study.workers import LocalExecutor, WorkerLost

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "examples" / "plugins"
SCENARIO = f"""\
name: small
pluginsDir: {PLUGINS}
cluster: {{nodes: [{{name: n, count: 3, cpu: 8, memory: 64Gi, gpu: 4}}]}}
queues: [{{name: red}}, {{name: blue}}]
workload:
  generators:
  - {{name: a, queue: red, arrivals: {{every: 3m, count: 14}}, duration: {{lognormal: {{median: 15m, p90: 40m}}}},
     gpu: {{choice: {{1: 3, 4: 1}}}}}}
  - {{name: b, queue: blue, arrivals: {{every: 9m, count: 4}}, duration: 30m, pods: 2, gpu: 4}}
delays: {{bindFailures: 0.05}}
configurations:
  plain: {{actions: "enqueue, allocate", tiers: [{{plugins: [{{name: gang}}, {{name: predicates}}]}}]}}
  packed:
    actions: "enqueue, allocate"
    tiers: [{{plugins: [{{name: gang}}, {{name: predicates}}, {{name: tidy-gpus}}]}}]
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "small.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(scope="module")
def opened(scenario: Path) -> SimScenario:
    return open_scenario(scenario)


@pytest.fixture(scope="module")
def eight(scenario: Path) -> Study:
    return pumice.simulate(scenario, seeds=range(1, 9), processes=2)


def run(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.stdout, result.stderr


# -- executors ------------------------------------------------------------------------------------------------------
def die(number: int) -> int:
    """Answers, unless it is 3: then its process is gone as if the kernel had killed it."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return 10 * number


def refuse(number: int) -> int:
    raise InvalidInput(f"not {number}")


def test_a_process_that_is_killed_loses_its_call_and_no_other() -> None:
    with LocalExecutor(2) as executor:
        futures = [executor.submit(die, number) for number in range(12)]
        wait(futures)
        assert [future.result() for n, future in enumerate(futures) if n != 3] == [10 * n for n in range(12) if n != 3]
        with pytest.raises(WorkerLost, match="its process was ended by SIGKILL"):
            futures[3].result()
        with pytest.raises(InvalidInput, match="not 5"):
            executor.submit(refuse, 5).result()
        with pytest.raises((TypeError, AttributeError)):
            executor.submit(lambda: 1, threading.Lock()).result()
        assert executor.submit(die, 1).result() == 10, "it goes on"
    with pytest.raises(RuntimeError, match="was shut down"):
        executor.submit(die, 1)


def test_an_executor_that_is_ended_ends_what_runs_and_leaves_no_process() -> None:
    executor = LocalExecutor(2)
    futures = [executor.submit(time.sleep, 600) for _ in range(5)]
    while not any(future.running() for future in futures):
        pass
    processes = [worker.process for worker in executor._workers]
    executor.shutdown(cancel_futures=True)
    assert not any(process.is_alive() for process in processes)
    assert all(future.done() for future in futures)


@pytest.fixture(params=["here", "threads", "processes", pytest.param("dask", marks=pytest.mark.slow)])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    match request.param:
        case "here":
            yield None
        case "threads":
            with ThreadPoolExecutor(2) as pool:
                yield pool
        case "processes":
            with LocalExecutor(2) as local:
                yield local
        case "dask":
            distributed = pytest.importorskip("distributed")
            with (
                distributed.LocalCluster(
                    n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
                ) as cluster,
                distributed.Client(cluster) as client,
            ):
                yield client.get_executor()


@pytest.mark.filterwarnings("ignore")  # Dask's own
@pytest.mark.part(9)
def test_a_study_gives_the_same_records_wherever_it_is_played(
    executor: Executor | None, scenario: Path, eight: Study
) -> None:
    found = pumice.simulate(scenario, seeds=[1, 2, 3], executor=executor)
    assert found.lost == []
    assert [encode(record) for record in found.records()] == [encode(record) for record in eight.records()[:6]]


def test_configurations_of_one_seed_see_the_same_jobs(eight: Study) -> None:
    for seed in (1, 2):
        plain, packed = (eight.jobs.where(configuration=name, seed=seed) for name in ("plain", "packed"))
        for column in ("job", "submit", "duration", "gpus", "queue"):
            assert (plain[column] == packed[column]).all()
    assert set(eight.jobs.where(seed=1)["submit"]) != set(eight.jobs.where(seed=2)["submit"])


def test_a_run_that_fails_is_lost_and_named_and_the_others_go_on(opened: SimScenario, tmp_path: Path) -> None:
    broken = replace(opened, plugins=tmp_path / "not-there")
    runs = run_all(broken, [1])
    assert [(lost.task, "not a directory" in lost.why) for lost in runs.lost] == [
        (StudyRun("plain", 1), True), (StudyRun("packed", 1), True),
    ]  # fmt: skip
    assert runs.complete_seeds() == []


@pytest.mark.slow
def test_seeds_are_played_until_the_figures_are_sure_whatever_the_number_of_cores(opened: SimScenario) -> None:
    sure = parse_sure("utilisation.gpu 20%")
    alone = opened.under({"plain": opened.configurations["plain"]})
    found = []
    for count in (0, 3):
        pool = LocalExecutor(count) if count else None
        runs = run_all(alone, seeds_from(1), executor=pool, enough=sure, most=MOST_SEEDS)
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        found.append((len(runs.complete_seeds()), sure(runs.summaries())))
    assert found[0] == found[1]
    assert found[0][1]
    assert found[0][0] in LOOKS


# -- Python ---------------------------------------------------------------------------------------------------------
def test_a_study_is_told_in_a_line(eight: Study) -> None:
    assert isinstance(eight, pumice.Study)
    assert repr(eight).endswith("8 seeds, 16 runs>"), "a prompt shows a line, not all records"


def test_runs_and_jobs_are_columns_of_equal_length(eight: Study) -> None:
    assert eight.runs.rows == 16
    assert eight.jobs.rows == 16 * 18
    for table in (eight.runs, eight.jobs):
        assert {column.shape for column in table.values()} == {(table.rows,)}
        assert all(column.dtype.kind in "fiUb" for column in table.values()), "no column is of Python objects"
    assert set(METRICS) <= set(eight.runs)
    mean = eight.jobs.where(configuration="plain", seed=3)["wait"].mean()
    assert mean == pytest.approx(eight.runs.where(configuration="plain", seed=3)["wait.mean"][0])


def test_a_comparison_is_a_table_too(eight: Study) -> None:
    found = eight.compare("wait.mean", "utilisation.gpu")
    assert found["configuration"].tolist() == ["plain", "packed"] * 2
    effect = eight.comparison.row("wait.mean").effects[1]
    assert effect is not None
    assert found["change"][1] == effect.change.estimate
    assert math.isnan(found["change"][0])
    assert (found["verdict"][0], found["pairs"][1]) == ("", 8)
    assert eight.compare().rows == 2 * len(eight.comparison.overall)
    assert "wait.mean" in str(found)
    with pytest.raises(InvalidInput, match=r"figure 'wait.p42'"):
        eight.compare("wait.p42")


def test_tables_and_records_are_written_and_read_again(eight: Study, tmp_path: Path) -> None:
    eight.jobs.to_csv(tmp_path / "jobs.csv")
    with (tmp_path / "jobs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == eight.jobs.rows
    assert [float(row["wait"]) for row in rows] == eight.jobs["wait"].tolist()
    eight.to_records(tmp_path / "runs.jsonl")
    assert [decode(line) for line in (tmp_path / "runs.jsonl").read_bytes().splitlines()] == eight.records()
    eight.to_html(tmp_path / "r.html")
    assert "packed against plain" in (tmp_path / "r.html").read_text()


def test_confs_are_given_by_name_file_or_data(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.conf").write_text("actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n")
    data = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}
    listed = pumice.simulate(scenario, ["plain", "helm", tmp_path / "mine.conf"], seeds=[1], keep_records=False)
    assert listed.results.configurations == ("plain", "helm", "mine")
    named = pumice.simulate(scenario, {"a": tmp_path / "mine.conf", "b": data}, seeds=[1], horizon="1h")
    assert (named.runs["wait.mean"][0], len(set(named.runs["conf_digest"]))) == (named.runs["wait.mean"][1], 1)
    assert named.runs["span"].max() <= 3600
    with pytest.raises(InvalidInput, match="keep_records=False"):
        listed.records()
    with pytest.raises(InvalidInput, match="every one needs a name of its own"):
        pumice.simulate(scenario, ["plain", "plain"], seeds=[1])


@pytest.mark.slow
def test_plots_are_figures_that_can_be_saved(eight: Study, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, figure in (
        ("ecdf", eight.plot.ecdf("wait")),
        ("time", eight.plot.over_time()),
        ("pairs", eight.plot.pairs("wait.mean")),
        ("points", eight.plot.pairs("utilisation.gpu")),
    ):
        for kind in ("svg", "pdf"):
            figure.savefig(tmp_path / f"{name}.{kind}")
            assert (tmp_path / f"{name}.{kind}").stat().st_size > 2000
    with pytest.raises(InvalidInput, match="must be a column of numbers"):
        eight.plot.ecdf("queue")


# -- the command line -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "seeds"), [("1..4", [1, 2, 3, 4]), ("3", [1, 2, 3]), ("2,7,5", [2, 7, 5]), ("-1..1", [-1, 0, 1])]
)
def test_seeds_are_a_range_a_number_or_a_list(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "4..1", "1,1", "1..2..3", "1.5"])
def test_what_is_no_seeds_is_wrong_usage(scenario: Path, text: str) -> None:
    code, out, err = run("simulate", scenario, "--seeds", text)
    assert (code, out) == (2, "")
    assert "--seeds" in err


@pytest.mark.parametrize(
    "words",
    [
        ("--until-sure", "soon"),
        ("--until-sure", "0%"),
        ("--fail-if", "wait.p95 is bad"),
        ("--seeds", "1..2", "--seed", "4"),
        ("--seeds", "1..2", "--log", "log.txt"),
        ("--horizon", "soon"),
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(
    scenario: Path, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("simulate", scenario, *words)
    assert (code, out) == (2, "")


def test_a_value_that_a_plugin_refuses_is_told_before_anything_is_played(scenario: Path) -> None:
    code, out, err = run("simulate", scenario, "--conf", "default", "--vary", "nodeorder.leastrequested.weight=1,soon")
    assert (code, out) == (2, "")
    assert "must be a whole number, got 'soon'" in " ".join(err.split())


@pytest.mark.slow
def test_many_seeds_are_told_pair_by_pair_recorded_and_reported(scenario: Path, eight: Study, tmp_path: Path) -> None:
    record, page = tmp_path / "runs.jsonl", tmp_path / "r.html"
    code, out, err = run("simulate", scenario, "--seeds", "1..8", "--workers", 2, "--record", record, "--report", page)
    assert code == 0, err
    title, verdict, _, head, _, first, *_ = out.splitlines()
    assert title == "small  3 nodes, 12 GPUs, 144 jobs in 8 runs of each configuration (seeds 1 to 8)"
    assert verdict.startswith("packed against plain: ")
    assert head.split()[:6] == ["mean", "of", "8", "seeds", "plain", "packed"]
    assert head.split()[6:] == ["change", "95", "%", "interval", "better", "on"]
    assert first.startswith("Wait, mean")
    assert "packed, seed 1" in page.read_text()
    code, again, err = run("report", record, "--report", tmp_path / "again.html")
    assert code == 0, err
    assert again.splitlines()[1:] == out.splitlines()[1:]
    assert run("report", record, "--first", "packed")[1].splitlines()[1].startswith("plain against packed: ")
    assert run("report", record, "--first", "paked")[0] == 2
    code, data, _ = run("report", record, "-o", "json")
    assert json.loads(data)["comparison"]["seeds"] == [1, 2, 3, 4, 5, 6, 7, 8]
    values = [one["total"]["wait"]["mean"] for one in json.loads(data)["runs"] if one["run"] == "plain"]
    assert values == eight.runs.where(configuration="plain")["wait.mean"].tolist()


def test_a_record_says_what_made_it(scenario: Path, tmp_path: Path) -> None:
    record = tmp_path / "runs.jsonl"
    assert run("simulate", scenario, "--seed", 5, "--record", record)[0] == 0
    first, second = (decode(line) for line in record.read_bytes().splitlines())
    assert (first.seed, first.origin.scenario) == (5, "small.yaml")
    assert len(first.origin.scenario_digest) == 64
    assert set(first.origin.inputs) == {"plugins"}
    assert first.origin.python
    assert first.origin.numpy
    assert first.version
    assert first.conf_digest != second.conf_digest
    changed = tmp_path / "small.yaml"
    changed.write_text(SCENARIO.replace("count: 14", "count: 13"))
    assert run("simulate", changed, "--seed", 5, "--record", tmp_path / "other.jsonl")[0] == 0
    code, _, err = run("report", record, tmp_path / "other.jsonl")
    assert code == 0
    assert "plain (other) was made from another scenario than plain (runs)" in err


@pytest.mark.parametrize(
    ("rule", "code", "said"),
    [
        ("wait.p95 > -99%", 1, "error: --fail-if 'wait.p95 > -99%'"),
        ("wait.p95 > +1000%", 0, ""),
        ("unfinished > 0", 0, ""),
        ("!unfinished < 1", 0, ""),
        ("!unfinished > 0", 1, "error: --fail-unless 'unfinished > 0'"),
    ],
)
@pytest.mark.part(9)
def test_a_rule_that_is_broken_fails_the_command(scenario: Path, rule: str, code: int, said: str) -> None:
    option = "--fail-unless" if rule.startswith("!") else "--fail-if"
    for seeds in ([], ["--seeds", "1..6"]):
        words = ("--conf", "default", "--conf", "helm", option, rule.removeprefix("!"))
        found, _, err = run("simulate", scenario, *words, *seeds)
        assert (found, said in err) == (code, True), err


@pytest.mark.parametrize("option", ["--fail-if", "--fail-unless"])
def test_a_rule_that_these_seeds_cannot_tell_has_an_exit_code_of_its_own(scenario: Path, option: str) -> None:
    """Three seeds that break a rule as far as they can tell are no reason to pass."""
    code, _, err = run("simulate", scenario, option, "wait.mean > +5%", "--seeds", "1..3")
    assert (code, "cannot tell" in err) == (3, True), err


def test_confs_of_one_file_name_are_told_apart(scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "volcano.conf").write_text("actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n")
    for words, names in (
        (["old/volcano.conf", "new/volcano.conf"], ["old/volcano", "new/volcano"]),
        (["a=old/volcano.conf", "b=new/volcano.conf"], ["a", "b"]),
    ):
        code, out, err = run("simulate", scenario, *(w for word in words for w in ("--conf", word)), "-o", "json")
        assert (code, json.loads(out)["comparison"]["runs"]) == (0, names), err
    code, _, err = run("simulate", scenario, "--conf", "a=old/volcano.conf", "--conf", "a=new/volcano.conf")
    assert (code, "'a' is there twice" in err) == (2, True)


@pytest.mark.slow
def test_arguments_are_swept_over_a_grid(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "b.conf").write_text(
        "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: binpack, arguments: {binpack.weight: 2}}]}]\n"
    )
    code, out, err = run(
        "simulate", scenario, "--conf", tmp_path / "b.conf", "--vary", "binpack.weight=1,2",
        "--vary", "binpack.cpu=1,5", "--seeds", "1..2", "-o", "json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["comparison"]["configurations"] == [
        "as it is",
        "binpack.weight=1 binpack.cpu=1",
        "binpack.weight=1 binpack.cpu=5",
        "binpack.weight=2 binpack.cpu=1",
        "binpack.weight=2 binpack.cpu=5",
    ]
    for vary, said in (
        ("binpak.weight=1", "did you mean 'binpack'?"),
        ("binpack.wieght=1", "did you mean 'binpack.weight'?"),
        ("binpack=1", "must be PLUGIN.ARGUMENT=VALUE,VALUE"),
    ):
        code, _, err = run("simulate", scenario, "--conf", tmp_path / "b.conf", "--vary", vary)
        assert (code, said in " ".join(err.replace("│", " ").split())) == (2, True), err


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(scenario: Path, tmp_path: Path) -> None:
    process = started(scenario, tmp_path)
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "a worker goes on without a parent"
        time.sleep(0.05)


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.part(9)
@pytest.mark.slow
def test_a_study_that_is_ended_keeps_what_is_done_and_leaves_no_process(
    scenario: Path, tmp_path: Path, ended_by: signal.Signals
) -> None:
    process = started(scenario, tmp_path)
    try:
        workers = children(process.pid)
        process.send_signal(ended_by)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "interrupted; seed" in err
    comparison = json.loads(out)["comparison"]
    assert 1 <= len(comparison["seeds"]) < 500
    records = [decode(line) for line in (tmp_path / "runs.jsonl").read_bytes().splitlines()]
    assert {record.seed for record in records} >= set(comparison["seeds"])
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_one_run_of_the_study(scenario: Path, tmp_path: Path) -> None:
    process = started(scenario, tmp_path, seeds="1..12")
    try:
        os.kill(children(process.pid)[0], signal.SIGKILL)
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 1
    assert len([line for line in err.splitlines() if "lost: its process was ended by SIGKILL" in line]) == 1
    assert len(json.loads(out)["comparison"]["seeds"]) == 11
    assert len(json.loads(out)["runs"]) == 23


def started(scenario: Path, tmp_path: Path, seeds: str = "1..500") -> subprocess.Popen[str]:
    """A study in a process of its own, of which some runs are done and others run."""
    record = tmp_path / "runs.jsonl"
    command = [str(Path(sys.executable).with_name("pumice")), "simulate", str(scenario), "--seeds", seeds, "-o", "json"]
    command += ["--workers", "2", "--record", str(record)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (record.exists() and record.read_bytes().count(b"\n") >= 4):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no run was done within a minute"
        time.sleep(0.01)
    return process


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_report_says_what_is_wrong_with_its_records(tmp_path: Path) -> None:
    for text, said in (("", "holds none"), ("{}\n", ":1: not the record of a run"), (None, "No such file")):
        path = tmp_path / "r.jsonl"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        code, out, err = run("report", path)
        assert (code, out, said in err) == (1, "", True), err


def test_waits_of_jobs_that_ran_already_are_not_made_up(tmp_path: Path) -> None:
    """A saved cluster is played on without a workload; its running pods have no wait, and no end if they say none."""
    demo = ROOT / "examples" / "demo"
    assert run("cycle", demo, "--conf", demo / "scheduler.conf", "--save", tmp_path / "now.cycle")[0] == 0
    (tmp_path / "on.yaml").write_text("horizon: 1h\ncluster: {manifests: [now.cycle]}\n")
    code, out, err = run("simulate", tmp_path / "on.yaml", "-o", "json", "--record", tmp_path / "r.jsonl")
    assert code in (0, 1), err
    assert "run time unknown: " in err
    assert "sim.pumice.dev/run-time" in err
    total = json.loads(out)["runs"][0]["total"]
    record = decode((tmp_path / "r.jsonl").read_bytes())
    stood = [one for one in record.jobs if one.stood]
    assert stood
    assert total["wait"]["count"] == total["jobs"] - len(stood)
    assert total["wait"]["mean"] > 0, "those that wait count to the end"
    assert any("run time unknown" in text for text in record.warnings)


@pytest.mark.slow
def test_backfilling_without_declared_run_times_is_warned_about(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "easy.conf").write_text("actions: easybackfill\ntiers: [{plugins: [{name: gang}]}]\n")
    command = (
        "simulate",
        scenario,
        "--conf",
        "default",
        "--conf",
        tmp_path / "easy.conf",
        "--report",
        tmp_path / "r.html",
    )
    code, _, err = run(*command)
    assert code == 0
    said = "no job declares a run time: easybackfill of easy has nothing to plan with"
    assert said in err
    assert said in (tmp_path / "r.html").read_text(), "a warning stands in the report too"
    scenario = tmp_path / "declared.yaml"
    scenario.write_text(SCENARIO.replace("duration: 30m", "duration: 30m, declared: 1.5"))
    assert said not in run("simulate", scenario, "--conf", tmp_path / "easy.conf")[2]


def test_columns_take_what_is_missing_as_nan() -> None:
    from pumice.sim.study.columns import table

    made = table([{"a": 1.0, "b": "x"}, {"a": None, "b": "y"}], ["a", "b"])
    assert np.isnan(made["a"][1])
    assert made["b"].tolist() == ["x", "y"]
    assert table([], ["a"]).rows == 0
