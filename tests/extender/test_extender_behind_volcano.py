"""A policy behind a real Volcano: recorded questions in its order, its walk over tiers, and what serve says of it."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.config import load
from pumice.config.for_volcano import lint_for_volcano
from pumice.config.rules import Severity
from pumice.extender.answering.policies import PolicyServer
from pumice.extender.check import advice, need_snapshot, verbs_of
from pumice.extender.protocol import VERBS, VOLCANO_VERBS
from pumice.framework.plugin import Plugin
from pumice.framework.registry import default_registry
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.task import Task
from pumice.scheduler.assembly import catalogue_of

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "extender"
CAPTURES = ROOT / "tests" / "golden" / "extender" / "volcano-captures"
CYCLE = (
    *("onSessionOpen-accept", "queueOverused-accept", "jobEnqueueable-accept", "jobEnqueued-accept"),
    *("queueOverused-accept", "predicate-accept-1", "predicate-accept-2", "prioritize-accept", "allocateFunc-accept"),
    *("jobReady-accept", "preemptable-preempt-extender-decides", "deallocateFunc-preempt-one-victim"),
    *("predicate-preempt-one-victim-1", "reclaimable-reclaim-extender-decides", "onSessionClose-accept"),
)
"""Recorded questions in the order in which a cycle of Volcano with every action asks them."""
SERVED = {"every_verb": "every-verb", "gpu": "gpu", "life_cycle": "life-cycle"}
"""Module of a policy that is served -> its configuration."""


def _policy(name: str) -> type[Plugin]:
    spec = importlib.util.spec_from_file_location(f"behind_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [thing for thing in vars(module).values() if isinstance(thing, type) and issubclass(thing, Plugin)]
    return next(thing for thing in found if thing.__module__ == module.__name__)


def _arguments(name: str) -> dict[str, Any]:
    conf = yaml.safe_load((EXAMPLES / f"{SERVED[name]}.yaml").read_text())
    (given,) = [p["arguments"] for tier in conf["tiers"] for p in tier["plugins"] if p["name"] == "extender"]
    return dict(given)


def _capture(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CAPTURES / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("name", SERVED)
def test_an_example_answers_a_cycle_of_volcano(name: str) -> None:
    server, configured = PolicyServer([_policy(name)]), _arguments(name)
    for capture in map(_capture, CYCLE):
        verb = VERBS[capture["verb"]]
        if configured.get(f"extender.{verb.name}Verb"):
            said = json.loads(server.answer(verb, json.dumps(capture["request"]).encode(), "10.0.0.1"))
            if verb.name in ("preemptable", "reclaimable"):
                sent = {task["UID"]: task for task in capture["request"]["evictees"]}
                assert all(victim == sent[victim["UID"]] for victim in said["victims"])


@pytest.mark.parametrize("name", SERVED)
def test_an_example_configures_the_verbs_that_its_policy_answers_and_no_others(name: str) -> None:
    given = {key for key, value in _arguments(name).items() if key.endswith("Verb") and value}
    wanted = {f"extender.{verb}Verb" for verb in verbs_of(PolicyServer([_policy(name)]))}
    session = {"extender.onSessionOpenVerb", "extender.onSessionCloseVerb"}
    assert given - session <= wanted | {"extender.jobEnqueuedVerb"}
    assert wanted <= given
    needing = need_snapshot(PolicyServer([_policy(name)]), verbs_of(PolicyServer([_policy(name)])))
    assert not needing or "extender.onSessionOpenVerb" in given


Chooser = Callable[[list[dict[str, Any]]], tuple[list[dict[str, Any]], int]]


def _walk(tiers: list[list[Chooser]], candidates: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Volcano's walk over tiers for victims: an empty answer ends a tier, and the next one chooses."""
    for tier in tiers:
        victims: list[dict[str, Any]] | None = None
        for chooser in tier:
            chosen, vote = chooser(candidates)
            if vote == 0:
                continue
            if not chosen:
                victims = None
                break
            uids = {task["UID"] for task in chosen}
            victims = chosen if victims is None else [task for task in victims if task["UID"] in uids] or None
        if victims is not None:
            return victims
    return None


class Spares(Plugin):
    """Nobody may go."""

    name = "spares"

    def preemptable(self, evictor: Task, tasks: list[Task]) -> list[Task]:
        return []


def test_nobody_may_go_stands_only_where_no_later_tier_chooses() -> None:
    request = _capture("preemptable-preempt-extender-decides")["request"]
    server = PolicyServer([Spares])

    def extender(candidates: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
        body = json.dumps({"evictor": request["evictor"], "evictees": candidates}).encode()
        said = json.loads(server.answer(VERBS["preemptable"], body))
        return said["victims"], said["status"]

    def gang(candidates: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
        return candidates[:1], 1

    assert _walk([[extender], [gang]], request["evictees"]) == request["evictees"][:1]
    assert _walk([[extender], []], request["evictees"]) is None


def test_the_example_with_every_verb_leaves_nobody_to_overrule_it() -> None:
    text = (EXAMPLES / "every-verb.yaml").read_text()
    catalogue = catalogue_of(default_registry())
    rules = {finding.rule for finding in lint_for_volcano(load(text, catalogue, "x").conf, catalogue)}
    assert "volcano-overrules" not in rules
    changed = text.replace("    enablePreemptable: false\n", "")
    found = lint_for_volcano(load(changed, catalogue, "x").conf, catalogue)
    assert [f.path for f in found if f.rule == "volcano-overrules"] == ["tiers[1].plugins[0]", "tiers[1].plugins[1]"]


class Reads(Plugin):
    """Reads the whole cluster in one place."""

    name = "reads"

    def on_session_open(self, ssn: Any) -> None:
        ssn.add_predicate_fn(self.name, lambda task, node: ssn.nodes and None)

    def job_ready(self, job: Job) -> bool:
        return True

    def node_order(self, task: Task, node: Node) -> float:
        return 1.0


def test_serve_says_which_verbs_need_the_snapshot_and_which_to_leave_out() -> None:
    said = "\n".join(advice(PolicyServer([Reads])))
    assert "onSessionOpenVerb" in said
    assert re.search(r"get 409: predicate$", said, re.MULTILINE)
    assert "jobReady: while this service is down" in said
    assert "managedResources (a list" in said
    spares = "\n".join(advice(PolicyServer([Spares])))
    assert "leave out onSessionOpen" in spares
    assert "enablePreemptable: false" in spares


def test_the_page_says_how_often_every_verb_of_volcano_is_asked() -> None:
    rows = re.findall(r"^\| (\w+) \| (.*?) \|", (ROOT / "docs" / "behind-volcano.md").read_text(), re.MULTILINE)
    assert sorted(verb for verb, often in rows[1:] if often) == sorted(VOLCANO_VERBS)


CONFS = [*sorted(EXAMPLES.glob("*.yaml")), *sorted((ROOT / "examples").glob("*/scheduler.conf"))]
CONFS += sorted((ROOT / "deploy").glob("**/scheduler.conf"))


@pytest.mark.parametrize("path", CONFS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_shipped_configuration_neither_ends_a_real_volcano_nor_is_refused(path: Path) -> None:
    registry = default_registry().copy()
    registry.load_file(ROOT / "examples" / "plugins" / "spot_instance_manager.py")
    catalogue = catalogue_of(registry)
    found = lint_for_volcano(load(path.read_text(), catalogue, path.name).conf, catalogue)
    assert [finding for finding in found if finding.severity is Severity.ERROR] == []
