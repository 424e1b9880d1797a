"""Cases of KAI: rounds of one cluster, compared with what is expected and with what KAI did."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pumice.config import from_data
from pumice.conformance.cases import KAI_KINDS, Case
from pumice.framework.registry import Registry
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.kai.view.stage import TaskStage
from pumice.kai.view.tasks import GROUP_LABEL
from pumice.kai.view.wording import job_error
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model import api, quantity
from pumice.model.events import Seen
from pumice.model.keys import LAST_START, RECEIVED_TYPE
from pumice.model.mapping import plain
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations


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


@dataclass(slots=True)
class KaiCaseOutcome:
    """The outcome of a case: what breaks an expectation, and what KAI did otherwise."""

    failures: list[str]
    deviations: list[str]


def play(case: Case, registry: Registry) -> KaiCaseOutcome:
    """Play every round of a case."""
    data = case.data
    assembly = prepare(case, registry)
    objects: dict[str, list[dict[str, Any]]] = copy.deepcopy(data.get("objects") or {})
    rounds = data.get("rounds") or {}
    until, after = int(rounds.get("untilMatch", 1)), int(rounds.get("afterMatch", 0))
    writes = bool(rounds.get("writeBack", True))
    expect, observed = data.get("expect") or {}, (data.get("observed") or {}).get("rounds") or []
    failures: list[str] = []
    deviations: list[str] = []
    groups = _GroupNames(case)
    seen = Round()
    for number in range(until + after if writes else 1):
        seen = one_round(case, assembly, objects, seen.minted)
        failures += seen.problems
        if number < len(observed):
            deviations += [f"round {number}: {text}" for text in _deviations(observed[number], seen, groups)]
        failures += _calls(expect, seen, number)
        if not writes:
            return KaiCaseOutcome(failures + _mismatches(expect, seen), deviations)
        if number >= until:
            failures += [f"round {number}: {text}" for text in _mismatches(expect, seen)]
        objects = write_back(case, objects, seen)
        if number == until - 1:
            found = as_found(case, assembly, objects)
            found.errors = seen.errors
            failures += _mismatches(expect, found)
    return KaiCaseOutcome(failures, deviations)


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
    session.retire()
    return seen


def _environment(case: Case, minted: int = 0) -> dict[str, Any]:
    environment = case.data.get("environment") or {}
    given: dict[str, Any] = {"minted": minted}
    if "minNodeGpuMemoryMiB" in environment:
        given["gpu_memory"] = (environment["minNodeGpuMemoryMiB"], environment["maxNodeGpuMemoryMiB"])
    initial = {}
    for key, text in (environment.get("initialStatus") or {}).items():
        stage, _, node = text.partition(" on ")
        if TaskStage(stage) is not TaskStage.PENDING:  # a waiting pod is on no node
            initial[key] = (TaskStage(stage), node)
    given["initial"] = initial
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


# -- comparing ------------------------------------------------------------------------------------------------------
def _mismatches(expect: Mapping[str, Any], seen: Round) -> list[str]:
    out = []
    for key, want in (expect.get("tasks") or {}).items():
        have = seen.tasks.get(key)
        if have is None:
            out.append(f"task {key}: expected {want}, it does not exist")
            continue
        there = "node" in want and want["status"] != "Pending"
        if have["status"] != want["status"] or (there and have.get("node") != want["node"]):
            out.append(f"task {key}: expected {_brief(want)}, got {_brief(have)}")
        elif "numaZones" in want and want["numaZones"] != have.get("numaZones", []):
            out.append(f"task {key}: expected NUMA zones {want['numaZones']}, got {have.get('numaZones', [])}")
    for key, text in (expect.get("jobErrors") or {}).items():
        if seen.errors.get(key, "") != text:
            out.append(f"job {key}: expected {text!r}, got {seen.errors.get(key, '')!r}")
    for name, amounts in (expect.get("nodes") or {}).items():
        for what, value in amounts.items():
            if what in ("idleGpus", "releasingGpus") and abs(seen.nodes[name][what] - value) > 1e-6:
                out.append(f"node {name}: expected {what} {value:g}, got {seen.nodes[name][what]:g}")
        for zone, wanted in (amounts.get("numaZonesAvailable") or {}).items():
            left = dict(enumerate(seen.zones.get(name, ()))).get(int(zone), {})
            if any(left.get(what) != quantity.milli(text) for what, text in wanted.items()):
                out.append(f"node {name}: expected {wanted} available in NUMA zone {zone}, got {left} thousandths")
    return out


def _brief(task: Mapping[str, Any]) -> str:
    return f"{task['status']}{' on ' + task['node'] if task.get('node') else ''}"


def _calls(expect: Mapping[str, Any], seen: Round, number: int) -> list[str]:
    most = expect.get("maxCalls") or {}
    return [
        f"round {number}: {len(seen.calls[kind])} calls of {kind}, at most {n} expected"
        for kind, n in most.items()
        if len(seen.calls[kind]) > n
    ]


class _GroupNames:
    """KAI's placeholders for GPUs shared anew -> groups here, which are of one node each, over all rounds of a case."""

    def __init__(self, case: Case) -> None:
        self._known: dict[str, str] = {}
        self._given = {
            value
            for pod in (case.data.get("objects") or {}).get("pods") or ()
            for key, value in (pod["metadata"].get("labels") or {}).items()
            if key == GROUP_LABEL or key.startswith(f"{GROUP_LABEL}/")
        }

    def agree(self, want: list[str], have: list[str]) -> bool:
        """Can the names mean the same GPUs?"""
        if len(want) != len(have):
            return False
        fixed = sorted(w for w in want if not w.startswith("new-"))
        mine = sorted(h for h in have if h in self._given)
        if fixed != mine:
            return False
        fresh = [w for w in want if w.startswith("new-")]
        rest = [h for h in have if h not in self._given]
        for w in [w for w in fresh if w in self._known]:
            if self._known[w] not in rest:
                return False
            rest.remove(self._known[w])
        for w in [w for w in fresh if w not in self._known]:
            free = next((r for r in rest if r not in self._known.values()), None)
            if free is None:
                return False
            rest.remove(free)
            self._known[w] = free
        return True


