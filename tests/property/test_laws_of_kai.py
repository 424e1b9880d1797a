"""What KAI's actions never do, on random clusters: over-commit, half a gang, a move without a place, a theft."""

from __future__ import annotations

import copy
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from kai_worlds import ALL, random_case
from pumice_conformance.cases import Case
from pumice_conformance.kai_rounds import prepare, state_of

from effort import WHOLE
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.kai.plugins.proportion import ClaimOrder, KaiProportion
from pumice.kai.search.placing import KaiChoice, Placer
from pumice.kai.search.sieves import Sieve
from pumice.kai.search.work_order import RankedJobs, WorkOrder
from pumice.kai.view import jobs
from pumice.kai.view.nodes import KaiRoom
from pumice.kai.view.points import WorldOrders
from pumice.kai.view.queues import exceeds
from pumice.kai.view.tasks import ACTIVE, TaskStage, TaskView
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.gpu import DEVICE
from pumice.model.intents import Bind
from pumice.model.status import TaskStatus
from pumice.scheduler.assembly import Assembly, assemble
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.recording import decisions_of, record, replay
from pumice.state.devices import groups_named
from pumice.state.invariants import violations

pytestmark = pytest.mark.law
SEEDS = int(os.environ.get("PUMICE_KAI_SEEDS", "60" if WHOLE else "8"))
HOLDING = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
REGISTRY = default_registry()


def conf_of(case: Case, compat: str | None = None) -> Assembly:
    """Pumice's own decisions, or those of KAI."""
    return assemble(prepare(case, REGISTRY).conf, REGISTRY, compat)


def look(case: Case, see: Callable[[KaiWorld], Any], assembly: Assembly | None = None) -> Any:
    """What a look at the world tells when a cycle has decided."""
    found = []
    state = state_of(case, case.data["objects"])
    report = run_cycle(state, assembly or conf_of(case), Runtime(), inspect=lambda s: found.append(see(world_of(s))))
    assert not report.errors
    assert not violations(state)
    return found[0]


def overfull(world: KaiWorld) -> list[str]:
    """Nodes that hold more than they have, or will when who leaves has left and who is promised room is there."""
    said = []
    for node in world.state.table.by_name.values():
        now = [t for t in world.tasks.values() if t.task.node is node and _holds(t)]
        then = [t for t in world.tasks.values() if t.node is node and t.stage in ACTIVE]
        for when, tasks in (("now", now), ("then", then)):
            used: Counter[int] = Counter()
            shared: Counter[str] = Counter()
            for task in tasks:
                used.update(dict(task.request.items))
                used[world.nodes.gpu] += task.request.gpus
                if task.request.shared is not None:
                    runs = task.task.status is TaskStatus.RUNNING
                    for name in groups_named(task.task) if when == "now" and runs else task.groups:
                        shared[name] += world.nodes.share(node.row, task.request.shared)
            used[world.nodes.gpu] += 1000 * len(shared)
            said += [f"{node.name} {when}: {d}" for d, v in used.items() if v > world.nodes.allocatable[d, node.row]]
            said += [f"{node.name} {when}: {name}" for name, m in shared.items() if m > DEVICE]
    return said


def _holds(task: TaskView) -> bool:
    """Is it on its node, or bound to it and nowhere else since?"""
    status = task.task.status
    return status is TaskStatus.RUNNING or (status in HOLDING and task.stage is TaskStage.BINDING)


def halves(world: KaiWorld) -> list[str]:
    """Jobs of which something is bound without the minimum."""
    return [
        job.job.uid
        for job in world.jobs.values()
        for podset in job.pod_sets()
        if any(t.task.status is TaskStatus.BINDING for t in podset.tasks)
        and sum(t.task.status in HOLDING for t in podset.tasks) < podset.minimum
    ]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_node_is_over_full_and_no_gang_begins_in_part(seed: int) -> None:
    case = random_case(seed)
    assert look(case, lambda world: overfull(world) + halves(world)) == []


