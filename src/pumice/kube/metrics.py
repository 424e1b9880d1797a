"""What a running scheduler measures, in Prometheus' text form, under Volcano's names and our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from pumice.clock import Clock, SystemClock
from pumice.framework.session.session import Session
from pumice.kube.jobseries import JobSeries
from pumice.kube.published import Published
from pumice.model.dimensions import known_dim
from pumice.model.intents import Bind, Evict
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState

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

        def milliseconds(name: str, text: str, *labels: str, buckets: Iterable[float] = _MILLISECONDS) -> Histogram:
            return Histogram(f"volcano_{name}", text, labels, buckets=tuple(buckets), registry=self._registry)

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
        """Was the session of this cycle shown?"""

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
