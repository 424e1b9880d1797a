"""The client, given the answers that a real Volcano was given, decides as it did (compat: volcano)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from extender_service import Reply, Service
from pumice_conformance.cases import Case
from pumice_conformance.runner import compare, load_state, prepare

from pumice.extender.plugin import close_clients
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.scheduler.cycle import run_cycle

CAPTURES = Path(__file__).parents[1] / "golden" / "extender" / "volcano-captures"
FIRST_NODE = "gpu-1"


@cache
def _read(name: str) -> Any:
    return json.loads((CAPTURES / f"{name}.json").read_text())


def _exchanges() -> dict[str, list[dict[str, Any]]]:
    """Scenario -> its recorded exchanges."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(CAPTURES.glob("*.json")):
        if not path.stem.startswith(("cluster-", "failures-")):
            exchange = _read(path.stem)
            found.setdefault(exchange["scenario"]["name"], []).append(exchange)
    return found


def _failures() -> list[Any]:
    return [
        pytest.param(failure, id=f"{failure['verb']}-{failure['failure']}-{failure['ignorable']}")
        for path in sorted(CAPTURES.glob("failures-*.json"))
        for failure in _read(path.stem)["failures"]
    ]


EXCHANGES = _exchanges()


def _affirmative(verb: str, body: Any, cluster: str) -> Any:
    """What the recorded service said by default."""
    match verb:
        case "predicate":
            return {"status": "", "code": 0}
        case "prioritize":
            best = "gpu-2" if cluster == "cluster-a" else "gpu-1"
            scores = {node["Name"]: 1000.0 if node["Name"] == best else 10.5 for node in body["nodes"] or ()}
            return {"nodeScore": scores, "errorMessage": ""}
        case "preemptable" | "reclaimable":
            return {"status": 1, "victims": sorted(body["evictees"] or (), key=lambda task: task["Name"])[:1]}
        case "jobEnqueueable":
            return {"status": 1}
        case "jobReady":
            return {"status": True}
        case "queueOverused":
            return {"overused": False}
        case "allocateFunc" | "deallocateFunc":
            return {"errorMessage": ""}
        case _:
            return {}


def _crowded(node: dict[str, Any]) -> bool:
    """Nobody has been told to leave the node yet."""
    return bool(node["Name"] == FIRST_NODE and node["Releasing"]["MilliCPU"] == 0)


ON_FIRST_NODE: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    "predicate-rejects-one-node": lambda n: {"status": "full", "code": 2} if n["Name"] == FIRST_NODE else None,
    "predicate-text-without-code": lambda n: {"status": "full", "code": 0} if n["Name"] == FIRST_NODE else None,
    "preempt-predicate-always-code-2": lambda n: {"status": "busy", "code": 2} if n["Name"] == FIRST_NODE else None,
    "preempt-predicate-code-2": lambda n: {"status": "busy", "code": 2} if _crowded(n) else None,
    "preempt-predicate-code-3": lambda n: {"status": "busy", "code": 3} if _crowded(n) else None,
    "preempt-refused-everywhere": lambda n: {"status": "no", "code": 3},
}
"""Scenarios whose predicate answers differ from node to node, as their recorded effect describes them."""

AT_OTHER_MOMENTS = {"jobReady", "queueOverused"}
"""Asked by our actions as often as a decision needs it; Volcano's ask again where the answer cannot matter."""


def _uncounted(scenario: dict[str, Any], verb: str = "") -> set[str]:
    """Verbs whose number of calls differs without a difference in decisions.

    A gang is given up at its first task that cannot be scored (Volcano tries the others). Reclaim scores the nodes of
    its plan, and asks about node after node until one will do; Volcano asks about each of them first.
    """
    if "reclaim" in scenario["conf"]["actions"]:
        return AT_OTHER_MOMENTS | {"prioritize", "predicate"}
    if verb == "prioritize" or scenario.get("name", "").startswith("prioritize-"):
        return AT_OTHER_MOMENTS | {"prioritize", "predicate"}
    return AT_OTHER_MOMENTS


PER_REQUEST = {"preemptable", "reclaimable", "prioritize"}


