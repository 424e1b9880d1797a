"""One trace, played many times: shaken by the seed, or cut into parts that are played one by one.

A trace has no seed. Shaking it a little gives many traces like it, and shows what was an accident of the one. It says
nothing of other weeks: only the parts of a trace do. Shaking is after Tsafrir, Ouaknine and Feitelson, *Reducing
performance evaluation sensitivity and variability by input shaking* (MASCOTS 2007).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pumice.errors import InvalidInput
from pumice.sim.draws import stream, uniform_of
from pumice.sim.results.records import Window
from pumice.sim.traces import TraceJob

NEARLY_WHOLE: Final = 0.9
"""The last submission ends a trace somewhat before its last day or week does: so much of a part must be there."""


@dataclass(frozen=True, slots=True)
class Split:
    """A trace cut into parts of one length. Each is a run of its own, and only jobs that it submits are measured."""

    begin_s: float
    length_s: float
    lead_s: float
    """Jobs of so long before a part are played first, so that it does not begin on an empty cluster."""
    numbers: tuple[int, ...]
    """Parts that have jobs, counted from 1. A rest that is shorter than `NEARLY_WHOLE` of a part is none."""

    @classmethod
    def of(cls, submits: Sequence[float], length_s: float, lead_s: float, window: Window | None) -> Split:
        """Return the parts of the trace that *submits* jobs at these times, within a window if one is given.

        :raises InvalidInput: there is not one whole part with a job.
        """
        first, last = (min(submits, default=0.0), max(submits, default=0.0)) if window is None else window
        whole = math.floor((last - first) / length_s + 1 - NEARLY_WHOLE + 1e-9)
        found = {math.floor((at - first) / length_s) + 1 for at in submits}
        numbers = tuple(number for number in range(1, whole + 1) if number in found)
        if not numbers:
            raise InvalidInput(f"--split: the trace has {(last - first) / 3600:.0f} h, so no part of this length")
        return cls(first, length_s, lead_s, numbers)

    def window(self, number: int) -> Window:
        """Return when the jobs of a part are submitted.

        :raises InvalidInput: there is no such part.
        """
        if number not in self.numbers:
            raise InvalidInput(f"part {number}: the trace has parts {self.numbers[0]} to {self.numbers[-1]}")
        begin = self.begin_s + (number - 1) * self.length_s
        return begin, begin + self.length_s

    def unit(self) -> str:
        """Return what one run stands for: ``part of 7 d``."""
        days = self.length_s / 86_400
        return f"part of {days:g} d" if days >= 1 else f"part of {self.length_s / 3600:g} h"


@dataclass(frozen=True, slots=True)
class Shake:
    """How a trace is varied from seed to seed."""

    jitter_s: float = 900.0
    """Every submission moves by up to this, either way."""
    drop: float = 0.01
    """The part of the jobs that is left out."""
    block_s: float = 0.0
    """Parts of this length (weeks, say) are drawn with replacement, in the place of the trace's own; 0: not."""

    def __bool__(self) -> bool:
        return bool(self.jitter_s or self.drop or self.block_s)

    def jobs(self, trace: Sequence[TraceJob], seed: int) -> list[TraceJob]:
        """Return the trace of this seed, in the order of submission; the same seed gives the same one."""
        drawn = self._blocks(trace, seed) if self.block_s and trace else iter(trace)
        return sorted(self._moved(drawn, seed), key=lambda job: job.submit_s)

    def _blocks(self, trace: Sequence[TraceJob], seed: int) -> Iterator[TraceJob]:
        first, last = trace[0].submit_s, trace[-1].submit_s
        count = max(1, math.ceil((last - first) / self.block_s))
        rng = stream(seed, "blocks")
        blocks: list[list[TraceJob]] = [[] for _ in range(count)]
        for job in trace:
            blocks[min(count - 1, int((job.submit_s - first) // self.block_s))].append(job)
        for place in range(count):
            block = rng.randrange(count)
            for job in blocks[block]:
                moved = job.submit_s + (place - block) * self.block_s
                yield replace(job, submit_s=moved, name=f"{job.name}-{place}")  # a block may come twice

    def _moved(self, jobs: Iterable[TraceJob], seed: int) -> Iterator[TraceJob]:
        for job in jobs:
            if self.drop and uniform_of(seed, "drop", job.name) < self.drop:
                continue
            if not self.jitter_s:
                yield job
                continue
            by = round((2 * uniform_of(seed, "jitter", job.name) - 1) * self.jitter_s)
            yield replace(job, submit_s=max(0.0, job.submit_s + by))

    def in_words(self) -> str:
        """Return what it does to a trace, as a part of a sentence."""
        parts = []
        if self.block_s:
            parts.append(f"parts of {self.block_s / 86_400:g} d drawn anew")
        if self.jitter_s:
            parts.append(f"submissions moved by up to {self.jitter_s / 60:g} min")
        if self.drop:
            parts.append(f"{100 * self.drop:g} % of jobs left out")
        return ", ".join(parts) or "nothing changed"
