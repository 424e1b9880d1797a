"""The phases of a job: what follows from its status and its pods."""

from __future__ import annotations

from typing import Any

import pytest
from workload_jobs import seen, spec_of

from pumice.workloads.lifecycle import next_step
from pumice.workloads.vcjob import Reaction

UP = "w0 Running, w1 Running"
FAILED = "w0 Running, w1 Failed:3"


def policy(event: object, action: str) -> dict[str, object]:
    return {"exitCode" if isinstance(event, int) else "event": event, "action": action}


@pytest.mark.parametrize(
    ("event", "action", "pods", "phase", "version", "retries", "removed"),
    [
        ("PodFailed", "RestartJob", FAILED, "Restarting", 1, 1, ""),
        ("PodFailed", "AbortJob", FAILED, "Aborting", 1, 0, ""),
        ("PodFailed", "TerminateJob", FAILED, "Terminating", 1, 0, ""),
        ("PodFailed", "CompleteJob", FAILED, "Completing", 1, 0, ""),
        ("PodFailed", "RestartTask", FAILED, "Restarting", 0, 1, "w0 w1"),
        ("PodFailed", "RestartPod", FAILED, "Restarting", 0, 1, "w1"),
        ("PodFailed", "ResumeJob", FAILED, "Running", 0, 0, ""),
        ("PodFailed", "RestartJob", UP, "Running", 0, 0, ""),
        (3, "AbortJob", FAILED, "Aborting", 1, 0, ""),
        (4, "AbortJob", FAILED, "Running", 0, 0, ""),
        ("*", "AbortJob", FAILED, "Aborting", 1, 0, ""),
        ("TaskCompleted", "CompleteJob", "w0 Succeeded, w1 Succeeded", "Completing", 1, 0, ""),
        ("TaskCompleted", "CompleteJob", "w0 Succeeded, w1 Running", "Running", 0, 0, ""),
        ("TaskFailed", "AbortJob", "w0 Running x2, w1 Running x2", "Aborting", 1, 0, ""),
        ("TaskFailed", "AbortJob", "w0 Running x2, w1 Running x1", "Running", 0, 0, ""),
        ("TaskFailed", "RestartTask", "w0 Running x4, w1 Running", "Restarting", 0, 1, "w0 w1"),
    ],
)
def test_a_policy_decides_what_becomes_of_the_job(
    event: object, action: str, pods: str, phase: str, version: int, retries: int, removed: str
) -> None:
    plan = next_step(seen(spec_of({"w": 2}, policies=[policy(event, action)]), pods))
    assert (plan.phase, plan.version, plan.retries) == (phase, version, retries)
    assert [p.uid.removeprefix("uid-") for p in plan.remove] == removed.split()


@pytest.mark.parametrize("pods", ["w0 Running", "w0 Running, w1 Running leaving"])
@pytest.mark.parametrize(("action", "phase"), [("RestartJob", "Restarting"), ("AbortJob", "Aborting")])
def test_a_pod_that_was_counted_and_is_not_there_any_more_was_evicted(pods: str, action: str, phase: str) -> None:
    spec = spec_of({"w": 2}, policies=[policy("PodEvicted", action)])
    lost = {"w": 2 - len(pods.split(", "))}
    assert next_step(seen(spec, pods, lost=lost)).phase == phase


def test_a_pod_that_was_never_counted_was_not_evicted() -> None:
    spec = spec_of({"w": 2}, policies=[policy("PodEvicted", "RestartJob")])
    plan = next_step(seen(spec, "w0 Running"))
    assert plan.phase == "Running"
    assert [(role.name, n) for role, n in plan.create] == [("w", 1)]


def test_pods_beyond_the_replicas_are_removed_and_that_is_no_eviction() -> None:
    spec = spec_of({"w": 1}, policies=[policy("PodEvicted", "RestartJob")])
    plan = next_step(seen(spec, UP))
    assert [p.uid for p in plan.remove] == ["uid-w1"]
    assert plan.phase == "Running"
    assert next_step(seen(spec, "w0 Running", lost={"w": 1})).phase == "Running"


def test_the_pod_that_gave_the_reason_is_removed_last() -> None:
    spec = spec_of({"w": 3}, policies=[policy("PodFailed", "RestartTask")])
    plan = next_step(seen(spec, "w0 Failed, w1 Running, w2 Running"))
    assert [p.uid for p in plan.remove] == ["uid-w1", "uid-w2", "uid-w0"]
    assert plan.counts.at("w") == 0


def test_what_happened_to_pods_of_an_earlier_version_is_not_answered_again() -> None:
    spec = spec_of({"w": 2}, policies=[policy("*", "RestartJob")])
    plan = next_step(seen(spec, "w0 Failed v0, w1 Running v1", version=1, counted=False))
    assert (plan.phase, plan.version) == ("Running", 1)
    assert [p.uid for p in plan.remove] == ["uid-w0"]


def test_a_group_of_unknown_state_is_an_event_of_the_job() -> None:
    spec = spec_of({"w": 2}, policies=[policy("JobUnknown", "RestartJob")])
    assert next_step(seen(spec, UP, group="Unknown")).phase == "Restarting"
    assert next_step(seen(spec, UP, group="Running")).phase == "Running"


