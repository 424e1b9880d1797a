"""The figures that runs are compared by: name, unit, which way is better, how to take it. One table.

Names are those of ``--fail-if``, of ``Study.compare`` and of the JSON output: ``wait.p95``, ``utilisation.gpu``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from pumice.config.problems import nearest
from pumice.errors import InvalidInput
from pumice.sim.results.statistics import Distribution, Statistic
from pumice.sim.results.summary import Figures, Summary

Unit = Literal["seconds", "hours", "count", "share", "ratio", "index"]
"""``share`` is 0 to 1 and shown in percent; ``index`` is 0 to 1 and shown as such; ``ratio`` is a factor."""
Better = Literal["lower", "higher"]
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Metric(Generic[S]):
    """One figure, how to take it from a summary, and how to judge it."""

    key: str
    label: str
    unit: Unit
    better: Better
    of: Callable[[S], float | None]
    at_least: Callable[[S], bool] = lambda source: False
    """Whether the value is a lower bound."""
    open: bool = False
    """A job that did not finish counts with less than its due, or not at all: see ``comparison.left_apart``."""

    @property
    def as_ratio(self) -> bool:
        """Whether a change is told as a ratio: so for times, which differ by factors between seeds."""
        return self.unit in ("seconds", "ratio")


def _of(field: str, statistic: Statistic) -> tuple[Callable[[Figures], float | None], Callable[[Figures], bool]]:
    """How to take one figure of a distribution, and to know whether it is a lower bound."""

    def value(figures: Figures) -> float | None:
        spread: Distribution | None = getattr(figures, field)
        return None if spread is None else float(getattr(spread, statistic))

    def at_least(figures: Figures) -> bool:
        spread: Distribution | None = getattr(figures, field)
        return spread is not None and statistic in spread.at_least

    return value, at_least


def _lost(figures: Figures) -> float | None:
    """Nothing is said where no GPU was used."""
    return figures.lost_gpu_hours if figures.gpu_hours else None


OF_GROUP: Final[tuple[Metric[Figures], ...]] = (
    Metric("unfinished", "Jobs not finished", "count", "lower", lambda figures: figures.unfinished),
    Metric("unstarted", "Jobs never started", "count", "lower", lambda figures: figures.unstarted),
    Metric("wait.mean", "Wait, mean", "seconds", "lower", *_of("wait", "mean"), True),
    Metric("wait.p50", "Wait, median", "seconds", "lower", *_of("wait", "p50"), True),
    Metric("wait.p95", "Wait, 95th percentile", "seconds", "lower", *_of("wait", "p95"), True),
    Metric("wait.p99", "Wait, 99th percentile", "seconds", "lower", *_of("wait", "p99"), True),
    Metric("jct.mean", "Completion time, mean", "seconds", "lower", *_of("jct", "mean"), True),
    Metric("jct.p95", "Completion time, 95th percentile", "seconds", "lower", *_of("jct", "p95"), True),
    Metric("slowdown.mean", "Bounded slowdown, mean", "ratio", "lower", *_of("slowdown", "mean"), True),
    Metric("completed", "Jobs completed", "count", "higher", lambda figures: figures.completed),
    Metric("evictions", "Evictions", "count", "lower", lambda figures: figures.evictions),
    Metric("lost_gpu_hours", "Lost GPU-hours", "hours", "lower", _lost),
)
"""Figures of any group of jobs."""

OF_RUN: Final[tuple[Metric[Summary], ...]] = (
    Metric(
        "makespan",
        "Makespan",
        "seconds",
        "lower",
        lambda summary: summary.makespan_s,
        lambda summary: summary.makespan_at_least,
        True,
    ),
    Metric("utilisation.gpu", "GPU utilisation", "share", "higher", lambda summary: summary.utilisation.gpu),
    Metric("utilisation.cpu", "CPU utilisation", "share", "higher", lambda summary: summary.utilisation.cpu),
    Metric("utilisation.memory", "Memory utilisation", "share", "higher", lambda summary: summary.utilisation.memory),
    Metric("fragmentation", "Fragmentation", "share", "lower", lambda summary: summary.fragmentation),
    Metric(
        "fairness.service",
        "Fairness of service",
        "index",
        "higher",
        lambda summary: summary.fairness_service,
        open=True,
    ),
    Metric("fairness.share", "Fairness of shares", "index", "higher", lambda summary: summary.fairness_share),
)
"""Figures of a whole run."""


def _whole(metric: Metric[Figures]) -> Metric[Summary]:
    """A figure of all jobs of a run."""
    return Metric(
        metric.key,
        metric.label,
        metric.unit,
        metric.better,
        lambda summary: metric.of(summary.total),
        lambda summary: metric.at_least(summary.total),
        metric.open,
    )


METRICS: Final[dict[str, Metric[Summary]]] = {m.key: m for m in (*map(_whole, OF_GROUP), *OF_RUN)}
"""Every figure of a run, by name, in the order in which they are shown."""


def metric(name: str) -> Metric[Summary]:
    """Return the figure of that name.

    :raises InvalidInput: there is none.
    """
    found = METRICS.get(name)
    if found is None:
        meant = nearest(name, METRICS)
        hint = f"; did you mean {meant!r}?" if meant else f"; there are {', '.join(METRICS)}"
        raise InvalidInput(f"figure {name!r}: unknown{hint}")
    return found
