"""A what-if: the next cycle is decided twice, as things are and as they would be, and the two are compared."""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

import msgspec

from pumice.answers.queues import Share, Snapshot, Source, Standing, snapshot_of, standing_of
from pumice.answers.supposition import WhatIf, suppose
from pumice.answers.when.answer import Verdict, span
from pumice.answers.when.forecast import NOT_PLAYED, Forecasted, play
from pumice.answers.when.forward import Scene, Waiter
from pumice.answers.when.learned import Learned
from pumice.answers.when.scene import lanes_of, scene_of
from pumice.answers.why import Evicted
from pumice.config import SchedulerConf, Tier, load
from pumice.config.problems import InvalidConf
from pumice.errors import ConfigError, InvalidInput, PumiceError
from pumice.extender.plugin import Extender
from pumice.framework.explaining.explain import waits
from pumice.framework.registry import Registry, default_registry
from pumice.framework.session.session import Session
from pumice.model.api import AnyObject
from pumice.model.intents import Bind, Evict
from pumice.saved.cycle import SavedCycle
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.recording import NextCycle, conf_of, restored, runtime_of
from pumice.subprocess_runner import IsolatedProcess, NotInTime
from pumice.words import counted

Fate = Literal["runs", "starts", "moves", "grows", "promised", "waits", "evicted"]
"""The effect of the next cycle on a job: none, because it has its places; the places that it needs to start; other
places for pods that lose theirs; more pods; room that is being released; a wait; lost pods."""
MOST_NAMED: Final = 3
"""Nodes that are named in one line."""
MOST_PLAYED: Final = 2000
"""Waiting jobs of which it is said when they start, the first in order."""
NOT_ASKED = "extenders are not asked: both sides are decided without them"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions of the next cycle."""

    fates: dict[str, Fate]
    """Job -> what becomes of it."""
    evicted: list[Evicted]
    standings: list[Standing]
    bound: dict[str, list[str]] = {}
    """Job -> the nodes to which the cycle binds pods of it."""
    scene: Scene
    """The cluster after it, to be played forward, with the pending jobs whose start is asked for."""


class BothSides(msgspec.Struct, frozen=True, kw_only=True):
    """The next cycle twice, on the same instant."""

    before: Side
    after: Side
    queue_of: dict[str, str]
    """Job -> its queue."""
    moved: dict[str, list[str]] = {}
    """Job that runs, and would restart on other nodes -> its nodes now."""
    changes: list[str]
    """The supposition, in words."""
    assumes: list[str]


def play_sides(saved: SavedCycle, objects: Iterable[AnyObject], asked: WhatIf, registry: Registry) -> BothSides:
    """Decide both, on a cluster of these *objects*. A plugin must itself restore data outside ``ssn.memory``.

    :raises InvalidInput: what is supposed cannot be.
    :raises InvalidConf: the conf cannot be used.
    """
    said: list[str] = []
    own = conf_of(saved, registry)
    other = _other_conf(asked.conf, own, registry) if asked.conf.strip() else own
    if other is not own:
        said.append("another conf" if other.digest != own.digest else "another conf, which says the same")
    plain_own, plain_other = without_extenders(own, registry), without_extenders(other, registry)
    begun = restored(saved, registry, conf=None if plain_own is own else plain_own, objects=objects)
    before = _decided(begun, asked.job)
    runs = {
        uid: sorted({task.node.name for task in job.tasks.values() if task.node is not None})
        for uid, job in begun.state.jobs.items()
        if before.fates.get(uid) in ("runs", "grows")
    }
    said += suppose(begun.state, asked)
    if plain_other is not plain_own:
        begun.assembly, begun.runtime = assemble(plain_other, registry), runtime_of(saved, health=False)
    after = _decided(begun, asked.job)
    moved = {uid: nodes for uid, nodes in runs.items() if nodes and after.fates.get(uid) == "starts"}
    after = msgspec.structs.replace(after, fates=after.fates | dict.fromkeys(moved, "moves"))
    return BothSides(
        moved=moved,
        before=before,
        after=after,
        queue_of={uid: job.queue for uid, job in begun.state.jobs.items()},
        changes=said,
        assumes=[NOT_ASKED] if plain_own is not own or plain_other is not other else [],
    )


def _other_conf(text: str, own: SchedulerConf, registry: Registry) -> SchedulerConf:
    other = load(text, catalogue_of(registry), "conf").conf
    if other.dialect != own.dialect:
        raise InvalidInput(
            f"conf: is one of {other.dialect}'s; what is known of the cluster are {own.dialect}'s objects"
        )
    return other


def without_extenders(conf: SchedulerConf, registry: Registry) -> SchedulerConf:
    """A conf that asks no service: a supposed conf may name any address, and any file."""
    names = {name for name, info in registry.plugins.items() if info.build is Extender}
    names |= {alias for alias, name in registry.aliases.items() if name in names}
    if not any(listed.plugin.name in names for listed in conf.listed()):
        return conf
    tiers = tuple(Tier(tuple(p for p in tier.plugins if p.name not in names)) for tier in conf.tiers)
    parts = conf.actions, tiers, conf.configurations, conf.metrics, conf.compat, conf.source
    return SchedulerConf.of(*parts, dialect=conf.dialect)


def _decided(begun: NextCycle, asked: str) -> Side:
    state = begun.state
    ready = {uid for uid, job in state.jobs.items() if job.is_ready}
    fates: dict[str, Fate] = {}
    taken: list[Snapshot] = []
    scenes: list[Scene] = []

    def inspect(ssn: Session) -> None:
        for uid, job in ssn.state.jobs.items():
            fates[uid] = "waits" if waits(job) or not job.in_session else "runs"
        taken.extend(snapshot_of(queue) for _, queue in sorted(ssn.queues.items()))
        scenes.append(scene_of(ssn))

    report = begun.dry_run(inspect)
    for uid in report.pipelined:
        fates[uid] = "promised"
    evicted: list[Evicted] = []
    bound: dict[str, set[str]] = {}
    for intent in report.intents:
        if isinstance(intent, Bind) and intent.job in fates:
            bound.setdefault(intent.job, set()).add(intent.node)
            fates[intent.job] = "grows" if intent.job in ready else "starts"
        elif isinstance(intent, Evict):
            task = state.task_by_key.get(intent.pod)
            job = task.job_key if task is not None else ""
            if job in fates:
                fates[job] = "evicted"
            evicted.append(
                Evicted(pod=intent.pod, job=job, node=intent.node, action=intent.action, beneficiary=intent.beneficiary)
            )
    (scene,) = scenes
    return Side(
        fates=fates,
        evicted=evicted,
        bound={job: sorted(nodes) for job, nodes in bound.items()},
        standings=[standing_of(snapshot, report.gauges) for snapshot in taken],
        scene=replace(scene, lanes=lanes_of(state.queues, report.gauges), waiters=_played(scene, asked)),
    )


def _played(scene: Scene, asked: str) -> list[Waiter]:
    """The first pending jobs, in order, and the job of the question: no more are passed between processes."""
    rest = (waiter for waiter in scene.waiters[MOST_PLAYED:] if waiter.job == asked)
    return [*scene.waiters[:MOST_PLAYED], *rest]


SECONDS: Final = 14.0
"""After which it is given up."""
AT_A_TIME: Final = 1000
_one = threading.Lock()


class NotNow(PumiceError):
    """A what-if of another caller is being answered."""

    retryable = True


def play_apart(
    saved: SavedCycle, objects: Sequence[AnyObject], asked: WhatIf, registry: Registry, seconds: float = SECONDS
) -> BothSides:
    """Both sides, from a process of its own; one at a time.

    :raises InvalidInput: what is supposed cannot be.
    :raises NotNow: another one is being answered.
    :raises PumiceError: no answer in time, or none at all.
    """
    if not _one.acquire(blocking=False):
        raise NotNow("another what-if is being answered; ask again in a moment")
    directories = [str(path.resolve()) for path in registry.directories]
    try:
        with IsolatedProcess(seconds) as process:
            return process.call(_played_there, saved, list(_packed(objects)), asked, directories, returns=BothSides)
    except NotInTime:
        raise PumiceError(
            f"what if: no answer within {seconds:g} s; `pumice what-if` on a saved cycle takes the time that it needs"
        ) from None
    except InvalidInput:
        raise
    except PumiceError as exc:
        raise PumiceError(f"what if: {exc}") from exc
    finally:
        _one.release()


def _played_there(
    saved: SavedCycle, objects: Sequence[tuple[str, bytes]], asked: WhatIf, directories: Sequence[str]
) -> BothSides:
    """Play both sides in the process. *objects*: the class of some, and these, in order; *directories*: of plugins."""
    gc.disable()  # the process ends when it has answered
    registry = default_registry()
    if directories:
        registry = registry.copy()
        for directory in directories:
            registry.load_directory(Path(directory))
    try:
        return play_sides(saved, _unpacked(objects), asked, registry)
    except InvalidConf as exc:
        raise InvalidInput(str(exc)) from exc


def _packed(objects: Sequence[AnyObject]) -> Iterator[tuple[str, bytes]]:
    """Objects by class, some at a time: whoever decides in this process has his turns between them."""
    for kind, listed in groupby(objects, type):
        alike = list(listed)
        for first in range(0, len(alike), AT_A_TIME):
            yield f"{kind.__module__}:{kind.__name__}", msgspec.msgpack.encode(alike[first : first + AT_A_TIME])


def _unpacked(packed: Iterable[tuple[str, bytes]]) -> Iterator[AnyObject]:
    for kind, content in packed:
        module, _, name = kind.partition(":")
        yield from msgspec.msgpack.decode(content, type=list[getattr(import_module(module), name)])  # type: ignore[misc]


MOST_JOBS: Final = 100
"""Jobs and evictions that an answer names, at most."""
LEAST_SECONDS, LEAST_PART = 60.0, 0.1
"""A start that moves by less is the same."""
ONE_CYCLE: Final = "the next cycle is decided twice on the same instant; what follows is played forward"


class BeforeAfter(msgspec.Struct, frozen=True, kw_only=True):
    """A number as things are, and as they would be."""

    before: int
    after: int


class SupposedStart(msgspec.Struct, frozen=True, kw_only=True):
    """The fate of a job on one side."""

    fate: Fate
    """In the next cycle."""
    verdict: Verdict = "unknown"
    """When it starts, as of `when`."""
    low: float | None = None
    likely: float | None = None
    high: float | None = None
    nodes: list[str] = []
    """Of a job that moves: where its pods are, or will be."""


class JobEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A job that fares otherwise."""

    job: str
    queue: str
    before: SupposedStart
    after: SupposedStart