def _deviations(observed: Mapping[str, Any], seen: Round, groups: _GroupNames) -> list[str]:
    out = []
    for key, want in (observed.get("tasks") or {}).items():
        have = seen.tasks.get(key, {"status": "missing"})
        if have["status"] != want["status"] or want.get("node", have.get("node")) != have.get("node"):
            out.append(f"task {key}: KAI {_brief(want)}, here {_brief(have)}")
        elif "gpuGroups" in want and not groups.agree(list(want["gpuGroups"]), list(have.get("gpuGroups", ()))):
            out.append(f"task {key}: KAI shares {want['gpuGroups']}, here {have.get('gpuGroups')}")
        elif want.get("numaZones", []) != have.get("numaZones", []):
            out.append(f"task {key}: KAI uses NUMA zones {want.get('numaZones', [])}, here {have.get('numaZones', [])}")
    for name, share in (observed.get("fairShare") or {}).items():
        mine = seen.fair_share.get(name, {})
        for what, value in share.items():
            share_here = mine.get(what, 0.0)
            if value >= 1:
                share_here = math.floor(share_here + 1e-6)  # as the cases write shares down
            if abs(share_here - value) > max(1e-6 * abs(value), 1e-6):
                out.append(f"queue {name}: KAI's fair share of {what} {value:g}, here {mine.get(what, 0.0):g}")
    for kind, pods in (observed.get("calls") or {}).items():
        if sorted(set(pods)) != sorted(set(seen.calls[kind])):
            out.append(f"calls of {kind}: KAI {sorted(set(pods))}, here {sorted(set(seen.calls[kind]))}")
    for name, amounts in (observed.get("nodes") or {}).items():
        for what in ("idleGpus", "releasingGpus"):
            if what in amounts and abs(seen.nodes[name][what] - amounts[what]) > 1e-6:
                out.append(f"node {name}: KAI {what} {amounts[what]:g}, here {seen.nodes[name][what]:g}")
    return out


# -- the next round -------------------------------------------------------------------------------------------------
def write_back(case: Case, objects: Mapping[str, Any], seen: Round) -> dict[str, list[dict[str, Any]]]:
    """The objects as a cluster would have them after a round."""
    staying = set((case.data.get("rounds") or {}).get("deleteInTest") or ())
    found: dict[str, list[dict[str, Any]]] = copy.deepcopy(dict(objects))
    holding: set[str] = set()
    for pod in found.get("pods") or ():
        meta = pod["metadata"]
        namespace = meta.get("namespace", "default")
        group = f"{namespace}/{(meta.get('annotations') or {}).get('pod-group-name', '')}"
        task = seen.tasks.get(f"{namespace}/{meta['name']}")
        if task is None:
            continue
        match task["status"]:
            case "Binding":
                _bound(pod, task)
            case "Pipelined":
                _pending(pod)
            case "Releasing" if group not in staying:
                _pending(pod)
            case "Releasing":
                meta["deletionTimestamp"] = meta.get("deletionTimestamp") or case.data["environment"]["now"]
                pod["status"]["phase"] = "Running"
        if pod["status"].get("phase") == "Running" and not meta.get("deletionTimestamp"):
            holding.add(group)
    for claim in found.get("resourceClaims") or ():
        meta = claim["metadata"]
        key = f"{meta.get('namespace', 'default')}/{meta['name']}"
        claim["status"] = seen.claims.get(key, claim.get("status") or {})
    for pod_group in found.get("podGroups") or ():
        meta = pod_group["metadata"]
        notes = dict(meta.get("annotations") or {})
        if f"{meta.get('namespace', 'default')}/{meta['name']}" in holding:
            notes[LAST_START] = notes.get(LAST_START) or _minute_before(case)
        else:
            notes.pop(LAST_START, None)
        meta["annotations"] = notes
    return found


def _minute_before(case: Case) -> str:
    return datetime.fromtimestamp(case.now - 60, UTC).isoformat().replace("+00:00", "Z")


def _bound(pod: dict[str, Any], task: Mapping[str, Any]) -> None:
    pod["spec"]["nodeName"] = task["node"]
    pod["status"] = {**pod.get("status", {}), "phase": "Running"}
    meta = pod["metadata"]
    notes = dict(meta.get("annotations") or {})
    shares = "gpu-fraction" in notes or "gpu-memory" in notes
    notes[RECEIVED_TYPE] = "Fraction" if shares else "Regular"
    meta["annotations"] = notes
    groups = list(task.get("gpuGroups") or ()) if shares else []
    labels = _without_groups(meta)
    if len(groups) == 1:
        labels[GROUP_LABEL] = groups[0]
    else:
        labels |= {f"{GROUP_LABEL}/{g}": g for g in groups}
    meta["labels"] = labels


def _pending(pod: dict[str, Any]) -> None:
    pod["spec"].pop("nodeName", None)
    pod["status"] = {"phase": "Pending"}
    meta = pod["metadata"]
    meta.pop("deletionTimestamp", None)
    meta["labels"] = _without_groups(meta)
    notes = dict(meta.get("annotations") or {})
    notes.pop(RECEIVED_TYPE, None)
    meta["annotations"] = notes


def _without_groups(meta: Mapping[str, Any]) -> dict[str, str]:
    return {k: v for k, v in (meta.get("labels") or {}).items() if not k.startswith(GROUP_LABEL)}
