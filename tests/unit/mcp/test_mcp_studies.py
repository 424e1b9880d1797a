"""Confs compared and plans made for an agent: in a process of its own, for so long and no longer."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from answer_desks import desk
from told_apart import never_ends, told_of_itself

from pumice import subprocess_runner
from pumice.errors import PumiceError
from pumice.framework.registry import default_registry
from pumice.mcp import studies
from pumice.mcp.knowledge import LocalKnowledge
from pumice.mcp.tools import Answered, Tools
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.results.intervals import FEWEST
from pumice.sim.scenario import SimScenario, read_scenario
from pumice.sim.study.running import Played
from pumice.subprocess_runner import IsolatedProcess
from pumice.testing import job, node

REGISTRY = default_registry()
SCENARIO = """
name: day
cluster: {nodes: [{name: n, count: 2, cpu: 4, memory: 16Gi}]}
workload:
  generators:
  - {name: g, arrivals: {every: 1m, until: 30m}, duration: {exponential: 8m}, pods: 2, cpu: 2, memory: 1Gi}
"""
OUTSIDE = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - {name: gang}
  - {name: predicates}
  - {name: extender, arguments: {extender.urlPrefix: "http://127.0.0.1:9/", extender.predicateVerb: p}}
"""


@pytest.fixture
def world(tmp_path: Path) -> SimScenario:
    file = tmp_path / "day.yaml"
    file.write_text(SCENARIO)
    return read_scenario(file, catalogue_of(REGISTRY))


def tools_of(world: SimScenario | None) -> Tools:
    known = LocalKnowledge(desk(node("n1", cpu=4), job("j", cpu=1)))
    return Tools(known, REGISTRY, None, {} if world is None else {"day": world})


def asking(tools: Tools, name: str, **arguments: Any) -> Answered:
    return asyncio.run(tools.call(name, arguments))


def insisting(tools: Tools, name: str, **arguments: Any) -> dict[str, Any]:
    """The whole answer, as an agent gets it who asks again when he is told to."""
    for _ in range(40):  # on a busy machine little is played at a time
        data = asking(tools, name, **arguments).data
        if not data.get("retry_after") and not data["answer"].get("retry_after"):
            break
    return data


def test_where_there_is_nothing_to_play_the_answer_says_what_to_start_with() -> None:
    for name, arguments in (("compare_confs", {"b": OUTSIDE}), ("plan", {"goal": "wait.p95 < 10m"})):
        assert "--scenario FILE" in asking(tools_of(None), name, **arguments).data["error"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("compare_confs", {"b": OUTSIDE, "scenario": "dya"}, "did you mean 'day'"),
        ("compare_confs", {"b": "actions: ["}, "b:"),
        ("compare_confs", {"b": OUTSIDE, "seeds": 1000}, "seeds"),
        ("plan", {"goal": "wait.p95 < +10%"}, "has no sign"),
        ("plan", {"goal": "happiness > 3"}, "happiness"),
        ("plan", {"goal": "wait.p95 < 10m", "group": "/etc/passwd"}, "no nodes of that name"),
        ("plan", {"goal": "wait.p95 < 10m", "load": float("nan")}, "load"),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(
    world: SimScenario, name: str, arguments: dict[str, Any], said: str
) -> None:
    assert said in asking(tools_of(world), name, **arguments).data["error"]


@pytest.mark.slow  # some seconds of play in processes of their own
@pytest.mark.timeout(400)
def test_two_confs_are_compared_in_pairs_with_intervals_and_a_plan_meets_its_goal(world: SimScenario) -> None:
    tools = tools_of(world)
    data = insisting(tools, "compare_confs", b=OUTSIDE, seeds=FEWEST)
    found = data["answer"]
    assert (found["seeds"], found["wanted"], found.get("retry_after")) == (FEWEST, FEWEST, None)
    (wait,) = [one for one in found["figures"] if one["figure"] == "wait.mean"]
    assert wait["low"] <= wait["change"] <= wait["high"]
    assert "extenders are not asked" in found["assumes"][0]
    goal = insisting(tools, "plan", goal="wait.p95 < 5m", seeds=3)["answer"]
    tried = {one["count"]: one["judged"]["on_these_days"] for one in goal["plan"]["tried"]}
    enough = goal["plan"]["on_these_days"]
    assert (tried[enough], tried[enough - 1]) == (True, False)
    assert "answer" not in goal["plan"], "three days are too few to be sure"
    begun = time.monotonic()
    assert asking(tools, "compare_confs", b=OUTSIDE, seeds=FEWEST).data == data
    assert time.monotonic() - begun < 5, "what was played is remembered"


class _Slowly:
    """A process that plays two runs, and then its time is over."""

    left = 2

    def __init__(self, seconds: float) -> None:
        self.left = _Slowly.left

    def __enter__(self) -> _Slowly:
        return self

    def __exit__(self, *_: object) -> None: ...

    def call(self, fn: Any, *args: Any, returns: type[Played]) -> Played:
        self.left -= 1
        if self.left < 0:
            raise subprocess_runner.NotInTime("the time for playing is over")
        found: Played = fn(*args)
        return found


@pytest.mark.slow
def test_a_question_that_needs_more_time_goes_on_when_it_is_asked_again(
    world: SimScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "IsolatedProcess", _Slowly)
    tools = tools_of(world)
    pairs = []
    for _ in range(3):
        found = asking(tools, "compare_confs", b=OUTSIDE, seeds=2).data["answer"]
        pairs.append((found["seeds"], found.get("retry_after")))
    assert pairs == [(1, studies.AGAIN), (2, None), (2, None)]
    for _ in range(20):
        data = asking(tools, "plan", goal="wait.p95 < 5m", seeds=2).data
        if "answer" in data:
            break
        assert data["retry_after"] > 0
        assert "ask again to go on" in data["error"]
    assert data["answer"]["plan"]["on_these_days"] >= 1


@pytest.mark.slow  # processes of their own
def test_the_process_has_no_credentials_writes_no_file_and_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/somewhere")
    monkeypatch.setenv("A_TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with IsolatedProcess(60) as process, pytest.raises(PumiceError, match=r"^refused$"):
        process.call(told_of_itself, b"", str(tmp_path / "mark"), returns=Played)
    begun = time.monotonic()
    with IsolatedProcess(1.0) as process, pytest.raises(subprocess_runner.NotInTime):
        process.call(never_ends, b"", returns=Played)
    assert time.monotonic() - begun < 30
