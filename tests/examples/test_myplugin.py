"""How the author of ``myplugin`` tests it: one session by hand for each question, one scenario for the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumice import InvalidInput, Unfit
from pumice.testing import Scenario, job, node, session, task_of

LABELLED = {"my-label": "yes"}


def test_a_node_without_the_label_is_unfit(plugin: Callable[..., Any]) -> None:
    """The unit test of the developer guide: build the plugin, build a session, open, ask."""
    ssn = session(node("n1", labels=LABELLED), node("n2"), job("train"))
    plugin("myplugin", {"weight": "5"}).on_session_open(ssn)
    task = task_of(ssn, "train-0")
    ssn.predicate(task, ssn.nodes["n1"])
    with pytest.raises(Unfit, match="node has no label my-label"):
        ssn.predicate(task, ssn.nodes["n2"])


def test_jobs_of_higher_priority_go_first(plugin: Callable[..., Any]) -> None:
    ssn = session(job("low", priority=1), job("high", priority=9), job("same", priority=9))
    ssn.open_plugin(plugin("myplugin"))
    low, high, same = (ssn.jobs[f"default/{name}"] for name in ("low", "high", "same"))
    assert ssn.job_order(high, low) < 0
    assert ssn.job_order(low, high) > 0
    assert ssn.job_order(high, same) == 0


@pytest.mark.parametrize(("weight", "score"), [("5", 125.0), (1, 25.0), (0.5, 12.5)])
def test_a_node_scores_by_its_used_cpu(plugin: Callable[..., Any], weight: object, score: float) -> None:
    ssn = session(node("n1", cpu=8), job("running", tasks=2, on="n1"), job("train"))
    ssn.open_plugin(plugin("myplugin", {"weight": weight}))
    assert ssn.node_order(task_of(ssn, "train-0"), ssn.nodes["n1"]) == score


def test_a_weight_that_is_no_number_is_an_error_that_names_it(plugin: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="myplugin: argument weight: must be a number, got 'heavy'"):
        plugin("myplugin", {"weight": "heavy"})


def test_the_fuller_labelled_node_is_taken_and_the_higher_priority_first(scenario: Scenario) -> None:
    for name in ("n1", "n2", "n3"):
        scenario.node(name, cpu=4, labels=LABELLED if name != "n3" else {})
    scenario.job("running", on="n2").job("low", priority=1, tasks=2).job("high", priority=5, tasks=3)
    scenario.run(plugins=["gang", ("myplugin", {"weight": "5"})])
    scenario.assert_bound("high", to="n2")
    scenario.assert_bound("low", to="n1")
    scenario.assert_settled()
