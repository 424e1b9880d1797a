"""A trace has no seed. Shaking it a little gives many traces like it, and shows what was an accident of the one.

After Tsafrir, Ouaknine and Feitelson, *Reducing performance evaluation sensitivity and variability by input shaking*
(MASCOTS 2007): an effect that vanishes when submissions move by minutes was none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pumice.sim.draws import stream, uniform_of
from pumice.sim.traces import TraceJob


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
