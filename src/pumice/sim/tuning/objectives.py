"""The objectives of a candidate, as numbers: how its figures differ from those of the conf as it is, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pumice.errors import InvalidInput
from pumice.sim.results.intervals import Interval, ratio_interval
from pumice.sim.results.metrics import Metric
from pumice.sim.results.summary import Summary

_LEAST_S: Final = 1.0
"""Times below a second count as one in the ratio of a single pair: it needs something to divide by."""
SHORT_S: Final = 60.0
"""Mean waits of a queue below a minute count as one: nobody loses by seconds."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """The figures to improve, the most important first, and what no queue may lose."""

    figures: tuple[Metric[Summary], ...]
    most_loss: float | None = 0.05
    """No queue's mean wait may grow by more than this part; ``None``: they may."""

    def steps(self, base: Summary, other: Summary) -> tuple[float, ...] | None:
        """Return by how much each figure is worse than under the base, below 0 if better; None if one has no value."""
        found = []
        for figure in self.figures:
            a, b = figure.of(base), figure.of(other)
            if a is None or b is None:
                return None
            found.append(self._step(figure, a, b))
        return tuple(found)

    def change(self, base: Sequence[Summary], other: Sequence[Summary]) -> tuple[float, ...]:
        """Return by how much the mean of each figure is worse than under the base, from runs that have all figures."""
        return tuple(self._step(figure, _mean(figure, base), _mean(figure, other)) for figure in self.figures)

    def _step(self, figure: Metric[Summary], before: float, after: float) -> float:
        step = math.log(max(after, _LEAST_S) / max(before, _LEAST_S)) if figure.as_ratio else after - before
        return step if figure.better == "lower" else -step


def _mean(figure: Metric[Summary], runs: Sequence[Summary]) -> float:
    values = [value for run in runs if (value := figure.of(run)) is not None]
    return math.fsum(values) / len(values)


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of a candidate on the occasions that it was played on, against the base on the same ones."""

    steps: tuple[float, ...]
    """The step of each figure's mean, of times its logarithm; below 0 is better."""
    by_occasion: tuple[tuple[float, ...], ...]
    excess: float
    """How far the worst queue surely lies above what it may lose; at most 0 if no queue loses."""

    @property
    def feasible(self) -> bool:
        """Whether no queue loses beyond chance."""
        return self.excess <= 0


def score(base: Sequence[Summary], other: Sequence[Summary], wanted: Objectives) -> Score:
    """Return what a candidate did, from runs in pairs.

    :raises InvalidInput: no pair has the figures.
    """
    pairs = [(a, b, step) for a, b in zip(base, other, strict=True) if (step := wanted.steps(a, b)) is not None]
    if not pairs:
        names = ", ".join(figure.key for figure in wanted.figures)
        raise InvalidInput(f"figures {names}: no run has a value of all of them")
    worst = max((_surely(found) for found in _queue_waits(base, other).values()), default=-1.0)
    return Score(
        wanted.change([a for a, _, _ in pairs], [b for _, b, _ in pairs]),
        tuple(step for *_, step in pairs),
        worst - wanted.most_loss if wanted.most_loss is not None else -1.0,
    )


@dataclass(frozen=True, slots=True)
class QueueLoss:
    """The change of a queue's mean wait: the part by which it grew, and the 95 % interval."""

    grew: Interval

    def above(self, most: float) -> bool:
        """Whether it grew by more than that, and by more than chance: one of a dozen queues always waits longer."""
        return self.grew.estimate > most and self.grew.excludes(0.0)


def queue_losses(base: Sequence[Summary], other: Sequence[Summary]) -> dict[str, QueueLoss]:
    """Return by which part the mean wait of each queue grew: the ratio of the means over the pairs, less one."""
    found = {}
    for name, waits in _queue_waits(base, other).items():
        grew = ratio_interval([a for a, _ in waits], [b for _, b in waits])
        assert grew is not None, "no wait is below SHORT_S"
        found[name] = QueueLoss(grew.shifted(-1.0))
    return found


def _surely(waits: Sequence[tuple[float, float]]) -> float:
    """The part by which a wait grew at least, from few pairs: two standard errors below the mean of their logarithms.

    The search goes by it, no verdict does.
    """
    steps = [math.log(after / before) for before, after in waits]
    mean = sum(steps) / len(steps)
    spread = math.sqrt(sum((step - mean) ** 2 for step in steps) / (len(steps) - 1)) if len(steps) > 1 else 0.0
    return math.expm1(mean - 2 * spread / math.sqrt(len(steps)))


def _queue_waits(base: Sequence[Summary], other: Sequence[Summary]) -> dict[str, list[tuple[float, float]]]:
    """Return the mean waits of each queue, a pair of runs each; at least `SHORT_S`."""
    waits: dict[str, list[tuple[float, float]]] = {}
    for a, b in zip(base, other, strict=True):
        before = {figures.name: figures.wait for figures in a.by_queue}
        for figures in b.by_queue:
            wait = before.get(figures.name)
            if wait is not None and figures.wait is not None:
                waits.setdefault(figures.name, []).append((max(wait.mean, SHORT_S), max(figures.wait.mean, SHORT_S)))
    return dict(sorted(waits.items()))
