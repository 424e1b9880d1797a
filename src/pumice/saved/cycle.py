"""A whole cycle as data: everything that a replay needs to decide the same, and the cluster that it makes again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

import msgspec

from pumice.errors import InvalidInput, shown
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.status import JobPhase, TaskStatus
from pumice.saved.staying import without_secrets
from pumice.state.assumed import RefusedWrite
from pumice.state.cluster import ClusterState
from pumice.state.devices import MOST_DEVICES, groups_named

_ASSUMED: Final = frozenset({TaskStatus.BINDING, TaskStatus.RELEASING})
_TOLD: Final = ("do", "pod", "uid", "node", "job", "beneficiary", "beneficiary_pod")
_PHASES: Final = frozenset(map(str, JobPhase)) | {""}


class _Record(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all parts: camel-case in the file, defaults left out."""


class AssumedTask(_Record):
    """A bind or an eviction that was sent and not yet seen back."""

    uid: str
    status: str
    node: str
    since: float


class SavedHealth(_Record):
    """How a plugin has been doing."""

    failures: int = 0
    failing_cycles: int = 0
    quarantined: bool = False
    last: str = ""


class SavedNomination(_Record):
    """Room on a node that is kept for a task until a time."""

    node: str
    until: float
    evicted: list[str] = []
    """The jobs that lost tasks for the task's job since it waits."""


class SavedTurn(_Record):
    """That tasks of a job were evicted for another job."""

    evicted: str
    helped: str
    at: float
    rounds: int = 0
    told: bool = False


class SavedLosses(_Record):
    """When a job lost pods to other jobs within an hour."""

    times: list[float]
    pause: float = 0.0
    placed: bool = False


class SavedRefusal(_Record):
    """A task that the cluster did not let us bind or evict, or a job that a cycle failed at."""

    pod: str
    node: str
    beneficiary: str
    message: str
    wait: float
    until: float
    freed: bool = False
    fresh: bool = True
    bind: bool = False
    failed: bool = False


class SavedShard(_Record):
    """The nodes that are this scheduler's own."""

    hard: bool
    nodes: list[str]


class SavedCycle(_Record):
    """One cycle as it began, and what it decided."""

    now: float
    objects: dict[str, list[dict[str, Any]]]
    """Kind -> objects as an API server would return them."""
    conf: dict[str, Any]
    conf_source: str = ""
    assumed: list[AssumedTask] = []
    devices: dict[str, list[int]] = {}
    """Task -> the GPU devices that it holds."""
    gpu_groups: dict[str, list[str]] = {}
    """Task -> KAI's names of the GPUs of which it holds a part, where its pod does not show them."""
    phases: dict[str, str] = {}
    """Job -> phase, where we have decided one that its PodGroup does not show yet."""
    nominated: dict[str, str] = {}
    """Task -> the node that it looks at before the others, where its pod does not show that yet."""
    default_queue: str = "default"
    scheduler_names: list[str] | None = None
    seed: int = 0
    random_ties: bool = False
    cycle: int = 0
    nominations: dict[str, SavedNomination] = {}
    turns: list[SavedTurn] = []
    """Who was evicted for whom lately."""
    losses: dict[str, SavedLosses] = {}
    """Job -> when it lost pods to other jobs."""
    refused: dict[str, SavedRefusal] = {}
    """Task -> why it could not be evicted."""
    health: dict[str, SavedHealth] = {}
    memory: dict[str, Any] = {}
    """Plugin -> its ``ssn.memory``, packed."""
    left_out: list[str] = []
    """Entries of ``ssn.memory`` that are not plain data and were not saved."""
    shard: SavedShard | None = None
    environment: Any = None
    exchanges: list[dict[str, Any]] = []
    """What an extender was asked and answered, in order."""
    decisions: list[dict[str, Any]] = []
    """Binds, evictions and nominations in order."""
    redacted: bool = False

    def __post_init__(self) -> None:
        for decision in self.decisions:
            told = [decision.get(key, "") for key in _TOLD]
            if not all(isinstance(text, str) for text in told):
                raise ValueError(f"a decision must say what is done to which pod, got {shown(decision)}")


# -- the cluster --------------------------------------------------------------------------------------------------
def held_objects(state: ClusterState) -> dict[str, list[api.AnyObject]]:
    """Every object that the state knows, by kind. They do not change, so any thread may read them."""
    found: dict[str, list[api.AnyObject]] = {
        "Node": [node.object for node in state.nodes.values()],
        "Queue": [queue.object for queue in state.queues.values()],
        "PodGroup": [job.group for job in state.jobs.values() if job.group is not None and job.kind == "PodGroup"],
        "Pod": [task.pod for task in state.tasks.values()],
    }
    for kind, objects in state.objects.items():
        found[kind] = list(objects.values())
    return found


def objects_of(state: ClusterState) -> dict[str, list[dict[str, Any]]]:
    """Every object that the state knows, as data, by kind."""
    return {kind: [_data(o) for o in objects] for kind, objects in held_objects(state).items() if objects}


def _data(obj: api.AnyObject) -> dict[str, Any]:
    """An object as data, without what drivers alone read."""
    data = api.to_data(obj)
    if isinstance(obj, api.Pod):
        if obj.spec.volumes:
            data["spec"]["volumes"] = without_secrets(data["spec"]["volumes"])
        return data
    if isinstance(obj, (api.NodeObject, api.PodGroup, api.QueueObject)):
        return data
    return {key: without_secrets(value) for key, value in data.items()}


