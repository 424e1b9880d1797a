"""Jobs on the embedded cluster: they start, run, end, are lost and come back."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO

import pytest

from pumice.framework.plugin import Plugin
from pumice.framework.registry import default_registry
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.task import Task
from pumice.sim.cluster import Delays
from pumice.sim.faults import Faults, PlannedFault
from pumice.sim.jobs import Work
from pumice.sim.parts import node
from pumice.workloads.vcjob import Reaction
from sim.worlds import by_name, job, nodes, simulation, specs, stays


def test_a_job_runs_for_its_duration_and_ends_before_the_next_of_that_second_starts() -> None:
    record = simulation(nodes(1, cpu=4)).run(specs([job("a", 0, 10, pods=4), job("b", 10, 5, pods=4)]))
    jobs = by_name(record)
    assert [(j.start, j.end, j.outcome) for j in jobs.values()] == [(0, 10, "completed"), (10, 15, "completed")]


def test_a_gang_waits_until_all_of_it_has_room() -> None:
    record = simulation(nodes(2, cpu=2)).run(specs([job("first", 0, 30, pods=3), job("gang", 1, 5, pods=4)]))
    assert by_name(record)["gang"].start == 30
    assert {p.start for p in stays(record, "gang")} == {30}


def test_an_elastic_job_ends_its_run_time_after_enough_pods_run() -> None:
    record = simulation(nodes(1, cpu=2)).run(specs([job("elastic", 0, 20, pods=5, least=2)]))
    assert by_name(record)["elastic"].end == 20


def test_pods_that_run_each_for_themselves_end_each_for_themselves() -> None:
    spec = replace(specs([job("each", 0, 10, pods=3, least=1)])[0], work=Work.EACH)
    record = simulation(nodes(1, cpu=2)).run([spec])
    assert [(p.start, p.end) for p in stays(record, "each")] == [(0, 10), (0, 10), (10, 20)]
    assert by_name(record)["each"].end == 20


def test_of_a_batch_job_only_so_many_pods_exist_at_a_time() -> None:
    spec = replace(specs([job("batch", 0, 10, pods=5, least=1)])[0], work=Work.EACH, parallelism=2)
    record = simulation(nodes(1, cpu=8)).run([spec])
    assert [p.start for p in stays(record, "batch")] == [0, 0, 10, 10, 20]


def test_an_endless_job_runs_to_the_horizon() -> None:
    record = simulation(nodes(1), horizon_s=100).run(specs([job("service", 0, math.inf)]))
    assert (by_name(record)["service"].outcome, record.horizon, record.partial) == ("running", 100, False)


def test_a_job_that_waits_at_the_end_says_why() -> None:
    record = simulation(nodes(3, cpu=2), horizon_s=50).run(
        specs([job("a", 0, 90, pods=3, cpu=2), job("b", 5, 9, cpu=2)])
    )
    waiting = by_name(record)["b"]
    assert waiting.outcome == "pending"
    assert [(r.text, r.nodes) for r in waiting.reasons] == [("Insufficient cpu", 3)]


def test_bind_and_start_take_the_time_they_are_given() -> None:
    record = simulation(nodes(1), delays=Delays(bind=3, start=7)).run(specs([job("a", 0, 10)]))
    assert (by_name(record)["a"].start, by_name(record)["a"].end) == (10, 20)


def test_a_bind_that_fails_is_tried_again() -> None:
    log = StringIO()
    run = simulation(nodes(2), delays=Delays(bind_failures=0.5), seed=3, log=log)
    record = run.run(specs([job(f"j{n}", n, 5) for n in range(20)]))
    assert {j.outcome for j in record.jobs} == {"completed"}
    assert log.getvalue().count("fails") > 3


def test_a_gang_falls_with_its_node_and_begins_again() -> None:
    faults = Faults((PlannedFault(10, "fail", ("n0",), for_s=100),))
    record = simulation(nodes(3, cpu=2), faults=faults).run(specs([job("gang", 0, 60, pods=4)]))
    assert [(p.outcome, p.lost_s) for p in stays(record, "gang")[:4]] == [
        ("failed", 10), ("failed", 10), ("restarted", 10), ("restarted", 10),
    ]  # fmt: skip
    assert by_name(record)["gang"].end == 70
    assert [(n.name, n.since, n.until) for n in record.nodes if n.name == "n0"] == [("n0", 0, 10)]


def test_a_checkpoint_saves_work() -> None:
    faults = Faults((PlannedFault(25, "fail", ("n0",), for_s=1),))
    work = specs([job("gang", 0, 60)], checkpoint_s=10)
    record = simulation(nodes(1), faults=faults).run(work)
    assert by_name(record)["gang"].end == 26 + 40
    assert [p.lost_s for p in stays(record, "gang")] == [5, 0]


def test_a_drained_node_takes_nothing_until_it_returns() -> None:
    faults = Faults((PlannedFault(10, "drain", ("n0",), for_s=50),))
    record = simulation(nodes(1), faults=faults).run(specs([job("a", 0, 30)]))
    assert [(p.start, p.end, p.outcome) for p in stays(record, "a")] == [(0, 10, "restarted"), (60, 90, "completed")]


def test_a_node_that_joins_is_used() -> None:
    faults = Faults((PlannedFault(40, "join", (), objects=(node("big", "64", "64Gi"),)),))
    record = simulation(nodes(1), faults=faults).run(specs([job("large", 0, 5, cpu=32)]))
    assert by_name(record)["large"].start == 40


def test_a_pod_that_fails_is_tried_again_so_often_and_no_more() -> None:
    spec = specs([job("flaky", 0, 30)])[0]
    flaky = replace(spec.kinds[0], fails_after_s=10, failing_attempts=2)
    healed = simulation(nodes(1)).run([replace(spec, kinds=(flaky,))])
    assert (by_name(healed)["flaky"].outcome, by_name(healed)["flaky"].end) == ("completed", 50)
    given_up = simulation(nodes(1)).run([replace(spec, kinds=(flaky,), retries=1)])
    assert (by_name(given_up)["flaky"].outcome, by_name(given_up)["flaky"].end) == ("failed", 20)


@pytest.mark.parametrize(
    ("reaction", "outcome", "end"),
    [
        (Reaction.RESTART_JOB, "completed", 50),  # each of the two pods fails once
        (Reaction.RESTART_POD, "completed", 40),
        (Reaction.ABORT_JOB, "failed", 10),
        (Reaction.TERMINATE_JOB, "failed", 10),
        (Reaction.COMPLETE_JOB, "completed", 10),
    ],
)
def test_a_policy_says_what_becomes_of_a_job_whose_pod_failed(reaction: Reaction, outcome: str, end: float) -> None:
    spec = replace(specs([job("policy", 0, 30, pods=2)])[0], work=Work.EACH, reactions={"PodFailed": reaction})
    flaky = replace(spec.kinds[0], fails_after_s=10, failing_attempts=1)
    record = simulation(nodes(1)).run([replace(spec, kinds=(flaky,))])
    assert (by_name(record)["policy"].outcome, by_name(record)["policy"].end) == (outcome, end)


def test_a_job_is_complete_when_the_task_that_counts_is() -> None:
    master, worker = (specs([job(name, 0, run)])[0].kinds[0] for name, run in (("master", 10), ("worker", 500)))
    spec = replace(
        specs([job("both", 0, 500)])[0],
        kinds=(replace(master, reactions={"TaskCompleted": Reaction.COMPLETE_JOB}), worker),
        work=Work.EACH,
    )
    notes = {"scheduling.k8s.io/group-name": "both"}
    spec = replace(spec, kinds=tuple(replace(k, annotations=notes) for k in spec.kinds), min_available=2)
    record = simulation(nodes(1)).run([spec])
    assert (by_name(record)["both"].outcome, by_name(record)["both"].end) == ("completed", 10)


def test_an_eviction_is_recorded_with_its_beneficiary() -> None:
    conf = {
        "actions": "enqueue, allocate, preempt",
        "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}]}, {"plugins": [{"name": "predicates"}]}],
    }
    work = specs([job("low", 0, 100, pods=2, least=1, cpu=4), job("high", 10, 20, cpu=4, priority=9)])
    record = simulation(nodes(1, cpu=8), conf=conf).run(work)
    assert [(e.time, e.job, e.beneficiary, e.beneficiary_queue, e.ran_s) for e in record.evictions] == [
        (10, "default/low", "default/high", "default", 10)
    ]
    assert by_name(record)["high"].start == 11
    assert by_name(record)["low"].outcome == "completed"


def test_a_job_that_no_node_is_large_enough_for_is_named() -> None:
    run = simulation(nodes(2, cpu=8))
    record = run.run(specs([job("huge", 0, 5, cpu=9), job("small", 0, 5)]))
    want = "job default/huge can never fit: a pod asks for 9 of cpu, the largest node has 8"
    assert run.never_fit == [want]
    assert record.warnings == (want,)
    assert by_name(record)["small"].outcome == "completed"


class Crashes(Plugin):
    """A policy with a mistake that shows in the third minute."""

    name = "crashes"

    def predicate(self, task: Task, node: Node) -> None:
        if task.creation > 120:
            raise KeyError("oops")


class Impatient(Plugin):
    """Stands for a user who presses Ctrl-C."""

    name = "impatient"

    def job_valid(self, job: Job) -> bool:
        if job.creation > 120:
            raise KeyboardInterrupt
        return True


@pytest.mark.parametrize(("plugin", "why"), [(Crashes, "test_running.py:"), (Impatient, "interrupted")])
def test_a_run_that_is_stopped_keeps_what_it_has_and_is_marked(plugin: type[Plugin], why: str) -> None:
    registry = default_registry().copy()
    registry.register(plugin.name, plugin)
    conf = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, {"name": plugin.name}]}]}
    run = simulation(nodes(1), conf=conf, registry=registry)
    record = run.run(specs([job(f"j{n}", 60.0 * n, 30) for n in range(6)]))
    assert why in run.failure
    assert record.partial
    assert [j.outcome for j in record.jobs] == ["completed"] * 3 + ["pending"]
    assert why in record.warnings[-1]
