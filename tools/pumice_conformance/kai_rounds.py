"""One round of a case of KAI: a cycle on its objects, and what the session's view of them is when it is over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pumice.config import from_data
from pumice.framework.registry import Registry
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.kai.view.tasks import TaskStage
from pumice.kai.view.wording import job_error
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.mapping import plain
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice_conformance.cases import KAI_KINDS, Case


@dataclass(slots=True)
class Round:
    """What one round left: tasks, nodes and calls."""

    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    nodes: dict[str, dict[str, float]] = field(default_factory=dict)
    zones: dict[str, list[dict[str, int]]] = field(default_factory=dict)
    """Node -> what is available in each of its NUMA zones, in thousandths."""
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Resource claim -> its status."""
    calls: dict[str, list[str]] = field(default_factory=dict)
    fair_share: dict[str, dict[str, float]] = field(default_factory=dict)
    allocated: dict[str, dict[str, float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    """PodGroup -> why it is not served, in KAI's words."""
    problems: list[str] = field(default_factory=list)
    minted: int = 0
    """How many shared GPUs got names so far."""


def prepare(case: Case, registry: Registry) -> Assembly:
    """The conf of a case made ready, with the parameters that its environment gives."""
    environment = case.data.get("environment") or {}
    conf: dict[str, Any] = {**case.data["conf"], "dialect": "kai"}
    given = dict(environment.get("schedulerParams") or {})
    if "fullHierarchyFairness" in environment:
        given["fullHierarchyFairness"] = environment["fullHierarchyFairness"]
    conf["schedulerParams"] = given
    loaded = from_data(conf, catalogue_of(registry), source=case.id)
    return assemble(loaded.conf, registry, "kai")


def state_of(case: Case, objects: Mapping[str, Any]) -> ClusterState:
    """A state that has seen the objects."""
    state = ClusterState(scheduler_names=None)
    state.now = case.now
    for name, kind in KAI_KINDS.items():
        for data in objects.get(name) or ():
            state.apply(Seen(api.decode(kind, data)))
    return state


def one_round(
    case: Case, assembly: Assembly, objects: Mapping[str, Any], minted: int = 0, runtime: Runtime | None = None
) -> Round:
    """One cycle on the objects; *minted*: how many shared GPUs got names in the rounds before.

    *runtime*: what is kept between rounds; nothing is, where none is given.
    """
    state = state_of(case, objects)
    seen = Round()

    def inspect(ssn: Session) -> None:
        _look(world_of(ssn), seen)

    report = run_cycle(
        state, assembly, runtime or Runtime(), environment=_environment(case, minted), details=True, inspect=inspect
    )
    seen.problems = [f"plugin error: {e}" for e in report.errors] + [f"invariant: {v}" for v in violations(state)]
    return seen


def as_found(case: Case, assembly: Assembly, objects: Mapping[str, Any]) -> Round:
    """The objects as a session that does nothing sees them."""
    seen = Round()
    session = Session(
        state_of(case, objects),
        tiers=assembly.tiers(),
        action_arguments=assembly.action_arguments,
        compat=assembly.compat,
        environment=_environment(case),
    ).open()
    _look(world_of(session), seen)
    session.close()
    session.release()
    return seen


def _environment(case: Case, minted: int = 0) -> dict[str, Any]:
    environment = case.data.get("environment") or {}
    given: dict[str, Any] = {"minted": minted}
    if "minNodeGpuMemoryMiB" in environment:
        given["gpu_memory"] = (environment["minNodeGpuMemoryMiB"], environment["maxNodeGpuMemoryMiB"])
    return {"kai": given}


def _look(world: KaiWorld, seen: Round) -> None:
    for job in world.jobs.values():
        for task in [*job.tasks.values(), *job.unknown]:
            entry: dict[str, Any] = {"status": task.stage.value}
            if task.stage in (TaskStage.SUCCEEDED, TaskStage.FAILED):
                entry["node"] = task.task.pod.spec.node_name or None
            elif task.node is not None and task.stage not in (TaskStage.PENDING, TaskStage.GATED):
                entry["node"] = task.node.name
            if task.groups and task.stage not in (TaskStage.PENDING, TaskStage.GATED):
                entry["gpuGroups"] = sorted(task.tried or task.groups)
            if task.zones:
                entry["numaZones"] = sorted(at for at, _ in task.zones)
            seen.tasks[task.task.key] = entry
    for node in world.state.table.by_name.values():
        seen.nodes[node.name] = {
            "idleGpus": world.nodes.idle_gpus(node.row),
            "releasingGpus": world.nodes.releasing_gpus(node.row),
        }
        zones = world.zones.get(node.row)
        if zones is not None:
            seen.zones[node.name] = [dict(z.available) for z in zones.zones]
    for uid, errors in world.job_errors.items():
        seen.errors[uid] = _with_their_names(job_error(errors), world)
    for key, allocation, users in world.claims.states() if world.claims is not None else ():
        seen.claims[key] = {"reservedFor": [{"resource": "pods", "uid": uid} for uid in users]}
        if allocation is not None:
            seen.claims[key]["allocation"] = plain(dict(allocation))
    seen.minted = world.nodes.minted
    calls = world.calls
    seen.calls = {"bind": sorted(calls.bind), "evict": sorted(calls.evict), "pipeline": sorted(calls.pipeline)}
    names = ("cpu", "memory", "gpu")
    for queue in world.queues.values():
        seen.fair_share[queue.name] = dict(zip(names, queue.fair_share, strict=True))


def _with_their_names(text: str, world: KaiWorld) -> str:
    """A text with the names that the cases use: UIDs, and no namespace where it is the default one."""
    keys = {job.job.uid: job.uid for job in world.jobs.values()} | {t.task.key: t.uid for t in world.tasks.values()}

    def named(found: re.Match[str]) -> str:
        uid = keys.get(found[0])
        namespace = found[0].partition("/")[0]
        return found[0] if uid is None else f"{'' if namespace == 'default' else namespace}/{uid}"

    return re.sub(r"[a-z0-9.-]+/[a-z0-9.-]*[a-z0-9]", named, text)
