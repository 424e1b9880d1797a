"""``plan``: how large a cluster must be, and what becomes of it under more load or with nodes that fail.

The parts: ``goals`` (what is wanted, and whether days meet it), ``variants`` (a scenario with something changed),
``bisection`` (the smallest number that will do), ``formula`` (what queueing theory says). All is played on the same
seeds, so that what differs is the change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pumice.sim.planning.bisection import Found, first_from, smallest
from pumice.sim.planning.formula import Demanded, demanded
from pumice.sim.planning.goals import Goal, Judged
from pumice.sim.planning.variants import Variant, nodes_of, play_variant, units_of
from pumice.sim.results.intervals import FEWEST
from pumice.sim.results.summary import Summary
from pumice.sim.scenario import SimScenario
from pumice.sim.study.playing import Played, StudyRun, StudyWorld


@dataclass(slots=True)
class VariantPlayer:
    """Plays variants of a scenario on the same seeds; each variant once."""

    world: StudyWorld
    configuration: str
    seeds: Sequence[int]
    executor: Executor | None = None
    watch: Callable[[], None] = lambda: None
    keep: bool = False
    known: dict[Variant, dict[int, Played]] = field(default_factory=dict)

    def __call__(self, variant: Variant) -> Mapping[int, Played]:
        """Return the runs of a variant by seed.

        :raises PumiceError: a run was stopped.
        """
        if variant not in self.known:
            tasks = [StudyRun(self.configuration, seed) for seed in self.seeds]
            if self.executor is None:
                self.known[variant] = {
                    t.seed: self._told(play_variant(self.world, variant, t, keep=self.keep)) for t in tasks
                }
            else:
                packed = self.world.packed()
                asked = [self.executor.submit(play_variant, packed, variant, t, keep=self.keep) for t in tasks]
                try:
                    self.known[variant] = {
                        t.seed: self._told(one.result()) for t, one in zip(tasks, asked, strict=True)
                    }
                finally:
                    for one in asked:
                        one.cancel()
        return self.known[variant]

    def _told(self, done: Played) -> Played:
        self.watch()
        return done


@dataclass(frozen=True, slots=True)
class TriedSize:
    """One number of nodes: the figure there, and whether it meets the goal."""

    count: int
    days: int
    """How many days have a value of the figure."""
    judged: Judged | None
    """What they say of the goal; ``None`` if there are none."""
    at_least: bool
    """The figure is a lower bound, as jobs were left waiting: the goal is missed."""
    never_fit: tuple[str, ...]
    formula: float | None
    """What the closed formula says of the same number."""

    @property
    def meets(self) -> bool:
        """Whether the goal is met on the days that were played."""
        return self.judged is not None and self.judged.on_these_days and not self.at_least and not self.never_fit

    @property
    def word(self) -> str:
        """What is sure: ``met``, ``missed`` or ``perhaps``."""
        return "missed" if self.judged is None or self.at_least or self.never_fit else self.judged.word


@dataclass(frozen=True, slots=True)
class Sized:
    """How many nodes a goal needs."""

    group: str
    now: int
    found: Found
    """By the days that were played."""
    sure: int | None
    """The smallest number that was tried of which it is sure; ``None`` if of none."""
    tried: tuple[TriedSize, ...]
    by_formula: int | None
    """The smallest number by the closed formula; None where it has none to say."""

    def told(self) -> dict[str, Any]:
        """The same as data for programs."""
        return {
            "group": self.group,
            "now": self.now,
            "answer": self.sure,
            "on_these_days": self.found.answer,
            "by_formula": self.by_formula,
            "not_monotone": self.found.broken,
            "tried": [{**msgspec.to_builtins(one), "goal": one.word} for one in self.tried],
        }


def size(player: VariantPlayer, base: Variant, group: str, goal: Goal, low: int, high: int) -> Sized:
    """Return the smallest number of nodes of a group with which a goal is met on these days, and with confidence.

    :raises InvalidInput: there is no such group.
    :raises PumiceError: a run was stopped.
    """
    scenario = player.world.scenario
    now = len(nodes_of(scenario, group))
    seen: dict[int, TriedSize] = {}
    asked = _demanded(scenario, base, player.seeds)

    def meets(count: int) -> bool:
        variant = Variant(group, count, base.load, base.failure)
        seen[count] = tried_size(
            count, player(variant), goal, _formula(variant.of(scenario, player.seeds[0]), asked, goal)
        )
        return seen[count].meets

    def surely(count: int) -> bool:
        if count not in seen:
            meets(count)
        return seen[count].word == "met"

    found = smallest(meets, low, high, now)
    if found.answer is not None and len(player.seeds) >= (goal.days_needed or FEWEST):
        first_from(surely, found.answer, high)
    closed = None
    if asked is not None:
        wanted = ((n, _formula(Variant(group, n).of(scenario, 0), asked, goal)) for n in range(low, high + 1))
        closed = next((n for n, value in wanted if value is not None and goal.gate.holds(value, value)), None)
    tried = tuple(seen[count] for count in sorted(seen))
    sure = next((one.count for one in tried if one.word == "met"), None)
    return Sized(group, now, found, sure, tried, closed)


def tried_size(count: int, runs: Mapping[int, Played], goal: Goal, formula: float | None) -> TriedSize:
    """Return what the runs of one size say of a goal."""
    summaries: list[Summary] = [done.summary for done in runs.values()]
    metric = goal.gate.metric
    values = [known for one in summaries if (known := metric.of(one)) is not None]
    at_least = any(metric.at_least(one) for one in summaries)
    never = tuple(dict.fromkeys(text for done in runs.values() for text in done.never_fit))
    return TriedSize(count, len(values), goal.judge(values) if values else None, at_least, never, formula)


def _demanded(scenario: SimScenario, base: Variant, seeds: Sequence[int]) -> Demanded | None:
    loaded = Variant(load=base.load)
    drawn = [list(loaded.of(scenario, seed).drawn(seed).workload()) for seed in seeds]
    return demanded(drawn, gpus=units_of(scenario, gpus=True) > 0)


def _formula(scenario: SimScenario, asked: Demanded | None, goal: Goal) -> float | None:
    if asked is None:
        return None
    waits = asked.waits(units_of(scenario, gpus=asked.resource == "gpu"))
    return None if waits is None else waits.figure(goal.gate.metric.key)


__all__ = ["Goal", "Sized", "TriedSize", "Variant", "VariantPlayer", "size", "tried_size"]
