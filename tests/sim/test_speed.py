"""Jobs that declare work: their speed follows from what they got, and checkpoints, restarts and resizes cost time."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pumice
from pumice import InvalidInput
from pumice.sim.engine import Rank
from pumice.sim.jobs import Work
from pumice.sim.results.records import RunRecord, decode
from pumice.sim.speed import Costs, RunningGang, SpeedTable
from pumice.sim.study.running import StudyRun, play
from sim.worlds import by_name, job, nodes, simulation, specs, stays

LINEAR = {"pods": "linear"}


def data(cluster: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"cluster": {"nodes": [{"memory": "64Gi", "cpu": 64, **group} for group in cluster]}, **more}


def played(scenario: dict[str, Any], jobs: dict[str, list[Any]], **options: Any) -> RunRecord:
    [record] = pumice.simulate(scenario, jobs=jobs, **options).records()
    return record


def ends(record: RunRecord) -> dict[str, float | None]:
    return {one.name: one.end for one in record.jobs}


MIXED = [{"name": "h", "count": 4, "gpu": 1, "model": "H100"}, {"name": "k", "count": 2, "gpu": 1, "model": "K80"}]
ELASTIC: dict[str, list[Any]] = {
    "job": ["e"], "submit_s": [0], "duration_s": [3600], "tasks": [6], "min_available": [2], "gpu": [1],
}  # fmt: skip


@pytest.mark.parametrize(
    ("speed", "models", "end"),
    [
        (None, "", 3600),
        (LINEAR, "", 3600),
        ({"models": {"H100": 1, "K80": 0.25}}, "", 14_400),
        ({"models": {"H100": 2, "K80": 0.25}}, "H100", 1800),
        ({**LINEAR, "models": {"H100": 2, "K80": 0.25}}, "H100", 2700),
        ({"pods": {1: 1, 2: 1.9, 6: 5}}, "K80", 3600 * 5 / 1.9),
        ({"pods": {2: 2, 6: 3}}, "H100", 3600 * 3 / 2.5),
        ({"nodes": {1: 1, 2: 0.9, 4: 0.5}}, "H100", 7200),
        ({"nodes": {1: 1, 4: 0.5}}, "K80", 3600 / (1 - 0.5 / 3)),
    ],
)
def test_the_speed_of_a_gang_follows_from_pods_models_and_nodes(speed: Any, models: str, end: float) -> None:
    """Six pods that could run on all six nodes, or on those of one model alone."""
    scenario = data(MIXED) if speed is None else data(MIXED, speed=speed)
    record = played(scenario, {**ELASTIC, "gpu_models": [models]})
    assert ends(record)["e"] == pytest.approx(end)
    assert record.jobs[0].duration == 3600


def test_a_job_works_faster_from_the_moment_that_it_has_more_pods() -> None:
    """Two of four GPUs until second 100, all four from then on: 100 s at half speed, then 550 s at full speed."""
    jobs: dict[str, list[Any]] = {
        "job": ["first", "grows"], "submit_s": [0, 0], "duration_s": [100, 600], "tasks": [1, 4],
        "min_available": [1, 2], "gpu": [2, 1],
    }  # fmt: skip
    cluster = [{"name": "n", "gpu": 4}]
    assert ends(played(data(cluster, speed=LINEAR), jobs))["grows"] == 650
    assert ends(played(data(cluster), jobs))["grows"] == 600
    costs = {"resize": "30s", "restart": "1h"}
    assert ends(played(data(cluster, speed=LINEAR, costs=costs), jobs))["grows"] == 680
    assert ends(played(data(cluster, costs=costs), jobs))["grows"] == 630, (
        "a change of the size costs without speed too"
    )


def test_a_generator_and_a_trace_may_have_a_speed_of_their_own() -> None:
    def stream(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "arrivals": {"every": 1, "count": 1}, "duration": 100, "gpu": 1, **more}

    slow = {"models": {"V100": 0.5}}
    work = {"generators": [stream("a"), stream("b", speed={"models": {"V100": 0.25}})]}
    scenario = data([{"name": "n", "gpu": 2, "model": "V100"}], speed=slow, workload=work)
    [record] = pumice.simulate(scenario, seeds=1).records()
    took = {one.name[0]: one.end - one.start for one in record.jobs if one.end is not None and one.start is not None}
    assert took == {"a": 200.0, "b": 400.0}


def test_an_interrupted_job_pays_for_its_checkpoints_and_its_restart() -> None:
    """Checkpoints of 10 s after each 100 s. The node fails at 250: 200 s of work are saved, the rest begins at 400."""
    faults = [{"at": 250, "fail": "n", "for": 150}]
    jobs: dict[str, list[Any]] = {"job": ["a"], "submit_s": [0], "duration_s": [500], "gpu": [1]}
    cluster = [{"name": "n", "gpu": 1}]
    scenario = data(cluster, checkpoint="100s", costs={"checkpoint": "10s", "restart": "60s"})
    assert ends(played(scenario, jobs))["a"] == 500 + 4 * 10
    record = played({**scenario, "faults": {"planned": faults}}, jobs)
    assert ends(record)["a"] == 400 + 60 + 300 + 2 * 10
    assert stays(record, "a")[0].lost_s == 250 - 200 - 2 * 10


def test_pods_that_run_each_for_themselves_pay_too() -> None:
    [spec] = specs([job("a", 0, 300)], checkpoint_s=100)
    each = replace(spec, work=Work.EACH)
    run = simulation(nodes(1), costs=Costs(checkpoint=10, restart=60))
    run.timeline.at(150, Rank.NODES, run.cluster.take_pods, "default/a", 1)
    record = run.run([each])
    assert by_name(record)["a"].end == 150 + 60 + 200 + 10
    assert stays(record, "a")[0].lost_s == 150 - 100 - 10


@given(st.floats(0.5, 5000), st.floats(0, 300), st.floats(0, 60))
def test_what_work_needs_is_when_it_is_done(work: float, every: float, cost: float) -> None:
    costs = Costs(checkpoint=cost)
    needed = costs.needed(work, every)
    assert costs.done(needed, every) == pytest.approx(work)
    assert needed >= work
    assert costs.kept(needed, every) <= work * (1 + 1e-9)
    assert costs.done(needed * 0.7, every) <= work


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_speeds_of_a_job_add_up_to_its_work(seed: int) -> None:
    """Elastic jobs that come and go, shrink when a node fails, and grow again: no second is counted twice or lost."""
    stream = {
        "name": "e", "arrivals": {"every": "2m", "count": 30}, "gpu": 1, "pods": {"uniform": [1, 6]},
        "minAvailable": 1, "duration": {"lognormal": {"median": "10m", "p90": "30m"}},
    }  # fmt: skip
    scenario = data(
        [{"name": "a", "count": 2, "gpu": 4, "model": "A"}, {"name": "b", "count": 3, "gpu": 2, "model": "B"}],
        speed={"pods": {1: 1, 2: 1.8, 6: 4}, "models": {"B": 0.6}, "nodes": {1: 1, 3: 0.8}},
        workload={"generators": [stream]},
        faults={"nodes": {"every": "3h", "repair": "10m"}},
    )
    log = StringIO()
    read = pumice.read_scenario(scenario)
    record = _logged(read, seed, log)
    assert not record.partial
    assert all(one.outcome == "completed" for one in record.jobs)
    assert any(pod.outcome == "failed" for pod in record.pods)
    speeds: dict[str, list[tuple[float, float]]] = {}
    for at, key, speed in re.findall(r"^(\S+) speed (\S+) (\S+)$", log.getvalue(), re.MULTILINE):
        speeds.setdefault(key, []).append((float(at), float(speed)))
    whole = [one for one in record.jobs if not re.search(f"restart {one.key}\n", log.getvalue())]
    assert len(whole) > 15
    assert max(map(len, speeds.values())) > 2
    for one in whole:
        assert one.end is not None
        steps = [*speeds[one.key], (one.end, 0.0)]
        work = sum((after[0] - before[0]) * before[1] for before, after in pairwise(steps))
        assert work == pytest.approx(one.duration, rel=1e-3, abs=0.05), one.key


def _logged(read: pumice.SimScenario, seed: int, log: StringIO) -> RunRecord:
    [name] = read.configurations
    return decode(play(read, StudyRun(name, seed), keep=True, log=log).packed_record)


def half(gang: RunningGang) -> float:
    return 0.5 if gang.queue == "default" and gang.key == "default/e" and gang.whole == 6 else 1.0


def test_a_function_may_say_the_speed() -> None:
    read = pumice.read_scenario(data(MIXED), jobs=ELASTIC)
    assert ends(pumice.simulate(read.with_speed(half)).records()[0]) == {"e": 7200}
    [stopped] = pumice.simulate(read.with_speed(lambda gang: 0.0)).results.played.values()
    assert stopped.failure == "speed of job default/e: must be a number above 0, got 0.0"


def test_a_speed_of_one_plays_what_no_speed_plays() -> None:
    stream = {
        "name": "e",
        "arrivals": {"every": 60, "count": 40},
        "gpu": 2,
        "pods": {"uniform": [1, 3]},
        "duration": 900,
    }
    scenario = data([{"name": "n", "count": 2, "gpu": 8}], workload={"generators": [stream]}, checkpoint="5m")
    plain, same = (
        pumice.simulate({**scenario, **more}, seeds=2).records() for more in ({}, {"speed": {"models": {"X": 3}}})
    )
    assert [record.jobs for record in plain] == [record.jobs for record in same]
    assert [record.pods for record in plain] == [record.pods for record in same]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"speed": {"pods": "cubic"}}, "speed.pods: must be one of linear, got 'cubic'"),
        ({"speed": {"pods": {0: 1}}}, "speed.pods.0: must be a whole number of at least 1"),
        ({"speed": {"models": {"A": 0}}}, "speed.models.A: must be a number above 0"),
        ({"speed": {"nodes": {}}}, "speed.nodes: needs at least one count with its speed"),
        ({"speed": {"pod": "linear"}}, "did you mean 'pods'?"),
        ({"costs": {"restart": -1}}, "costs.restart: must be"),
    ],
)
def test_a_speed_that_is_none_is_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)):
        pumice.read_scenario(data(MIXED, **wrong), jobs=ELASTIC)


def test_a_model_without_a_speed_has_speed_one() -> None:
    gang = RunningGang("a/b", "q", 2, 2, ("X", "Y"), ("n", "m"))
    assert SpeedTable(models={"X": 4.0})(gang) == 1.0
