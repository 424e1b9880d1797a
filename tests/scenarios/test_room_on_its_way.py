"""Nobody else is evicted for a task while the pods that were evicted for it are still terminating."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import force_setattr

from pumice.model.api import Condition, PodSpec
from pumice.testing import Scenario

HOST = "kubernetes.io/hostname"
APART = msgspec.convert(
    {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "noisy"}}}
                ]
            }
        }
    },
    PodSpec,
)


@pytest.mark.parametrize(
    ("reason", "evicted"),
    [("EvictionByEvictionAPI", 0), ("PreemptionByScheduler", 0), ("DeletionByTaintManager", 1)],
)
def test_a_pod_that_was_evicted_for_a_task_is_waited_for(scenario: Scenario, reason: str, evicted: int) -> None:
    """The node is no good while the noisy pod terminates; the server says who is to blame for its end."""
    for name in ("n1", "n2"):
        scenario.node(name, cpu=4, labels={HOST: name})
    scenario.job("low", tasks=2, min_available=0, on=["n1", "n2"], priority=1, task_labels={"app": "noisy"})
    leaving = scenario.task("low-0").pod
    force_setattr(leaving.metadata, "deletion_timestamp", datetime(2026, 1, 1, tzinfo=UTC))
    force_setattr(leaving.status, "conditions", [Condition(type="DisruptionTarget", status="True", reason=reason)])
    scenario.add(leaving).job("quiet", priority=5, spec=APART)
    waiting = scenario.task("quiet-0").pod
    force_setattr(waiting.status, "nominated_node_name", "n1")
    scenario.add(waiting)
    cycle = scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang", "predicates"])
    assert len(cycle.evictions) == evicted


@pytest.mark.parametrize(("compat", "evicted"), [(None, 1), ("volcano", 0)])
@pytest.mark.parametrize("promised", ["n1", "gone"])
def test_a_promise_that_does_not_hold_any_more_keeps_nobody_waiting(
    scenario: Scenario, promised: str, compat: str | None, evicted: int
) -> None:
    """Volcano preempts for a nominated task only where its node is there and a filter objects to it."""
    scenario.node("n1", cpu=4).job("low", tasks=2, cpu=2, min_available=0, on="n1", priority=1)
    scenario.job("urgent", cpu=2, priority=5)
    waiting = scenario.task("urgent-0").pod
    force_setattr(waiting.status, "nominated_node_name", promised)
    scenario.add(waiting)
    cycle = scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang", "predicates"], compat=compat)
    assert len(cycle.evictions) == evicted


def test_in_volcano_a_task_is_preempted_for_again_where_its_node_objects_for_good(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).node("n2", cpu=2, unschedulable=True)
    scenario.job("low", cpu=2, min_available=0, on="n1", priority=1).job("urgent", cpu=2, priority=5)
    waiting = scenario.task("urgent-0").pod
    force_setattr(waiting.status, "nominated_node_name", "n2")
    scenario.add(waiting)
    cycle = scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang", "predicates"], compat="volcano")
    assert cycle.evictions == ["default/low-0"]