@pytest.mark.parametrize(
    ("before", "pods", "fields", "after"),
    [
        ("Pending", "w0 Running, w1 Pending", {}, "Pending"),
        ("Pending", "w0 Running, w1 Pending", {"minAvailable": 1}, "Running"),
        ("Pending", "w0 Running, w1 Succeeded", {}, "Running"),
        ("Running", "w0 Succeeded, w1 Running", {}, "Running"),
        ("Running", "w0 Succeeded, w1 Succeeded", {}, "Completed"),
        ("Running", "w0 Succeeded, w1 Failed", {}, "Failed"),
        ("Running", "w0 Succeeded, w1 Failed", {"minAvailable": 1}, "Completed"),
        ("Running", "w0 Succeeded, w1 Running", {"minSuccess": 1}, "Completed"),
        ("Running", "w0 Succeeded, w1 Failed", {"minSuccess": 2, "minAvailable": 1}, "Failed"),
        ("Completing", "w0 Succeeded, w1 Running", {}, "Completing"),
        ("Completing", "w0 Succeeded, w1 Running leaving", {}, "Completing"),
        ("Completing", "w0 Succeeded", {}, "Completed"),
        ("Aborting", "w0 Failed", {}, "Aborted"),
        ("Terminating", "", {}, "Terminated"),
        ("Aborted", "w0 Failed", {}, "Aborted"),
        ("Completed", UP, {}, "Completed"),
    ],
)
def test_a_job_goes_on_when_its_pods_do(before: str, pods: str, fields: dict[str, int], after: str) -> None:
    plan = next_step(seen(spec_of({"w": 2}, **fields), pods, phase=before))
    assert plan.phase == after
    if before not in ("Pending", "Running"):
        assert {p.uid for p in plan.remove} == {
            f"uid-{x.split()[0]}" for x in pods.split(", ") if x.endswith("Running")
        }


def test_a_job_failed_if_one_of_its_tasks_has_too_few_successes() -> None:
    tasks = [{"name": "a", "replicas": 2, "minAvailable": 2}, {"name": "b", "replicas": 2, "minAvailable": 1}]
    pods = "a0 Succeeded, a1 Failed, b0 Succeeded, b1 Succeeded"
    assert next_step(seen(spec_of(tasks, minAvailable=3), pods)).phase == "Failed"
    assert next_step(seen(spec_of(tasks, minAvailable=2), pods)).phase == "Completed"


@pytest.mark.parametrize(
    ("pods", "retries", "phase", "removed"),
    [
        ("w0 Running v0, w1 Failed v0", 1, "Restarting", ["uid-w0", "uid-w1"]),
        ("w0 Running v0 leaving", 1, "Restarting", []),
        ("", 1, "Pending", []),
        ("w0 Running v0, w1 Failed v0", 3, "Failed", ["uid-w0"]),
    ],
)
def test_a_restart_waits_for_the_old_pods_and_ends_with_the_retries(
    pods: str, retries: int, phase: str, removed: list[str]
) -> None:
    plan = next_step(seen(spec_of({"w": 2}), pods, phase="Restarting", version=1, retries=retries))
    assert plan.phase == phase
    assert [p.uid for p in plan.remove] == removed


@pytest.mark.parametrize(("group", "made"), [("", 0), ("Pending", 0), ("Inqueue", 2), ("Running", 2)])
def test_pods_are_made_when_the_scheduler_has_admitted_the_group(group: str, made: int) -> None:
    assert len(next_step(seen(spec_of({"w": 2}), "", phase="Pending", group=group)).create) == made


def test_a_pod_is_not_made_while_an_old_one_of_its_name_is_leaving() -> None:
    plan = next_step(seen(spec_of({"w": 2}), "w0 Running leaving", phase="Pending"))
    assert [n for _, n in plan.create] == [1]


@pytest.mark.parametrize(
    ("iteration", "pods", "made"),
    [
        ("all", "", {"a", "b"}),
        ("all", "a0 Running, b0 Pending", set()),
        ("all", "a0 Running, b0 Running", {"c"}),
        ("any", "a0 Running, b0 Pending", {"c"}),
        ("all", "a0 Succeeded, b0 Running", {"c"}),
    ],
)
def test_a_task_waits_until_the_others_are_up(iteration: str, pods: str, made: set[str]) -> None:
    waits = {"name": ["a", "b"], "iteration": iteration}
    tasks: list[dict[str, Any]] = [{"name": "a"}, {"name": "b"}, {"name": "c", "dependsOn": waits}]
    plan = next_step(seen(spec_of(tasks, minAvailable=1), pods, phase="Pending"))
    assert {role.name for role, _ in plan.create} == made


@pytest.mark.parametrize(
    ("phase", "asked", "after"),
    [
        ("Running", Reaction.ABORT_JOB, "Aborting"),
        ("Pending", Reaction.TERMINATE_JOB, "Terminating"),
        ("Running", Reaction.RESTART_JOB, "Restarting"),
        ("Aborted", Reaction.RESUME_JOB, "Restarting"),
        ("Restarting", Reaction.ABORT_JOB, "Aborting"),
        ("Restarting", Reaction.RESTART_JOB, "Pending"),
        ("Running", Reaction.RESUME_JOB, "Running"),
        ("Completed", Reaction.RESTART_JOB, "Completed"),
        ("Failed", Reaction.RESUME_JOB, "Failed"),
    ],
)
def test_a_command_is_obeyed_where_it_makes_sense(phase: str, asked: Reaction, after: str) -> None:
    assert (
        next_step(seen(spec_of({"w": 2}), UP if phase in ("Running", "Pending") else "", phase=phase), asked).phase
        == after
    )


def test_a_job_without_pods_stays_as_it_is() -> None:
    assert next_step(seen(spec_of({"w": 0}), "", phase="Running")).phase == "Running"
    assert next_step(seen(spec_of({"w": 0}), "", phase="Pending")).phase == "Pending"
