"""Plans made by hand in a world of KAI."""

from __future__ import annotations

from typing import Any

from kai_cases import cluster, job, node, queue

from pumice.conformance.kai import prepare, state_of
from pumice.framework.registry import default_registry
from pumice.framework.session.session import Session
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.world import KaiWorld, world_of
from pumice.scheduler.assembly import assemble


def world(*parts: Any, compat: str | None = None) -> KaiWorld:
    """The world of a session that is open."""
    case = cluster(*parts)
    conf = prepare(case, default_registry()).conf
    made = assemble(conf, default_registry(), compat)
    session = Session(
        state_of(case, case.data["objects"]),
        tiers=made.tiers(),
        action_arguments=made.action_arguments,
        compat=made.compat,
    )
    return world_of(session.open())


def twice_evicted(compat: str | None) -> str:
    """Where a pod of n2 is promised room that was first to go to n1, and then back to n2."""
    seen = world(node("n1", gpu=2), node("n2", gpu=2), queue("q"), job("old", "q", on=("n2",)), compat=compat)
    n1, n2 = (seen.state.table.by_name[name] for name in ("n1", "n2"))
    (task,) = seen.tasks.values()
    first = ChangePlan(seen)
    first.evict(task, "test")
    first.pipeline(task, n1)
    second = ChangePlan(seen)
    second.evict(task, "test")
    second.pipeline(task, n2)
    landed = task.node_name
    second.discard()
    assert (task.node_name, task.stage.value) == ("n1", "Pipelined")
    first.discard()
    assert (task.node_name, task.stage.value) == ("n2", "Running")
    return landed
