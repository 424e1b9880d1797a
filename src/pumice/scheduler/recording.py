"""A cycle on record: taken before it runs, run again later to the same decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from pumice.config import SchedulerConf, from_data
from pumice.extender.exchanges import ReplayCallers
from pumice.extender.plugin import CALLERS
from pumice.framework.points.health import Health
from pumice.framework.registry import Registry
from pumice.framework.session.runtime import Nomination, Runtime
from pumice.framework.session.session import Session, Shard
from pumice.model.intents import Bind, Evict, Intent, Nominate
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state import saved as files
from pumice.state.cluster import ClusterState
from pumice.state.saved import SavedCycle, SavedHealth, SavedNomination, SavedShard

_FOLLOWS = frozenset({"prepare", "needed"})


def record(
    state: ClusterState,
    conf: SchedulerConf,
    runtime: Runtime,
    *,
    shard: Shard | None = None,
    environment: Mapping[str, Any] | None = None,
) -> SavedCycle:
    """Everything that decides the cycle which is about to run. Fill in ``decisions`` when it has."""
    memory, left_out = files.pack_memory(runtime.memory)
    return SavedCycle(
        now=state.now,
        objects=files.objects_of(state),
        conf=conf.to_data(),
        conf_source=conf.source,
        assumed=files.assumed_of(state),
        devices=files.devices_of(state),
        phases=files.phases_of(state),
        default_queue=state.default_queue,
        scheduler_names=sorted(state.scheduler_names) if state.scheduler_names is not None else None,
        seed=runtime.seed,
        random_ties=runtime.random_ties,
        cycle=runtime.cycle,
        nominations={
            k: SavedNomination(node=n.node, until=n.until, evicted=sorted(n.evicted))
            for k, n in runtime.nominations.items()
        },
        refused=files.refused_of(state),
        health={
            k: SavedHealth(failures=h.failures, failing_cycles=h.failing_cycles, quarantined=h.quarantined, last=h.last)
            for k, h in runtime.health.items()
        },
        memory=memory,
        left_out=left_out,
        shard=SavedShard(hard=shard.hard, nodes=sorted(shard.nodes)) if shard is not None else None,
        environment=files.pack(dict(environment)) if environment else None,
    )


def decisions_of(intents: list[Intent]) -> list[dict[str, Any]]:
    """The decisions among intents, as data, in order; without what is done for claims, which follows from them."""
    return [
        {"do": type(i).__name__.lower(), **{k: v for k, v in msgspec.to_builtins(i).items() if k not in _FOLLOWS}}
        for i in intents
        if isinstance(i, (Bind, Evict, Nominate))
    ]


@dataclass(slots=True)
class Replay:
    """A cycle that was run again."""

    state: ClusterState
    conf: SchedulerConf
    report: CycleReport
    decisions: list[dict[str, Any]]


def conf_of(saved: SavedCycle, registry: Registry) -> SchedulerConf:
    """The conf that a cycle ran with.

    :raises InvalidConf: it names a plugin that does not exist here.
    """
    return from_data(saved.conf, catalogue_of(registry), saved.conf_source or "saved conf").conf


def replay(
    saved: SavedCycle,
    registry: Registry,
    *,
    conf: SchedulerConf | None = None,
    inspect: Callable[[Session], None] | None = None,
    live: bool = False,
) -> Replay:
    """Run a saved cycle again, with its own conf or another one. *inspect*: see `run_cycle`.

    Extenders answer from what they answered then, and no connection is opened: a file from a stranger may name any
    service and any token. Only with *live* (a cycle that was made here and now) are they really asked.
    """
    used = conf if conf is not None else conf_of(saved, registry)
    state = files.restore(saved)
    runtime = Runtime(
        seed=saved.seed,
        random_ties=saved.random_ties,
        memory={plugin: files.unpack(entries) for plugin, entries in saved.memory.items()},
        health={
            k: Health(h.failures, h.failing_cycles, h.quarantined, h.last)
            for k, h in saved.health.items()
            if conf is None
        },
        nominations={k: Nomination(n.node, n.until, frozenset(n.evicted)) for k, n in saved.nominations.items()},
        cycle=saved.cycle,
    )
    shard = Shard(saved.shard.hard, frozenset(saved.shard.nodes)) if saved.shard is not None else None
    report = run_cycle(
        state,
        assemble(used, registry),
        runtime,
        shard=shard,
        environment=_environment(saved, live),
        details=True,
        inspect=inspect,
    )
    return Replay(state, used, report, decisions_of(report.intents))


def _environment(saved: SavedCycle, live: bool) -> dict[str, Any]:
    """What plugins may know beside the cluster's objects, and who answers for extenders."""
    environment: dict[str, Any] = files.unpack(saved.environment) if saved.environment else {}
    return environment if live else {**environment, CALLERS: ReplayCallers(saved.exchanges)}
