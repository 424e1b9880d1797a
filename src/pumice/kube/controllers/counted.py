"""What running controllers measure, in Prometheus' text form."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from pumice.clock import Clock
from pumice.kube.controllers.work import WorkQueue

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each that nobody asked for


class ControllerMetrics:
    """Counts what each controller looked at. Told by the event loop; any thread may read."""

    def __init__(self, names: Iterable[str], clock: Clock) -> None:
        self._registry, self._clock = CollectorRegistry(), clock
        self._leading = Gauge("pumice_controllers_leading", "1 if this replica leads.", registry=self._registry)
        self._depth = self._gauge("queue_depth", "Objects whose turn has come and that nobody looks at yet.")
        self._success = self._gauge("last_success_timestamp_seconds", "When a look was done last; 0: never.")
        self._looks = Counter(
            "pumice_controller_reconciles",
            "Looks at an object, by what became of them; one that failed is made again.",
            ("controller", "result"),
            registry=self._registry,
        )
        for name in names:  # a series that begins when the first look fails hides that failure from rates
            self._depth.labels(name).set(0)
            self._success.labels(name).set(0)
            for result in ("done", "failed"):
                self._looks.labels(name, result)
        build = Gauge("pumice_build_info", "1; the version as a label.", ("version",), registry=self._registry)
        build.labels(version("pumice")).set(1)
        ProcessCollector(registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"pumice_controller_{name}", text, ("controller",), registry=self._registry)

    def leading(self, leads: bool) -> None:
        """Whether this replica leads."""
        self._leading.set(float(leads))

    def follow(self, queue: WorkQueue) -> None:
        """Count what becomes of the keys of a queue."""
        self._depth.labels(queue.name).set_function(queue.waiting)
        queue.told = partial(self._looked, queue.name)

    def _looked(self, name: str, done: bool) -> None:
        self._looks.labels(name, "done" if done else "failed").inc()
        if done:
            self._success.labels(name).set(self._clock.now())

    def text(self) -> bytes:
        """Everything, for a scrape."""
        found: bytes = generate_latest(self._registry)
        return found
