"""Which queue and which run has which colour: the same everywhere on a page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pumice.sim.results.records import RunRecord
from pumice.sim.results.summary import Summary

COLOURS = 8
OTHER = "other"
OTHER_CLASS = "cx"


def queue_colours(summaries: Sequence[Summary]) -> dict[str, str]:
    """Return the colour class of each queue: those that used most have their own, the others share one."""
    used: defaultdict[str, float] = defaultdict(float)
    by_gpu = any(figures.gpu_hours > 0 for summary in summaries for figures in summary.by_queue)
    for summary in summaries:
        for figures in summary.by_queue:
            used[figures.name] += figures.gpu_hours if by_gpu else figures.cpu_hours
    ranked = sorted(used, key=lambda name: (-used[name], name))
    return {name: f"c{rank}" if rank < COLOURS else OTHER_CLASS for rank, name in enumerate(ranked)}


def run_colours(runs: Sequence[RunRecord]) -> list[str]:
    """Return the colour class of each run, in order."""
    return [f"c{rank % COLOURS}" for rank in range(len(runs))]
