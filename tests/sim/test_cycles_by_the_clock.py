"""`cycles: {every: 60s}`: time alone wakes the scheduler, and policies that read it without that are warned of."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from pumice import Plugin, Session
from pumice.framework.registry import Registry, default_registry
from pumice.sim.results.records import RunRecord
from pumice.sim.run import MOST_STILL_S
from pumice.sim.traces import TraceJob, TracePod
from sim.worlds import by_name, job, nodes, simulation, specs

POLICIES = Path(__file__).parents[2] / "examples" / "research" / "policies"
LAS: dict[str, Any] = {
    "actions": "enqueue, allocate, preempt",
    "tiers": [{"plugins": [{"name": "las"}, {"name": "gang", "enablePreemptable": False}, {"name": "predicates"}]}],
}


class Late(Plugin):
    """Lets jobs start from the hour on."""

    name = "late"

    def job_valid(self, job: Any) -> bool:
        return bool(self.open_since >= 3600)

    def on_session_open(self, ssn: Session) -> None:
        self.open_since = next(ssn.now for _ in range(1))  # in a generator: its code is looked at too


class Plain(Plugin):
    """Reads no clock."""

    name = "plain"

    def on_session_open(self, ssn: Session) -> None:
        self.later = ssn.jobs


@pytest.fixture(scope="module")
def registry() -> Registry:
    found = default_registry().copy()
    found.load_directory(POLICIES)
    found.register("late", Late)
    found.register("plain", Plain)
    return found


def of(plugin: str) -> dict[str, Any]:
    return {"actions": "allocate", "tiers": [{"plugins": [{"name": plugin}, {"name": "gang"}, {"name": "predicates"}]}]}


def las(registry: Registry, **setting: Any) -> RunRecord:
    """A job of ten hours on all GPUs, and one of ten minutes that comes a minute later."""
    pods = (TracePod(1, gpu_milli=1000, gpu_devices=8),)
    jobs = [TraceJob("long", 0, 36_000, pods, 1), TraceJob("short", 100, 600, pods, 1)]
    return simulation(nodes(1, gpus=8), conf=LAS, registry=registry, **setting).run(specs(jobs, checkpoint_s=60.0))


def test_a_policy_of_service_preempts_when_its_time_comes(registry: Registry) -> None:
    """8 GPUs reach an hour of service after 450 s; the first cycle by the clock after that preempts."""
    record = las(registry, every_s=60.0)
    assert [one.time for one in record.evictions] == [480.0]
    assert by_name(record)["short"].start == 481.0
    assert record.warnings == ()


def test_without_cycles_by_the_clock_it_comes_too_late_and_a_warning_says_so(registry: Registry) -> None:
    record = las(registry, name="mine")
    assert record.evictions == ()
    assert by_name(record)["short"].start == 36_000.0
    [warning] = record.warnings
    assert warning.startswith("las of mine reads the time")
    assert "cycles: {every: 60s}" in warning


@pytest.mark.parametrize(("plugin", "warned"), [("late", True), ("plain", False), ("sla", True), ("priority", False)])
def test_policies_that_read_the_time_are_known(registry: Registry, plugin: str, warned: bool) -> None:
    record = simulation(nodes(1), conf=of(plugin), registry=registry).run(specs([job("a", 0, 10)]))
    assert any("reads the time" in text for text in record.warnings) is warned


def test_time_opens_what_no_event_would(registry: Registry) -> None:
    log = StringIO()
    run = simulation(nodes(1), conf=of("late"), registry=registry, every_s=600.0, log=log)
    record = run.run(specs([job("a", 100, 50)]))
    assert by_name(record)["a"].start == 3600.0
    assert run.cycles < 12, "no cycle by the clock without a job"


def test_a_job_that_waits_in_vain_does_not_keep_the_clock_going_for_ever(registry: Registry) -> None:
    run = simulation(nodes(1, cpu=1), conf=of("plain"), registry=registry, every_s=3600.0)
    record = run.run(specs([job("a", 0, 50), job("big", 10, 50, cpu=4)]))
    assert by_name(record)["big"].outcome == "pending"
    assert MOST_STILL_S <= record.horizon <= MOST_STILL_S + 2 * 3600


def test_cycles_by_the_clock_change_nothing_for_a_policy_that_reads_none(registry: Registry) -> None:
    jobs = [job(f"j{n}", 37.0 * n, 500.0 - 40 * n, cpu=3) for n in range(12)]
    runs = [simulation(nodes(1), every_s=every).run(specs(jobs)) for every in (0.0, 60.0)]
    assert runs[0].jobs == runs[1].jobs
