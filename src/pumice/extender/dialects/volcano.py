"""The volcano dialect: Go's structs, field by field in their order, from what plugins see; read by `messages`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace

from pumice.extender.answers import Answer, Json
from pumice.extender.dialects.dialect import HOLE, Dialect, Written, by_key, of_class
from pumice.extender.dialects.messages import Ledger
from pumice.extender.gojson import number, numbers, sorted_map
from pumice.model import api
from pumice.model.job import Job, SubJob, parse_bool
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import CPU, MEMORY, PODS, dim_name, unit
from pumice.model.status import TaskStatus
from pumice.model.task import PREEMPTABLE_KEY, Task
from pumice.state.cluster import ClusterState

_PLACED: Final = frozenset({TaskStatus.ALLOCATED, TaskStatus.BINDING})
_NO_USAGE: Final = {"MetricsTime": "0001-01-01T00:00:00Z", "CPUUsageAvg": {}, "MEMUsageAvg": {}}
_NOTHING: Final = {"MilliCPU": 0, "Memory": 0, "ScalarResources": None, "MaxTaskNum": 0}


class Volcano(Dialect):
    """The messages that Volcano's Go code really sends and reads. The verbs that it does not have speak of the same
    objects."""

    name: ClassVar[str] = "volcano"
    lists_tasks: ClassVar[bool] = True
    no_items: ClassVar[bytes] = b"null"

    def task(self, task: Task) -> Json:
        requests = of_class(task, self.name, resource)
        return {
            "UID": task.uid,
            "Job": task.job_key,
            "Name": task.name,
            "Namespace": task.namespace,
            "TaskRole": task.role,
            "Resreq": requests,
            "InitResreq": requests,
            "DRAResreq": None,
            "ResourceClaimKeys": None,
            "ResourceClaimDRAResreq": None,
            "NodeName": task.node_name,
            "EvictionOccurred": False,
            "JobAllocatedHyperNode": "",
            "Status": task.status.bit,
            "LastTransaction": None,
            "Priority": task.priority,
            "VolumeReady": False,
            "Preemptable": task.preemptable,
            "BestEffort": task.best_effort,
            "HasRestartableInitContainer": False,
            "SchGated": bool(task.gates),
            "RevocableZone": "",
            "NumaInfo": {"Policy": "", "ResMap": {}},
            "Pod": pod_of(task),
            "PodAnnotations": sorted_map(dict(task.annotations)),
            "CustomBindErrHandlerSucceeded": False,
        }

    def named_task(self, uid: str, namespace: str, name: str, job: str = "", node: str = "", status: int = 1) -> Json:
        return {"UID": uid, "Job": job, "Name": name, "Namespace": namespace, "NodeName": node, "Status": status}

    def node_form(self, node: Node) -> Json:
        return {
            "Name": node.name,
            "Node": node.object,
            "State": {"Phase": 1, "Reason": ""},
            "Releasing": HOLE,
            "Pipelined": HOLE,
            "Idle": HOLE,
            "Used": HOLE,
            "Allocatable": resource(node.allocatable.amounts, int(node.allocatable.get(PODS))),
            "Capacity": resource(node.capacity.amounts, int(node.capacity.get(PODS))),
            "ResourceUsage": _NO_USAGE,
            "Tasks": HOLE,
            "NumaInfo": None,
            "UnassignedNumaPods": None,
            "NumaSchedulerInfo": None,
            "RevocableZone": "",
            "Others": {},
            "OversubscriptionNode": False,
            "OfflineJobEvicting": False,
            "OversubscriptionResource": _NOTHING,
            "ImageStates": {},
            "Generation": 0,
            "BindGeneration": 0,
        }

    def ledgers(self, node: Node) -> Json:
        return {
            "Releasing": resource(node.releasing.amounts, zeros=False),
            "Pipelined": resource(node.pipelined.amounts, zeros=False),
            "Idle": resource(node.idle.amounts, int(node.allocatable.get(PODS))),
            "Used": resource(node.used.amounts, zeros=False),
        }

    def named_node(self, name: str) -> Json:
        return {"Name": name}

    def job(self, job: Job, written: Written, *, named: bool = False) -> Json:
        group = job.group
        said: Json = {
            "UID": job.uid,
            "PgUID": group.metadata.uid if group is not None else "",
            "Name": job.name,
            "Namespace": job.namespace,
            "Queue": job.queue,
            "Priority": job.priority,
            "MinAvailable": job.min_available,
        }
        if named:
            del said["PgUID"]
            return {**said, "Tasks": {uid: self.named(task) for uid, task in sorted(job.tasks.items())}}
        tasks = {uid: (task, written.whole(task)) for uid, task in sorted(job.tasks.items())}
        parts: Iterable[SubJob] = job.sub_jobs.values() or [job.whole()]
        return {
            **said,
            "WaitingTime": None,
            "JobFitErrors": "",
            "NodesFitErrors": {},
            "AllocatedHyperNode": "",
            "NetworkTopology": None,
            "SubJobs": sorted_map({part.uid: _sub_job(part, tasks) for part in parts}),
            "TaskToSubJob": sorted_map({uid: part.uid for part in parts for uid in part.tasks}),
            "MinSubJobs": {},
            "TaskStatusIndex": _by_status(tasks),
            "Tasks": {uid: json for uid, (_, json) in tasks.items()},
            "TaskMinAvailable": sorted_map(dict(job.role_minimums)),
            "TaskMinAvailableTotal": job.role_total,
            "Allocated": resource(job.allocated.amounts),
            "TotalRequest": resource(job.total_request.amounts),
            "CreationTimestamp": _stamp(job.creation) or None,
            "PodGroup": {**(api.to_data(group) if group is not None else {}), "Version": "v1beta1"},
            "ScheduleStartTimestamp": None,
            "Preemptable": parse_bool(job.annotations.get(PREEMPTABLE_KEY, job.labels.get(PREEMPTABLE_KEY, ""))),
            "RevocableZone": "",
            "Budget": {"MinAvailable": "", "MaxUnavailable": ""},
        }

    def queue(self, queue: Queue) -> Json:
        thing = api.to_data(queue.object)  # Go writes two empty objects that an API server leaves out
        thing["spec"] = {"guarantee": {}, **thing.get("spec", {})}
        thing["status"] = {"reservation": {}, **thing.get("status", {})}
        return {
            "UID": queue.name,
            "Name": queue.name,
            "Weight": queue.weight,
            "Weights": queue.annotations.get("volcano.sh/hierarchy-weights", ""),
            "Hierarchy": queue.annotations.get("volcano.sh/hierarchy", ""),
            "Queue": thing,
        }

    def snapshot(self, state: ClusterState, written: Written) -> Json:
        namespaces: Json = {}
        for quota in state.kind("ResourceQuota").values():
            meta = quota.metadata
            entry = namespaces.setdefault(meta.namespace, {"Name": meta.namespace, "QuotaStatus": {}})
            entry["QuotaStatus"][meta.name] = api.to_data(quota).get("status", {})
        return {
            "Jobs": {job.uid: self.job(job, written) for job in by_key(state.session_jobs)},
            "Nodes": {node.name: self.node(node, written) for node in by_key(state.table.by_name)},
            "Queues": {queue.name: self.queue(queue) for queue in by_key(state.queues)},
            "NamespaceInfo": sorted_map(namespaces),
            "RevocableNodes": {},
            "NodeList": None,
        }

    def _said(self, answer: Answer) -> object:
        return answer.in_go()


def resource(held: Ledger, most: int = 0, *, zeros: bool = True) -> Json:
    """Amounts as Go has them, without any scalar its map is nil; *zeros*: those of nothing stand there too."""
    if not (most or zeros or any(held.values())):
        return _NOTHING
    scalars = {
        dim_name(d): value * ((1 if d == PODS else 1000) // unit(d))
        for d, value in held.items()
        if d not in (CPU, MEMORY) and (value or zeros)
    }
    return {
        "MilliCPU": number(held.get(CPU, 0)),
        "Memory": number(held.get(MEMORY, 0)),
        "ScalarResources": numbers(scalars) or None,
        "MaxTaskNum": most,
    }


def pod_of(task: Task) -> api.Pod:
    """The task's pod; as in Volcano it names its node from the moment it is placed."""
    pod = task.pod
    if task.status in _PLACED and task.node is not None:
        return replace(pod, spec=replace(pod.spec, node_name=task.node_name))
    return pod


def _sub_job(part: SubJob, tasks: Mapping[str, tuple[Task, msgspec.Raw]]) -> Json:
    members = {uid: tasks[uid] for uid in sorted(part.tasks)}
    return {
        "GID": part.group,
        "UID": part.uid,
        "Job": part.job.uid,
        "MinAvailable": part.min_available,
        "Priority": part.priority,
        "MatchIndex": part.match_index,
        "Tasks": {uid: json for uid, (_, json) in members.items()},
        "TaskStatusIndex": _by_status(members),
        "AllocatedHyperNode": "",
        "NominatedHyperNode": "",
        "NetworkTopology": None,
    }


def _by_status(tasks: Mapping[str, tuple[Task, msgspec.Raw]]) -> Json:
    index: dict[str, dict[str, msgspec.Raw]] = {}
    for uid, (task, json) in tasks.items():
        index.setdefault(str(task.status.bit), {})[uid] = json
    return sorted_map(index)


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else ""
