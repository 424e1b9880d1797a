"""The pod and node lists of Alibaba's GPU-sharing trace of 2023 ("openb"). Each pod is a job of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pumice.sim.traces.model import TraceJob, TraceNode, TracePod
from pumice.sim.traces.source import Notes, Row, rows

POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
TIME_COLUMNS = ("creation_time", "deletion_time", "scheduled_time")
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class OpenbOptions:
    """How a pod list is understood."""

    times: bool = True
    """Use the recorded times. If not, or where the list has none, the pods arrive one by one, a second apart, in the
    order of the list, and never end: the way of the published experiments."""
    queue_by_qos: bool = False
    """Give every QoS class (LS, BE, …) its own queue, named in lower case, instead of one queue ``default``."""


def read_jobs(path: Path, options: OpenbOptions, notes: Notes) -> Iterator[TraceJob]:
    """Yield one job per line of a pod list, in the file's order."""
    seen: set[str] = set()
    for index, row in enumerate(rows(path, POD_COLUMNS)):
        name = row.name("name")
        if name in seen:
            raise row.error("name", "must be unique")
        seen.add(name)
        submit, duration = float(index), math.inf
        if options.times and any(row.has(column) for column in TIME_COLUMNS):
            submit, duration = _times(row, notes)
        elif options.times:
            notes.changed("pods without times, which arrive one second apart and never end", name)
        queue = row.text("qos", "default").lower() if options.queue_by_qos else "default"
        yield TraceJob(name, submit, duration, (_pod(row),), min_available=1, queue=queue, line=row.line)


def _pod(row: Row) -> TracePod:
    devices = row.integer("num_gpu")
    milli = row.integer("gpu_milli")
    if milli > 1000:
        raise row.error("gpu_milli", "must be at most 1000, thousandths of each device")
    if (devices == 0) != (milli == 0):
        raise row.error("gpu_milli", f"must be 0 exactly where num_gpu is 0 (num_gpu is {devices})")
    models = tuple(model.strip() for model in row.text("gpu_spec").split("|") if model.strip())
    memory = row.integer("memory_mib") * _MIB
    return TracePod(1, row.integer("cpu_milli"), memory, milli, devices, models)


def _times(row: Row, notes: Notes) -> tuple[float, float]:
    created, deleted = row.integer("creation_time"), row.integer("deletion_time")
    if deleted < created:
        raise row.error("deletion_time", f"must not be before creation_time ({created})")
    started = created
    if row.has("scheduled_time"):
        started = row.integer("scheduled_time")
        if not created <= started <= deleted:
            raise row.error(
                "scheduled_time", f"must be between creation_time ({created}) and deletion_time ({deleted})"
            )
    else:
        notes.changed(
            "pods that never started in the log, which run for as long as they waited there", row.name("name")
        )
    if deleted == started:
        notes.changed("pods that ran for less than a second, which run for one", row.name("name"))
    return float(created), float(max(1, deleted - started))


def read_nodes(path: Path | str) -> tuple[TraceNode, ...]:
    """Return the nodes of an openb node list, in the file's order.

    :raises TraceError: the file cannot be read, or a line breaks a rule.
    """
    nodes: dict[str, TraceNode] = {}
    for row in rows(Path(path), NODE_COLUMNS):
        name = row.name("sn")
        if name in nodes:
            raise row.error("sn", "must be unique")
        memory = row.integer("memory_mib") * _MIB
        nodes[name] = TraceNode(name, row.integer("cpu_milli"), memory, row.integer("gpu"), row.text("model"))
    return tuple(nodes.values())
