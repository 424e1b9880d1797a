"""Plans made by hand in a world of KAI."""

from __future__ import annotations

from typing import Any

from kai_cases import cluster, job, node, queue
from pumice_conformance.kai_rounds import prepare, state_of

from pumice.framework.registry import default_registry
from pumice.framework.session.session import Session
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.world import KaiWorld, world_of
from pumice.scheduler.assembly import assemble


def world(
    *parts: Any, compat: str | None = None, conf: dict[str, Any] | None = None, **objects: list[dict[str, Any]]
) -> KaiWorld:
    """The world of a session that is open; *objects*: more lists of them."""
    case = cluster(*parts, conf=conf)
    case.data["objects"] |= objects
    made = assemble(prepare(case, default_registry()).conf, default_registry(), compat)
    session = Session(
        state_of(case, case.data["objects"]),
        tiers=made.tiers(),
        action_arguments=made.action_arguments,
        compat=made.compat,
    )
    return world_of(session.open())


def twice_evicted() -> str:
    """Where a pod of n2 is promised room that was first to go to n1, and then back to n2."""
    seen = world(node("n1", gpu=2), node("n2", gpu=2), queue("q"), job("old", "q", on=("n2",)))
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


def fraction_evicted_beside_promises() -> tuple[float, float]:
    """Idle GPUs of a node, and those being released, when the only task on a shared GPU of it is evicted.

    Two others of its four GPUs are promised to somebody else by then.
    """
    seen = world(
        *(node("n1", gpu=4), queue("q"), job("whole", "q", on=("n1", "n1"), pods=2)),
        *(job("part", "q", on=("n1",), fraction="0.5"), job("next", "q", pods=1, gpu="2", minute=1)),
    )
    at = seen.state.table.by_name["n1"]
    tasks = {t.name: t for t in seen.tasks.values()}
    plan = ChangePlan(seen)
    for name in ("whole-0", "whole-1"):
        plan.evict(tasks[name], "test")
    plan.pipeline(tasks["next-0"], at)
    plan.evict(tasks["part-0"], "test")
    return seen.nodes.idle_gpus(at.row), seen.nodes.releasing_gpus(at.row)


def undone_move() -> float:
    """The used part of a GPU after its only task was moved to another of the node, and all was taken back."""
    seen = world(node("n1", gpu=2), queue("q"), job("part", "q", on=("n1",), fraction="0.5"))
    at = seen.state.table.by_name["n1"]
    (task,) = seen.tasks.values()
    plan = ChangePlan(seen)
    plan.evict(task, "test")
    plan.pipeline(task, at, (seen.nodes.mint(at),))
    plan.discard()
    return seen.nodes.used_part(at.row, task.groups[0])