def _given(scenario: str) -> dict[str, Any]:
    """Verb -> the answer that was recorded for every request of it."""
    return {exchange["verb"]: exchange["response"] for exchange in EXCHANGES[scenario]}


def _run(scenario: dict[str, Any], answer: Callable[[str, Any], Any]) -> tuple[list[str], dict[str, int]]:
    """What differs from the recorded decisions, and how often each verb was asked."""
    cluster = _read(scenario["cluster"])
    conf = copy.deepcopy(scenario["conf"])
    with Service(answer) as service:
        for tier in conf["tiers"]:
            for plugin in tier["plugins"]:
                if plugin["name"] == "extender":
                    plugin["arguments"]["extender.urlPrefix"] = service.url
        data = {"id": "capture", "profile": "volcano", "conf": conf, "objects": cluster["objects"], "expect": {}}
        case = Case("capture", {**data, "environment": {"now": cluster["now"]}})
        runtime = Runtime()
        try:
            report = run_cycle(load_state(case), prepare(case, default_registry()), runtime, details=True)
        finally:
            close_clients(runtime.memory)
    expected = dict(scenario["decisions"])
    pipelined = expected.pop("pipelined")
    problems = [f"plugin error: {error}" for error in report.errors]
    if report.pipelined != pipelined:
        problems.append(f"pipelined: expected {pipelined}, got {report.pipelined}")
    return problems + compare(expected, report, case), service.calls


@pytest.mark.parametrize("name", sorted(EXCHANGES))
@pytest.mark.part(2)
def test_the_client_decides_as_volcano_did(name: str) -> None:
    scenario = EXCHANGES[name][0]["scenario"]
    given, on_first = _given(name), ON_FIRST_NODE.get(name)

    def answer(verb: str, body: Any) -> Any:
        if verb == "predicate" and on_first is not None:
            return on_first(body["node"]) or {"status": "", "code": 0}
        if verb in given and not (verb in PER_REQUEST and _affirmed(name, verb)):
            return given[verb]
        return _affirmative(verb, body, scenario["cluster"])

    problems, calls = _run(scenario, answer)
    assert problems == []
    _compare_calls(scenario, calls, _uncounted(scenario))


def _compare_calls(scenario: dict[str, Any], calls: dict[str, int], uncounted: set[str]) -> None:
    """Every verb is asked as often as Volcano asked it, where that was the same in every run."""
    if scenario["calls"] is not None:
        verbs = (calls.keys() | scenario["calls"].keys()) - uncounted
        assert {verb: calls.get(verb, 0) for verb in verbs} == {verb: scenario["calls"].get(verb, 0) for verb in verbs}
        if "reclaim" in scenario["conf"]["actions"]:
            volcanos = scenario["calls"].get("predicate", 0)
            assert min(volcanos, 1) <= calls.get("predicate", 0) <= volcanos


def _affirmed(scenario: str, verb: str) -> bool:
    """Was the verb answered by the default rule in this scenario?"""
    return not scenario.startswith(verb) and not (verb in ("preemptable", "reclaimable") and "decides" not in scenario)


@pytest.mark.parametrize("failure", _failures())
@pytest.mark.part(12)
def test_the_client_takes_a_bad_reply_as_volcano_did(failure: dict[str, Any]) -> None:
    scenario = copy.deepcopy(failure["scenario"])
    timeout = failure["failure"] == "timeout"
    if timeout:
        for tier in scenario["conf"]["tiers"]:
            for plugin in tier["plugins"]:
                if plugin["name"] == "extender":
                    plugin["arguments"]["extender.httpTimeout"] = (
                        "200ms"  # the others answer within it on a busy machine too
                    )

    def answer(verb: str, body: Any) -> Any:
        if verb != failure["verb"]:
            return _affirmative(verb, body, scenario["cluster"])
        if timeout:
            return Reply(delay=0.4)
        return Reply((failure["responseRaw"] or "").encode(), failure["responseStatus"])

    problems, calls = _run(scenario, answer)
    assert problems == []
    uncounted = _uncounted(scenario, failure["verb"])
    if failure["verb"] not in uncounted:
        assert calls.get(failure["verb"], 0) == failure["asked"]
    _compare_calls(scenario, calls, uncounted)
