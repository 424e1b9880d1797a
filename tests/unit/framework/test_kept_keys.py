"""Jobs are put in order by the sort keys that are kept of them, and the order is the one of new keys."""

from __future__ import annotations

import random

import pytest

from pumice.config import from_data
from pumice.framework.explaining.obstacle import waits
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.model.events import Gone, Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.dry import dry_cycle
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, queue
from pumice.testing.world import flat

ORDERS = ["priority", "gang", "drf", "sla"]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "enqueue, allocate, preempt, reclaim", "backfill"])
@pytest.mark.part(4)
def test_the_order_is_that_of_new_keys_whatever_happened_since_they_were_made(seed: int, actions: str) -> None:
    rng = random.Random(seed)
    registry = default_registry()
    first, second = (
        [{"name": name} for name in rng.sample(ORDERS, 3)],
        [{"name": n} for n in ("predicates", "proportion")],
    )
    conf = from_data(
        {"actions": actions, "tiers": [{"plugins": first}, {"plugins": second}]}, catalogue_of(registry)
    ).conf
    state, runtime, assembly = ClusterState(), Runtime(), assemble(conf, registry)
    state.now = 1000.0
    state.apply_all(Seen(obj) for obj in flat([queue("a"), queue("b", weight=2), node("n1", cpu=8), node("n2", cpu=8)]))
    compared = kept = 0

    def inspect(ssn: Session) -> None:
        nonlocal compared, kept
        waiting = [one for one in ssn.jobs.values() if waits(one)]
        rng.shuffle(waiting)
        ordered = ssn.orders.sorted_jobs(waiting)
        assert ordered == sorted(waiting, key=ssn.orders.job_key())
        compared += len(ordered)
        kept += len(runtime.pending.places(ssn.orders.signature()))

    names = iter(range(10_000))
    for _ in range(12):
        for _ in range(rng.randint(0, 4)):
            size = rng.randint(1, 4)
            made = job(
                f"j{next(names)}",
                queue=rng.choice("ab"),
                tasks=size,
                min_available=rng.randint(1, size),
                cpu=rng.randint(1, 4),
                priority=rng.randint(0, 2),
            )
            state.apply_all(Seen(obj) for obj in flat([made]))
        if rng.random() < 0.4 and state.tasks:
            gone = rng.choice(sorted(state.tasks))
            state.apply(Gone("Pod", state.tasks[gone].key))
        if rng.random() < 0.3:
            state.apply(Seen(node("n1", cpu=rng.randint(4, 16))))
        (dry_cycle if rng.random() < 0.5 else run_cycle)(state, assembly, runtime, inspect=inspect)
        state.now += rng.choice((0.0, 30.0))
    assert compared > 20
    assert bool(kept) is ("allocate" in actions)
