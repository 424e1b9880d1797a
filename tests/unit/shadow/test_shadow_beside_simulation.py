"""A candidate beside a scheduler that runs: what it would do otherwise, and nothing where it would do the same."""

from __future__ import annotations

import pytest

from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.shadow.follower import beside_simulation
from pumice.shadow.report import Report
from pumice.sim.scenario import read_scenario

SCENARIO = """
name: day
cluster: {nodes: [{name: n, count: 4, cpu: 8, memory: 64Gi}]}
queues: [{name: a, weight: 6}, {name: b, weight: 1}]
workload:
  generators:
  - {name: big, queue: a, arrivals: {every: 15m, until: 100m}, duration: {uniform: [20m, 2h]}, pods: 3, cpu: 6}
  - {name: small, queue: b, arrivals: {every: 1m, until: 100m}, duration: {uniform: [5m, 30m]}, cpu: 2}
  - {name: urgent, queue: b, arrivals: {every: 20m, until: 100m}, duration: 5m, cpu: 7, priority: 1000}
configurations:
  plain: {actions: "enqueue, allocate", tiers: [{plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]}]}
  packed: {actions: "enqueue, allocate", tiers: [{plugins: [{name: gang}, {name: predicates}, {name: binpack}]}]}
  fair: {actions: "enqueue, allocate, reclaim, backfill",
         tiers: [{plugins: [{name: gang}, {name: proportion}, {name: predicates}, {name: binpack}]}]}
  evicting: {actions: "enqueue, allocate, preempt, backfill",
             tiers: [{plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: predicates}]}]}
  closed: {actions: "enqueue, allocate",
           tiers: [{plugins: [{name: gang}, {name: predicates}, {name: overcommit}]}]}
"""


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    file = tmp_path_factory.mktemp("shadow") / "day.yaml"
    file.write_text(SCENARIO)
    registry = default_registry()
    scenario = read_scenario(file, catalogue_of(registry))

    def run(running: str, candidate: str) -> Report:
        return beside_simulation(scenario, running, assemble(scenario.configurations[candidate], registry), registry)

    return run


@pytest.mark.parametrize("conf", ["plain", pytest.param("fair", marks=pytest.mark.slow), "closed", "evicting"])
@pytest.mark.part(9)
def test_the_conf_that_runs_agrees_with_itself_in_everything(play, conf: str) -> None:  # type: ignore[no-untyped-def]
    report = play(conf, conf)
    assert report.total.jobs["same"] > 100
    assert report.agreement == 1.0, report.recent[:5]
    assert (report.total.evicted, report.total.would_evict) == (report.total.evicted_by_both, 0)
    assert report.waiting == []
    assert report.recent == []
    assert report.days[0].evictions == []
    assert (report.total.evicted > 0) == (conf == "evicting")


@pytest.mark.slow
def test_who_would_start_sooner_and_who_would_go_for_it(play) -> None:  # type: ignore[no-untyped-def]
    report = play("plain", "evicting")
    urgent = report.days[0].sooner[0]
    assert urgent.job.startswith("default/urgent-")
    assert urgent.seconds > 60
    assert "Insufficient cpu" in urgent.running_says
    assert report.total.jobs["sooner"] >= 5
    assert report.total.sooner_seconds >= urgent.seconds
    assert report.total.evicted == 0
    assert report.total.would_evict == sum(len(e.pods) for e in report.days[0].evictions) > 0
    assert {e.action for e in report.days[0].evictions} == {"preempt"}
    assert all(e.beneficiary.startswith("default/urgent-") for e in report.days[0].evictions)


@pytest.mark.slow
def test_who_would_wait_and_why(play) -> None:  # type: ignore[no-untyped-def]
    report = play("plain", "fair")
    later = report.days[0].later
    assert later
    assert "proportion" in later[0].candidate_says
    reverse = play("evicting", "plain")
    assert reverse.total.evicted > reverse.total.evicted_by_both == 0
    assert {e.by for e in reverse.days[0].evictions} == {"running"}


@pytest.mark.slow
def test_a_candidate_that_packs_puts_pods_on_other_nodes(play) -> None:  # type: ignore[no-untyped-def]
    report = play("plain", "packed")
    found = report.recent[0]
    assert report.total.jobs["elsewhere"] > 10
    assert found.verdict == "elsewhere"
    assert found.nodes != found.wished
    assert sum(found.nodes.values()) == found.pods
