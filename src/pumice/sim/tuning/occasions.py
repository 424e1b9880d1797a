"""What candidates are tried on: seeds, or parts of a trace; to search, to choose, and the last for the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pumice.errors import InvalidInput
from pumice.sim.results.pairs import FEWEST
from pumice.sim.scenario import SimScenario
from pumice.sim.traces import TraceJob

FEWEST_OCCASIONS: Final = FEWEST + 3
"""Two to search on, one to choose on, and enough for a verdict."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """One day or week to be played, the same for every candidate."""

    number: int
    """Its name in tables: the seed, or the part counted from 1."""
    seed: int
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """The occasions, in their order: of a trace the later ones are held out."""

    search: tuple[Occasion, ...]
    choose: tuple[Occasion, ...]
    held_out: tuple[Occasion, ...]
    each: str
    """What an occasion is called: ``seed``, or ``part of 7 d``."""

    @classmethod
    def of(cls, occasions: Sequence[Occasion], each: str) -> Split:
        """Half of them for the verdict, and no fewer than it needs; a third of the rest to choose on.

        :raises InvalidInput: there are too few.
        """
        count = len(occasions)
        if count < FEWEST_OCCASIONS:
            raise InvalidInput(f"{count} occasions ({each}) are too few; at least {FEWEST_OCCASIONS} are needed")
        held = max(FEWEST, count // 2)
        choose = max(1, (count - held) // 3)
        search = count - held - choose
        return cls(
            tuple(occasions[:search]), tuple(occasions[search : search + choose]), tuple(occasions[-held:]), each
        )


def by_seed(seeds: Sequence[int]) -> Split:
    """Return occasions that are drawn, one for each seed."""
    return Split.of([Occasion(seed, seed) for seed in seeds], "seed")


def by_time(scenario: SimScenario, length_s: float, seed: int) -> tuple[Split, dict[int | None, SimScenario]]:
    """Return the parts of a scenario's traces as occasions, and the scenario of each.

    Every part begins with an empty cluster and ends when its jobs are done. Parts without jobs are left out.

    :raises InvalidInput: it has other work than traces, or too few parts.
    """
    if scenario.generators or scenario.manifests or not scenario.traces:
        raise InvalidInput("--split: is for a workload that is nothing but traces; jobs that are drawn have --seeds")
    submits = [job.submit_s for part in scenario.traces for job in part.trace]
    first, last = min(submits), max(submits)
    count = math.floor((last - first) / length_s) + 1
    worlds: dict[int | None, SimScenario] = {}
    occasions: list[Occasion] = []
    for at in range(count):
        begin, end = first + at * length_s, first + (at + 1) * length_s
        traces = tuple(
            replace(part, trace=replace(part.trace, jobs=_between(part.trace.jobs, begin, end)))
            for part in scenario.traces
        )
        if any(part.trace.jobs for part in traces):
            worlds[at + 1] = replace(scenario, traces=traces)
            occasions.append(Occasion(at + 1, seed, at + 1))
    days = length_s / 86_400
    each = f"part of {days:g} d" if days >= 1 else f"part of {length_s / 3600:g} h"
    try:
        return Split.of(occasions, each), worlds
    except InvalidInput as exc:
        longest = (last - first) / FEWEST_OCCASIONS / 3600
        raise InvalidInput(f"--split: {exc}: say parts of at most {longest:.0f} h") from None


def _between(jobs: Sequence[TraceJob], begin: float, end: float) -> tuple[TraceJob, ...]:
    return tuple(replace(job, submit_s=job.submit_s - begin) for job in jobs if begin <= job.submit_s < end)