@pytest.mark.parametrize("seed", range(0, SEEDS, 5))
@pytest.mark.parametrize("actions", [ALL, "allocate, consolidation"])
def test_the_same_holds_where_objects_say_all_that_they_can(seed: int, actions: str) -> None:
    """Queues of three levels, GPUs by memory and several at once, MIG, protected times, delays, pods that leave."""
    case = random_case(seed, actions=actions, varied=True)

    def wrong(world: KaiWorld) -> list[str]:
        lost = [t.uid for t in world.tasks.values() if t.stage is TaskStage.RELEASING and t.virtual]
        return overfull(world) + halves(world) + (lost if actions != ALL else [])

    assert look(case, wrong) == []


@pytest.mark.parametrize("seed", range(0, SEEDS, 2))
def test_consolidation_touches_nobody_who_has_no_new_place(seed: int) -> None:
    case = random_case(seed, actions="allocate, consolidation")

    def lost(world: KaiWorld) -> list[str]:
        return [t.uid for t in world.tasks.values() if t.stage is TaskStage.RELEASING]

    assert look(case, lost) == []


@pytest.mark.parametrize("seed", range(0, SEEDS, 2))
def test_reclaim_takes_only_from_who_holds_more_than_its_quota_or_its_share(seed: int) -> None:
    case = random_case(seed, actions="allocate, reclaim")
    before: dict[str, Any] = {}

    def standing(world: KaiWorld) -> None:
        for queue in world.queues.values():
            over = exceeds(queue.allocated, queue.allocatable) or exceeds(queue.allocated, queue.quota)
            before[queue.name] = (queue.allocated, over)

    look(random_case(seed, actions="allocate"), standing)

    def robbed(world: KaiWorld) -> list[str]:
        return [
            q.name
            for q in world.queues.values()
            if q.is_leaf
            and any(now < then - 1e-6 for now, then in zip(q.allocated, before[q.name][0], strict=True))
            and not any(before[each.name][1] for each in q.chain())
        ]

    assert look(case, robbed) == []


@pytest.mark.parametrize("seed", range(0, SEEDS, 3))
def test_decisions_do_not_depend_on_the_order_in_which_objects_arrive(seed: int) -> None:
    def outcome(case: Case) -> dict[str, str]:
        found: dict[str, str] = look(case, lambda w: {u: f"{t.stage} {t.node_name}" for u, t in w.tasks.items()})
        return found

    case = random_case(seed)
    first = outcome(case)
    assert outcome(case) == first
    for found in case.data["objects"].values():
        random.Random(seed).shuffle(found)
    assert outcome(case) == first


def _called(data: Any, names: set[str], before: str) -> Any:
    """The same with other names, in the same order."""
    if isinstance(data, dict):
        return {key: _called(value, names, before) for key, value in data.items()}
    if isinstance(data, list):
        return [_called(value, names, before) for value in data]
    return before + data if isinstance(data, str) and data in names else data


@pytest.mark.parametrize("seed", range(0, SEEDS, 5))
@pytest.mark.parametrize("kind", ["nodes", "queues", "podGroups"])
@pytest.mark.part(3)
def test_decisions_do_not_depend_on_names_but_for_their_order(seed: int, kind: str) -> None:
    case = random_case(seed, varied=seed % 2 == 0)
    objects, before = case.data["objects"], "zz-"

    def outcome(of: Case) -> dict[str, str]:
        found: dict[str, str] = look(
            of, lambda w: {u: f"{t.stage} {t.node_name.removeprefix(before)}" for u, t in w.tasks.items()}
        )
        return found

    names = {obj["metadata"]["name"] for obj in objects[kind]}
    assert names
    other = Case(case.id, {**case.data, "objects": _called(objects, names, before)})
    assert outcome(other) == outcome(case)


@pytest.mark.parametrize("seed", range(1, SEEDS, 4))
def test_a_cycle_that_is_replayed_decides_the_same(seed: int) -> None:
    case = random_case(seed)
    assembly = conf_of(case)
    state, runtime = state_of(case, case.data["objects"]), Runtime()
    saved = record(state, assembly.conf, runtime)
    report = run_cycle(state, assembly, runtime)
    saved.decisions = decisions_of(report.intents)
    assert replay(saved, REGISTRY).decisions == saved.decisions


