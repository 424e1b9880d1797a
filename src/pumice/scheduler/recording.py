"""A cycle on record: taken before it runs, run again later to the same decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pumice.config import SchedulerConf, from_data
from pumice.errors import InvalidInput, shown
from pumice.extender.asking.calls import ReplayCallers
from pumice.extender.plugin import CALLERS
from pumice.framework.points.guard import Health
from pumice.framework.registry import Registry
from pumice.framework.session.nominations import Nomination
from pumice.framework.session.rounds import Losses, Turn, Turns
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session, Shard
from pumice.model.api import AnyObject
from pumice.model.intents import Bind, Evict, Intent, Nominate
from pumice.saved import cycle as parts
from pumice.saved.cycle import (
    SavedCycle,
    SavedHealth,
    SavedLosses,
    SavedNomination,
    SavedShard,
    SavedTurn,
    pack,
    pack_memory,
    unpack,
    unpack_memory,
)
from pumice.saved.redact import redacted
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.dry import dry_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState

_FOLLOWS = frozenset({"prepare", "needed"})


@dataclass(slots=True)
class Replay:
    """A cycle that was run again."""

    state: ClusterState
    conf: SchedulerConf
    report: CycleReport
    decisions: list[dict[str, Any]]


@dataclass(slots=True)
class NextCycle:
    """Everything that decides a cycle, before it runs: over a cluster that was just read, or restored from a file."""

    state: ClusterState
    assembly: Assembly
    runtime: Runtime
    shard: Shard | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    saved: SavedCycle | None = None
    """The file that it was restored from."""
    warnings: tuple[str, ...] = ()
    """The problems of the objects that it was read from, and what was left out of them."""

    def record(self) -> SavedCycle:
        """The cycle as a file."""
        return self.saved if self.saved is not None else record(self.state, self.assembly.conf, self.runtime)

    def run(self, inspect: Callable[[Session], None] | None = None) -> Replay:
        """Run it. *inspect*: see `run_cycle`."""
        parts = self.state, self.assembly, self.runtime
        report = run_cycle(*parts, shard=self.shard, environment=self.environment, details=True, inspect=inspect)
        return Replay(self.state, self.assembly.conf, report, decisions_of(report.intents))

    def dry_run(self, inspect: Callable[[Session], None] | None = None, added: Sequence[AnyObject] = ()) -> CycleReport:
        """The decisions of the cycle, also with *added* objects (see `dry_cycle`); it leaves no trace, and no job is
        told. *inspect*: see `run_cycle`."""
        return dry_cycle(
            self.state,
            self.assembly,
            self.runtime,
            added=added,
            shard=self.shard,
            environment=self.environment,
            tells=False,
            inspect=inspect,
        )


def record(
    state: ClusterState,
    conf: SchedulerConf,
    runtime: Runtime,
    *,
    shard: Shard | None = None,
    environment: Mapping[str, Any] | None = None,
    objects: bool = True,
) -> SavedCycle:
    """Everything that decides the cycle which is about to run. Fill in ``decisions`` when it has.

    Without *objects*, which are most of the cost, `restored` is to be given them.
    """
    memory, left_out = pack_memory(runtime.memory)
    return SavedCycle(
        now=state.now,
        objects=parts.objects_of(state) if objects else {},
        conf=conf.to_data(),
        conf_source=conf.source,
        assumed=parts.assumed_of(state),
        devices=parts.devices_of(state),
        gpu_groups=parts.gpu_groups_of(state),
        phases=parts.phases_of(state),
        nominated=parts.nominated_of(state),
        default_queue=state.default_queue,
        scheduler_names=sorted(state.scheduler_names) if state.scheduler_names is not None else None,
        seed=runtime.seed,
        random_ties=runtime.random_ties,
        cycle=runtime.cycle,
        nominations={
            k: SavedNomination(node=n.node, until=n.until, evicted=sorted(n.evicted))
            for k, n in runtime.nominations.items()
        },
        turns=[
            SavedTurn(evicted=evicted, helped=helped, **turn._asdict())
            for evicted, mine in runtime.turns.items()
            for helped, turn in mine.items()
        ],
        losses={
            uid: SavedLosses(times=list(lost.times), pause=lost.pause, placed=lost.placed)
            for uid, lost in runtime.losses.items()
        },
        refused=parts.refused_of(state),
        health={
            k: SavedHealth(failures=h.failures, failing_cycles=h.failing_cycles, quarantined=h.quarantined, last=h.last)
            for k, h in runtime.health.items()
        },
        memory=memory,
        left_out=left_out,
        shard=SavedShard(hard=shard.hard, nodes=sorted(shard.nodes)) if shard is not None else None,
        environment=pack(dict(environment)) if environment else None,
    )


def decisions_of(intents: list[Intent]) -> list[dict[str, Any]]:
    """The decisions among intents, as data, in order; without what is done for claims, which follows from them."""
    return [
        {"do": type(i).__name__.lower(), **{k: v for k, v in msgspec.to_builtins(i).items() if k not in _FOLLOWS}}
        for i in intents
        if isinstance(i, (Bind, Evict, Nominate))
    ]


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
    live: bool = False,
) -> Replay:
    """Run a saved cycle again, with its own conf or another one.

    Extenders answer from what they answered then, and no connection is opened: a file from a stranger may name any
    service and any token. Only with *live* (a cycle that was made here and now) are they really asked.
    """
    return restored(saved, registry, conf=conf, live=live).run()


def redacted_and_tried(saved: SavedCycle, registry: Registry) -> tuple[SavedCycle, bool]:
    """A cycle without names, and whether a replay of it decides in the same way.

    If it does, its decisions are those of the replay: what binds write on pods is made of the new names.
    """
    hidden = redacted(saved)
    again = replay(hidden, registry).decisions
    same = [*map(_without_marks, again)] == [*map(_without_marks, hidden.decisions)]
    hidden.decisions = again if same else hidden.decisions
    return hidden, same


def _without_marks(decision: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in decision.items() if key != "annotations"}


def restored(
    saved: SavedCycle,
    registry: Registry,
    *,
    conf: SchedulerConf | None = None,
    live: bool = False,
    objects: Iterable[AnyObject] | None = None,
) -> NextCycle:
    """A saved cycle, before it runs; *conf* and *live*: see `replay`; *objects*: `restore`."""
    used = conf if conf is not None else conf_of(saved, registry)
    runtime = runtime_of(saved, health=conf is None)
    shard = Shard(saved.shard.hard, frozenset(saved.shard.nodes)) if saved.shard is not None else None
    state, assembly = parts.restore(saved, objects), assemble(used, registry)
    return NextCycle(state, assembly, runtime, shard, _environment(saved, live), saved)


def runtime_of(saved: SavedCycle, *, health: bool) -> Runtime:
    """The memory before a saved cycle; *health*: also the failures of its plugins."""
    known = saved.health if health else {}
    return Runtime(
        seed=saved.seed,
        random_ties=saved.random_ties,
        memory=unpack_memory(saved.memory),
        health={k: Health(h.failures, h.failing_cycles, h.quarantined, h.last) for k, h in known.items()},
        nominations={k: Nomination(n.node, n.until, frozenset(n.evicted)) for k, n in saved.nominations.items()},
        turns=_turns(saved),
        losses={uid: Losses(tuple(sorted(s.times)), s.pause, s.placed) for uid, s in saved.losses.items() if s.times},
        cycle=saved.cycle,
    )


def _turns(saved: SavedCycle) -> Turns:
    found: Turns = {}
    for turn in saved.turns:
        found.setdefault(turn.evicted, {})[turn.helped] = Turn(turn.at, turn.rounds, turn.told)
    return found


def _environment(saved: SavedCycle, live: bool) -> dict[str, Any]:
    """The environment of plugins beside the cluster's objects, and the stand-ins for extenders."""
    environment = unpack(saved.environment, "environment") if saved.environment else {}
    if not isinstance(environment, dict):
        raise InvalidInput(f"saved cycle: environment: must be a mapping, got {shown(saved.environment)}")
    return environment if live else {**environment, CALLERS: ReplayCallers(_exchanges(saved))}


def _exchanges(saved: SavedCycle) -> list[dict[str, Any]]:
    """The recorded answers of extenders.

    :raises InvalidInput: one of them is none.
    """
    for number, one in enumerate(saved.exchanges, 1):
        failure = one.get("failure", {"kind": "", "text": ""})
        told = isinstance(failure, dict) and all(isinstance(failure.get(key), str) for key in ("kind", "text"))
        if not all(isinstance(one.get(key), str) for key in ("extender", "verb")) or "request" not in one:
            raise InvalidInput(f"saved cycle: exchange {number}: must say extender, verb and request, got {shown(one)}")
        if not told or ("failure" in one) == ("response" in one):
            raise InvalidInput(f"saved cycle: exchange {number}: must say response, or failure with kind and text")
    return saved.exchanges
