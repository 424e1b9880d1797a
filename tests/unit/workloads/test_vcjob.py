"""Jobs as written: their defaults, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest
from workload_jobs import spec_of

from pumice.workloads.vcjob import blocks_of, gaps_of, minimum_of, problems_of, roles_of


def test_tasks_without_a_name_are_called_after_their_place() -> None:
    roles = roles_of(spec_of([{"replicas": 2}, {"name": "w"}, {}]))
    assert [(r.name, r.replicas, r.minimum) for r in roles] == [("default0", 2, 2), ("w", 1, 1), ("default2", 1, 1)]


@pytest.mark.parametrize(
    ("fields", "expected"), [({}, 4), ({"minAvailable": 0}, 4), ({"minAvailable": 2}, 2), ({"minAvailable": 5}, 5)]
)
def test_a_job_needs_what_its_tasks_need_unless_it_says_something_else(fields: dict[str, int], expected: int) -> None:
    spec = spec_of([{"name": "a", "replicas": 3}, {"name": "b", "replicas": 3, "minAvailable": 1}], **fields)
    assert minimum_of(spec, roles_of(spec)) == expected


PROBLEMS: list[tuple[Any, dict[str, Any], str]] = [
    ([], {}, "tasks: there must be at least one"),
    ([{"name": "a"}, {"name": "a"}], {}, "tasks[1].name: must be used once, got 'a' again"),
    ([{"name": "A_b"}], {}, "tasks[0]: pods would be called 'j-A_b-0', which must be a DNS label"),
    ([{"name": "w" * 70}], {}, "of at most 63 characters"),
    ([{"name": "a", "replicas": -1}], {}, "tasks[0].replicas: must not be below 0, got -1"),
    (
        [{"name": "a", "replicas": 2, "minAvailable": 3}],
        {},
        "tasks[0].minAvailable: must be at most replicas (2), got 3",
    ),
    ({"a": 2}, {"minAvailable": 3}, "minAvailable: must be at most the number of pods (2), got 3"),
    (
        {"a": 1},
        {"policies": [{"action": "Panic", "event": "PodFailed"}]},
        "policies[0].action: must be one of RestartPod",
    ),
    ({"a": 1}, {"policies": [{"action": "AbortJob"}]}, "policies[0]: must have either an event or an exitCode"),
    (
        {"a": 1},
        {"policies": [{"action": "AbortJob", "event": "PodFailed", "exitCode": 1}]},
        "policies[0]: must have either an event or an exitCode",
    ),
    ({"a": 1}, {"policies": [{"action": "AbortJob", "exitCode": 0}]}, "policies[0].exitCode: must not be 0"),
    (
        {"a": 1},
        {"policies": [{"action": "AbortJob", "event": "*"}, {"action": "AbortJob", "event": "PodFailed"}]},
        "policies: no other policy may stand beside the event '*'",
    ),
    (
        {"a": 1},
        {"policies": [{"action": "AbortJob", "event": "PodFailed"}, {"action": "AbortJob", "events": ["PodFailed"]}]},
        "policies[1]: 'PodFailed' has a policy already",
    ),
    ({"a": 2**31 - 1}, {}, "tasks: must have from 0 to 200000 pods, got 2147483647"),
    ({"a": 150_000, "b": 150_000}, {}, "tasks: must have from 0 to 200000 pods, got 300000"),
    ([{"name": "a", "dependsOn": {"name": ["b"]}}], {}, "task 'a': dependsOn: there is no task 'b'"),
    (
        [{"name": "a", "dependsOn": {"name": ["b"]}}, {"name": "b", "dependsOn": {"name": ["a"]}}, {"name": "c"}],
        {},
        "tasks a, b: dependsOn: they wait for each other",
    ),
    (
        [{"name": "a", "template": {"spec": {"containers": 3}}}],
        {},
        "tasks[0]: task 'a': template: spec.containers: must be a list or nothing, got a whole number",
    ),
]


@pytest.mark.parametrize(("tasks", "fields", "said"), PROBLEMS)
def test_a_job_that_breaks_a_rule_is_told_which(tasks: Any, fields: dict[str, Any], said: str) -> None:
    assert any(said in problem for problem in problems_of("j", spec_of(tasks, **fields)))


def test_an_ordinary_job_breaks_no_rule() -> None:
    policies = [{"action": "RestartJob", "events": ["PodFailed", "PodEvicted"]}, {"action": "AbortJob", "exitCode": 3}]
    tasks: list[dict[str, Any]] = [
        {"name": "a"},
        {"name": "b", "replicas": 3, "minAvailable": 1, "dependsOn": {"name": ["a"]}},
    ]
    spec = spec_of(tasks, policies=policies, plugins={"env": []})
    assert problems_of("j", spec) == gaps_of(spec) == blocks_of(spec) == []


def test_what_is_not_done_here_is_said() -> None:
    policies = [{"action": "RestartPod", "event": "PodPending", "timeout": "10m"}]
    spec = spec_of({"a": 1}, plugins={"ssh": [], "env": []}, policies=policies)
    assert gaps_of(spec) == [
        "plugin 'ssh' is not supported",
        "policies: the event 'PodPending' never happens here",
        "policies: timeout is not supported, actions are taken at once",
    ]


def test_a_volume_that_would_have_to_be_made_keeps_the_job_back() -> None:
    volumes = [{"mountPath": "/a", "volumeClaimName": "data"}, {"mountPath": "/b", "volumeClaim": {}}]
    assert blocks_of(spec_of({"a": 1}, volumes=volumes)) == [
        "volumes[1]: only existing claims can be mounted, by volumeClaimName"
    ]
