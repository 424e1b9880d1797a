"""Small makers of API objects for the shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from pumice.model import api

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 1024**3
MIB = 1024**2


def node(
    index: int, *, labels: Mapping[str, str] | None = None, gpus: int = 8, cpu: str = "32", memory: str = "256Gi"
) -> api.NodeObject:
    """A node of the shapes: 32 CPU, 256 GiB, 110 pods, 8 GPUs."""
    name = f"node-{index:05d}"
    resources: api.ResourceList = {"cpu": cpu, "memory": memory, "pods": "110", "nvidia.com/gpu": str(gpus)}
    return api.NodeObject(
        metadata=api.Metadata(
            name=name,
            uid=f"u-{name}",
            creation_timestamp=EPOCH,
            labels={"kubernetes.io/hostname": name, **(labels or {})},
        ),
        status=api.NodeStatus(allocatable=resources, capacity=resources),
    )


def queue(name: str, **spec: object) -> api.QueueObject:
    """An open queue of weight 1."""
    return api.QueueObject(
        metadata=api.Metadata(name=name, uid=name, creation_timestamp=EPOCH),
        spec=api.QueueSpec(**{"weight": 1, "reclaimable": True, **spec}),  # type: ignore[arg-type]
        status=api.QueueStatus(state="Open"),
    )


def group(
    name: str,
    tasks: int,
    *,
    order: int = 0,
    queue: str = "default",
    phase: str = "Pending",
    roles: Mapping[str, int] | None = None,
    minimum: api.ResourceList | None = None,
    priority_class: str = "",
    topology: api.NetworkTopology | None = None,
) -> api.PodGroup:
    """A PodGroup whose minimum is all of its tasks."""
    return api.PodGroup(
        metadata=api.Metadata(
            name=name, namespace="bench", uid=f"u-{name}", creation_timestamp=EPOCH + timedelta(milliseconds=order)
        ),
        spec=api.PodGroupSpec(
            min_member=tasks,
            min_task_member=dict(roles or {"worker": tasks}),
            min_resources=minimum,
            queue=queue,
            priority_class_name=priority_class,
            network_topology=topology,
        ),
        status=api.PodGroupStatus(phase=phase),
    )


def hyper_node(name: str, tier: int, kind: str, members: Iterable[str]) -> api.HyperNode:
    """A HyperNode of named members of one kind: ``Node`` or ``HyperNode``."""
    listed = tuple(
        api.HyperNodeMember(type=kind, selector=api.MemberSelector(exact_match=api.ExactMatch(name=m))) for m in members
    )
    return api.HyperNode(metadata=api.Metadata(name=name), spec=api.HyperNodeSpec(tier=tier, members=listed))


def requests(cpu_milli: int, memory: int, gpus: int = 0) -> api.ResourceList:
    """A resource list."""
    listed: api.ResourceList = {"cpu": f"{cpu_milli}m", "memory": str(memory)}
    if gpus:
        listed["nvidia.com/gpu"] = str(gpus)
    return listed


def pod(
    job: str,
    index: int,
    wants: api.ResourceList,
    *,
    role: str = "worker",
    node: str = "",
    order: int = 0,
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, object] | None = None,
    priority: int | None = None,
) -> api.Pod:
    """A pod of a job, running where a node is given."""
    name = f"{job}-{role}-{index}"
    return api.Pod(
        metadata=api.Metadata(
            name=name,
            namespace="bench",
            uid=f"u-{name}",
            creation_timestamp=EPOCH + timedelta(milliseconds=order),
            labels=dict(labels) if labels else None,
            annotations={"scheduling.k8s.io/group-name": job, "volcano.sh/task-spec": role},
        ),
        spec=api.PodSpec(
            scheduler_name="pumice",
            node_name=node,
            priority=priority,
            containers=(api.Container(name="main", image="img:1", resources=api.ResourceRequirements(requests=wants)),),
            **(spec or {}),  # type: ignore[arg-type]
        ),
        status=api.PodStatus(phase="Running" if node else "Pending"),
    )


def total(wants: api.ResourceList, tasks: int) -> api.ResourceList:
    """The sum of equal requests."""
    listed: api.ResourceList = {
        "cpu": f"{int(str(wants['cpu'])[:-1]) * tasks}m",
        "memory": str(int(wants["memory"]) * tasks),
    }
    if "nvidia.com/gpu" in wants:
        listed["nvidia.com/gpu"] = str(int(wants["nvidia.com/gpu"]) * tasks)
    return listed
