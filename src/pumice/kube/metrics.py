"""The metrics of a running scheduler, in Prometheus' text form, under Volcano's names and our own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client import Histogram as PromHistogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from pumice.clock import Clock, SystemClock
from pumice.framework.metrics import Histogram
from pumice.framework.session.session import Session
from pumice.model.intents import Bind, Evict
from pumice.model.job import Job
from pumice.model.resources import known_dim
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState

FAMILIES = {
    "volcano_e2e_job_scheduling_duration": ("gauge", "Creation of a job to its last placement, in milliseconds."),
    "volcano_e2e_job_scheduling_start_time": ("gauge", "When a job was created, in seconds since 1970."),
    "volcano_e2e_job_scheduling_last_time": ("gauge", "When a task was placed last, in seconds since 1970."),
    "volcano_unschedule_task_count": ("gauge", "Tasks that a gang lacks."),
    "volcano_unschedule_job_count": ("gauge", "Jobs whose gang lacks tasks."),
    "volcano_job_retry_counts": ("untyped", "Cycles in which a job's gang lacked tasks."),
}
"""Name -> type and meaning."""


@dataclass(slots=True)
class _Seen:
    name: str
    namespace: str
    queue: str
    created: float
    placed: float = 0.0
    """When a task was placed last; 0: none was."""
    lacking: int = 0
    """Tasks that the gang lacks."""
    retries: int = 0
    since: int = 0
    """The cycle in which it began to lack tasks."""


class JobSeries:
    """Volcano's series per job. Told of jobs that changed only, so that a cycle costs nothing for those that wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, _Seen] = {}
        self._cycle = 0

    def cycle(self, changed: Iterable[Job]) -> None:
        """A cycle is over; *changed*: the jobs that are not as they were at the end of the last."""
        with self._lock:
            self._cycle += 1
            for job in changed:
                lacking = 0 if job.is_ready or not job.tasks else max(job.min_available - job.ready_count, 0)
                seen = self._jobs.get(job.uid)
                if seen is None:
                    if not lacking:
                        continue
                    seen = self._of(job)
                if lacking and not seen.lacking:
                    seen.since = self._cycle - 1
                elif seen.lacking and not lacking:
                    seen.retries += self._cycle - seen.since
                seen.lacking = lacking

    def placed(self, job: Job, now: float) -> None:
        """Tasks of a job were placed."""
        with self._lock:
            self._of(job).placed = now

    def keep(self, jobs: Iterable[str]) -> None:
        """Forget all jobs but these, which are there, by UID."""
        present = set(jobs)
        with self._lock:
            for uid in [uid for uid in self._jobs if uid not in present]:
                del self._jobs[uid]

    def _of(self, job: Job) -> _Seen:
        if job.uid not in self._jobs:
            self._jobs[job.uid] = _Seen(job.name, job.namespace, job.queue, job.creation)
        return self._jobs[job.uid]

    def text(self) -> bytes:
        """The series in Prometheus' text form. Written here: the library takes ten times as long for so many.

        Names of jobs, queues and namespaces hold nothing that would have to be escaped.
        """
        with self._lock:
            cycle, jobs = self._cycle, list(self._jobs.values())
        lines: dict[str, list[str]] = {name: [] for name in FAMILIES}
        duration, start, last, lacks, waiting, retries = lines.values()
        for seen in jobs:
            if seen.placed:
                labels = f'{{job_name="{seen.name}",job_namespace="{seen.namespace}",queue="{seen.queue}"}}'
                duration.append(f"{labels} {max(seen.placed - seen.created, 0.0) * 1000}")
                start.append(f"{labels} {seen.created}")
                last.append(f"{labels} {seen.placed}")
            if seen.lacking or seen.retries:
                labels = f'{{job_id="{seen.name}",job_ns="{seen.namespace}"}}'
                lacks.append(f"{labels} {float(seen.lacking)}")
                retries.append(f"{labels} {float(seen.retries + (cycle - seen.since if seen.lacking else 0))}")
        waiting.append(f" {float(sum(1 for seen in jobs if seen.lacking))}")
        written: list[str] = []
        for name, (kind, meaning) in FAMILIES.items():
            written += (f"# HELP {name} {meaning}", f"# TYPE {name} {kind}")
            written += [name + line for line in lines[name]]
        return ("\n".join(written) + "\n").encode()


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
    """The metrics of plugins: last values of gauges, counters and histograms summed over cycles."""

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
        """Forget the series whose labels name a deleted object."""
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


disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each that nobody asked for

_MILLISECONDS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
_WAITS = (*_MILLISECONDS[3:], 30_000, 60_000, 300_000, 1_800_000, 7_200_000)
"""Milliseconds that jobs and pods wait: up to hours."""
TIDY = 10.0
"""Seconds between two looks for series whose job or queue is gone."""


class CycleMetrics:
    """Counts cycles and what they decided, and how long they took. Any thread may read."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._registry = CollectorRegistry()
        self._clock = clock or SystemClock()

        def milliseconds(name: str, text: str, *labels: str, buckets: Iterable[float] = _MILLISECONDS) -> PromHistogram:
            return PromHistogram(f"volcano_{name}", text, labels, buckets=tuple(buckets), registry=self._registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=self._registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=self._registry)

        self._cycle = milliseconds("e2e_scheduling_latency_milliseconds", "A whole cycle.")
        self._open = milliseconds("open_session_duration_milliseconds", "Opening a session.")
        self._action = milliseconds("action_scheduling_latency_milliseconds", "One action of a cycle.", "action")
        self._plugin = milliseconds(
            "plugin_scheduling_latency_milliseconds", "Opening or closing one plugin.", "plugin", "OnSession"
        )
        self._task = milliseconds(
            "task_scheduling_latency_milliseconds",
            "Creation of a pod to the decision (Assumed), and to the server's answer (Bound).",
            "stage",
            buckets=_WAITS,
        )
        self._job = milliseconds(
            "e2e_job_scheduling_latency_milliseconds", "Creation of a job to a placement of its tasks.", buckets=_WAITS
        )
        self._stage = milliseconds("scheduling_stage_duration_milliseconds", "Requests that bind (Bind).", "stage")
        self._victims = gauge("volcano_pod_preemption_victims", "Pods that the last preemption evicts.")
        self._intents = counter("pumice_intents", "Decisions handed over.", "intent")
        self._writes = counter(
            "pumice_writes",
            "Binds and evictions, by their result, and other writes that were refused.",
            "intent",
            "result",
        )
        self._leading = gauge("pumice_leading", "1 if this replica leads.")
        self._failed = counter(
            "pumice_failed_cycles", "Cycles that failed as a whole; nothing of them was carried out."
        )
        self._events = counter("pumice_events", "Cluster events taken in.")
        self._lists = gauge("pumice_lists", "How often a kind was listed; more than once: its watch was lost.", "kind")
        self._followed = gauge("pumice_kind_followed", "1 if a kind is followed; else why not.", "kind", "why")
        self._good = {
            "conf": gauge("pumice_conf_good", "1 if the conf as it is now is in use."),
            "plugins": gauge("pumice_plugins_good", "1 if the plugins as they are now are in use."),
        }
        gauge("pumice_build_info", "1; the version as a label.", "version").labels(version("pumice")).set(1)
        self._published, self._jobs = Published(), JobSeries()
        self._registry.register(self._published)
        ProcessCollector(registry=self._registry)
        self._tidied = float("-inf")
        self._known_lists: dict[str, int] = {}
        self._known_missing: dict[str, str] = {}
        self._created: dict[str, float] = {}
        """Pods whose bind is under way, by UID: when they were created."""
        for one in self._good.values():
            one.set(1)
        self._written = {
            (intent, ok): self._writes.labels(intent, "done" if ok else "failed")
            for intent in ("bind", "evict")
            for ok in (True, False)
        }
        self._assumed, self._bound = (self._task.labels(stage) for stage in ("Assumed", "Bound"))
        self._binding = self._stage.labels("Bind")
        self._shown = False
        """Whether the session of this cycle was shown."""

    # -- told by the scheduler's thread -----------------------------------------------------------------------------
    def session(self, session: Session) -> None:
        """A cycle has decided; its session is about to close, and nothing was handed over yet."""
        self._shown = True
        self._jobs.cycle(session.changed_jobs())
        for intent in session.outcome.intents:
            if isinstance(intent, Bind):
                self._created[intent.uid] = session.state.tasks[intent.uid].creation

    def cycle(self, report: CycleReport, state: ClusterState | None = None) -> None:
        """A cycle is over."""
        if not self._shown:  # it stood still, so no job is other than before; who lacks tasks lacked them once more
            self._jobs.cycle(())
        self._shown = False
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
        binds = [i for i in report.intents if isinstance(i, Bind)]
        evictions = [i for i in report.intents if isinstance(i, Evict)]
        if binds:
            self._intents.labels("bind").inc(len(binds))
            if state is not None:
                self._placed(binds, state)
        if evictions:
            self._intents.labels("evict").inc(len(evictions))
            preempted = sum(1 for i in evictions if "preempt" in i.action)
            if preempted:
                self._victims.set(preempted)
                self._published.add("total_preemption_attempts")
        self._published.take(report)
        if state is not None and not 0 <= state.now - self._tidied < TIDY:
            self._tidied = state.now
            self._tidy(state)

    def _placed(self, binds: Iterable[Bind], state: ClusterState) -> None:
        now = state.now
        for uid in {intent.job for intent in binds}:
            job = state.jobs.get(uid)
            if job is not None:
                self._jobs.placed(job, now)
                self._job.observe(max(now - job.creation, 0.0) * 1000)
        for intent in binds:
            task = state.tasks.get(intent.uid)
            if task is not None:
                self._assumed.observe(max(now - task.creation, 0.0) * 1000)

    def _tidy(self, state: ClusterState) -> None:
        """Drop the series of jobs, queues and resources that are gone."""

        def gone(labels: dict[str, str]) -> bool:
            queue, job = labels.get("queue_name"), labels.get("job_id")
            if "resource" in labels and known_dim(labels["resource"]) is None:
                return True
            if job is not None and f"{labels.get('job_ns', '')}/{job}" not in state.jobs:
                return True
            return queue is not None and queue not in state.queues

        self._published.drop(gone)
        self._jobs.keep(state.jobs)
        for uid in list(self._created):  # another thread may take some out meanwhile
            if uid not in state.tasks:
                self._created.pop(uid, None)

    def leading(self, leads: bool) -> None:
        """Whether this replica leads."""
        self._leading.set(float(leads))

    def failed(self) -> None:
        """A cycle failed as a whole."""
        self._failed.inc()

    def took_in(self, events: int) -> None:
        """So many events were taken in."""
        self._events.inc(events)

    def listed(self, lists: Mapping[str, int]) -> None:
        """How often each kind was listed."""
        if lists == self._known_lists:
            return
        self._known_lists = dict(lists)
        for kind, times in lists.items():
            self._lists.labels(kind).set(times)

    def followed(self, missing: Mapping[str, str]) -> None:
        """Kind -> why it is not followed; nothing if it is."""
        if missing == self._known_missing:
            return
        self._known_missing = dict(missing)
        self._followed.clear()
        for kind, why in missing.items():
            self._followed.labels(kind, why).set(not why)

    def good(self, what: str, good: bool) -> None:
        """Whether the conf, or the plugins, can be used as they are now."""
        self._good[what].set(float(good))

    # -- told by the backend's thread -------------------------------------------------------------------------------
    def bound(self, uid: str, seconds: float, ok: bool) -> None:
        """A bind was answered after so many seconds."""
        created = self._created.pop(uid, None)
        self._written["bind", ok].inc()
        if ok:
            self._binding.observe(seconds * 1000)
            if created is not None:
                self._bound.observe(max(self._clock.now() - created, 0.0) * 1000)

    def evicted(self, ok: bool) -> None:
        """An eviction was answered."""
        self._written["evict", ok].inc()

    def refused(self, what: str) -> None:
        """A status, a nomination or annotations could not be written."""
        self._writes.labels(what, "failed").inc()

    def text(self) -> bytes:
        """Everything, for a scrape."""
        found: bytes = generate_latest(self._registry)
        return found + self._jobs.text()
