"""What a real Volcano makes of a conf, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.config import from_data
from pumice.config.for_volcano import RULES, lint_for_volcano
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import catalogue_of

CATALOGUE = catalogue_of(default_registry())
URL = {"extender.urlPrefix": "http://127.0.0.1:1"}


def found(*tiers: list[dict[str, Any]], actions: str = "allocate, preempt", **more: Any) -> list[tuple[str, str, str]]:
    data = {"actions": actions, "tiers": [{"plugins": tier} for tier in tiers], **more}
    conf = from_data(data, CATALOGUE, source="x").conf
    return [(one.rule, str(one.severity), one.path) for one in lint_for_volcano(conf, CATALOGUE)]


def extender(**arguments: Any) -> dict[str, Any]:
    return {"name": "extender", "arguments": URL | {f"extender.{name}": value for name, value in arguments.items()}}


WHERE = "tiers[0].plugins[0].arguments.extender"
CASES: list[tuple[list[Any], str, tuple[str, str, str]]] = [
    ([[{"name": "priority"}]], "allocate, easybackfill", ("volcano-refuses", "error", "actions")),
    ([[extender(managedResources="a/b")]], "allocate", ("volcano-exits", "error", f"{WHERE}.managedResources")),
    ([[{"name": "fgd"}]], "allocate", ("volcano-passes-by", "warning", "tiers[0].plugins[0]")),
    (
        [[extender(name="a"), extender(name="b")]],
        "allocate",
        ("volcano-passes-by", "warning", "tiers[0].plugins[1]"),
    ),
    (
        [[{"name": "binpack", "arguments": {"binpack.weight": "5"}}]],
        "allocate",
        ("volcano-keeps-default", "warning", "tiers[0].plugins[0].arguments.binpack.weight"),
    ),
    ([[extender(dialect="both")]], "allocate", ("volcano-keeps-default", "warning", f"{WHERE}.dialect")),
    ([[extender(httpTimeout="0s")]], "allocate", ("volcano-keeps-default", "warning", f"{WHERE}.httpTimeout")),
    (
        [[extender(onSessionOpenVerb="open")]],
        "allocate",
        ("volcano-dead-service", "warning", f"{WHERE}.onSessionOpenVerb"),
    ),
    (
        [[extender(jobReadyVerb="ready", ignorable=True)]],
        "allocate",
        ("volcano-dead-service", "warning", f"{WHERE}.jobReadyVerb"),
    ),
    (
        [[extender(preemptableVerb="p")], [{"name": "gang"}]],
        "allocate, preempt",
        ("volcano-overrules", "warning", "tiers[1].plugins[0]"),
    ),
    ([[extender(predicateVerb="p")]], "allocate", ("volcano-costs", "info", f"{WHERE}.predicateVerb")),
]


@pytest.mark.parametrize(("tiers", "actions", "expected"), CASES, ids=[f"{n}-{c[2][0]}" for n, c in enumerate(CASES)])
def test_a_trap_is_named_with_its_place(tiers: list[Any], actions: str, expected: tuple[str, str, str]) -> None:
    assert expected in found(*tiers, actions=actions)


def test_every_rule_has_a_case() -> None:
    assert {name for name, _ in RULES} == {expected[0] for _, _, expected in CASES}


def test_a_conf_that_volcano_takes_as_it_is_has_nothing_to_be_said_about() -> None:
    clean = extender(prioritizeVerb="prioritize", managedResources=["nvidia.com/gpu"], ignorable=False)
    assert found([{"name": "priority"}, {"name": "gang"}], [{"name": "predicates"}, clean]) == []
    spared = [extender(preemptableVerb="p")], [{"name": "gang", "enablePreemptable": False}]
    assert found(*spared) == []
