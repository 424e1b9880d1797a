"""Desks over small clusters."""

from __future__ import annotations

from typing import Any

from pumice.answers.service import Answers
from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.recording import NextCycle
from pumice.state.cluster import ClusterState
from pumice.testing.world import flat, with_default_queue

EVICTS = "enqueue, allocate, preempt, backfill"


def desk(*objects: Any, actions: str = "enqueue, allocate, backfill", now: float = 1000.0) -> Answers:
    """A desk over a cluster of these objects, with proportion and gangs."""
    tiers = [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
        {"plugins": [{"name": "drf"}, {"name": "predicates"}, {"name": "proportion"}, {"name": "nodeorder"}]},
    ]
    registry = default_registry()
    conf = from_data({"actions": actions, "tiers": tiers}, catalogue_of(registry)).conf
    state = ClusterState(scheduler_names=("pumice", "default-scheduler", ""))
    state.now = now
    state.apply_all(Seen(obj) for obj in with_default_queue(flat(objects)))
    return Answers(NextCycle(state, assemble(conf, registry), Runtime()))
