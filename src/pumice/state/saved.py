"""Save and load a whole cycle in one file: everything that a replay needs to decide the same.

The file is gzip over two lines of JSON: a header (format, version, program) and the body. Loading checks the header
before anything else, so that a foreign, newer or broken file is an error that says so.
"""

from __future__ import annotations

import gzip
import io
import math
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.errors import InvalidInput
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState
from pumice.state.refused import RefusedEviction

FORMAT: Final = "pumice-cycle"
VERSION: Final = 1
MOST_BYTES: Final = 1 << 30
"""What a saved cycle of the largest clusters unpacks to, with room to spare; a file may come from a stranger."""


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


class SavedRefusal(_Record):
    """A task that the cluster did not let us evict."""

    pod: str
    node: str
    beneficiary: str
    message: str
    wait: float
    until: float
    freed: bool = False
    fresh: bool = True


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
    phases: dict[str, str] = {}
    """Job -> phase, where we have decided one that its PodGroup does not show yet."""
    default_queue: str = "default"
    scheduler_names: list[str] | None = None
    seed: int = 0
    random_ties: bool = False
    cycle: int = 0
    nominations: dict[str, SavedNomination] = {}
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


class _Header(msgspec.Struct):
    format: str = ""
    version: int = 0
    program: str = ""


# -- the cluster --------------------------------------------------------------------------------------------------
def objects_of(state: ClusterState) -> dict[str, list[dict[str, Any]]]:
    """Every object that the state knows, as data, by kind."""
    found: dict[str, list[api.AnyObject]] = {
        "Node": [node.object for node in state.nodes.values()],
        "Queue": [queue.object for queue in state.queues.values()],
        "PodGroup": [job.group for job in state.jobs.values() if job.group is not None],
        "Pod": [task.pod for task in state.tasks.values()],
    }
    for kind, objects in state.objects.items():
        found[kind] = list(objects.values())
    return {kind: [api.to_data(o) for o in objects] for kind, objects in found.items() if objects}


def assumed_of(state: ClusterState) -> list[AssumedTask]:
    """Everything that is assumed, oldest first."""
    return [
        AssumedTask(uid=uid, status=task.status.title, node=task.node_name, since=task.assumed_at or 0.0)
        for uid, task in state.assumed.items()
    ]


def devices_of(state: ClusterState) -> dict[str, list[int]]:
    """The GPU devices that tasks hold."""
    return {uid: list(task.devices) for uid, task in state.tasks.items() if task.devices}


def phases_of(state: ClusterState) -> dict[str, str]:
    """The phases that we have decided and that the PodGroups do not show yet."""
    return {
        uid: str(job.phase)
        for uid, job in state.jobs.items()
        if job.group is not None and job.phase != job.group.status.phase
    }


def refused_of(state: ClusterState) -> dict[str, SavedRefusal]:
    """The evictions that the cluster refused."""
    return {uid: SavedRefusal(**asdict(no)) for uid, no in state.refused.items()}


def restore(saved: SavedCycle) -> ClusterState:
    """The cluster as it was when the cycle began.

    :raises InvalidInput: an object, or a task that is assumed, cannot be what it is said to be.
    """
    names = saved.scheduler_names
    state = ClusterState(default_queue=saved.default_queue, scheduler_names=names)
    for kind, objects in saved.objects.items():
        for data in objects:
            state.apply(Seen(api.decode(kind, data)))
    for entry in saved.assumed:
        task, node = state.tasks.get(entry.uid), state.nodes.get(entry.node)
        if task is None:
            raise InvalidInput(f"saved cycle: task {entry.uid!r} is assumed but is not among the pods")
        try:
            status = TaskStatus[entry.status.upper()]
        except KeyError:
            raise InvalidInput(f"saved cycle: task {entry.uid!r}: no status {entry.status!r}") from None
        state.set_status(task, status, node)
        state.assume(task, entry.since)
    _hold_devices(state, saved.devices)
    for uid, phase in saved.phases.items():
        if uid in state.jobs:
            state.set_phase(state.jobs[uid], phase)
    state.refused = {uid: RefusedEviction(**msgspec.structs.asdict(no)) for uid, no in saved.refused.items()}
    state.now = saved.now
    return state


