"""Small clusters for the extender tests, and cycles on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pumice.config import from_data
from pumice.extender.plugin import Extender, close_clients
from pumice.framework.compat import compat_of
from pumice.framework.plugin import Arguments
from pumice.framework.registry import Registry, default_registry
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.model import api
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState

STAMP = "2024-03-01T09:00:00Z"


def node(name: str, cpu: int = 8, gpu: int = 0, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    amounts = {"cpu": str(cpu), "memory": "32Gi", "pods": "110"} | ({"nvidia.com/gpu": str(gpu)} if gpu else {})
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}, "creationTimestamp": STAMP}
    return {"metadata": meta, "spec": {}, "status": {"allocatable": amounts, "capacity": amounts}}


def pod(
    name: str,
    job: str = "train",
    cpu: int = 1,
    gpu: int = 0,
    on: str = "",
    labels: Mapping[str, str] | None = None,
    priority: int | None = None,
) -> dict[str, Any]:
    requests = ({"cpu": str(cpu), "memory": "1Gi"} if cpu else {}) | ({"nvidia.com/gpu": str(gpu)} if gpu else {})
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    if on:
        spec["nodeName"] = on
    if priority is not None:
        spec["priority"] = priority
    meta = {
        "name": name,
        "namespace": "ml",
        "uid": f"uid-{name}",
        "creationTimestamp": STAMP,
        "labels": dict(labels or {}),
        "annotations": {"scheduling.k8s.io/group-name": job, "volcano.sh/task-spec": "worker"},
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running" if on else "Pending"}}


def group(
    name: str = "train",
    members: int = 1,
    queue: str = "research",
    phase: str = "Inqueue",
    notes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ml", "uid": f"uid-pg-{name}", "creationTimestamp": STAMP}
    if notes:
        meta["annotations"] = dict(notes)  # type: ignore[assignment]
    spec = {"minMember": members, "queue": queue, "minResources": {"cpu": str(members)}}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def queue(name: str = "research", weight: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "creationTimestamp": STAMP},
        "spec": {"weight": weight, "reclaimable": True},
        "status": {"state": "Open"},
    }


def cluster(
    nodes: Sequence[dict[str, Any]],
    pods: Sequence[dict[str, Any]] = (),
    groups: Sequence[dict[str, Any]] = (),
    queues: Sequence[dict[str, Any]] = (),
) -> ClusterState:
    state = ClusterState()
    state.now = 1_709_290_800.0
    for kind, things in (("Queue", queues or [queue()]), ("Node", nodes), ("PodGroup", groups), ("Pod", pods)):
        for thing in things:
            state.apply(Seen(api.decode(kind, thing)))
    return state


def small(tasks: int = 2, **kinds: Any) -> ClusterState:
    """Two nodes and one waiting gang of *tasks*."""
    pods = [pod(f"train-worker-{n}", **kinds) for n in range(tasks)]
    return cluster([node("n1", gpu=4), node("n2", gpu=4)], pods, [group(members=tasks)])


def arguments(url: str, *verbs: str, **more: Any) -> dict[str, Any]:
    """``extender.*`` arguments: a URL, verbs under their own names, and others by their last part."""
    given: dict[str, Any] = {"extender.urlPrefix": url, "extender.httpTimeout": "5s"}
    given |= {f"extender.{verb}Verb": verb for verb in verbs}
    return given | {f"extender.{name}": value for name, value in more.items()}


def conf(plugins: Sequence[Sequence[dict[str, Any]]], actions: str = "enqueue, allocate, backfill") -> dict[str, Any]:
    return {"actions": actions, "tiers": [{"plugins": list(tier)} for tier in plugins]}


def cycle(
    state: ClusterState,
    data: dict[str, Any],
    *,
    registry: Registry | None = None,
    compat: str | None = None,
    runtime: Runtime | None = None,
    keep: bool = False,
) -> CycleReport:
    """One cycle; connections are closed after it unless *keep*."""
    registry = registry or default_registry()
    runtime = runtime or Runtime()
    assembly = assemble(from_data(data, catalogue_of(registry), source="test").conf, registry, compat)
    try:
        return run_cycle(state, assembly, runtime, details=True)
    finally:
        if not keep:
            close_clients(runtime.memory)


class Opened:
    """A session built by hand with one extender on it."""

    def __init__(self, state: ClusterState, given: Mapping[str, Any], compat: str | None = None) -> None:
        self.runtime = Runtime()
        self.session = Session(state, runtime=self.runtime, compat=compat_of(compat))
        self.plugin = Extender(Arguments(given, owner="extender"))

    def __enter__(self) -> Session:
        self.session.open_plugin(self.plugin)
        return self.session

    def __exit__(self, *_: object) -> None:
        close_clients(self.runtime.memory)
