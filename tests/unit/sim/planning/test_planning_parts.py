"""The parts of a plan: the formula against textbook values, bisection against looking everywhere, changed scenarios."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.errors import InvalidInput
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.planning import smallest
from pumice.sim.planning.formula import Waits, demanded, erlang_c
from pumice.sim.planning.variants import NodeFailure, Variant, groups_of, nodes_of, units_of, with_nodes
from pumice.sim.scenario import SimScenario, read_scenario

CATALOGUE = catalogue_of(default_registry())
TEXT = """\
cluster:
  nodes: [{name: cpu, cpu: 8}, {name: a100, count: %d, gpu: 8, labels: {zone: a}}, {name: b, count: 2, gpu: 4}]
workload:
  generators:
  - {name: g, arrivals: {every: 100s, count: 400}, duration: {exponential: 500s}, gpu: 1}
"""


def scenario(path: Path, count: int = 3, more: str = "") -> SimScenario:
    (path / "s.yaml").write_text(TEXT % count + more)
    return read_scenario(path / "s.yaml", CATALOGUE)


# -- the formula ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("servers", "offered", "waits"), [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (3, 2.0, 4 / 9), (2, 2.5, 1.0)]
)
def test_erlangs_formula_agrees_with_the_textbook(servers: int, offered: float, waits: float) -> None:
    assert erlang_c(servers, offered) == pytest.approx(waits)


@given(st.integers(1, 60), st.floats(0.01, 0.99))
def test_erlangs_formula_agrees_with_its_sum(servers: int, load: float) -> None:
    offered = servers * load
    last = offered**servers / math.factorial(servers) / (1 - load)
    assert erlang_c(servers, offered) == pytest.approx(
        last / (sum(offered**k / math.factorial(k) for k in range(servers)) + last)
    )


def test_figures_of_the_formula_are_those_of_an_exponential_wait() -> None:
    waits = Waits(0.5, 0.01, 1.0)
    assert waits.figure("wait.mean") == pytest.approx(50)
    assert waits.figure("wait.p95") == pytest.approx(100 * math.log(10))
    assert waits.figure("wait.p50") == 0
    assert waits.figure("utilisation.gpu") is None


def test_a_workload_is_measured_as_it_was_drawn(tmp_path: Path) -> None:
    read = scenario(tmp_path)
    found = demanded([list(read.drawn(seed).workload()) for seed in range(1, 6)], gpus=True)
    assert found is not None
    assert (found.size, found.resource) == (1, "gpu")
    assert 1 / found.per_second == pytest.approx(100, rel=0.1)
    assert found.service_s == pytest.approx(500, rel=0.1)
    assert (found.variation_between, found.variation_of_service) == (
        pytest.approx(1, abs=0.2),
        pytest.approx(1, abs=0.25),
    )
    assert found.waits(4) is None
    assert demanded([[]], gpus=True) is None


# -- bisection ------------------------------------------------------------------------------------------------------
@given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 100), st.integers(-5, 130))
def test_where_more_is_better_the_answer_is_that_of_looking_everywhere(a: int, b: int, start: int, least: int) -> None:
    low, high = min(a, b), max(a, b)
    found = smallest(lambda n: n >= least, low, high, start)
    assert found.answer == next((n for n in range(low, high + 1) if n >= least), None)
    assert found.broken == ()
    assert len(found.tried) <= 18


@given(st.sets(st.integers(1, 30)), st.integers(1, 30))
def test_whatever_meets_the_answer_and_its_neighbour_above_do_and_what_contradicts_is_said(
    good: set[int], start: int
) -> None:
    found = smallest(lambda n: n in good, 1, 30, start)
    if found.answer is not None:
        assert {n for n in found.tried if n >= found.answer} <= good
        assert found.answer == 30 or found.answer + 1 in found.tried
    for fewer, more in found.broken:
        assert fewer in good
        assert more not in good


def test_a_hole_above_the_first_that_meets_is_found_and_said() -> None:
    found = smallest(lambda n: n == 5 or n >= 9, 1, 16, 16)
    assert found.answer == 9 or found.broken


# -- changed scenarios ----------------------------------------------------------------------------------------------
def test_another_number_of_nodes_is_what_the_file_would_give(tmp_path: Path) -> None:
    for count in (1, 2, 12):
        assert (
            with_nodes(scenario(tmp_path, 3), "a100", count).setting.objects
            == scenario(tmp_path, count).setting.objects
        )
    assert groups_of(scenario(tmp_path)) == {"cpu": 1, "a100": 3, "b": 2}
    assert units_of(scenario(tmp_path), gpus=True) == 32


def test_more_load_keeps_the_jobs_and_brings_them_sooner(tmp_path: Path) -> None:
    before = list(scenario(tmp_path).drawn(1).workload())
    after = list(scenario(tmp_path).with_load(2.0).drawn(1).workload())
    assert len(after) == 2 * len(before)
    assert [job.run_s for job in after[:400]] == [job.run_s for job in before]
    assert after[399].submit_s == pytest.approx(before[399].submit_s / 2, abs=1)


def test_who_fails_is_drawn_by_the_seed_and_only_of_its_group(tmp_path: Path) -> None:
    read = scenario(tmp_path, 9)
    failure = NodeFailure(4, "a100", 60.0)
    drawn = [failure.nodes(read, seed) for seed in range(20)]
    assert drawn == [failure.nodes(read, seed) for seed in range(20)]
    assert len(set(drawn)) > 10
    assert all(len(set(nodes)) == 4 and all(node.startswith("a100-") for node in nodes) for nodes in drawn)
    [planned] = Variant(failure=failure).of(read, 3).setting.faults.planned
    assert (planned.nodes, planned.time) == (drawn[3], 60.0)
    with pytest.raises(InvalidInput, match="has 9 nodes, so 10 cannot fail"):
        NodeFailure(10, "a100", 1.0).nodes(read, 0)


def test_what_cannot_be_changed_is_refused_with_what_is_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="did you mean 'a100'"):
        nodes_of(scenario(tmp_path), "a10")
    planned = "faults: {planned: [{at: 1h, fail: [a100-1]}]}\n"
    with pytest.raises(InvalidInput, match="a planned fault names a100-1"):
        with_nodes(scenario(tmp_path, 3, planned), "a100", 5)
