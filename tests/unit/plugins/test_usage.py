"""usage: measured load keeps tasks away and orders nodes; what is not measured yet is estimated."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import force_setattr

from pumice.config import from_data
from pumice.errors import InvalidInput
from pumice.framework.plugin import Arguments
from pumice.framework.registry import default_registry
from pumice.model.api import PodStatus
from pumice.plugins.usage import Estimator, Usage
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.testing import Scenario

REGISTRY = default_registry()
NOW = 1_700_000_000.0


def decide(
    scenario: Scenario,
    usage: Mapping[str, tuple[float, float]],
    *,
    age: float = 0.0,
    compat: str | None = None,
    **arguments: Any,
) -> CycleReport:
    """One cycle with these measurements (cpu and memory in percent), made *age* seconds ago."""
    entry = {"name": "usage", "arguments": {key.replace("_", ".", 1): value for key, value in arguments.items()}}
    conf = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, entry]}]}
    assembly = assemble(from_data(conf, catalogue_of(REGISTRY), source="test").conf, REGISTRY, compat)
    scenario.state.now = NOW
    measured = {name: {"cpu": cpu, "memory": memory} for name, (cpu, memory) in usage.items()}
    environment = {"node_usage": measured, "usage_time": NOW - age}
    report = run_cycle(scenario.state, assembly, scenario.runtime, environment=environment)
    assert report.errors == []
    return report


def where(report: CycleReport) -> list[str]:
    return [node for _, node in sorted(report.binds.items())]


@pytest.fixture
def two(scenario: Scenario) -> Scenario:
    return scenario.node("n1", cpu=10, memory="10Gi").node("n2", cpu=10, memory="10Gi")


def test_the_node_of_less_load_is_taken(two: Scenario) -> None:
    two.job("j", cpu=1)
    assert where(decide(two, {"n1": (50, 50), "n2": (10, 10)})) == ["n2"]


def test_weights_say_which_load_matters(two: Scenario) -> None:
    two.job("j", cpu=1)
    assert where(decide(two, {"n1": (10, 60), "n2": (50, 10)}, cpu_weight=5)) == ["n1"]


@pytest.mark.parametrize(("cpu", "memory", "found"), [(80, 80, ["n1"]), (80.1, 0, []), (0, 80.1, [])])
def test_a_node_above_a_threshold_takes_nothing(
    scenario: Scenario, cpu: float, memory: float, found: list[str]
) -> None:
    scenario.node("n1", cpu=10).job("j", cpu=1)
    assert where(decide(scenario, {"n1": (cpu, memory)})) == found


def test_thresholds_can_be_set(scenario: Scenario) -> None:
    scenario.node("n1", cpu=10).job("j", cpu=1)
    assert where(decide(scenario, {"n1": (40, 0)}, thresholds={"cpu": 30})) == []


def test_an_old_measurement_does_not_count(two: Scenario) -> None:
    two.job("j", cpu=1)
    assert where(decide(two, {"n1": (99, 99), "n2": (99, 99)}, age=301)) == ["n1"]


def test_what_was_placed_a_moment_ago_counts_as_load(two: Scenario) -> None:
    """n2 is better by 10 points of cpu: two tasks of one core make up for that."""
    two.job("j", tasks=3, cpu=1, memory="0")
    assert where(decide(two, {"n1": (20, 20), "n2": (10, 20)})) == ["n2", "n2", "n1"]


@pytest.mark.parametrize(("seconds", "found"), [(10, "n2"), (40, "n1")])
def test_a_running_task_is_load_of_its_own_until_it_is_measured(two: Scenario, seconds: float, found: str) -> None:
    two.job("old", cpu=4, on="n1")
    task = two.task("old-0")
    force_setattr(task.pod, "status", PodStatus(phase="Running", start_time=datetime.fromtimestamp(NOW - seconds, UTC)))
    two.job("j", cpu=1)
    assert where(decide(two, {"n1": (10, 10), "n2": (20, 20)})) == [found]


def test_an_unmeasured_node_is_judged_by_what_its_pods_ask_for(two: Scenario) -> None:
    two.job("j", cpu=1)
    assert where(decide(two, {"n2": (50, 50)})) == ["n1"]


def test_in_compat_an_unmeasured_node_is_the_last_choice(two: Scenario) -> None:
    two.job("j", cpu=1)
    assert where(decide(two, {"n2": (70, 70)}, compat="volcano")) == ["n2"]


def test_estimates_rise_with_risk_and_stay_within_limits(scenario: Scenario) -> None:
    scenario.job("j", cpu=2, memory="1Gi").job("free", cpu=0)
    task = scenario.task("j-0")
    assert Estimator().of(task, 0.5) == pytest.approx((1400.0, 0.7 * 2**30))
    assert Estimator().of(task, 0.6) == pytest.approx((1680.0, 0.84 * 2**30))
    assert Estimator(request_ratio=3.0).of(task, 0.0) == (2000.0, 2.0**30)
    assert Estimator().of(scenario.task("free-0"), 0.7) == pytest.approx((300.0, 240 * 2**20))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"thresholds": {"cpu": 101}}, "usage: argument thresholds.cpu: must be from 0 to 100, got 101"),
        ({"thresholds": 3}, "usage: argument thresholds: must be a mapping, got 3"),
        ({"estimator": {"risk_factor": 0.5}}, "usage: argument estimator.risk_factor: must be from 1 to inf, got 0.5"),
        ({"estimator": {"request_ratio": "x"}}, "usage: argument estimator.request_ratio: must be a number, got 'x'"),
    ],
)
def test_arguments_that_make_no_sense_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        Usage(Arguments(arguments))


def test_a_reason_says_the_threshold_and_how_busy_a_node_is_in_steps(two: Scenario) -> None:
    two.node("n3").job("a", cpu=1)
    report = decide(two, {"n1": (81, 0), "n2": (99.9, 0), "n3": (10, 100)})
    assert report.refusals["default/a"].text == (
        "0/3 nodes are unavailable: 1 node(s) cpu usage is above the threshold of 80 %: 80 % or more, "
        "1 node(s) cpu usage is above the threshold of 80 %: 95 % or more, "
        "1 node(s) memory usage is above the threshold of 80 %: 100 % or more."
    )