def _hold_devices(state: ClusterState, held: dict[str, list[int]]) -> None:
    """Let tasks hold exactly the devices they held; without this they would hold the first free ones."""
    table = state.devices
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
        table.take(task, node, devices)
        if task.status is TaskStatus.RELEASING:
            table.set_releasing(task, node.row, 1)


# -- plain data that keeps its types ------------------------------------------------------------------------------
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
        case tuple():
            return {"$tuple": [pack(v) for v in value]}
        case set() | frozenset():
            return {f"${type(value).__name__}": sorted((pack(v) for v in value), key=msgspec.json.encode)}
        case dict() if all(isinstance(k, str) and not k.startswith("$") for k in value):
            return {k: pack(v) for k, v in value.items()}
        case dict():
            return {"$dict": [[pack(k), pack(v)] for k, v in value.items()]}
    raise TypeError(f"a {type(value).__name__} cannot be saved")


def unpack(data: Any) -> Any:
    """The value that `pack` was given."""
    match data:
        case list():
            return [unpack(v) for v in data]
        case {"$float": text}:
            return float(text)
        case {"$tuple": items}:
            return tuple(unpack(v) for v in items)
        case {"$set": items}:
            return {unpack(v) for v in items}
        case {"$frozenset": items}:
            return frozenset(unpack(v) for v in items)
        case {"$dict": items}:
            return {unpack(k): unpack(v) for k, v in items}
        case dict():
            return {k: unpack(v) for k, v in data.items()}
    return data


def pack_memory(memory: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """What plugins keep between sessions, packed, and the entries that were left out.

    What begins with an underscore is a cache: left out without a word, its plugin makes it anew.
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
                pack(value)
                mine[key] = value
            except TypeError:
                left_out.append(f"{plugin}: {key}")
        if mine:
            packed[plugin] = pack(mine)
    return packed, left_out


# -- the file -----------------------------------------------------------------------------------------------------
def dump(saved: SavedCycle, program: str = "") -> bytes:
    """The content of a file; equal cycles give equal bytes."""
    header = msgspec.json.encode(_Header(FORMAT, VERSION, program))
    return gzip.compress(header + b"\n" + msgspec.json.encode(saved) + b"\n", compresslevel=6, mtime=0)


def parse(content: bytes, source: str = "saved cycle") -> SavedCycle:
    """The cycle that the content of a file holds; *source* names it in messages.

    :raises InvalidInput: it is not a saved cycle, is cut off, or was written by a newer version.
    """
    try:
        with gzip.open(io.BytesIO(content)) as unpacking:
            plain = unpacking.read(MOST_BYTES + 1)
        if len(plain) > MOST_BYTES:
            raise InvalidInput(f"{source}: unpacks to more than {MOST_BYTES >> 20} MiB; a saved cycle has at most that")
        head, _, body = plain.partition(b"\n")
    except EOFError:
        raise InvalidInput(f"{source}: a saved cycle that was cut off") from None
    except (OSError, zlib.error):
        raise InvalidInput(f"{source}: not a saved cycle (no gzip data)") from None
    try:
        header = msgspec.json.decode(head, type=_Header)
    except msgspec.DecodeError:
        header = _Header()
    if header.format != FORMAT:
        raise InvalidInput(f"{source}: not a saved cycle (its first line does not say {FORMAT!r})")
    if header.version != VERSION:
        made = f" by {header.program}" if header.program else ""
        raise InvalidInput(f"{source}: saved in format {header.version}{made}, this program reads format {VERSION}")
    try:
        return msgspec.json.decode(body, type=SavedCycle)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise InvalidInput(f"{source}: a broken saved cycle: {exc}") from exc


def write(path: Path, saved: SavedCycle, program: str = "") -> None:
    """Write a cycle to a file.

    :raises InvalidInput: the file cannot be written.
    """
    try:
        path.write_bytes(dump(saved, program))
    except OSError as exc:
        raise InvalidInput(f"file {str(path)!r}: {exc.strerror}") from exc


def read(path: Path) -> SavedCycle:
    """Read a cycle from a file; errors as in `parse`."""
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise InvalidInput(f"file {str(path)!r}: {exc.strerror}") from exc
    return parse(content, str(path))
