"""Small clusters and jobs for the tests of the simulator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from msgspec.structs import force_setattr

from pumice.config import from_data
from pumice.framework.registry import Registry, default_registry
from pumice.model.api import AnyObject, NodeObject
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.sim.cluster import Delays
from pumice.sim.faults import Faults
from pumice.sim.jobs import JobSpec
from pumice.sim.parts import node
from pumice.sim.results.records import JobRecord, PodRecord, RunRecord
from pumice.sim.run import Setting, Simulation, default_queue
from pumice.sim.traces import TraceJob, TracePod
from pumice.sim.workload import TraceJobs

GANG: dict[str, Any] = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}],
}


def assembly(conf: dict[str, Any] | None = None, registry: Registry | None = None) -> Assembly:
    """A configuration made ready; gangs and filters where none is given."""
    known = registry or default_registry()
    return assemble(from_data(conf or GANG, catalogue_of(known)).conf, known)


def nodes(count: int, cpu: int = 8, gpus: int = 0) -> list[NodeObject]:
    """Equal nodes ``n0``, ``n1`` …"""
    return [node(f"n{i}", str(cpu), "64Gi", gpus) for i in range(count)]


def job(
    name: str, submit: float, run: float, pods: int = 1, cpu: int = 1, *, least: int | None = None, **more: Any
) -> TraceJob:
    """A job of equal pods."""
    return TraceJob(name, submit, run, (TracePod(pods, 1000 * cpu),), least or pods, **more)


def simulation(
    objects: Iterable[AnyObject],
    *,
    conf: dict[str, Any] | None = None,
    delays: Delays | None = None,
    faults: Faults | None = None,
    strategy: str = "traverse",
    log: StringIO | None = None,
    registry: Registry | None = None,
    **setting: Any,
) -> Simulation:
    """A run that is ready to start."""
    queue = default_queue()
    force_setattr(queue.spec, "dequeue_strategy", strategy)
    made = Setting(objects=[queue, *objects], delays=delays or Delays(), faults=faults or Faults(), **setting)
    return Simulation(made, assembly(conf, registry), log=log)


def specs(jobs: Sequence[TraceJob], **options: Any) -> list[JobSpec]:
    """Jobs ready to be submitted."""
    return list(TraceJobs(**options).jobs(sorted(jobs, key=lambda j: j.submit_s)))


def by_name(record: RunRecord) -> dict[str, JobRecord]:
    """Jobs of a record by name."""
    return {j.name: j for j in record.jobs}


def stays(record: RunRecord, job_name: str) -> list[PodRecord]:
    """Stays of the pods of a job, in the order of their start."""
    return sorted((p for p in record.pods if p.job == f"default/{job_name}"), key=lambda p: (p.start, p.name))
