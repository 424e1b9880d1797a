"""What is wanted of a candidate, as numbers: how its figures differ from those of the conf as it is, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pumice.errors import InvalidInput
from pumice.sim.results.metrics import Metric
from pumice.sim.results.pairs import SHORTEST_S, Interval, factors, interval
from pumice.sim.results.summary import Summary

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
            step = math.log(max(b, SHORTEST_S) / max(a, SHORTEST_S)) if figure.as_ratio else b - a
            found.append(step if figure.better == "lower" else -step)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Score:
    """What a candidate did on the occasions that it was played on, against the base on the same ones."""

    steps: tuple[float, ...]
    """Mean of each figure's step; below 0 is better."""
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
    steps = [step for a, b in zip(base, other, strict=True) if (step := wanted.steps(a, b)) is not None]
    if not steps:
        names = ", ".join(figure.key for figure in wanted.figures)
        raise InvalidInput(f"figures {names}: no run has a value of all of them")
    worst = max((_surely(found) for found in _queue_steps(base, other).values()), default=-1.0)
    return Score(
        tuple(sum(column) / len(steps) for column in zip(*steps, strict=True)),
        tuple(steps),
        worst - wanted.most_loss if wanted.most_loss is not None else -1.0,
    )


@dataclass(frozen=True, slots=True)
class QueueLoss:
    """What became of a queue's mean wait: the part by which it grew, and the 95 % interval."""

    grew: Interval

    def above(self, most: float) -> bool:
        """Whether it grew by more than that, and by more than chance: one of a dozen queues always waits longer."""
        return self.grew.estimate > most and self.grew.excludes(0.0)


def queue_losses(base: Sequence[Summary], other: Sequence[Summary]) -> dict[str, QueueLoss]:
    """Return by which part the mean wait of each queue grew: the typical ratio over the pairs, less one."""
    return {name: QueueLoss(factors(interval(steps), -1.0)) for name, steps in _queue_steps(base, other).items()}


def _surely(steps: Sequence[float]) -> float:
    """The part by which a wait grew at least, from few pairs: two standard errors below their mean."""
    mean = sum(steps) / len(steps)
    spread = math.sqrt(sum((step - mean) ** 2 for step in steps) / (len(steps) - 1)) if len(steps) > 1 else 0.0
    return math.expm1(mean - 2 * spread / math.sqrt(len(steps)))


def _queue_steps(base: Sequence[Summary], other: Sequence[Summary]) -> dict[str, list[float]]:
    """Of each queue the logarithms of the ratios of its mean wait, a pair of runs each."""
    logs: dict[str, list[float]] = {}
    for a, b in zip(base, other, strict=True):
        before = {figures.name: figures.wait for figures in a.by_queue}
        for figures in b.by_queue:
            wait = before.get(figures.name)
            if wait is not None and figures.wait is not None:
                step = math.log(max(figures.wait.mean, SHORT_S) / max(wait.mean, SHORT_S))
                logs.setdefault(figures.name, []).append(step)
    return dict(sorted(logs.items()))
