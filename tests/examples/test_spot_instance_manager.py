"""spot-instance-manager: jobs that must not be interrupted stay off spot nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumice import Unfit
from pumice.testing import Scenario, job, node, session, task_of

SPOT = {"kai.scheduler/instance-type": "spot"}


def test_only_a_job_that_is_not_preemptible_is_kept_off_spot_nodes(plugin: Callable[..., Any]) -> None:
    ssn = session(node("spot", labels=SPOT), node("regular"), job("firm", preemptible=False), job("loose"))
    ssn.open_plugin(plugin("spot-instance-manager"))
    with pytest.raises(Unfit, match="stays off spot nodes"):
        ssn.predicate(task_of(ssn, "firm-0"), ssn.nodes["spot"])
    ssn.predicate(task_of(ssn, "firm-0"), ssn.nodes["regular"])
    ssn.predicate(task_of(ssn, "loose-0"), ssn.nodes["spot"])


def test_label_value_and_score_are_arguments(plugin: Callable[..., Any]) -> None:
    ssn = session(node("spot", labels={"kind": "cheap"}), node("regular", labels=SPOT), job("loose"))
    ssn.open_plugin(plugin("spot-instance-manager", {"label": "kind", "value": "cheap", "score": "30"}))
    scores = ssn.batch_node_order(task_of(ssn, "loose-0"), list(ssn.nodes.values()))
    assert scores == {"spot": 0.0, "regular": 30.0}


def test_regular_nodes_are_filled_first_and_firm_jobs_wait_for_them(scenario: Scenario) -> None:
    scenario.node("a-spot", cpu=2, labels=SPOT).node("b-regular", cpu=2)
    scenario.job("loose", tasks=3).job("firm", preemptible=False)
    scenario.run(plugins=["gang", "spot-instance-manager"])
    assert sorted(scenario.last.binds.values()) == ["a-spot", "b-regular", "b-regular"]
    scenario.assert_pending("firm", because="not preemptible")
