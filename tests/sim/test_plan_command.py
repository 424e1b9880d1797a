"""``pumice plan``: agrees with looking everywhere and with queueing theory, and says what a failure would hit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pumice.cli.app import app
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.planning import Variant, VariantPlayer, parse_goal, size
from pumice.sim.planning.formula import demanded
from pumice.sim.planning.variants import NodeFailure
from pumice.sim.results.intervals import mean_interval
from pumice.sim.scenario import read_scenario

DAY = """\
name: day
cluster: {nodes: [{name: n, count: 3, cpu: 64, memory: 512Gi, gpu: 8}]}
workload:
  generators:
  - {name: g, arrivals: {every: 4m, count: 30}, duration: {exponential: 40m}, gpu: {choice: {1: 3, 4: 1}}}
"""
QUEUE = """\
name: m/m/c
cluster: {nodes: [{name: n, count: 4, cpu: 1, memory: 1Gi, pods: 1}]}
workload:
  generators: [{name: g, arrivals: {every: 1000s, count: %d}, duration: {exponential: 2800s}, cpu: 1}]
configurations: {plain: {actions: allocate, tiers: [{plugins: [{name: gang}, {name: predicates}]}]}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "day.yaml").write_text(DAY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(*words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["plan", "day.yaml", "--workers", "1", *words])
    assert result.exit_code == code, f"{result.stdout}{result.stderr}"
    return result


@pytest.mark.slow
def test_the_answer_is_within_one_node_of_looking_everywhere(home: Path) -> None:
    scenario = read_scenario(home / "day.yaml", catalogue_of(default_registry()))
    player = VariantPlayer(scenario, "default", range(1, 4))
    found = size(player, Variant(), "n", parse_goal("wait.p95 < 10m"), 1, 6)
    waits = {}
    for count in range(1, 7):
        runs = [done.summary.total.wait for done in player(Variant("n", count)).values()]
        waits[count] = mean_interval([wait.p95 for wait in runs if wait is not None]).estimate
    least = next(n for n in waits if all(waits[m] < 600 for m in waits if m >= n))
    assert 1 < least < 6
    assert found.found.answer is not None
    assert abs(found.found.answer - least) <= 1
    for one in found.tried:
        assert one.judged is not None
        assert one.judged.mean == pytest.approx(waits[one.count])
    assert found.by_formula is not None


def test_an_answer_is_told_beside_a_closed_formula_and_what_is_not_sure(home: Path) -> None:
    result = plan("--goal", "wait.mean < 5m", "--group", "n", "--between", "2..5", "--seeds", "1..2")
    assert "wait.mean < 5m: " in result.stdout
    assert "A closed formula" in result.stdout
    assert "2 days cannot tell whether the goal is met" in " ".join(result.stderr.split())


def test_a_goal_out_of_reach_is_an_answer_too(home: Path) -> None:
    result = plan("--goal", "wait.p95 < 1s", "--group", "n", "--between", "1..2", "--seeds", "1..2", code=1)
    assert "not met with up to 2 nodes" in result.stdout


@pytest.mark.slow
def test_more_load_and_failing_nodes_are_compared_with_how_it_is(home: Path) -> None:
    result = plan("--load", "1.5", "--fail", "2@n", "--seeds", "1..2", "--report", "out.html")
    assert "load × 1.5, 2 of n fail" in result.stdout
    said = " ".join(result.stdout.split())
    assert "2 n nodes (random per seed) fail at" in said
    assert "jobs are hit on average (on seed 1: default/g-" in said
    assert "jobs are hit on average" in (home / "out.html").read_text()


def test_the_jobs_that_a_failure_hits_are_those_of_playing_it(home: Path) -> None:
    data = json.loads(plan("--fail", "1@n", "--at", "1h", "--seeds", "1", "-o", "json").stdout)
    [note] = [text for text in data["comparison"]["notes"] if "jobs are hit" in text]
    scenario = read_scenario(home / "day.yaml", catalogue_of(default_registry()))
    [node] = NodeFailure(1, "n", 3600).nodes(scenario, 1)
    (home / "day.yaml").write_text(f"{DAY}faults: {{planned: [{{at: 1h, fail: {node}}}]}}\n")
    ran = CliRunner().invoke(app, ["simulate", "day.yaml", "--seed", "1", "--record", "run.jsonl"])
    assert ran.exit_code == 0, ran.stderr
    record = json.loads((home / "run.jsonl").read_text())
    hit = sorted({pod["job"] for pod in record["pods"] if pod["node"] == node and pod.get("end") == 3600})
    assert hit
    assert f"(on seed 1: {', '.join(hit[:5])}" in note


def agrees(tmp_path: Path, jobs: int, seeds: int) -> None:
    """Mean wait before four servers at 70 % load: simulated, and by Erlang's formula."""
    (tmp_path / "queue.yaml").write_text(QUEUE % jobs)
    scenario = read_scenario(tmp_path / "queue.yaml", catalogue_of(default_registry()))
    player = VariantPlayer(scenario, "plain", range(1, seeds + 1))
    runs = player(Variant())
    means = [done.summary.total.wait.mean for done in runs.values() if done.summary.total.wait]
    found = mean_interval(means)
    asked = demanded([list(scenario.drawn(seed).workload()) for seed in player.seeds], gpus=False)
    assert asked is not None
    waits = asked.waits(4)
    assert waits is not None
    assert found.low is not None
    assert found.high is not None
    half = (found.high - found.low) / 2 * 2.576 / 1.96  # 99 %
    assert abs(waits.mean - found.estimate) <= half


@pytest.mark.slow
def test_four_servers_wait_as_erlang_says(tmp_path: Path) -> None:
    agrees(tmp_path, 150, 6)


@pytest.mark.slow
def test_four_servers_wait_as_erlang_says_over_many_jobs(tmp_path: Path) -> None:
    agrees(tmp_path, 2000, 20)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say what to plan"),
        (("--group", "n"), "needs a goal"),
        (("--group", "m", "--goal", "wait.p95 < 1m"), "no nodes of that name"),
        (("--group", "n", "--goal", "wait.p95 < +5%"), "has no sign"),
        (("--group", "n", "--goal", "soon"), "must be a figure, a comparison and a number"),
        (("--group", "n", "--goal", "wait.p95 < 1m", "--between", "5..2"), "two numbers"),
        (("--load", "0"), "above 0"),
        (("--fail", "n"), "must be N@GROUP"),
        (("--fail", "2@m"), "no nodes of that name"),
        (("--fail", "99@n"), "so 99 cannot fail"),
        (("--load", "2", "--at", "1h"), "is about --fail"),
    ],
)
def test_wrong_values_are_wrong_usage(home: Path, words: tuple[str, ...], said: str) -> None:
    result = plan(*words, code=2)
    assert said in " ".join(result.stderr.split())