class QueueStandings(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that stands otherwise after the next cycle."""

    queue: str
    before: Standing | None
    after: Standing | None


class WhatIfAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The changed decisions, and jobs that would start sooner or later."""

    changes: list[str]
    """The supposition, in words."""
    starting: BeforeAfter
    """Jobs that the next cycle starts."""
    waiting: BeforeAfter
    """Jobs that wait after it."""
    evicted: BeforeAfter
    """Pods that it evicts."""
    sooner: int
    """Jobs that would start sooner."""
    later: int
    """Jobs that would start later, or lose pods."""
    moved: int = 0
    """Jobs that run, and would restart on other nodes."""
    jobs: list[JobEffect]
    """Those of them that fare most otherwise, the worst off first."""
    job: JobEffect | None = None
    """The one that was asked about."""
    evictions: list[Evicted] = []
    """Pods that would be evicted, and else not."""
    spared: list[Evicted] = []
    """Pods that would not be evicted, and else are."""
    queues: list[QueueStandings] = []
    """Those that would stand otherwise."""
    now: float
    source: Source = "scheduler"
    milliseconds: float = 0.0
    assumes: list[str] = []
    unseen: list[str] = []


def compared(sides: BothSides, learned: Learned | None, job: str, source: Source) -> WhatIfAnswer:
    """The answer, from both sides; *job*: the one that is told of in any case."""
    before, after = sides.before, sides.after
    played_before, played_after = (play(s.scene, learned) if s.scene.waiters else NOT_PLAYED for s in (before, after))
    effects = [
        JobEffect(
            job=uid,
            queue=sides.queue_of.get(uid, ""),
            before=_start(before, uid, played_before, sides.moved.get(uid, [])),
            after=_start(after, uid, played_after, after.bound.get(uid, []) if uid in sides.moved else []),
        )
        for uid in sorted({job, *_otherwise(before, after, played_before, played_after)})
        if uid in before.fates or uid in after.fates
    ]
    moved = {effect.job: move for effect in effects if (move := _moves(effect, played_before, played_after))}
    affected = sorted(
        (effect for effect in effects if effect.job in moved), key=lambda e: (-moved[e.job], e.queue, e.job)
    )
    restarts = sum(1 for effect in affected if effect.after.fate == "moves")
    later = sum(1 for move in moved.values() if move > 0) - restarts
    shown = affected if len(affected) <= MOST_JOBS else [*affected[: MOST_JOBS // 2], *affected[-MOST_JOBS // 2 :]]
    forecasts = (*played_after.answers.values(), *played_before.answers.values())
    assumes = list(dict.fromkeys(text for one in forecasts for text in one.assumes))
    gone, came = _only(before.evicted, after.evicted), _only(after.evicted, before.evicted)
    return WhatIfAnswer(
        changes=sides.changes,
        starting=BeforeAfter(before=_many(before, "starts"), after=_many(after, "starts")),
        waiting=BeforeAfter(before=_many(before, "waits", "promised"), after=_many(after, "waits", "promised")),
        evicted=BeforeAfter(before=len(before.evicted), after=len(after.evicted)),
        sooner=len(moved) - later - restarts,
        later=later,
        moved=restarts,
        jobs=shown,
        job=next((effect for effect in effects if effect.job == job), None),
        evictions=came[:MOST_JOBS],
        spared=gone[:MOST_JOBS],
        queues=_standings(before.standings, after.standings),
        now=before.scene.now,
        source=source,
        assumes=[ONE_CYCLE, *sides.assumes, *assumes],
    )


def _many(side: Side, *fates: Fate) -> int:
    return sum(1 for fate in side.fates.values() if fate in fates)


def _otherwise(before: Side, after: Side, played_before: Forecasted, played_after: Forecasted) -> Iterator[str]:
    """Yield the jobs of which the two sides may say different things: most have one fate on both, and no forecast."""
    first, second = before.fates, after.fates
    forecast = played_before.seconds.keys() | played_after.seconds.keys()
    for uid in first.keys() | second.keys():
        if first.get(uid) != second.get(uid) or uid in forecast:
            yield uid


def _start(side: Side, job: str, played: Forecasted, nodes: list[str]) -> SupposedStart:
    fate = side.fates.get(job, "runs")
    if fate in ("runs", "grows"):
        return SupposedStart(fate=fate, verdict="runs", nodes=nodes)
    if fate in ("starts", "moves"):
        return SupposedStart(fate=fate, verdict="now", nodes=nodes)
    said = played.answers.get(job) if fate == "waits" else None
    if said is None:
        return SupposedStart(fate=fate)
    return SupposedStart(fate=fate, verdict=said.verdict, low=said.low, likely=said.likely, high=said.high)


def _moves(effect: JobEffect, played_before: Forecasted, played_after: Forecasted) -> float:
    """Return by how many seconds a job starts later, below zero: sooner; 0 if it fares the same.

    Both sides are played with the same luck, so their difference is known even where neither start may be told.
    """
    before, after = _seconds(effect.job, effect.before, played_before), _seconds(effect.job, effect.after, played_after)
    if before == after:
        return 0.0
    if math.isinf(before) or math.isinf(after):
        return after - before if not (math.isinf(before) and math.isinf(after)) else 0.0
    step = after - before
    if effect.before.fate == effect.after.fate == "waits":
        return step if abs(step) >= max(LEAST_SECONDS, LEAST_PART * max(before, after)) else 0.0
    return step or 0.0


_ORDER: Final[dict[Fate, float]] = {
    "runs": 0.0,
    "grows": 0.0,
    "starts": 1e-3,
    "moves": 1e-3,
    "promised": 1.0,
    "waits": 10.0,
}


def _seconds(job: str, start: SupposedStart, played: Forecasted) -> float:
    """Return the seconds until a job runs: one that loses pods waits for the longest."""
    if start.fate == "evicted":
        return 1e12
    if start.fate != "waits":
        return _ORDER[start.fate]
    return _ORDER["waits"] + played.seconds.get(job, 1e9)


def _only(these: Iterable[Evicted], others: Iterable[Evicted]) -> list[Evicted]:
    known = {one.pod for one in others}
    return [one for one in these if one.pod not in known]


def _standings(before: Iterable[Standing], after: Iterable[Standing]) -> list[QueueStandings]:
    first, second = ({standing.queue: standing for standing in side} for side in (before, after))
    return [
        QueueStandings(queue=name, before=first.get(name), after=second.get(name))
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
    ]


_FATES: Final = {
    "runs": "runs",
    "starts": "starts now",
    "moves": "restarts",
    "grows": "runs, and gets more pods",
    "promised": "starts once those evicted for it are gone",
    "evicted": "loses pods",
}


def fares(start: SupposedStart) -> str:
    """The fate of a job on one side."""
    if start.fate != "waits":
        many = len(start.nodes)
        on = f" on {', '.join(start.nodes) if many <= MOST_NAMED else counted(many, 'node')}" if many else ""
        return _FATES[start.fate] + on
    if start.verdict == "never":
        return "waits, and will not start on this cluster as it is"
    if start.low is None or start.high is None:
        return "waits"
    return f"waits, likely starts {span(start.low, start.high)}"


def summary(answer: WhatIfAnswer) -> str:
    """All of it, in one line."""
    if not (answer.sooner or answer.later or answer.moved or answer.queues or answer.evictions or answer.spared):
        return "Nothing would change."
    if answer.moved:
        one = answer.moved == 1
        moves = f"{counted(answer.moved, 'running job')} {'restarts' if one else 'restart'} on other nodes; "
        return moves + f"{answer.sooner:,} would start sooner, {answer.later:,} later or lose pods."
    if not (answer.sooner or answer.later):
        return "No job's start changes."
    sooner = f"{counted(answer.sooner, 'job')} would start sooner" if answer.sooner else "No job would start sooner"
    return f"{sooner}, {f'{answer.later:,} later or lose pods' if answer.later else 'none later'}."


def counts(answer: WhatIfAnswer) -> Iterator[tuple[str, int, int]]:
    """The counts of both sides, in words: as it is, as it would be."""
    yield "jobs that the next cycle starts", answer.starting.before, answer.starting.after
    yield "jobs that wait after it", answer.waiting.before, answer.waiting.after
    yield "pods that it evicts", answer.evicted.before, answer.evicted.after


def shares(standings: QueueStandings) -> Iterator[tuple[str, Share | None, Share | None]]:
    """The resources of a queue that stand otherwise: as it is, as it would be."""
    before, after = (
        {share.resource: share for share in side.shares} if side is not None else {}
        for side in (standings.before, standings.after)
    )
    for resource in dict.fromkeys((*before, *after)):
        if before.get(resource) != after.get(resource):
            yield resource, before.get(resource), after.get(resource)


@dataclass(frozen=True, slots=True)
class WhatIfQuestion:
    """The supposition, and all inputs of the next cycle at the instant of the question."""

    asked: WhatIf
    instant: SavedCycle
    """But for its objects."""
    objects: Sequence[AnyObject]
    registry: Registry
    learned: Learned | None = None
    source: Source = "scheduler"

    def answer(self, *, apart: bool = True) -> WhatIfAnswer:
        """The differences; *apart*: decided in a process of its own, in bounded time.

        :raises InvalidInput: the supposition is impossible.
        :raises PumiceError: no scheduler answers now.
        """
        begun = time.perf_counter()
        decide = play_apart if apart else play_sides
        try:
            sides = decide(self.instant, self.objects, self.asked, self.registry)
        except ConfigError as exc:
            raise InvalidInput(str(exc)) from exc
        found = compared(sides, self.learned, self.asked.job, self.source)
        return msgspec.structs.replace(found, milliseconds=round((time.perf_counter() - begun) * 1000, 1))