LONG_WAYS: dict[str, tuple[Any, str, Any]] = {
    "victims that leave too few whole GPUs are tried": (Sieve, "might", lambda *_: True),
    "victims of one node are looked for where none has enough": (Sieve, "node_might", lambda _: True),
    "searches that cannot end well are begun": (KaiProportion, "_somebody_may_go", lambda *_: True),
    "nodes are scored for every task": (KaiChoice, "_first", lambda *_: None),
    "a job that has no smaller part is searched for as a part": (jobs.JobView, "is_least", False),
    "what a queue may have is asked for every task": (Placer, "_implied", property(lambda _: False, lambda *_: None)),
    "room is looked for on all nodes": (KaiRoom, "fits", lambda room, request, *, now: room._on_all(request, now)),
    "a job of one task is looked at as any other": (jobs, "_only", lambda *_: (None, 0)),
    "jobs that ask for the same are passed one by one": (WorkOrder, "pass_likes", lambda *_: None),
    "jobs are put in order for every scenario": (RankedJobs, "listed", RankedJobs._build),
    "claims of queues are compared by who orders them": (
        WorldOrders,
        "claim_keys",
        lambda _: None,
    ),
    "queues are measured for every comparison": (ClaimOrder, "_known", property(lambda _: {}, lambda *_: None)),
}
"""What is skipped, or kept -> where it would not be."""


@pytest.mark.parametrize("seed", range(0, SEEDS, 4))
def test_the_long_way_decides_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is skipped or kept, all at once; where that makes a difference, the ways that do are named."""
    case = random_case(seed, varied=seed % 8 == 0, full=seed % 16 == 4)
    compat = "kai" if seed % 3 else None

    def outcome() -> dict[str, str]:
        found: dict[str, str] = look(
            case, lambda w: {u: f"{t.stage} {t.node_name}" for u, t in w.tasks.items()}, conf_of(case, compat)
        )
        return found

    def taken(*ways: str) -> bool:
        with monkeypatch.context() as patch:
            for way in ways:
                patch.setattr(*LONG_WAYS[way], raising=False)
            return outcome() != first

    first = outcome()
    assert not taken(*LONG_WAYS), [way for way in LONG_WAYS if taken(way)]


RESTLESS = (83, 97, 110, 127, 174)
"""Clusters in which KAI evicts the same jobs again and again."""


def evictions(seed: int, compat: str | None, cycles: int = 10) -> list[int]:
    """How many pods each cycle evicts, of a cluster in which who was evicted waits again."""
    case = random_case(seed)
    assembly, objects, runtime = conf_of(case, compat), copy.deepcopy(case.data["objects"]), Runtime()
    found = []
    for n in range(cycles):
        state = state_of(case, objects)
        state.now = case.now + n
        report = run_cycle(state, assembly, runtime)
        found.append(len(report.evictions))
        notes = {i.pod: i.annotations for i in report.intents if isinstance(i, Bind)}
        for pod in objects["pods"]:
            meta, key = pod["metadata"], f"default/{pod['metadata']['name']}"
            if key in report.binds:
                pod["spec"]["nodeName"], pod["status"] = report.binds[key], {"phase": "Running"}
                meta["annotations"].update(notes[key])
            elif key in report.evictions:
                del pod["spec"]["nodeName"]
                pod["status"] = {"phase": "Pending"}
                for part in (meta["labels"], meta["annotations"]):
                    part.pop("runai-gpu-group", None)
    return found


@pytest.mark.parametrize("seed", [*range(0, SEEDS, 10), *RESTLESS])
@pytest.mark.part(3)
def test_a_cluster_settles(seed: int) -> None:
    assert evictions(seed, None)[-3:] == [0, 0, 0]


def test_in_kai_who_was_evicted_takes_the_room_again_that_he_was_evicted_for() -> None:
    assert sum(evictions(110, "kai")[-3:]) > 0
