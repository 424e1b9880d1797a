"""The policies of examples/research: short, on public names, and as their definitions have them."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pumice
from effort import examples
from pumice.sim.results.records import RunRecord

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "examples" / "research" / "policies"
FILES = sorted(POLICIES.glob("*.py"))
PROCESSORS = 16


def conf(*plugins: Any, actions: str = "allocate") -> dict[str, Any]:
    listed = [{"name": p} if isinstance(p, str) else p for p in (*plugins, "gang", "predicates")]
    return {"actions": actions, "tiers": [{"plugins": listed}]}


def played(scenario: dict[str, Any], policy: dict[str, Any], jobs: dict[str, list[Any]]) -> RunRecord:
    [record] = pumice.simulate(scenario, {"policy": policy}, jobs=jobs, plugins_dir=POLICIES).records()
    assert not record.partial, record.warnings
    return record


def starts(record: RunRecord) -> dict[str, float | None]:
    return {one.name: one.start for one in record.jobs}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_policy_is_short_and_needs_public_names_only(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    for statement in ast.walk(ast.parse(text)):
        if isinstance(statement, ast.Import):
            assert all(name.name in ("math", "numpy", "numpy.typing") for name in statement.names)
        if isinstance(statement, ast.ImportFrom):
            assert statement.module is not None
            if statement.module == "pumice":
                assert {name.name for name in statement.names} <= set(pumice.__all__)
            else:
                assert statement.module.partition(".")[0] in sys.stdlib_module_names


# -- one machine of interchangeable processors ------------------------------------------------------------------------
MACHINE = {
    "cluster": {"nodes": [{"name": "machine", "cpu": PROCESSORS, "memory": "1Ti", "pods": 1000}]},
    "cycles": {"settle": False},
}
logs = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 60), st.integers(1, PROCESSORS), st.sampled_from([0.5, 1, 1, 3])),
    min_size=2,
    max_size=25,
)
Log = list[tuple[int, int, int, float]]


def table(log: Log, *, exact: bool = False) -> dict[str, list[Any]]:
    """Jobs by distance, run time, processors and the factor of their estimate."""
    submits = [sum(step for step, *_ in log[: at + 1]) for at in range(len(log))]
    return {
        "job": [f"j{at:02d}" for at in range(len(log))],
        "submit_s": submits,
        "duration_s": [run for _, run, _, _ in log],
        "cpu": [size for _, _, size, _ in log],
        "declared_s": [run if exact else max(1, round(run * factor)) for _, run, _, factor in log],
    }


@settings(max_examples=examples(20))
@given(logs)
def test_easy_decides_as_the_action_that_is_checked_against_published_results(log: Log) -> None:
    """With exact, longer and shorter estimates: every job starts when `easybackfill` lets it start."""
    jobs = table(log)
    ours, action = (played(MACHINE, policy, jobs) for policy in (conf("easy"), conf(actions="easybackfill")))
    assert starts(ours) == starts(action)


@settings(max_examples=examples(20))
@given(logs)
def test_conservative_gives_every_job_the_earliest_place_that_delays_no_earlier_one(log: Log) -> None:
    """With exact estimates reservations never move: the schedule is a list of earliest fits, worked out slowly here."""
    jobs = table(log, exact=True)
    placed: list[tuple[float, float, int]] = []
    expected = {}
    for name, submit, run, size in zip(*(jobs[key] for key in ("job", "submit_s", "duration_s", "cpu")), strict=True):
        for start in sorted({submit, *(end for _, end, _ in placed if end > submit)}):
            moments = {start, *(begin for begin, _, _ in placed if start <= begin < start + run)}
            used = max(sum(s for begin, end, s in placed if begin <= moment < end) for moment in moments)
            if used + size <= PROCESSORS:
                break
        placed.append((start, start + run, size))
        expected[name] = float(start)
    assert starts(played(MACHINE, conf("conservative"), jobs)) == expected


@settings(max_examples=examples(20))
@given(logs)
def test_conservative_leaves_no_job_behind_whatever_is_declared(log: Log) -> None:
    record = played(MACHINE, conf("conservative"), table(log))
    assert all(one.outcome == "completed" for one in record.jobs)


def test_conservative_refuses_what_easy_lets_pass() -> None:
    """a runs and b has a reservation at 100. d would leave room for b, and delay c, the second that waits."""
    jobs: dict[str, list[Any]] = {
        "job": ["a", "b", "c", "d"], "submit_s": [0, 1, 2, 3], "duration_s": [100, 100, 50, 300],
        "cpu": [10, 8, 12, 6], "declared_s": [100, 100, 50, 300],
    }  # fmt: skip
    easy, conservative = (starts(played(MACHINE, conf(name), jobs)) for name in ("easy", "conservative"))
    assert easy == {"a": 0, "b": 100, "c": 303, "d": 3}
    assert conservative == {"a": 0, "b": 100, "c": 200, "d": 250}


@settings(max_examples=examples(20))
@given(logs)
def test_shortest_decides_as_the_plugin_that_is_checked_against_published_results(log: Log) -> None:
    ours, plugin = (played(MACHINE, conf(name), table(log)) for name in ("shortest", "sjf"))
    assert starts(ours) == starts(plugin)


# -- many resources --------------------------------------------------------------------------------------------------
def test_dominant_shares_are_those_of_the_papers_example() -> None:
    """9 CPUs and 18 GB; tasks of <1 CPU, 4 GB> and of <3 CPU, 1 GB>: three of one and two of the other run."""
    scenario = {
        "cluster": {"nodes": [{"name": "n", "cpu": 9, "memory": "18Gi"}]},
        "queues": [{"name": "a"}, {"name": "b"}],
    }
    jobs: dict[str, list[Any]] = {
        "job": [f"{queue}{n}" for queue in "ab" for n in range(5)], "submit_s": [0] * 10, "duration_s": [60] * 10,
        "cpu": [1] * 5 + [3] * 5, "memory": ["4Gi"] * 5 + ["1Gi"] * 5, "queue": ["a"] * 5 + ["b"] * 5,
    }  # fmt: skip
    first, without = (
        [one.name for one in played(scenario, policy, jobs).jobs if one.start == 0]
        for policy in (conf("dominant-share"), conf())
    )
    assert first == ["a0", "a1", "a2", "b0", "b1"]
    assert without == ["a0", "a1", "a2", "a3", "b0"]


shapes = st.sampled_from(
    [(2000, 1, 0.25), (2000, 1, 0.5), (4000, 1, 1.0), (8000, 2, 1.0), (1000, 0, 1.0), (6000, 1, 0.7)]
)


@settings(max_examples=examples(20))
@given(st.lists(shapes, min_size=1, max_size=12), st.lists(st.integers(1, 4), min_size=2, max_size=4))
def test_fragmentation_places_as_the_plugin_that_is_checked_against_published_results(
    tasks: list[tuple[int, int, float]], gpus: list[int]
) -> None:
    typical = ["2000/250/1//3", "4000/1000/1//4", "8000/1000/2//2", "6000/700/1//1", "1000/0/0//2"]
    jobs: dict[str, list[Any]] = {
        "job": [f"j{n:02d}" for n in range(len(tasks))],
        "submit_s": list(range(len(tasks))),
        "duration_s": [1e6] * len(tasks),
        "cpu": [f"{cpu}m" for cpu, _, _ in tasks],
        "gpu": [devices for _, devices, _ in tasks],
        "gpu_fraction": [part if devices else "" for _, devices, part in tasks],
    }
    nodes = [{"name": f"n{n}", "cpu": 16, "memory": "1Ti", "gpu": count} for n, count in enumerate(gpus)]
    placed = []
    for name in ("fragmentation", "fgd"):
        policy = conf({"name": name, "arguments": {"typical": typical}})
        record = played({"cluster": {"nodes": nodes}, "horizon": 100}, policy, jobs)
        placed.append([(pod.name, pod.node) for pod in record.pods])
    assert placed[0] == placed[1]


# -- elastic jobs ----------------------------------------------------------------------------------------------------
def test_elastic_jobs_make_room_for_one_that_waits_and_grow_again() -> None:
    """Both could use all four GPUs. The first gives two away, and has them back when the second is done."""
    scenario = {
        "cluster": {"nodes": [{"name": "n", "cpu": 8, "memory": "64Gi", "gpu": 4}]},
        "speed": {"pods": "linear"},
    }
    jobs: dict[str, list[Any]] = {
        "job": ["first", "second"], "submit_s": [0, 100], "duration_s": [600, 300], "tasks": [4, 2],
        "min_available": [1, 2], "gpu": [1, 1],
    }  # fmt: skip
    gang = {"name": "gang", "enablePreemptable": False}
    policy = {
        "actions": "enqueue, allocate, preempt",
        "tiers": [{"plugins": [{"name": "elastic-share"}, gang, {"name": "predicates"}]}],
    }
    record = played(scenario, policy, jobs)
    assert len(record.evictions) == 2
    second = next(one for one in record.jobs if one.name == "second")
    assert (second.start, second.end) == (101, 401)
    first = next(one for one in record.jobs if one.name == "first")
    assert first.end == pytest.approx(100 + 1 + 300 + (600 - 100 - 0.5 * 301), abs=2)
    rigid = played(scenario, conf(), {**jobs, "min_available": [4, 2]})
    assert next(one for one in rigid.jobs if one.name == "second").start == 600
