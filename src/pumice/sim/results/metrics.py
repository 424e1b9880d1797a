"""The figures that runs are compared by: what each is called, its unit, and which way is better. One table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from pumice.sim.results.statistics import Distribution
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


def _mean(spread: Distribution | None) -> float | None:
    return spread.mean if spread else None


def _p50(spread: Distribution | None) -> float | None:
    return spread.p50 if spread else None


def _p95(spread: Distribution | None) -> float | None:
    return spread.p95 if spread else None


def _p99(spread: Distribution | None) -> float | None:
    return spread.p99 if spread else None


def _lost(figures: Figures) -> float | None:
    """Nothing is said where no GPU was used."""
    return figures.lost_gpu_hours if figures.gpu_hours else None


OF_GROUP: Final[tuple[Metric[Figures], ...]] = (
    Metric("wait_mean", "Wait, mean", "seconds", "lower", lambda figures: _mean(figures.wait)),
    Metric("wait_p50", "Wait, median", "seconds", "lower", lambda figures: _p50(figures.wait)),
    Metric("wait_p95", "Wait, 95th percentile", "seconds", "lower", lambda figures: _p95(figures.wait)),
    Metric("wait_p99", "Wait, 99th percentile", "seconds", "lower", lambda figures: _p99(figures.wait)),
    Metric("jct_mean", "Completion time, mean", "seconds", "lower", lambda figures: _mean(figures.jct)),
    Metric("jct_p95", "Completion time, 95th percentile", "seconds", "lower", lambda figures: _p95(figures.jct)),
    Metric("slowdown_mean", "Bounded slowdown, mean", "ratio", "lower", lambda figures: _mean(figures.slowdown)),
    Metric("completed", "Jobs completed", "count", "higher", lambda figures: figures.completed),
    Metric("pending", "Jobs still pending", "count", "lower", lambda figures: figures.pending),
    Metric("evictions", "Evictions", "count", "lower", lambda figures: figures.evictions),
    Metric("lost_gpu_hours", "Lost GPU-hours", "hours", "lower", _lost),
)
"""Figures of any group of jobs."""

OF_RUN: Final[tuple[Metric[Summary], ...]] = (
    Metric("makespan", "Makespan", "seconds", "lower", lambda summary: summary.makespan_s),
    Metric("gpu_utilisation", "GPU utilisation", "share", "higher", lambda summary: summary.utilisation.gpu),
    Metric("cpu_utilisation", "CPU utilisation", "share", "higher", lambda summary: summary.utilisation.cpu),
    Metric("memory_utilisation", "Memory utilisation", "share", "higher", lambda summary: summary.utilisation.memory),
    Metric("fragmentation", "Fragmentation", "share", "lower", lambda summary: summary.fragmentation),
    Metric("fairness_service", "Fairness of service", "index", "higher", lambda summary: summary.fairness_service),
    Metric("fairness_share", "Fairness of shares", "index", "higher", lambda summary: summary.fairness_share),
)
"""Figures of a whole run."""
