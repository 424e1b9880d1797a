"""What a running scheduler measures, in Prometheus' text form, under Volcano's names and our own."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from pumice.model.intents import Bind, Evict
from pumice.scheduler.report import CycleReport

_MILLISECONDS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
_OURS = ("queue_", "job_", "namespace_", "eviction_", "unschedule_", "pod_preemption_", "total_preemption_")
"""Beginnings of names that plugins publish as Volcano does, without its prefix."""

_Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Published:
    """Gauges and counters that plugins publish: gauges as they were last, counters summed over cycles."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gauges: _Series = {}
        self._counters: _Series = {}

    def take(self, report: CycleReport) -> None:
        """Take over what a cycle published."""
        with self._lock:
            self._gauges.update(report.gauges)
            for key, value in report.counters.items():
                self._counters[key] = self._counters.get(key, 0.0) + value

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first cycle."""
        return []

    def collect(self) -> Iterable[Metric]:
        """One family per name and set of labels."""
        with self._lock:
            gauges, counters = dict(self._gauges), dict(self._counters)
        for series, family in ((gauges, GaugeMetricFamily), (counters, CounterMetricFamily)):
            families: dict[tuple[str, tuple[str, ...]], Metric] = {}
            for (name, labels), value in series.items():
                names = tuple(k for k, _ in labels)
                found = families.get((name, names))
                if found is None:
                    found = families[name, names] = family(full_name(name), "Published by a plugin.", labels=names)
                found.add_metric([v for _, v in labels], value)  # type: ignore[attr-defined]
            yield from families.values()


def full_name(name: str) -> str:
    """The name under which a plugin's series is scraped."""
    return f"volcano_{name}" if name.startswith(_OURS) else name


class CycleMetrics:
    """Counts cycles and what they decided, and how long they took. Any thread may read."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def milliseconds(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(f"volcano_{name}", text, labels, buckets=_MILLISECONDS, registry=self._registry)

        self._cycle = milliseconds("e2e_scheduling_latency_milliseconds", "A whole cycle.")
        self._open = milliseconds("open_session_duration_milliseconds", "Opening a session.")
        self._action = milliseconds("action_scheduling_latency_milliseconds", "One action of a cycle.", "action")
        self._plugin = milliseconds(
            "plugin_scheduling_latency_milliseconds", "Opening or closing one plugin.", "plugin", "OnSession"
        )
        self._intents = Counter("pumice_intents", "Decisions handed over.", ["intent"], registry=self._registry)
        self._leading = Gauge("pumice_leading", "1 if this replica leads.", registry=self._registry)
        self._events = Counter("pumice_events", "Cluster events taken in.", registry=self._registry)
        self._good = {
            "conf": Gauge("pumice_conf_good", "1 if the conf as it is now is in use.", registry=self._registry),
            "plugins": Gauge("pumice_plugins_good", "1 if the plugins as they are now are.", registry=self._registry),
        }
        self._published = Published()
        self._registry.register(self._published)
        for gauge in self._good.values():
            gauge.set(1)

    def cycle(self, report: CycleReport) -> None:
        """A cycle is over."""
        for (what, name), seconds in report.timings.items():
            took = seconds * 1000
            match what, name:
                case "cycle", "total":
                    self._cycle.observe(took)
                case "cycle", "open":
                    self._open.observe(took)
                case "action", _:
                    self._action.labels(name).observe(took)
                case "open" | "close", _:
                    self._plugin.labels(name, f"OnSession{what.capitalize()}").observe(took)
        binds = sum(1 for i in report.intents if isinstance(i, Bind))
        evictions = sum(1 for i in report.intents if isinstance(i, Evict))
        if binds:
            self._intents.labels("bind").inc(binds)
        if evictions:
            self._intents.labels("evict").inc(evictions)
        self._published.take(report)

    def leading(self, leads: bool) -> None:
        """Whether this replica leads."""
        self._leading.set(float(leads))

    def took_in(self, events: int) -> None:
        """So many events were taken in."""
        self._events.inc(events)

    def good(self, what: str, good: bool) -> None:
        """Whether the conf, or the plugins, can be used as they are now."""
        self._good[what].set(float(good))

    def text(self) -> bytes:
        """Everything, for a scrape."""
        found: bytes = generate_latest(self._registry)
        return found