def assumed_of(state: ClusterState) -> list[AssumedTask]:
    """Everything that is assumed, oldest first."""
    return [
        AssumedTask(uid=uid, status=task.status.title, node=task.node_name, since=task.assumed_at or 0.0)
        for uid, task in state.assumed.items()
    ]


def devices_of(state: ClusterState) -> dict[str, list[int]]:
    """The GPU devices that tasks hold."""
    return {uid: list(task.devices) for uid, task in state.tasks.items() if task.devices}


def gpu_groups_of(state: ClusterState) -> dict[str, list[str]]:
    """KAI's names of the shared GPUs that tasks hold a part of, where their pods do not show these names."""
    found = {}
    for uid in sorted(state.devices.sharing):
        task = state.tasks.get(uid)
        if task is not None and task.node is not None:
            groups = state.devices.groups_of(task, task.node.row)
            if groups != groups_named(task):
                found[uid] = list(groups)
    return found


def phases_of(state: ClusterState) -> dict[str, str]:
    """The phases that we have decided and that the PodGroups do not show yet."""
    return {
        uid: str(job.phase)
        for uid, job in state.jobs.items()
        if job.group is not None and job.phase != job.group.status.phase
    }


def nominated_of(state: ClusterState) -> dict[str, str]:
    """The nodes that tasks look at before the others, where we have named one, or none, that pods do not show yet."""
    return {
        uid: task.nominated_node
        for uid, task in state.tasks.items()
        if task.nominated_node != task.pod.status.nominated_node_name
    }


def refused_of(state: ClusterState) -> dict[str, SavedRefusal]:
    """The binds and evictions that the cluster refused."""
    return {uid: SavedRefusal(**asdict(no)) for uid, no in state.refused.items()}


def restore(saved: SavedCycle, objects: Iterable[api.AnyObject] | None = None) -> ClusterState:
    """The cluster as it was when the cycle began; of these *objects*, if they are not among what is saved.

    :raises InvalidInput: an object, or a task that is assumed, cannot be what it is said to be.
    """
    names = saved.scheduler_names
    state = ClusterState(default_queue=saved.default_queue, scheduler_names=names)
    if objects is None:
        objects = (_object(kind, data) for kind, listed in saved.objects.items() for data in listed)
    for obj in objects:
        state.apply(Seen(obj))
    for entry in saved.assumed:
        _assume(state, entry)
    hold_devices(state, saved.devices)
    for uid, groups in saved.gpu_groups.items():
        task = state.tasks.get(uid)
        if task is not None and task.node is not None:
            state.devices.name_groups(task, groups, task.node.row)
    for uid, phase in saved.phases.items():
        if phase not in _PHASES:
            raise InvalidInput(f"saved cycle: job {uid!r}: no phase {phase!r}; there are {', '.join(sorted(_PHASES))}")
        if uid in state.jobs:
            state.set_phase(state.jobs[uid], phase)
    for uid, node in saved.nominated.items():
        if uid in state.tasks:
            state.nominate(state.tasks[uid], node)
    state.refused = {uid: RefusedWrite(**msgspec.structs.asdict(no)) for uid, no in saved.refused.items()}
    state.now = saved.now
    return state


def _object(kind: str, data: dict[str, Any]) -> api.AnyObject:
    try:
        return api.decode(kind, data)
    except (InvalidInput, RecursionError) as exc:
        raise InvalidInput(f"saved cycle: {exc}") from exc


def _assume(state: ClusterState, entry: AssumedTask) -> None:
    """Let a task be where a bind or an eviction under way puts it."""
    of = f"saved cycle: task {entry.uid!r}"
    task, node = state.tasks.get(entry.uid), state.nodes.get(entry.node)
    if task is None:
        raise InvalidInput(f"{of} is assumed but is not among the pods")
    status = next((s for s in TaskStatus if s.title == entry.status), None)
    if status is None:
        raise InvalidInput(f"{of}: no status {entry.status!r}")
    if status not in _ASSUMED:
        raise InvalidInput(f"{of}: nothing is under way for a task that is {entry.status}")
    state.set_status(task, status, node)
    state.assume(task, entry.since)


def hold_devices(state: ClusterState, held: dict[str, list[int]]) -> None:
    """Let tasks hold exactly the devices they held; without this they would hold the first free ones.

    A node may offer fewer by now: who holds one that is gone still does.
    """
    table = state.devices
    for uid, devices in held.items():
        task = state.tasks.get(uid)
        node = task.node if task is not None else None
        if node is not None and (len(set(devices)) < len(devices) or any(not 0 <= d < MOST_DEVICES for d in devices)):
            raise InvalidInput(
                f"saved cycle: task {uid!r}: must hold devices of node {node.name!r} by their numbers, 0 to "
                f"{MOST_DEVICES - 1}, each once; got {devices}"
            )
    moved = [
        (task, task.node, devices)
        for uid, devices in held.items()
        if (task := state.tasks.get(uid)) is not None and task.node is not None and list(task.devices) != devices
    ]
    for task, node, _ in moved:
        if task.status is TaskStatus.RELEASING:
            table.set_releasing(task, node.row, -1)
        table.give_back(task, node.row)
    for task, node, devices in moved:
        table.tell_apart(node, max(devices, default=-1) + 1)
        table.take(task, node, devices)
        if task.status is TaskStatus.RELEASING:
            table.set_releasing(task, node.row, 1)
