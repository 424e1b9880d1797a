"""rack-order: a plugin file with ``New(arguments)`` and no base class, loaded from its directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pumice.framework.registry import Registry
from pumice.testing import Scenario, job, node, session, task_of


def test_the_directory_gives_every_plugin_its_name_and_the_file_an_alias(registry: Registry) -> None:
    for name in ("rack-order", "rack_order", "resource-affinity", "resource_affinity", "myplugin"):
        info = registry.get(name)
        assert info is not None
        assert info.origin.endswith(".py")


def test_earlier_racks_score_higher(plugin: Callable[..., Any]) -> None:
    ssn = session(node("a", labels={"rack": "r1"}), node("b", labels={"rack": "r2"}), node("c"), job("train"))
    ssn.open_plugin(plugin("rack-order", {"racks": "r2, r1"}), "rack-order")
    scores = ssn.batch_node_order(task_of(ssn, "train-0"), list(ssn.nodes.values()))
    assert scores == {"a": 1.0, "b": 2.0, "c": 0.0}


def test_it_decides_in_a_cycle_like_any_other_plugin(scenario: Scenario) -> None:
    scenario.node("a").node("b", labels={"rack": "r1"}).job("train", tasks=2)
    scenario.run(plugins=["gang", ("rack-order", {"racks": "r1"})])
    scenario.assert_bound("train", to="b")
