"""conformance: system pods are never victims."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.task import Task

_CRITICAL = ("system-cluster-critical", "system-node-critical")


class Conformance(Plugin):
    """Protects pods of a system priority class and of the namespace kube-system from eviction."""

    name = "conformance"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_preemptable_fn(self.name, _ordinary)
        ssn.add_reclaimable_fn(self.name, _ordinary)
        ssn.add_unified_evictable_fn(self.name, _ordinary)


def _ordinary(_: object, candidates: Sequence[Task]) -> list[Task]:
    return [t for t in candidates if t.namespace != "kube-system" and t.pod.spec.priority_class_name not in _CRITICAL]
