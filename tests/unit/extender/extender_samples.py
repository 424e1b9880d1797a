"""A small cluster with one of everything, one question and one answer for every verb; shared by the tests here."""

from __future__ import annotations

from typing import Any

from pumice.extender import answers as a
from pumice.extender import gojson
from pumice.extender import protocol as p
from pumice.extender.asking.calls import QuestionWriter
from pumice.extender.dialects import dialect_of
from pumice.extender.dialects.dialect import MESSAGE, Encoded
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.intents import Bind
from pumice.state.cluster import ClusterState

POD: dict[str, Any] = {
    "metadata": {
        "name": "train-worker-0",
        "namespace": "ml",
        "uid": "uid-0",
        "creationTimestamp": "2024-03-01T09:00:26Z",
        "labels": {"app": "train"},
        "annotations": {"scheduling.k8s.io/group-name": "train", "volcano.sh/task-spec": "worker"},
    },
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "repo/app:1",
                "resources": {"requests": {"cpu": "1500m", "memory": "4Gi", "nvidia.com/gpu": "1"}},
            }
        ],
        "schedulerName": "volcano",
        "priority": 1000,
    },
    "status": {"phase": "Pending"},
}
VICTIM: dict[str, Any] = {
    "metadata": {
        "name": "batch-main-0",
        "namespace": "ml",
        "uid": "uid-9",
        "creationTimestamp": "2024-03-01T09:00:53Z",
        "labels": {"app": "batch"},
        "annotations": {"scheduling.k8s.io/group-name": "batch", "volcano.sh/task-spec": "main"},
    },
    "spec": {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "250m", "memory": "1048064Ki"}}}],
        "nodeName": "gpu-1",
        "priority": 10,
    },
    "status": {"phase": "Running"},
}
NODE: dict[str, Any] = {
    "metadata": {"name": "gpu-1", "labels": {"rack": "r<1>&2"}},
    "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
    "status": {
        "capacity": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2", "pods": "110"},
        "allocatable": {"cpu": "7500m", "memory": "30Gi", "nvidia.com/gpu": "2", "pods": "110"},
    },
}
SMALL_NODE: dict[str, Any] = {
    "metadata": {"name": "cpu-1"},
    "spec": {"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]},
    "status": {"allocatable": {"cpu": "2", "memory": "2Gi", "pods": "10"}},
}
GROUP: dict[str, Any] = {
    "metadata": {
        "name": "train",
        "namespace": "ml",
        "uid": "uid-pg",
        "creationTimestamp": "2024-03-01T09:00:02Z",
        "labels": {"team": "vision"},
        "annotations": {"volcano.sh/sla-waiting-time": "1h"},
    },
    "spec": {
        "minMember": 1,
        "minTaskMember": {"worker": 1},
        "minResources": {"cpu": "1500m", "memory": "4Gi"},
        "queue": "research",
    },
    "status": {"phase": "Inqueue"},
}
QUEUE: dict[str, Any] = {
    "metadata": {"name": "research", "creationTimestamp": "2024-03-01T09:00:05Z"},
    "spec": {
        "weight": 2,
        "capability": {"cpu": "16", "memory": "64Gi"},
        "deserved": {"cpu": "8500m"},
        "guarantee": {"resource": {"nvidia.com/gpu": "1"}},
        "parent": "root",
    },
    "status": {"state": "Open"},
}
QUOTA: dict[str, Any] = {
    "metadata": {"name": "rq", "namespace": "ml"},
    "spec": {"hard": {"cpu": "4"}},
    "status": {"hard": {"cpu": "4"}, "used": {"cpu": "1"}},
}


def cluster() -> ClusterState:
    """The cluster of the samples."""
    state = ClusterState()
    batch = {"metadata": {"name": "batch", "namespace": "ml"}, "spec": {"minMember": 1, "queue": "research"}}
    for kind, data in (
        *(("Queue", QUEUE), ("Node", NODE), ("Node", SMALL_NODE), ("PodGroup", GROUP), ("PodGroup", batch)),
        *(("Pod", POD), ("Pod", VICTIM), ("ResourceQuota", QUOTA)),
    ):
        state.apply(Seen(api.decode(kind, data)))
    return state


def question(verb: p.Verb[Any], dialect: str, *, names_only: bool = False) -> bytes:
    """A question about the cluster of the samples."""
    state, writer = cluster(), QuestionWriter(dialect, names_only=names_only)
    task, victim = state.tasks["uid-0"], state.tasks["uid-9"]
    if verb is p.ON_SESSION_OPEN:
        return writer.question(verb, state)
    if verb is p.PREEMPT:
        return writer.question(verb, task, [victim])
    if verb is p.BIND:
        return writer.bind(Bind(task.key, task.uid, "gpu-1"), None if names_only else bytes(writer.whole(task)))
    things: dict[str, Any] = {
        "task": victim if verb is p.DEALLOCATE_FUNC else task,
        "evictor": task,
        "evictees": [] if verb is p.RECLAIMABLE else [victim],
        "tasks": [task, victim] if verb is p.TASK_ORDER else [victim],
        "node": state.nodes["gpu-1"],
        "nodes": [state.nodes["gpu-1"], state.nodes["cpu-1"]],
        "nodeScore": {"gpu-1": 99.5, "cpu-1": 7.0},
        "gpus": state.nodes["gpu-1"],
        "job": state.jobs["ml/train"],
        "jobs": [state.jobs["ml/train"]],
        "queue": state.queues["research"],
        "queues": [state.queues["research"]],
    }
    return writer.question(verb, *(things[part.name] for part in verb.parts)) if verb.parts else b"{}"


ANSWERS: dict[str, a.Answer] = {
    "onSessionOpen": a.Acknowledged(),
    "onSessionClose": a.Acknowledged(),
    "predicate": a.NodeRefusal(text="no licence for <gpu-1>", code=2),
    "prioritize": a.Scores(scores={"gpu-1": 99.5, "cpu-1": 7.0}),
    "preemptable": a.Victims(status=1, uids=["uid-9"]),
    "reclaimable": a.Victims(status=1, uids=[]),
    "queueOverused": a.Overused(overused=True, message="above its share by 2 cores"),
    "jobEnqueueable": a.Vote(status=-1, message="not today"),
    "jobEnqueued": a.Acknowledged(),
    "jobReady": a.VerdictAnswer(status=True),
    "allocateFunc": a.Error(),
    "deallocateFunc": a.Error(error="cannot free"),
    "batchPredicate": a.NodeRefusals(errors={"cpu-1": "no device"}, codes={"cpu-1": 3}, fitting=["gpu-1"]),
    "bind": a.Error(error="node is gone"),
    "jobPipelined": a.Vote(status=1),
    "jobValid": a.VerdictAnswer(status=False, reason="NotEnoughPods", message="0 of 1 tasks"),
    "allocatable": a.VerdictAnswer(status=False, message="above its capability"),
    "bestNode": a.BestNode(node_name="cpu-1"),
    "victimTasks": a.Victims(status=1, uids=["uid-9"]),
    "gpuOrder": a.GpuScores(scores={"0": 0.25, "1": 1}),
    "jobOrder": a.Ranks(ranks={"ml/train": 0}),
    "taskOrder": a.Ranks(ranks={"uid-0": 0, "uid-9": 1.5}),
    "queueOrder": a.Ranks(ranks={"research": 3}),
    "preempt": a.Candidates(candidates={"gpu-1": (["uid-9"], 1)}),
}
"""Verb -> an answer."""


def recognised(verb: p.Verb[Any], body: bytes) -> str:
    """The name of a question's dialect."""
    message = gojson.read(verb.name, "request", body, MESSAGE)
    return dialect_of(verb, dict[str, Encoded](message)) or "documented"
