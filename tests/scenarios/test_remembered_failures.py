"""As Volcano: a node that refused a task of a role is not tried again for the role; the gang actions remember too."""

from __future__ import annotations

from pumice.model.api import Metadata, QueueObject, QueueSpec, QueueStatus
from pumice.testing import Scenario, job, node, pod

TIERS = [["priority", "gang"], ["predicates"]]
NODES = (node("n1", cpu=3), node("n2", cpu=3), node("n3", cpu=1))


def gang(priority: int = 0) -> list[object]:
    """Two equal tasks and a smaller one, all of one role."""
    group = list(job("g", tasks=0, min_available=3, priority=priority))
    sizes = (2, 2, 1)
    pods = [pod(f"g-{n}", group="g", role="w", cpu=cpu, priority=priority) for n, cpu in enumerate(sizes)]
    return [*group, *pods]


def placed(compat: str | None) -> dict[str, str]:
    scenario = Scenario(*NODES).add(gang())  # type: ignore[arg-type]
    return scenario.run(plugins=TIERS, actions=["allocate"], compat=compat).binds


def test_a_smaller_task_is_kept_off_nodes_that_were_too_small_for_its_like() -> None:
    assert placed("volcano") == {"default/g-0": "n1", "default/g-1": "n2", "default/g-2": "n2"}


def test_without_the_profile_every_node_is_looked_at_again() -> None:
    assert placed(None)["default/g-2"] == "n1"


def promised(compat: str | None, **arguments: object) -> dict[str, str]:
    scenario = Scenario(*NODES)
    scenario.job("low1", cpu=3, on="n1", priority=1).job("low2", cpu=3, on="n2", priority=1)
    scenario.add(gang(10))  # type: ignore[arg-type]
    conf = {
        "actions": "enqueue, gangpreempt",
        "tiers": [{"plugins": [{"name": name} for name in tier]} for tier in TIERS],
        "configurations": [{"name": "allocate", "arguments": arguments}],
    }
    return scenario.run(conf=conf, compat=compat).pipelined


def test_the_gang_actions_remember_too() -> None:
    assert promised("volcano") == {"default/g-0": "n1", "default/g-1": "n2", "default/g-2": "n2"}


def test_the_gang_actions_remember_as_allocate_is_told_to() -> None:
    assert promised("volcano", predicateErrorCacheEnable=False)["default/g-2"] == "n3"


def test_the_gang_actions_of_pumice_look_at_every_node() -> None:
    assert promised(None)["default/g-2"] == "n3"


def dry_run(compat: str) -> list[str]:
    """Two victims that each suffice, in a queue that is closed."""
    closed = QueueObject(metadata=Metadata(name="old"), spec=QueueSpec(weight=1), status=QueueStatus(state="Closed"))
    scenario = Scenario(closed, node("n1", cpu=2))
    scenario.job("low", tasks=2, min_available=0, cpu=1, queue="old", priority=1, on="n1")
    scenario.job("big", cpu=1, queue="old", priority=5, phase="Inqueue")
    conf = {
        "actions": "preempt",
        "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}]}, {"plugins": [{"name": "proportion"}]}],
        "configurations": [{"name": "preempt", "arguments": {"enableTopologyAwarePreemption": True}}],
    }
    return scenario.run(conf=conf, compat=compat).evictions


def test_as_volcano_a_dry_run_does_not_look_at_the_state_of_the_queue() -> None:
    assert len(dry_run("volcano")) == 1
