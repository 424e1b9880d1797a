"""One request and one response for every verb, and random neutral values; shared by the tests of this folder."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from pumice.extender.wire import from_kube
from pumice.extender.wire import messages as m
from pumice.extender.wire import verbs as v
from pumice.extender.wire.objects import (
    STATUS_BITS,
    WireGpu,
    WireJob,
    WireNode,
    WireQueue,
    WireSnapshot,
    WireTaint,
    WireTask,
    WireVictims,
)

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

NODE: dict[str, Any] = {
    "metadata": {"name": "gpu-1", "labels": {"rack": "r<1>&2"}},
    "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
    "status": {
        "capacity": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2", "pods": "110"},
        "allocatable": {"cpu": "7500m", "memory": "30Gi", "nvidia.com/gpu": "2", "pods": "110"},
    },
}

TASK = msgspec.structs.replace(from_kube.task_from_pod(POD), queue="research")
VICTIM = WireTask(
    uid="uid-9",
    namespace="ml",
    name="batch-main-0",
    job="ml/batch",
    queue="serving",
    role="main",
    requests={"cpu": 250, "memory": 2**30 + 2**19},
    priority=10,
    labels={"app": "batch"},
    node_name="gpu-1",
    status="Running",
    creation="2024-03-01T09:00:53Z",
)
NODE_1 = msgspec.structs.replace(
    from_kube.node_from_node(NODE),
    idle={"cpu": 7250, "memory": 29 * 2**30, "nvidia.com/gpu": 2000, "pods": 109},
    used={"cpu": 250, "memory": 2**30, "pods": 1},
    releasing={},
    pipelined={},
    tasks=[VICTIM],
)
NODE_2 = WireNode(
    name="cpu-1",
    taints=[WireTaint(key="slow", effect="PreferNoSchedule")],
    allocatable={"cpu": 2000, "memory": 2**31, "pods": 10},
    idle={"cpu": 500, "memory": 2**31, "pods": 10},
    used={"cpu": 1500, "memory": 0},
    max_pods=10,
)
JOB = WireJob(
    uid="ml/train",
    namespace="ml",
    name="train",
    queue="research",
    min_available=1,
    role_minimums={"worker": 1},
    priority=1000,
    labels={"team": "vision"},
    annotations={"volcano.sh/sla-waiting-time": "1h"},
    tasks=[TASK],
    phase="Inqueue",
    min_resources={"cpu": 1500, "memory": 4 * 2**30},
    creation="2024-03-01T09:00:02Z",
)
QUEUE = WireQueue(
    name="research",
    weight=2,
    capability={"cpu": 16000, "memory": 64 * 2**30},
    deserved={"cpu": 8500},
    guarantee={"nvidia.com/gpu": 1000},
    allocated={"cpu": 1500, "memory": 4 * 2**30},
    state="Open",
    parent="root",
    creation="2024-03-01T09:00:05Z",
)
SNAPSHOT = WireSnapshot(jobs=[JOB], nodes=[NODE_2, NODE_1], queues=[QUEUE], revocable_nodes=["cpu-1"])
NODES_REQUEST = m.NodesRequest(task=TASK, nodes=[NODE_1, NODE_2])

REQUESTS: dict[v.Verb[Any, Any], Any] = {
    v.ON_SESSION_OPEN: m.SessionOpenRequest(snapshot=SNAPSHOT),
    v.ON_SESSION_CLOSE: m.SessionCloseRequest(),
    v.PREDICATE: m.PredicateRequest(task=TASK, node=NODE_1),
    v.PRIORITIZE: NODES_REQUEST,
    v.PREEMPTABLE: m.VictimsRequest(evictor=TASK, evictees=[VICTIM]),
    v.RECLAIMABLE: m.VictimsRequest(evictor=TASK),
    v.QUEUE_OVERUSED: m.QueueRequest(queue=QUEUE),
    v.JOB_ENQUEUEABLE: m.JobRequest(job=JOB),
    v.JOB_ENQUEUED: m.JobRequest(job=JOB),
    v.JOB_READY: m.JobRequest(job=JOB),
    v.ALLOCATE_FUNC: m.TaskRequest(task=TASK),
    v.DEALLOCATE_FUNC: m.TaskRequest(task=VICTIM),
    v.BATCH_PREDICATE: NODES_REQUEST,
    v.BIND: m.BindRequest(task=TASK, node=NODE_1),
    v.JOB_PIPELINED: m.JobRequest(job=JOB),
    v.JOB_VALID: m.JobRequest(job=JOB),
    v.ALLOCATABLE: m.AllocatableRequest(queue=QUEUE, task=TASK),
    v.BEST_NODE: m.BestNodeRequest(task=TASK, scores={"gpu-1": 99.5, "cpu-1": 7.0}),
    v.VICTIM_TASKS: m.TasksRequest(tasks=[VICTIM]),
    v.GPU_ORDER: m.GpuOrderRequest(
        task=TASK, node=NODE_1, gpus=[WireGpu(index="0", used_share=0.25, memory=80 * 2**30), WireGpu(index="1")]
    ),
    v.JOB_ORDER: m.JobsRequest(jobs=[JOB]),
    v.TASK_ORDER: m.TasksRequest(tasks=[TASK, VICTIM]),
    v.QUEUE_ORDER: m.QueuesRequest(queues=[QUEUE]),
    v.PREEMPT: m.PreemptRequest(task=TASK, candidates={"gpu-1": WireVictims(tasks=[VICTIM], pdb_violations=1)}),
}

RESPONSES: dict[v.Verb[Any, Any], Any] = {
    v.ON_SESSION_OPEN: m.Acknowledged(),
    v.ON_SESSION_CLOSE: m.Acknowledged(),
    v.PREDICATE: m.PredicateResponse(text="no licence for <gpu-1>", code=2),
    v.PRIORITIZE: m.PrioritizeResponse(scores={"gpu-1": 99.5, "cpu-1": 7.0}),
    v.PREEMPTABLE: m.VictimsResponse(status=1, victims=[VICTIM]),
    v.RECLAIMABLE: m.VictimsResponse(status=1, victims=[]),
    v.QUEUE_OVERUSED: m.OverusedResponse(overused=True),
    v.JOB_ENQUEUEABLE: m.VoteResponse(status=-1),
    v.JOB_ENQUEUED: m.Acknowledged(),
    v.JOB_READY: m.VerdictResponse(status=True),
    v.ALLOCATE_FUNC: m.ErrorResponse(),
    v.DEALLOCATE_FUNC: m.ErrorResponse(error="cannot free"),
    v.BATCH_PREDICATE: m.BatchPredicateResponse.to(NODES_REQUEST, {"cpu-1": (3, "no device")}),
    v.BIND: m.ErrorResponse(error="node is gone"),
    v.JOB_PIPELINED: m.VoteResponse(status=1),
    v.JOB_VALID: m.VerdictResponse(status=False, reason="NotEnoughPods", message="0 of 1 tasks"),
    v.ALLOCATABLE: m.VerdictResponse(status=False, message="above its capability"),
    v.BEST_NODE: m.BestNodeResponse(node_name="cpu-1"),
    v.VICTIM_TASKS: m.VictimsResponse(status=1, victims=[VICTIM]),
    v.GPU_ORDER: m.GpuOrderResponse(scores={"0": 0.25, "1": 1}),
    v.JOB_ORDER: m.OrderResponse(ranks={"ml/train": 0}),
    v.TASK_ORDER: m.OrderResponse(ranks={"uid-0": 0, "uid-9": 1.5}),
    v.QUEUE_ORDER: m.OrderResponse(ranks={"research": 3}),
    v.PREEMPT: m.PreemptResponse(candidates={"gpu-1": WireVictims(tasks=[VICTIM], pdb_violations=1)}),
}

texts = st.text(st.characters(codec="utf-8"), max_size=12)
maps = st.dictionaries(texts, texts, max_size=3)
whole = st.integers(-(2**50), 2**50)
statuses = st.sampled_from(sorted(STATUS_BITS))


def amounts(*names: str) -> st.SearchStrategy[dict[str, int]]:
    """Amounts that name cpu and memory, and perhaps some of *names*."""
    return st.fixed_dictionaries({"cpu": whole, "memory": whole}, optional=dict.fromkeys(names, whole))


@st.composite
def tasks(draw: st.DrawFn) -> WireTask:
    """Tasks whose fields are those that the documentation has."""
    labels, annotations = draw(maps), draw(maps)
    requests = draw(amounts("nvidia.com/gpu", "hugepages-2Mi"))
    return WireTask(
        uid=draw(texts),
        namespace=draw(texts),
        name=draw(texts),
        job=draw(texts),
        queue=draw(texts),
        role=draw(texts),
        requests=requests,
        priority=draw(st.integers(-(2**31), 2**31)),
        labels=labels,
        annotations=annotations,
        node_name=draw(texts),
        status=draw(statuses),
        preemptable=from_kube.is_preemptable(labels, annotations),
        best_effort=from_kube.is_best_effort(requests),
    )


@st.composite
def nodes(draw: st.DrawFn) -> WireNode:
    """Nodes whose fields are those that the documentation has."""
    allocatable = draw(amounts("nvidia.com/gpu", "pods"))
    return WireNode(
        name=draw(texts),
        labels=draw(maps),
        annotations=draw(maps),
        taints=draw(st.lists(st.builds(WireTaint, key=texts, value=texts, effect=texts), max_size=2)),
        allocatable=allocatable,
        idle=draw(st.none() | amounts("pods")),
        used=draw(st.none() | amounts("pods")),
        max_pods=allocatable.get("pods", 0),
    )


def unique_tasks() -> st.SearchStrategy[list[WireTask]]:
    """Tasks of different UIDs, in the order of these."""
    lists = st.lists(tasks(), max_size=3, unique_by=lambda task: task.uid)
    return lists.map(lambda found: sorted(found, key=lambda task: task.uid))


@st.composite
def jobs(draw: st.DrawFn) -> WireJob:
    """Jobs whose fields are those that the documentation has."""
    return WireJob(
        uid=draw(texts),
        namespace=draw(texts),
        name=draw(texts),
        queue=draw(texts),
        min_available=draw(st.integers(0, 9)),
        priority=draw(st.integers(-9, 9)),
        annotations=draw(maps),
        tasks=draw(unique_tasks()),
    )


queues = st.builds(
    WireQueue,
    name=texts,
    weight=st.integers(0, 9),
    capability=amounts("nvidia.com/gpu"),
    deserved=amounts("nvidia.com/gpu"),
    guarantee=amounts(),
    allocated=amounts("pods"),
    state=st.sampled_from(["", "Open", "Closed"]),
)
