"""Both sides of a what-if: what the next cycle decides as things are, and as they would be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Literal

import msgspec

from pumice.answers.standing import Snapshot, Standing, snapshot_of, standing_of
from pumice.answers.tried import Evicted
from pumice.answers.what_if.applying import suppose
from pumice.answers.what_if.supposition import WhatIf
from pumice.answers.when.forward import Scene, Waiter
from pumice.answers.when.scene import lanes_of, scene_of
from pumice.config import SchedulerConf, Tier, load
from pumice.errors import InvalidInput
from pumice.extender.plugin import Extender
from pumice.framework.explaining.explain import waits
from pumice.framework.registry import Registry
from pumice.framework.session.session import Session
from pumice.model.api import AnyObject
from pumice.model.intents import Bind, Evict
from pumice.saved.cycle import SavedCycle
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.recording import NextCycle, conf_of, restored, runtime_of

Fate = Literal["runs", "starts", "grows", "promised", "waits", "evicted"]
"""What the next cycle does to a job: nothing, for it has its places; gives it the places that it needs to start; more
pods; room that is being released; lets it wait; takes pods from it."""
MOST_PLAYED: Final = 2000
"""Waiting jobs of which it is said when they start, the first in order."""
NOT_ASKED = "extenders are not asked: both sides are decided without them"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What the next cycle decides."""

    fates: dict[str, Fate]
    """Job -> what becomes of it."""
    evicted: list[Evicted]
    standings: list[Standing]
    scene: Scene
    """The cluster after it, to be played forward, with those who wait of whom it is said when they start."""


class BothSides(msgspec.Struct, frozen=True, kw_only=True):
    """The next cycle twice, on the same instant."""

    before: Side
    after: Side
    queue_of: dict[str, str]
    """Job -> its queue."""
    changes: list[str]
    """What is supposed, in words."""
    assumes: list[str]


def play(saved: SavedCycle, objects: Iterable[AnyObject], asked: WhatIf, registry: Registry) -> BothSides:
    """Decide both, on a cluster of these *objects*. What a plugin keeps outside ``ssn.memory`` is its own matter.

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
    said += suppose(begun.state, asked)
    if plain_other is not plain_own:
        begun.assembly, begun.runtime = assemble(plain_other, registry), runtime_of(saved, health=False)
    after = _decided(begun, asked.job)
    return BothSides(
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
    """A conf that asks nobody outside: who supposes one may name any address, and any file."""
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
    for intent in report.intents:
        if isinstance(intent, Bind) and intent.job in fates:
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
        standings=[standing_of(snapshot, report.gauges) for snapshot in taken],
        scene=replace(scene, lanes=lanes_of(state.queues, report.gauges), waiters=_played(scene, asked)),
    )


def _played(scene: Scene, asked: str) -> list[Waiter]:
    """The first who wait, in order, and the one that is asked about: no more are handed from process to process."""
    rest = (waiter for waiter in scene.waiters[MOST_PLAYED:] if waiter.job == asked)
    return [*scene.waiters[:MOST_PLAYED], *rest]
