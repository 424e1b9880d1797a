"""Desks over small clusters."""

from __future__ import annotations

from typing import Any

from pumice.answers.service import Answers
from pumice.answers.when.calibration import SLACK
from pumice.answers.when.learned import Learned
from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.recording import NextCycle
from pumice.state.cluster import ClusterState
from pumice.testing.world import flat, with_default_queue

EVICTS = "enqueue, allocate, preempt, backfill"


def proven(*queues: str, said: float = 10_000.0) -> Learned:
    """A past without runs in which the predictions of each queue came out as they promise."""
    learned = Learned()
    calibration = learned.past.calibration
    for n in range(100):
        waited = (said + SLACK) * 1.001 ** (n % 20 - 9) - SLACK
        for queue in queues or ("default",):
            calibration.predicted(f"past/{queue}-{n}", queue, float(n), said)
            calibration.started(f"past/{queue}-{n}", n + waited)
    learned.past.now = 1000.0
    return learned


def desk(
    *objects: Any,
    actions: str = "enqueue, allocate, backfill",
    now: float = 1000.0,
    learned: Learned | None = None,
) -> Answers:
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
    return Answers(NextCycle(state, assemble(conf, registry), Runtime()), learned=learned)
