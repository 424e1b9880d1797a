"""``plan``: how large a cluster must be, and what becomes of it under more load or with nodes that fail.

The parts: ``variants`` (a scenario with something changed), ``bisection`` (the smallest number that will do),
``formula`` (what queueing theory says). All is played on the same seeds, so that what differs is the change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from pumice.sim.planning.bisection import Found, smallest
from pumice.sim.planning.formula import Demanded, demanded
from pumice.sim.planning.variants import Variant, nodes_of, play_variant, units_of
from pumice.sim.results.gates import Gate
from pumice.sim.results.intervals import Interval, mean_interval
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
    value: Interval | None
    """The mean over the seeds; None where no run has one."""
    at_least: bool
    """It is a lower bound: jobs were left waiting."""
    never_fit: tuple[str, ...]
    meets: bool
    sure: bool
    """All of the interval lies on the side that `meets` says."""
    formula: float | None
    """What the closed formula says of the same number."""


@dataclass(frozen=True, slots=True)
class Sized:
    """How many nodes a goal needs."""

    group: str
    now: int
    found: Found
    tried: tuple[TriedSize, ...]
    by_formula: int | None
    """The smallest number by the closed formula; None where it has none to say."""

    def told(self) -> dict[str, Any]:
        """The same as data for programs."""
        return {
            "group": self.group,
            "now": self.now,
            "answer": self.found.answer,
            "by_formula": self.by_formula,
            "not_monotone": self.found.broken,
            "tried": self.tried,
        }


def size(player: VariantPlayer, base: Variant, group: str, goal: Gate, low: int, high: int) -> Sized:
    """Return the smallest number of nodes of a group with which a goal is met.

    :raises InvalidInput: there is no such group.
    :raises PumiceError: a run was stopped.
    """
    scenario = player.world.scenario
    now = len(nodes_of(scenario, group))
    seen: dict[int, TriedSize] = {}
    asked = _demanded(scenario, base, player.seeds)

    def meets(count: int) -> bool:
        variant = Variant(group, count, base.load, base.failure)
        seen[count] = _tried(count, player(variant), goal, _formula(variant.of(scenario, player.seeds[0]), asked, goal))
        return seen[count].meets

    found = smallest(meets, low, high, now)
    closed = None
    if asked is not None:
        wanted = ((n, _formula(Variant(group, n).of(scenario, 0), asked, goal)) for n in range(low, high + 1))
        closed = next((n for n, value in wanted if value is not None and goal.holds(value, value)), None)
    return Sized(group, now, found, tuple(seen[count] for count in found.tried), closed)


def _tried(count: int, runs: Mapping[int, Played], goal: Gate, formula: float | None) -> TriedSize:
    summaries: list[Summary] = [done.summary for done in runs.values()]
    values = [known for one in summaries if (known := goal.metric.of(one)) is not None]
    at_least = any(goal.metric.at_least(one) for one in summaries)
    never = tuple(dict.fromkeys(text for done in runs.values() for text in done.never_fit))
    if not values:
        return TriedSize(count, None, at_least, never, False, True, formula)
    value = mean_interval(values)
    good = bool(goal.holds(value.estimate, value.estimate)) and not at_least and not never
    ends = (value.low, value.high)
    whole = None if ends[0] is None or ends[1] is None else goal.holds(ends[0], ends[1])
    return TriedSize(count, value, at_least, never, good, whole is not None and whole == good, formula)


def _demanded(scenario: SimScenario, base: Variant, seeds: Sequence[int]) -> Demanded | None:
    loaded = Variant(load=base.load)
    drawn = [list(loaded.of(scenario, seed).drawn(seed).workload()) for seed in seeds]
    return demanded(drawn, gpus=units_of(scenario, gpus=True) > 0)


def _formula(scenario: SimScenario, asked: Demanded | None, goal: Gate) -> float | None:
    if asked is None:
        return None
    waits = asked.waits(units_of(scenario, gpus=asked.resource == "gpu"))
    return None if waits is None else waits.figure(goal.metric.key)


__all__ = ["Sized", "TriedSize", "Variant", "VariantPlayer", "size"]
