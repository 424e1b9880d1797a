"""Series that plugins publish during a cycle, kept between scrapes and dropped with what they are about."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from pumice.framework.metrics import Histogram
from pumice.scheduler.report import CycleReport

_OURS = ("queue_", "job_", "namespace_", "eviction_", "unschedule_", "pod_preemption_", "total_preemption_")
"""Beginnings of names that plugins publish as Volcano does, without its prefix."""

_AMOUNTS = {
    "allocated": "What the tasks of a queue hold",
    "request": "What the tasks of a queue hold and ask for",
    "deserved": "What a queue may have when all are busy",
    "inqueue": "What admitted jobs of a queue still wait for",
    "capacity": "The capability of a queue",
    "real_capacity": "What a queue can have at most, beside the guarantees of others",
}
_UNITS = {
    "milli_cpu": "in thousandths of a CPU",
    "memory_bytes": "in bytes of memory",
    "scalar_resources": "of another resource, in thousandths",
}
PUBLISHED = {
    **{
        f"volcano_queue_{what}_{unit}": f"{text}, {of}."
        for what, text in _AMOUNTS.items()
        for unit, of in _UNITS.items()
    },
    "volcano_queue_share": "The largest share of what a queue deserves that it holds.",
    "volcano_queue_weight": "The weight of a queue.",
    "volcano_queue_overused": "1 if a queue holds more than it deserves.",
    "volcano_job_share": "The dominant share of a job.",
    "volcano_total_preemption_attempts": "Cycles with a preemption.",
    "volcano_eviction_transactions_total": "Plans with evictions that were carried out, by action.",
    "pumice_eviction_rounds_total": "Evictions by which jobs take turns: closed (made) and spared (not made).",
    "pumice_plugin_failures_total": "Callbacks of plugins that raised.",
    "pumice_extender_request_seconds": "Calls of extenders.",
    "pumice_extender_errors_total": "Calls of extenders that failed, by kind of failure.",
    "pumice_extender_odd_answers_total": "Answers of extenders that name what does not exist.",
    "pumice_extender_session_seconds": "How long the last cycle waited for an extender.",
    "pumice_extender_circuit_open": "1 if an extender failed too often and is not asked for a while.",
}
"""The series of the plugins that come with us, as they are scraped, and what they mean."""

Labels = tuple[tuple[str, str], ...]
_Series = dict[tuple[str, Labels], float]


class Published:
    """What plugins publish: gauges as they were last, counters and histograms summed over cycles."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gauges: _Series = {}
        self._counters: _Series = {}
        self._histograms: dict[tuple[str, Labels], Histogram] = {}

    def take(self, report: CycleReport) -> None:
        """Take over what a cycle published."""
        with self._lock:
            self._gauges.update(report.gauges)
            for key, value in report.counters.items():
                self._counters[key] = self._counters.get(key, 0.0) + value
            for key, histogram in report.histograms.items():
                self._histograms.setdefault(key, Histogram.empty(histogram.bounds)).merge(histogram)

    def add(self, name: str, by: float = 1.0) -> None:
        """Count something that no plugin counts."""
        with self._lock:
            self._counters[name, ()] = self._counters.get((name, ()), 0.0) + by

    def drop(self, gone: Callable[[dict[str, str]], bool]) -> None:
        """Forget the series whose labels name something that is gone."""
        with self._lock:
            everything: tuple[dict[tuple[str, Labels], Any], ...] = (self._gauges, self._counters, self._histograms)
            for series in everything:
                for key in [key for key in series if key[1] and gone(dict(key[1]))]:
                    del series[key]

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first cycle."""
        return []

    def collect(self) -> Iterable[Metric]:
        """One family per name and set of labels."""
        with self._lock:
            gauges, counters = dict(self._gauges), dict(self._counters)
            histograms = {key: (one.buckets(), one.sum) for key, one in self._histograms.items()}
        families: dict[tuple[str, tuple[str, ...]], Metric] = {}
        for (name, labels), value in gauges.items():
            _family(families, GaugeMetricFamily, name, labels).add_metric([v for _, v in labels], value)  # type: ignore[attr-defined]
        for (name, labels), value in counters.items():
            if not name.endswith("_total"):  # Volcano's names are kept as they are
                full = full_name(name)
                if (full, ()) not in families:
                    families[full, ()] = Metric(full, _meaning(full), "unknown")
                families[full, ()].add_sample(full, dict(labels), value)
            else:
                _family(families, CounterMetricFamily, name, labels).add_metric([v for _, v in labels], value)  # type: ignore[attr-defined]
        for (name, labels), (buckets, total) in histograms.items():
            _family(families, HistogramMetricFamily, name, labels).add_metric([v for _, v in labels], buckets, total)  # type: ignore[attr-defined]
        yield from families.values()


def _family(
    families: dict[tuple[str, tuple[str, ...]], Metric],
    of: type[GaugeMetricFamily] | type[CounterMetricFamily] | type[HistogramMetricFamily],
    name: str,
    labels: Labels,
) -> Metric:
    full, names = full_name(name), tuple(k for k, _ in labels)
    if (full, names) not in families:
        families[full, names] = of(full, _meaning(full), labels=names)
    return families[full, names]


def _meaning(name: str) -> str:
    return PUBLISHED.get(name, "Published by a plugin.")


def full_name(name: str) -> str:
    """The name under which a plugin's series is scraped."""
    return f"volcano_{name}" if name.startswith(_OURS) else name
