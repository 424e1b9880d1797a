"""A job that fits nowhere now is found out about anew once a node has room."""

from __future__ import annotations

from pumice.testing.builders import pod
from pumice.testing.scenario import Scenario


def test_a_job_is_tried_again_though_somebody_else_looked_at_its_class_in_between(scenario: Scenario) -> None:
    scenario.node("other", cpu=64, taints=["team=x:NoSchedule"])
    for n in range(4):
        scenario.node(f"n{n}", cpu=2).job(f"run{n}", cpu=2, on=f"n{n}")
    scenario.job("mixed", min_available=2, cpu=2).add(pod("mixed-b", group="mixed", cpu="1500m"))
    scenario.job("single", cpu=2)
    scenario.run()
    for n in range(4):
        scenario.finish(f"run{n}-0")
    assert "default/single-0" in scenario.run().binds
