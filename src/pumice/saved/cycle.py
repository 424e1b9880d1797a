"""A whole cycle as data: everything that a replay needs to decide the same, and the cluster that it makes again."""

from __future__ import annotations

import math
import re
import sys
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any, Final

import msgspec

from pumice.errors import InvalidInput, shown, words_of
from pumice.model import api, keys
from pumice.model.codes import ReasonCode
from pumice.model.events import Seen
from pumice.model.status import JobPhase, TaskStatus
from pumice.state.assumed import RefusedWrite
from pumice.state.cluster import ClusterState
from pumice.state.devices import MOST_DEVICES, groups_named

NEVER_SAVED: Final = frozenset(
    {"volumeAttributes", "opaque", "parameters", "secretRef", "nodePublishSecretRef", "nodeStageSecretRef"}
    | {"controllerPublishSecretRef", "controllerExpandSecretRef", "nodeExpandSecretRef"}
)
"""Fields that drivers read and schedulers do not: passwords and tokens stand in them."""
WORDS: Final = frozenset(
    """
In NotIn Exists DoesNotExist Gt Lt Equal NoSchedule PreferNoSchedule NoExecute TCP UDP SCTP Always
OnFailure Never DoNotSchedule ScheduleAnyway Honor Ignore hard soft Node HyperNode Pod Job ReplicaSet
StatefulSet DaemonSet PodGroup Pending Running Succeeded Failed Unknown Inqueue Completed Open Closed
Closing Available Bound Released Lost ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod
Filesystem Block Immediate WaitForFirstConsumer PreemptLowerPriority IfHealthyBudget AlwaysAllow
ExactCount All True False Ready PodScheduled ContainersReady Initialized DisruptionTarget
MemoryPressure DiskPressure PIDPressure NetworkUnavailable Scheduled Unschedulable default root
kube-system kube-public kube-node-lease volcano-system system-cluster-critical system-node-critical
pods pod linux windows amd64 arm64 preemptible non-preemptible metadata.name fifo traverse cpu memory
ephemeral-storage storage requests limits nvidia.com amd.com gpu LeastAllocated MostAllocated
RequestedToCapacityRatio kubernetes.io/no-provisioner
""".split()  # noqa: SIM905
) | frozenset(map(str, ReasonCode))
_KEYED: Final = frozenset({"key", "topologyKey", "topologyKeys", "matchLabelKeys", "mismatchLabelKeys"})
_KEPT_FIELDS: Final = frozenset({"uid", "resourceVersion"})
_ATTRIBUTES: Final = frozenset({"attributes", "capacity"})
_DROPPED_FIELDS: Final = NEVER_SAVED | {"message", "nodeID"}
_PLAIN: Final = re.compile(
    r"|[-+]?[0-9]{1,18}(?:\.[0-9]{0,9})?(?:[eE][-+]?[0-9]{1,3}|[A-Za-zµ%]{1,2})?"
    r"|(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ns|us|µs|ms|s|m|h|d)){1,6}|v?[0-9]+(?:\.[0-9]+){1,3}|true|false|True|False"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(?:Z|[-+][0-9]{2}:[0-9]{2})"
)
PART: Final = re.compile(r'[^\s,;:/={}\[\]"|]+')
"""Annotations hold lists, paths and JSON: each part of one is a text by itself."""
_CEL: Final = re.compile(r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'|[A-Za-z_]\w*")
_CEL_WORDS: Final = frozenset(
    """
device attributes capacity driver allowMultipleAllocations true false null in has all exists exists_one
map filter size startsWith endsWith contains matches quantity semver isGreaterThan isLessThan compareTo
int string double bool lowerAscii upperAscii orValue cel bind
""".split()  # noqa: SIM905
)


def without_secrets(data: Any) -> Any:
    """Data of an object without what is never saved."""
    if isinstance(data, dict):
        return {key: without_secrets(value) for key, value in data.items() if key not in NEVER_SAVED}
    if isinstance(data, list):
        return [without_secrets(value) for value in data]
    return data


def plain(text: str) -> bool:
    """Report whether it is a number, quantity, duration, time or truth value."""
    return _PLAIN.fullmatch(text) is not None


def said_in(conf: Any) -> set[str]:
    """Every text of a conf, and every part of one between signs."""
    found: set[str] = set()
    for text in _texts(conf):
        found |= {text, *re.split(r"[\s,;:=|]+", text)}
    return found


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            yield from _texts(value)
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from _texts(value)


def each_text(data: Any, rename: Callable[[str], str], field: str = "") -> Any:
    """A copy of an object's data with *rename* called for every text that is neither field nor key.

    It contains no messages, no data that is never saved, and no annotations that Pumice does not read.
    """
    if isinstance(data, dict):
        found = {}
        for key, value in data.items():
            read = key in keys.KEYS or key.startswith(f"{keys.GPU_GROUP}/")
            if key in _DROPPED_FIELDS or (field == "annotations" and not read) or key == keys.LAST_APPLIED:
                continue
            if field == "annotations" and isinstance(value, str):
                found[key] = PART.sub(lambda match: rename(match[0]), value)
                continue
            if field in _ATTRIBUTES:
                key = _qualified(key, rename)
            elif field == "minTaskMember":
                key = rename(key)
            found[key] = each_text(value, rename, key)
        return found
    if isinstance(data, (list, tuple)):
        return [each_text(value, rename, field) for value in data]
    if not isinstance(data, str) or field in _KEYED or field in _KEPT_FIELDS:
        return data
    if field == "expression":
        return _CEL.sub(lambda match: _cel_word(match[0], rename), data)
    if field == "matchAttribute":
        return _qualified(data, rename)
    return rename(data)


def _qualified(name: str, rename: Callable[[str], str]) -> str:
    """The name of a device's attribute; its domain is that of a driver."""
    domain, slash, own = name.rpartition("/")
    return f"{rename(domain)}/{own}" if slash else name


def _cel_word(word: str, rename: Callable[[str], str]) -> str:
    if word[0] in "\"'":
        return f'"{rename(word[1:-1])}"'
    return word if word in _CEL_WORDS else rename(word).replace("-", "_")


def attribute_names(objects: Mapping[str, list[dict[str, Any]]]) -> set[str]:
    """The names of devices' attributes and capacities, without their domains: expressions name them."""
    found: set[str] = set()

    def look(data: Any, field: str) -> None:
        if isinstance(data, dict):
            if field in _ATTRIBUTES:
                found.update(key.rpartition("/")[2] for key in data)
            for key, value in data.items():
                look(value, key)
        elif isinstance(data, list):
            for value in data:
                look(value, field)

    look(objects.get("ResourceSlice", []), "")
    return found


_TAGS: Final = frozenset({"$float", "$tuple", "$named", "$set", "$frozenset", "$dict"})


def pack(value: Any) -> Any:
    """A value as JSON-like data from which `unpack` makes an equal one.

    :raises TypeError: it is not made of plain values, lists, tuples, sets and dicts.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case list():
            return [pack(v) for v in value]
        case tuple() if hasattr(value, "_fields"):
            kind = type(value)
            parts = {field: pack(v) for field, v in zip(value._fields, value, strict=True)}
            return {"$named": [kind.__module__, kind.__qualname__, parts]}
        case tuple():
            return {"$tuple": [pack(v) for v in value]}
        case set() | frozenset():
            return {f"${type(value).__name__}": sorted((pack(v) for v in value), key=msgspec.json.encode)}
        case dict() if all(isinstance(k, str) and not k.startswith("$") for k in value):
            return {k: pack(v) for k, v in value.items()}
        case dict():
            return {"$dict": [[pack(k), pack(v)] for k, v in value.items()]}
    raise TypeError(f"a {type(value).__name__} cannot be saved")


def unpack(data: Any, what: str = "memory") -> Any:
    """The value that `pack` was given; *what* names it in messages.

    :raises InvalidInput: `pack` made no such data.
    """
    try:
        return _unpack(data)
    except (TypeError, ValueError, RecursionError, OverflowError) as exc:
        raise InvalidInput(f"saved cycle: {what}: {exc}") from exc


def _unpack(data: Any) -> Any:
    if isinstance(data, list):
        return [_unpack(v) for v in data]
    if not isinstance(data, dict):
        return data
    if not any(k.startswith("$") for k in data):
        return {k: _unpack(v) for k, v in data.items()}
    [(tag, inside)] = data.items() if len(data) == 1 else [("", None)]
    match tag, inside:
        case "$float", "nan" | "inf" | "-inf":
            return float(inside)
        case "$tuple", list():
            return tuple(_unpack(v) for v in inside)
        case "$named", [str(module), str(name), dict(parts)]:
            kind = _named(module, name, tuple(parts))
            return tuple.__new__(kind, [_unpack(v) for v in parts.values()])
        case "$set", list():
            return {_unpack(v) for v in inside}
        case "$frozenset", list():
            return frozenset(_unpack(v) for v in inside)
        case "$dict", list():
            return {_unpack(k): _unpack(v) for k, v in map(_pair, inside)}
    raise ValueError(
        f"must be plain data, or one of {', '.join(sorted(_TAGS))} with what belongs there, got {_said(data)}"
    )


def _pair(data: Any) -> Sequence[Any]:
    if not isinstance(data, list) or len(data) != 2:
        raise ValueError(f"$dict must hold pairs, got {_said(data)}")
    return data


def _said(data: Any) -> str:
    return shown(msgspec.json.encode(data).decode())


def _named(module: str, name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """The class of a named tuple: the plugin's own if it is loaded here, else one with the same fields.

    Nothing is imported: a file may come from a stranger.
    """
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    own = isinstance(found, type) and issubclass(found, tuple) and getattr(found, "_fields", None) == fields
    return found if own else _stand_in(name.rpartition(".")[2], fields)


@lru_cache(maxsize=64)
def _stand_in(name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    return namedtuple(name, fields)  # names that are none are a ValueError


def pack_memory(memory: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The memory of plugins between sessions, packed, and the entries that were left out.

    A key that begins with an underscore is a cache: it is left out silently, and its plugin makes it anew.
    """
    packed: dict[str, Any] = {}
    left_out: list[str] = []
    for plugin, entries in memory.items():
        if plugin.startswith("_"):
            continue
        mine: dict[Any, Any] = {}
        for key, value in entries.items():
            if isinstance(key, str) and key.startswith("_"):
                continue
            try:
                msgspec.json.encode(pack({key: value}))  # also what is plain may be too great, or no text for a file
                mine[key] = value
            except Exception:
                left_out.append(f"{plugin}: {words_of(key)}")
        if mine:
            packed[plugin] = pack(mine)
    return packed, left_out


def unpack_memory(packed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The memory of plugins between sessions.

    :raises InvalidInput: `pack_memory` made no such data.
    """
    found: dict[str, dict[str, Any]] = {}
    for plugin, entries in packed.items():
        mine = unpack(entries, f"memory of plugin {plugin!r}")
        if not isinstance(mine, dict):
            raise InvalidInput(f"saved cycle: memory of plugin {plugin!r}: must be a mapping, got {_said(entries)}")
        found[plugin] = mine
    return found


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
    """A record of tasks of a job that were evicted for another job."""

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
    """The recent evictions with their beneficiaries."""
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
    """The questions to an extender and its answers, in order."""
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
            state.devices.name_groups(task.devices, groups, task.node.row)
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

    A node may offer fewer by now: a task that holds a lost device still holds it.
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
