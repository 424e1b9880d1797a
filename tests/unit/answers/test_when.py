"""When a job will start: learned run times, a cluster played forward, and a range that holds as often as it says."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pumice.answers.when.calibration import ENOUGH, Calibration
from pumice.answers.when.forward import Holder, Scene, Waiter, forecast, play
from pumice.answers.when.past import Learned, PastJob
from pumice.answers.when.run_times import GUESS, REMEMBERED, Kind, RunTimes
from pumice.cli.app import app
from pumice.history.stories import read_history

ONE = Kind("q", 1)


def times(*seconds: float, kind: Kind = ONE) -> RunTimes:
    known = RunTimes()
    for length in seconds * 20:
        known.learn(kind, length)
    return known


def test_a_run_time_is_one_of_those_that_are_still_possible() -> None:
    known = times(10.0, 100.0, 1000.0)
    assert {known.draw(ONE, 0, part / 100) for part in range(100)} == {10.0, 100.0, 1000.0}
    assert {known.draw(ONE, 50, part / 100) for part in range(100)} == {100.0, 1000.0}
    assert known.draw(ONE, 2000, 0.5) > 2000
    assert known.draw(ONE, 0, 0.99, declared=60) == 60
    assert known.draw(ONE, 80, 0.99, declared=60) == 1000.0
    assert known.draw(Kind("other", 1), 0, 0.0) == 10.0
    assert known.draw(Kind("q", 8), 0, 0.0) == GUESS[0]


def test_old_run_times_are_forgotten() -> None:
    known = times(5.0)
    for _ in range(REMEMBERED):
        known.learn(ONE, 70.0)
    assert {known.draw(ONE, 0, part / 10) for part in range(10)} == {70.0}


def test_what_waits_takes_the_room_in_its_order_and_small_ones_slip_in() -> None:
    holders = [Holder(ONE, (3,), -40.0), Holder(ONE, (1,), -90.0)]
    waiters = [Waiter("big", ONE, (4,)), Waiter("small", ONE, (1,)), Waiter("huge", ONE, (9,))]
    assert play(Scene(0.0, (0,), holders, waiters), times(100.0), 0) == {"small": 10.0, "big": 110.0}
    said = forecast(Scene(0.0, (0,), holders, waiters), times(100.0), draws=3)
    assert (said["small"], said["big"], said["huge"]) == (10.0, 110.0, math.inf)
    assert forecast(Scene(0.0, (0,), holders, waiters), times(100.0), draws=3, last="small") == {"small": 10.0}


def test_a_range_holds_in_eight_of_ten_whatever_the_bias_of_the_predictions() -> None:
    rng, known = random.Random(3), Calibration()
    held = [0, 0, 0]
    for n in range(1500):
        said = rng.lognormvariate(8, 1)
        waited = 3 * said * rng.lognormvariate(0, 0.8)
        found = known.range_of(said, float(n))
        assert (found is None) == (n < ENOUGH)
        if found is not None:
            held = [h + (waited <= at) for h, at in zip(held, (found.low, found.likely, found.high), strict=True)]
        known.predicted(str(n), float(n), said)
        known.started(str(n), n + waited)
    assert [h / (1500 - ENOUGH) for h in held] == pytest.approx([0.1, 0.5, 0.9], abs=0.03)


def test_jobs_that_still_wait_make_the_range_wider() -> None:
    known = Calibration()
    for n in range(100):
        known.predicted(str(n), 0.0, 1000.0)
        known.started(str(n), 1000.0 + n)
    before = known.range_of(1000.0, 1100.0)
    for n in range(40):
        known.predicted(f"late-{n}", 0.0, 1000.0)
    after = known.range_of(1000.0, 90_000.0)
    assert before is not None and after is not None
    assert after.high > 10 * before.high
    for n in range(40):
        known.gone(f"late-{n}")
    assert known.range_of(1000.0, 90_000.0) == before


def test_the_past_is_walked_with_what_was_known_then() -> None:
    past = [PastJob(str(n), ONE, (1,), 10.0 * n, 100.0 * n, 100.0 * n + 100) for n in range(60)]
    learned = Learned()
    outcomes = list(learned.walk(past, (1,), lambda job: True))
    assert [o.waited for o in outcomes] == [90.0 * n for n in range(1, 60)]
    assert learned.times.learned == 60
    assert outcomes[40].predicted == pytest.approx(outcomes[40].waited, rel=0.35)
    again = list(Learned().walk(past, (1,), lambda job: job.job == "40"))
    assert [o.job for o in again] == ["40"]


DAY = """\
seed: 3
horizon: 9h
cluster: {nodes: [{name: n, count: 2, cpu: 16, memory: 64Gi, gpu: 8}]}
workload:
  generators:
  - name: train
    arrivals: {every: 3m, until: 9h}
    duration: {exponential: 40m}
    gpu: {choice: {1: 2, 2: 1, 4: 1}}
    cpu: 1
configurations: {only: {actions: "enqueue, allocate", tiers: [{plugins: [{name: gang}, {name: predicates}]}]}}
"""


def test_the_command_gives_a_range_with_what_it_rests_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("day.yaml").write_text(DAY)

    def pumice(*words: str) -> str:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        return result.stdout

    pumice("simulate", "day.yaml", "--history", "past", "--save", "now.cycle")
    waits = next(s.job for s in reversed(read_history(Path("past")).jobs) if s.placed is None)
    said = json.loads(pumice("when", waits, "now.cycle", "--history", "past", "--json"))
    assert 0 <= said["low"] < said["high"]
    assert said["outcomes"] >= ENOUGH and said["learned"] > 50
    shown = pumice("when", waits, "now.cycle", "--history", "past")
    assert "likely starts in" in shown and "earlier predictions" in shown
    assert "a guess by a factor of four" in pumice("when", waits, "now.cycle")
    none = CliRunner().invoke(app, ["when", "nobody", "now.cycle"])
    assert none.exit_code == 1 and "nobody" in none.stderr
