"""Jobs for which the whole cluster would be too small are named, with the place where they were written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.faults import Faults, PlannedFault
from pumice.sim.fit import Room
from pumice.sim.parts import node
from pumice.sim.run import Simulation
from pumice.sim.scenario import read_scenario
from pumice.sim.traces import TraceJob, TracePod
from pumice.sim.workload import TraceJobs
from sim.worlds import job, nodes, simulation, specs

GIB = 1 << 30


def objection(made: TraceJob, *, of: Room) -> str:
    """What a room says of a job."""
    return of.objection(TraceJobs().job(made))


def gpu_job(*pods: TracePod, least: int | None = None) -> TraceJob:
    return TraceJob("j", 0.0, 1.0, pods, least or sum(pod.count for pod in pods))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (job("j", 0, 1, cpu=9), "a pod asks for 9 of cpu, the largest node has 8"),
        (gpu_job(TracePod(1, 0, 65 * GIB)), "a pod asks for 65Gi of memory, the largest node has 64Gi"),
        (gpu_job(TracePod(1, 6000, 0, 1000, 2)), "asks for 6 of cpu, 2 of nvidia.com/gpu, which no node has together"),
        (job("j", 0, 1, pods=5, cpu=5), "it needs 5 pods together, the empty cluster has room for 2"),
        (job("j", 0, 1, pods=5, cpu=5, least=2), ""),
        (gpu_job(TracePod(1, 0, 0, 500, 5)), "asks for 2.5 of GPU, the largest node has 2"),
        (gpu_job(TracePod(2, 4000), TracePod(2, 8000)), "its 4 pods ask for 24 of cpu together, the cluster has 20"),
        (
            gpu_job(TracePod(1, 8000), TracePod(3, 8000)),
            "it needs 3 pods of role task1 together, the empty cluster has room for 2",
        ),
        (job("j", 0, 1, pods=2, cpu=8), ""),
    ],
)
def test_the_first_thing_that_is_too_small_is_said(made: TraceJob, said: str) -> None:
    room = Room([*nodes(2, cpu=8), node("g", "4", "64Gi", 2)])
    found = objection(made, of=room)
    assert found.endswith(said)
    assert bool(found) == bool(said)


@settings(deadline=None, max_examples=examples(40))
@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 12), st.integers(1, 12))
def test_a_gang_is_refused_exactly_if_it_does_not_run_on_an_empty_cluster(
    machines: int, cpu: int, each: int, pods: int
) -> None:
    record = simulation(nodes(machines, cpu=cpu)).run(specs([job("j", 0, 5, pods=pods, cpu=each)]))
    (ran,) = record.jobs
    assert (ran.outcome == "completed") == (not record.warnings)


def test_nodes_that_fail_for_a_while_or_join_later_count() -> None:
    big = node("big", "64", "64Gi")
    faults = Faults(
        (PlannedFault(5, "fail", ("big",), 20), PlannedFault(30, "join", (), objects=(node("x", "99", "1"),)))
    )
    run = simulation([*nodes(1), big], faults=faults)
    record = run.run(specs([job("waits", 10, 5, cpu=64), job("later", 12, 5, cpu=99)]))
    assert run.never_fit == []
    assert {j.outcome for j in record.jobs} == {"completed"}


def test_the_message_names_the_line_of_the_manifest_the_generator_and_the_trace(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "cluster: {nodes: [{name: n, cpu: 8, memory: 64Gi}]}\n"
        "workload:\n"
        "  manifests: [jobs.yaml]\n"
        "  generators:\n"
        "  - {name: fine, arrivals: {every: 1m, count: 1}, duration: 1m, cpu: 1}\n"
        "  - {name: drawn, arrivals: {every: 1m, count: 1}, duration: 1m, cpu: 9}\n"
        "  trace: {file: jobs.csv}\n"
    )
    pod = "{spec: {containers: [{name: c, resources: {requests: {cpu: %d}}}]}}"
    document = "{apiVersion: batch/v1, kind: Job, metadata: {name: %s}, spec: {template: " + pod + "}}"
    (tmp_path / "jobs.yaml").write_text(
        "kind: List\nitems:\n" + "- " + document % ("small", 1) + "\n- " + document % ("written", 10) + "\n"
    )
    (tmp_path / "jobs.csv").write_text("job,submit_s,duration_s,cpu\n# a comment\nlittle,0,1,1\ntraced,5,1,11\n")
    registry = default_registry()
    scenario = read_scenario(tmp_path / "s.yaml", catalogue_of(registry))
    run = Simulation(scenario.setting_of("default"), assemble(scenario.configurations["default"], registry))
    run.run(scenario.workload())
    assert sorted(text.partition(" can never fit: ")[0] for text in run.never_fit) == [
        f"{tmp_path}/jobs.csv:4: job default/traced",
        f"{tmp_path}/jobs.yaml:4: job default/written",
        f"{tmp_path}/s.yaml:6: job default/drawn-00000",
    ]
