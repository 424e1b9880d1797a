"""Watches placements: how many pods each namespace was given in a session."""

from collections import Counter

from pumice import Event, EventHandler, Plugin, Session

METRIC = "namespace_allocated_pods"


class NamespaceAllocationTracker(Plugin):
    """Counts the pods that each namespace is given, and publishes the counts when the session closes."""

    name = "namespace-allocation-tracker"

    def on_session_open(self, ssn: Session) -> None:
        self.pods: Counter[str] = Counter()
        ssn.add_event_handler(EventHandler(allocate=self.allocated, deallocate=self.deallocated))

    def allocated(self, event: Event) -> None:
        self.pods[event.task.namespace] += 1

    def deallocated(self, event: Event) -> None:
        self.pods[event.task.namespace] -= 1

    def on_session_close(self, ssn: Session) -> None:
        for namespace, count in self.pods.items():
            ssn.metrics.gauge(METRIC, count, namespace=namespace)
