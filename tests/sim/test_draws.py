"""Common random numbers: what is drawn for a thing does not depend on anything else that is drawn."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pumice
from pumice.errors import InvalidInput
from pumice.sim.cluster import Delays
from pumice.sim.draws import (
    Constant,
    Empirical,
    Exponential,
    Gamma,
    Lognormal,
    Pareto,
    Uniform,
    Weibull,
    WeightedChoice,
    stream,
    uniform_of,
)  # fmt: skip
from pumice.sim.faults import Faults
from pumice.sim.traces import TraceJob
from pumice.sim.workload import Arrivals, Generator, Shake
from sim.worlds import job, nodes, simulation, specs

DAILY = (1.0, 4.0, 2.0, 0.0, 6.0, 3.0)
BASE = Generator(
    name="g",
    arrivals=Arrivals(every_s=600, count=300),
    duration=Lognormal(600, 3600),
    pods=WeightedChoice((1, 2, 4), (3, 2, 1)),
    gpu=WeightedChoice((1, 8), (3, 1)),
    users=7,
)


def drawn(generator: Generator, seed: int = 1) -> list[tuple[object, ...]]:
    """All of the jobs but when they arrive."""
    return [(j.name, j.duration_s, j.pods, j.user, j.min_available) for j in generator.jobs(seed)]


@pytest.mark.parametrize(
    "arrivals",
    [
        Arrivals(every_s=500, count=300),
        Arrivals(every_s=600, count=300, daily=DAILY),
        Arrivals(every_s=500, count=300, daily=DAILY),
        Arrivals(every_s=600, count=300, process="regular"),
        Arrivals(every_s=600, count=300, start_s=5000),
    ],
    ids=["another load", "a pattern of the day", "both", "regular", "another start"],
)
def test_another_load_or_pattern_moves_the_jobs_and_changes_none(arrivals: Arrivals) -> None:
    assert drawn(replace(BASE, arrivals=arrivals)) == drawn(BASE)


@pytest.mark.parametrize("field", ["duration", "pods", "gpu"])
def test_a_quantity_that_is_drawn_otherwise_leaves_the_others_as_they_were(field: str) -> None:
    other = list(replace(BASE, **cast("Any", {field: Uniform(2, 9)})).jobs(1))
    for before, after in zip(BASE.jobs(1), other, strict=True):
        assert before.submit_s == after.submit_s
        assert field == "duration" or before.duration_s == after.duration_s
        assert field == "pods" or before.tasks == after.tasks
        assert field == "gpu" or before.pods[0].gpu_devices == after.pods[0].gpu_devices
        assert before.user == after.user


def test_seeds_and_names_give_different_jobs_and_the_same_ones_the_same() -> None:
    assert drawn(BASE, 1) == drawn(BASE, 1) != drawn(BASE, 2)
    assert [row[1] for row in drawn(BASE)] != [row[1] for row in drawn(replace(BASE, name="h"))]


@given(st.floats(60, 7200), st.floats(0, 2e5), st.integers(0, 1000))
def test_arrivals_of_a_day_follow_its_weights_and_keep_their_mean(every: float, start: float, seed: int) -> None:
    arrivals = Arrivals(every_s=every, count=50, daily=DAILY, start_s=start)
    times = list(arrivals.times(stream(seed)))
    assert times == sorted(times)
    assert all(time >= round(start) for time in times)
    part = 86_400 / len(DAILY)
    assert not [time for time in times if 3 * part + 1 < time % 86_400 < 4 * part - 1], "nobody arrives at weight 0"


def test_weights_of_the_day_are_those_of_the_arrivals() -> None:
    arrivals = Arrivals(every_s=60, until_s=60 * 86_400, daily=DAILY)
    counts = [0] * len(DAILY)
    for time in arrivals.times(stream(5)):
        counts[int(time % 86_400 // (86_400 / len(DAILY)))] += 1
    total = sum(counts)
    assert total == pytest.approx(arrivals.expected, rel=0.02)
    assert [count / total for count in counts] == pytest.approx([w / sum(DAILY) for w in DAILY], abs=0.01)


def refused(objects: int, seed: int = 3) -> list[str]:
    """The pods whose first bind fails on a cluster of so many nodes."""
    log = StringIO()
    jobs = specs([job(f"j{n}", n % 7, 30, pods=1 + n % 3) for n in range(40)])
    simulation(nodes(objects, cpu=8), delays=Delays(bind_failures=0.2), log=log, seed=seed).run(jobs)
    seen: dict[str, bool] = {}
    for line in log.getvalue().splitlines():
        words = line.split()
        if words[1] == "bind" and words[2] not in seen:
            seen[words[2]] = words[-1] == "fails"
    return sorted(pod for pod, fails in seen.items() if fails)


def test_the_same_binds_are_refused_whatever_the_scheduler_does_before() -> None:
    assert refused(1) == refused(12) != []
    assert refused(1) != refused(1, seed=4)


def test_a_pod_fails_at_the_same_age_whatever_other_pods_were_created_before() -> None:
    def failures(count: int) -> list[float]:
        log = StringIO()
        jobs = specs([*(job(f"a{n}", 0, 10) for n in range(count)), job("z", 20, 100_000)])
        simulation(nodes(4), faults=Faults(pods_every_s=30_000), log=log, seed=2).run(jobs)
        return [
            float(line.split()[0]) for line in log.getvalue().splitlines() if line.endswith("fail default/z-task-0")
        ]

    assert failures(1) == failures(9) != []


def test_every_distribution_can_be_pickled_and_gives_the_same_again() -> None:
    for draw in (Constant(3), Uniform(1, 2), Exponential(5), Lognormal(60, 600), WeightedChoice((1, 2), (1, 3)),
                 Weibull(9, 0.5), Gamma(9, 2), Pareto(9, 2), Empirical((1, 2, 9))):  # fmt: skip
        again = pickle.loads(pickle.dumps(draw))
        assert again == draw
        assert again(stream(1, "x")) == draw(stream(1, "x"))


@given(st.integers(0, 10**9), st.text(max_size=20))
def test_a_uniform_draw_lies_below_one_and_depends_on_seed_and_name(seed: int, name: str) -> None:
    value = uniform_of(seed, name)
    assert 0 <= value < 1
    assert value != uniform_of(seed + 1, name)
    assert value == uniform_of(seed, name)


# -- traces ---------------------------------------------------------------------------------------------------------
def weeks(count: int) -> Iterator[TraceJob]:
    for number in range(count * 70):
        yield job(f"t{number:04d}", number * 8640.0, 60)


def test_a_trace_that_is_shaken_moves_a_little_and_loses_a_little() -> None:
    trace = list(weeks(4))
    shaken = Shake().jobs(trace, 1)
    assert shaken == Shake().jobs(trace, 1) != Shake().jobs(trace, 2)
    assert [j.submit_s for j in shaken] == sorted(j.submit_s for j in shaken)
    before = {j.name: j.submit_s for j in trace}
    assert all(abs(j.submit_s - before[j.name]) <= 900 for j in shaken)
    assert len({round(j.submit_s - before[j.name]) for j in shaken}) > 100
    lost = sum(len(trace) - len(Shake().jobs(trace, seed)) for seed in range(50)) / 50 / len(trace)
    assert lost == pytest.approx(0.01, abs=0.003)
    assert Shake(jitter_s=0, drop=0).jobs(trace, 1) == trace


def test_weeks_are_drawn_anew_whole_and_every_job_has_a_name_of_its_own() -> None:
    trace = list(weeks(6))
    week = 7 * 86_400.0
    shaken = Shake(jitter_s=0, drop=0, block_s=week).jobs(trace, 3)
    assert len({j.name for j in shaken}) == len(shaken) == len(trace)
    sources = [{int(j.name[1:5]) // 70 for j in shaken if j.submit_s // week == place} for place in range(6)]
    assert all(len(source) == 1 for source in sources), "a week stays together"
    assert len({next(iter(source)) for source in sources}) < 6, "some come twice, others not"


def test_a_scenario_is_played_as_it_is_and_shaken_only_over_seeds(tmp_path: Path) -> None:
    from pumice.framework.registry import default_registry
    from pumice.scheduler.assembly import catalogue_of
    from pumice.sim.scenario import read_scenario

    rows = "".join(f"j{n},{n * 600},60\n" for n in range(200))
    (tmp_path / "t.csv").write_text(f"job,submit_s,duration_s\n{rows}")
    (tmp_path / "s.yaml").write_text(
        "cluster: {nodes: [{name: n, cpu: 8}]}\nworkload: {trace: {file: t.csv, shake: {jitter: 5m, drop: 0.1}}}\n"
    )
    scenario = read_scenario(tmp_path / "s.yaml", catalogue_of(default_registry()))
    assert [j.submit_s for j in scenario.workload()] == [j.submit_s for j in scenario.with_seed(9).workload()]
    assert scenario.is_drawn
    one, two = scenario.drawn(1), scenario.drawn(2)
    assert [j.submit_s for j in one.workload()] != [j.submit_s for j in two.workload()]
    assert [j.submit_s for j in one.workload()] == [j.submit_s for j in scenario.drawn(1).workload()]
    assert one.setting.notes[-1] == (
        "trace t.csv is shaken by the seed: submissions moved by up to 5 min, 10 % of jobs left out"
    )


@pytest.mark.parametrize(
    ("written", "draw", "mean", "half"),
    [
        ({"weibull": {"scale": "10m", "shape": 0.5}}, Weibull(600, 0.5), 1200, 600 * math.log(2) ** 2),
        ({"gamma": {"mean": "10m", "shape": 4}}, Gamma(600, 4), 600, 550.8),
        ({"pareto": {"least": "1m", "shape": 3}}, Pareto(60, 3), 90, 60 * 2 ** (1 / 3)),
        ({"empirical": ["1m", "10m", "2m"]}, Empirical((60, 120, 600)), 225, 120),
        ({"empirical": ["5m"]}, Empirical((300,)), 300, 300),
    ],
)
def test_a_distribution_has_its_mean_and_its_median(written: Any, draw: Any, mean: float, half: float) -> None:
    generator = {"name": "g", "arrivals": {"every": 1, "count": 1}, "duration": written}
    scenario = {"cluster": {"nodes": [{"name": "n", "cpu": 1}]}, "workload": {"generators": [generator]}}
    assert pumice.read_scenario(scenario).generators[0].duration == draw
    drawn = sorted(draw(stream(1, "x", number)) for number in range(20_000))
    assert math.fsum(drawn) / len(drawn) == pytest.approx(mean, rel=0.06)
    assert drawn[10_000] == pytest.approx(half, rel=0.06)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"weibull": {"scale": "10m"}}, "needs the key 'shape'"),
        ({"gamma": {"mean": "10m", "shape": 0}}, "shape: must be a number above 0"),
        ({"pareto": {"least": 0, "shape": 2}}, "must be a number above 0"),
        ({"empirical": []}, "needs at least one value"),
    ],
)
def test_a_distribution_that_is_none_is_named(written: Any, said: str) -> None:
    generator = {"name": "g", "arrivals": {"every": 1, "count": 1}, "duration": written}
    scenario = {"cluster": {"nodes": [{"name": "n", "cpu": 1}]}, "workload": {"generators": [generator]}}
    with pytest.raises(InvalidInput, match=said):
        pumice.read_scenario(scenario)
