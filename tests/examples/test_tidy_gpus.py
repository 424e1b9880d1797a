"""tidy-gpus: tasks that ask for GPUs fill nodes in use, others do not care."""

from __future__ import annotations

from pumice.testing import Scenario


def test_a_small_request_goes_where_gpus_are_in_use_already(scenario: Scenario) -> None:
    scenario.node("idle", gpu=8).node("used", gpu=8).job("running", gpu=2, on="used").job("small", gpu=1)
    scenario.run(plugins=["gang", "predicates", "nodeorder", "tidy-gpus"])
    scenario.assert_bound("small", to="used")


def test_without_it_the_same_request_opens_an_idle_node(scenario: Scenario) -> None:
    scenario.node("idle", gpu=8).node("used", gpu=8).job("running", cpu=4, gpu=2, on="used").job("small", gpu=1)
    scenario.run(plugins=["gang", "predicates", "nodeorder"])
    scenario.assert_bound("small", to="idle")
