"""What the server measures, in Prometheus' text form."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest


class ServerMetrics:
    """Questions answered, by verb and status, and how long they took."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._answered = Counter(
            "pumice_extender_server_requests", "Questions answered.", ["verb", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "pumice_extender_server_seconds", "Time to answer a question.", ["verb"], registry=self._registry
        )
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def answered(self, verb: str, status: int, seconds: float) -> None:
        """Count one answer."""
        children = self._children.get((verb, status))
        if children is None:
            children = (self._answered.labels(verb, str(status)), self._seconds.labels(verb))
            self._children[verb, status] = children
        children[0].inc()
        children[1].observe(seconds)

    def text(self) -> bytes:
        """Everything, for a scrape."""
        found: bytes = generate_latest(self._registry)
        return found
