"""The data that outlives a session: kept evaluations, plugin memory, plugin health, the seeded generator."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pumice.engine.views import ViewCache
from pumice.framework.points.guard import Health
from pumice.framework.session.pending_queue import PendingQueue
from pumice.framework.session.rounds import Losses, Turns

if TYPE_CHECKING:
    from pumice.framework.session.nominations import Nomination
    from pumice.framework.session.questions import PluginEntry


class TierBuilder(Protocol):
    """An assembled conf, as far as plugins are built of it."""

    def tiers(self) -> list[list[PluginEntry]]:
        """Return entries for the plugins, tier by tier, none of them built."""


@dataclass(slots=True)
class Runtime:
    """State of the scheduler between cycles; saved with a cycle where it decides anything."""

    seed: int = 0
    random_ties: bool = False
    metered: bool = True
    """Whether the figures of plugins have a reader."""
    cache: ViewCache = field(default_factory=ViewCache)
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)
    health: dict[str, Health] = field(default_factory=dict)
    pending: PendingQueue = field(default_factory=PendingQueue)
    """Jobs that wait for room."""
    admissions: PendingQueue = field(default_factory=PendingQueue)
    """Jobs that wait to be let into their queue."""
    nominations: dict[str, Nomination] = field(default_factory=dict)
    turns: Turns = field(default_factory=dict)
    """The recent evictions with their beneficiaries."""
    losses: dict[str, Losses] = field(default_factory=dict)
    """Job -> when it lost pods to other jobs within an hour; the job that lost last stands last."""
    cycle: int = 0
    kept: dict[str, Any] = field(default_factory=dict)
    """Indexes that follow from the state, kept for speed alone and never saved."""

    told: set[tuple[str, ...]] = field(default_factory=set)
    """Failures of plugins that were logged: (plugin, point, kind of error, line)."""
    key_kinds: dict[str, dict[str, int]] = field(default_factory=dict)
    """Orders in which sort keys of several kinds met."""
    order_bases: dict[str, object] = field(default_factory=dict)
    """Plugin -> what its sort keys of jobs are made of, beside the jobs: what the backlogs are ordered by."""

    tiers: tuple[object, object, list[list[PluginEntry]]] | None = None
    """The state and the assembled conf that the last session had, with its plugins: persistent ones stay for these."""

    took: float = 0.0
    """Seconds of the last cycle that was run."""
    last_cycle: Any = None
    """The last cycle, if it left everything as it was (`scheduler/report.py`)."""

    def tiers_of(self, state: object, assembly: TierBuilder) -> list[list[PluginEntry]]:
        """Return the plugins of an assembled conf, tier by tier, for a session on *state*."""
        known = self.tiers
        if known is None or known[0] is not state or known[1] is not assembly:
            known = self.tiers = state, assembly, assembly.tiers()
        return known[2]

    def rng(self) -> random.Random | None:
        """The generator of this cycle where ties are settled at random."""
        return random.Random(f"{self.seed}/{self.cycle}") if self.random_ties else None

    def forget(self) -> None:
        """A new configuration: drop what was kept for the old one."""
        self.drop_kept()
        self.told.clear()
        self.health.clear()

    def drop_kept(self) -> None:
        """Drop what is kept for speed; it is made anew."""
        self.cache = ViewCache()
        self.pending = PendingQueue()
        self.admissions = PendingQueue()
        self.order_bases = {}
        self.tiers = None
        self.last_cycle = None
        self.key_kinds.clear()
