"""A gang that runs and has lost a member comes before jobs of its priority that have not started."""

from __future__ import annotations

from pumice.testing.builders import node
from pumice.testing.scenario import Scenario


def broken_gang() -> Scenario:
    """One free CPU, a job that has waited for long, and a gang that needs two tasks and has one left."""
    scenario = Scenario(node("n0", cpu=2)).job("old", cpu=1, phase="Inqueue")
    return scenario.job("gang", tasks=2, on=["n0"], cpu=1)


def test_a_gang_member_lost_after_start_has_first_claim() -> None:
    scenario = broken_gang()
    scenario.run(plugins=[["priority", "gang"], ["predicates"]])
    assert scenario.last.binds == {"default/gang-1": "n0"}


def test_priority_comes_before_the_claim() -> None:
    scenario = broken_gang().job("urgent", cpu=1, priority=10)
    scenario.run(plugins=[["priority", "gang"], ["predicates"]])
    assert scenario.last.binds == {"default/urgent-0": "n0"}


def test_compat_lets_it_wait_its_turn() -> None:
    scenario = broken_gang()
    scenario.run(plugins=[["priority", "gang"], ["predicates"]], compat="volcano")
    assert scenario.last.binds == {"default/old-0": "n0"}
