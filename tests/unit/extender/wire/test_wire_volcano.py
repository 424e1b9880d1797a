"""The volcano dialect beyond what was recorded: made-up objects, unusual fields, and both forms at once."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from wire_samples import JOB, NODE_2, QUEUE, TASK, VICTIM, amounts, jobs, nodes, queues, tasks

from pumice.extender.wire import both, volcano
from pumice.extender.wire import messages as m
from pumice.extender.wire import verbs as v
from pumice.extender.wire.errors import WireError
from pumice.extender.wire.objects import WireJob, WireNode, WireQueue, WireSubJob, WireTask


def _task(body: dict[str, Any]) -> WireTask:
    return volcano.decode_request(v.ALLOCATE_FUNC, json.dumps({"task": body}).encode()).task


def _written(task: WireTask) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(volcano.encode_request(v.ALLOCATE_FUNC, m.TaskRequest(task=task)))["task"]
    return found


def _job(job: WireJob) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(volcano.encode_request(v.JOB_READY, m.JobRequest(job=job)))["job"]
    return found


@given(tasks(), nodes())
@settings(deadline=None)
def test_a_task_comes_back_as_it_was_but_for_its_queue(task: WireTask, node: WireNode) -> None:
    request = m.PredicateRequest(task=task, node=node)
    body = volcano.encode_request(v.PREDICATE, request)
    again = volcano.decode_request(v.PREDICATE, body)
    assert msgspec.structs.replace(again.task, pod=None) == msgspec.structs.replace(task, queue="")
    assert volcano.encode_request(v.PREDICATE, again) == body


@given(jobs(), queues)
@settings(deadline=None, max_examples=50)
def test_a_job_and_a_queue_come_back_without_loss(job: WireJob, queue: WireQueue) -> None:
    body = volcano.encode_request(v.JOB_READY, m.JobRequest(job=job))
    assert volcano.encode_request(v.JOB_READY, volcano.decode_request(v.JOB_READY, body)) == body
    body = volcano.encode_request(v.QUEUE_OVERUSED, m.QueueRequest(queue=queue))
    again = volcano.decode_request(v.QUEUE_OVERUSED, body).queue
    assert msgspec.structs.replace(again, queue=None) == queue


@given(tasks(), nodes(), queues)
@settings(deadline=None, max_examples=50)
def test_both_forms_say_what_volcanos_says_and_the_queue(task: WireTask, node: WireNode, queue: WireQueue) -> None:
    request = m.PredicateRequest(task=task, node=node)
    alone = volcano.decode_request(v.PREDICATE, volcano.encode_request(v.PREDICATE, request))
    together = both.decode_request(v.PREDICATE, both.encode_request(v.PREDICATE, request))
    assert together.node == alone.node
    assert together.task == msgspec.structs.replace(alone.task, queue=task.queue)
    asked = m.AllocatableRequest(queue=queue, task=task)
    told = both.decode_request(v.ALLOCATABLE, both.encode_request(v.ALLOCATABLE, asked)).queue
    assert msgspec.structs.replace(told, queue=None) == queue


def test_both_forms_tell_what_is_allocated_now_not_what_the_stored_queue_says() -> None:
    stored = {"metadata": {"name": "research"}, "status": {"allocated": {"cpu": "9"}}}
    queue = msgspec.structs.replace(QUEUE, queue=stored)
    body = both.encode_request(v.QUEUE_OVERUSED, m.QueueRequest(queue=queue))
    assert both.decode_request(v.QUEUE_OVERUSED, body).queue.allocated == QUEUE.allocated
    snapshot = m.WireSnapshot(queues=[queue])
    body = both.encode_request(v.ON_SESSION_OPEN, m.SessionOpenRequest(snapshot=snapshot))
    assert both.decode_request(v.ON_SESSION_OPEN, body).snapshot.queues[0].allocated == QUEUE.allocated


def test_unusual_fields_of_a_task_go_back_as_they_came() -> None:
    sent = _written(TASK) | {
        "DRAResreq": {"gpu": {"Count": 1, "Capacity": {"memory": "80Gi"}}},
        "LastTransaction": {"NodeName": "n1", "EvictionOccurred": False, "JobAllocatedHyperNode": "", "Status": 4},
        "NumaInfo": {"Policy": "best-effort", "ResMap": {"0": {"cpu": "4"}}},
        "RevocableZone": "*",
        "PodAnnotations": None,
    }
    sent["InitResreq"] = sent["InitResreq"] | {"MilliCPU": 9000}
    sent["Resreq"] = sent["Resreq"] | {"ScalarResources": {"nvidia.com/gpu": 0.5}}
    assert _written(_task(sent)) == sent


def test_unusual_fields_of_a_job_go_back_as_they_came() -> None:
    sent = _job(JOB) | {"WaitingTime": 3600000000000, "NetworkTopology": {"mode": "hard", "highestTierAllowed": 2}}
    sent["SubJobs"]["ml/train"]["NominatedHyperNode"] = "s0"
    again = volcano.decode_request(v.JOB_READY, json.dumps({"job": sent}).encode()).job
    assert _job(again) == sent


def test_a_task_without_any_field_is_read_as_gos_zero_value_with_status_pending() -> None:
    task = _task({})
    assert (task.uid, task.status, task.requests, task.preemptable) == ("", "Pending", {}, False)


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(
        WireError, match=r"extender allocateFunc: request: Status of task 'u': must be one of .*, got 3"
    ):
        _task({"UID": "u", "Status": 3})
    with pytest.raises(WireError, match=r"status of task 'u': must be one of Pending, .*, got 'Asleep'"):
        volcano.encode_request(v.ALLOCATE_FUNC, m.TaskRequest(task=WireTask(uid="u", status="Asleep")))


def test_a_pod_of_a_wrong_shape_is_refused_with_its_path() -> None:
    with pytest.raises(WireError, match=r"request: Expected `str`, got `int` - at `\$.metadata.labels\[...\]`"):
        _task({"UID": "u", "Pod": {"metadata": {"labels": {"a": 1}}}})


def test_empty_lists_are_null_as_gos_nil_slices_are() -> None:
    body = json.loads(volcano.encode_request(v.PREEMPTABLE, m.VictimsRequest(evictor=TASK)))
    assert body["evictees"] is None
    body = json.loads(volcano.encode_request(v.PRIORITIZE, m.NodesRequest(task=TASK)))
    assert body["nodes"] is None


def test_victims_are_written_whole_because_volcano_evicts_what_it_reads() -> None:
    body = json.loads(volcano.encode_response(v.PREEMPTABLE, m.VictimsResponse(status=1, victims=[VICTIM])))
    assert body["victims"] == [_written(VICTIM)]


def test_a_node_that_tells_neither_idle_nor_used_is_idle_as_a_whole() -> None:
    node = WireNode(name="n1", allocatable={"cpu": 2000, "memory": 1024, "pods": 10}, max_pods=10)
    body = json.loads(volcano.encode_request(v.PREDICATE, m.PredicateRequest(task=TASK, node=node)))["node"]
    whole = {"MilliCPU": 2000, "Memory": 1024, "ScalarResources": {"pods": 10}, "MaxTaskNum": 10}
    nothing = {"MilliCPU": 0, "Memory": 0, "ScalarResources": None, "MaxTaskNum": 0}
    assert (body["Idle"], body["Allocatable"], body["Capacity"], body["Used"]) == (whole, whole, whole, nothing)


def test_sums_that_are_not_told_are_those_of_the_tasks() -> None:
    job = msgspec.structs.replace(JOB, tasks=[TASK, VICTIM])
    body = _job(job)
    assert body["Allocated"]["MilliCPU"] == 250
    assert body["TotalRequest"]["MilliCPU"] == 1750
    assert body["TotalRequest"]["ScalarResources"] == {"nvidia.com/gpu": 1000, "pods": 2}


def test_sub_jobs_hold_the_tasks_they_name() -> None:
    job = msgspec.structs.replace(
        JOB,
        tasks=[TASK, VICTIM],
        sub_jobs=[WireSubJob(uid="ml/train/a-0", group="ml/train/a", task_uids=["uid-9"], match_index=1)],
    )
    body = _job(job)
    assert list(body["SubJobs"]["ml/train/a-0"]["Tasks"]) == ["uid-9"]
    assert body["TaskToSubJob"] == {"uid-9": "ml/train/a-0"}
    assert list(body["TaskStatusIndex"]) == ["1", "32"]
    read = volcano.decode_request(v.JOB_READY, json.dumps({"job": body}).encode()).job
    assert read.sub_jobs == job.sub_jobs


def test_revocable_nodes_are_told_by_name_and_sent_whole() -> None:
    snapshot = m.WireSnapshot(nodes=[NODE_2], revocable_nodes=["cpu-1"])
    body = volcano.encode_request(v.ON_SESSION_OPEN, m.SessionOpenRequest(snapshot=snapshot))
    assert json.loads(body)["RevocableNodes"]["cpu-1"] == json.loads(body)["Nodes"]["cpu-1"]
    assert volcano.decode_request(v.ON_SESSION_OPEN, body).snapshot.revocable_nodes == ["cpu-1"]


def test_an_object_of_the_api_server_loses_kind_and_version_as_in_go() -> None:
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}
    assert _written(WireTask(name="p", pod=pod))["Pod"] == {"metadata": {"name": "p"}}
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    written = _job(WireJob(uid="ml/g", pod_group=group))["PodGroup"]
    assert written == {"metadata": {"name": "g"}, "Version": "v1beta1"}


@given(amounts("nvidia.com/gpu"))
@settings(deadline=None, max_examples=30)
def test_amounts_of_the_tasks_requests_always_take_one_pod(requests: dict[str, int]) -> None:
    body = _written(WireTask(requests=dict(requests)))
    assert body["Resreq"] == body["InitResreq"]
    assert body["Resreq"]["ScalarResources"]["pods"] == 1
