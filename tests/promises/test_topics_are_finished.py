"""Every topic of Volcano's that Pumice serves is finished: cases, a law, a page, an example, lint rules, reasons.

One table says where each of them is. A cell that names what is not there, or is not run, fails.
"""

from __future__ import annotations

import ast
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
from pumice_conformance.cases import read
from typer.testing import CliRunner

from pumice.cli.app import app
from pumice.config import from_data
from pumice.config.lint import RULES
from pumice.framework.explaining.explain import explain
from pumice.framework.registry import default_registry
from pumice.framework.session.session import Session
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.testing import Scenario

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CASES = [case.id for case in read([ROOT / "tests" / "conformance" / "cases"])]
"""Each of them is run by `tests/conformance/test_cases_of_our_own.py`."""
PROPERTY, CONFORMANCE = "tests/property", "tests/conformance"


def cycled(name: str, *options: str, compat: str = "") -> str:
    """What `pumice cycle` says of an example, on one line; *compat*: with this line in its conf."""
    folder = EXAMPLES / name
    conf = [] if "--conf" in options else ["--conf", str(folder / "scheduler.conf")]
    if compat:
        with NamedTemporaryFile("w", delete=False) as file:
            file.write((folder / "scheduler.conf").read_text(encoding="utf-8") + f"\ncompat: {compat}\n")
        conf = ["--conf", file.name]
    done = CliRunner().invoke(app, ["cycle", str(folder), *conf, *options], env={"COLUMNS": "400"})
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def played(name: str) -> str:
    """What `pumice simulate` says of an example, as figures of each of its configurations."""
    done = CliRunner().invoke(app, ["simulate", str(EXAMPLES / name / "scenario.yaml"), "-o", "json"])
    assert done.exit_code == 0, done.output
    found = [run["total"] for run in json.loads(done.stdout)["runs"]]
    return "; ".join(
        f"{t['completed']} completed, {t['evictions']} evicted, waited {t['wait']['mean']:g} s" for t in found
    )


def cycle_of(scenario: Scenario, actions: str, *plugins: Mapping[str, Any] | str, measured: int = 0) -> str:
    """All that is said of the waiting jobs of a cycle, and what it logs; *measured*: percent of the CPUs of n1."""
    registry = default_registry()
    listed = [{"name": plugin} if isinstance(plugin, str) else plugin for plugin in plugins]
    conf = from_data({"actions": actions, "tiers": [{"plugins": listed}]}, catalogue_of(registry)).conf
    said: list[str] = []

    def inspect(ssn: Session) -> None:
        for job in ssn.jobs.values():
            found = explain(ssn, job)
            said.extend((found.text, *found.evictions))

    handler, logger = logging.Handler(), logging.getLogger("pumice")
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    told = {"n1": {"cpu": measured, "memory": 0}, "n2": {"cpu": 5, "memory": 5}} if measured else {}
    environment = {"node_usage": told, "usage_time": scenario.state.now}
    try:
        run_cycle(scenario.state, assemble(conf, registry), scenario.runtime, environment=environment, inspect=inspect)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return "; ".join(said)


def by_day() -> str:
    labels, notes = {"volcano.sh/revocable-zone": "night"}, {"volcano.sh/revocable-zone": "*"}
    scenario = Scenario().node("n1", labels=labels).job("a", task_annotations=notes).advance(12 * 3600)
    tdm = {"name": "tdm", "arguments": {"tdm.revocable-zone.night": "22:00-06:00"}}
    return cycle_of(scenario, "allocate", "gang", tdm)


def on_busy_nodes() -> str:
    return cycle_of(Scenario().node("n1", cpu=10).job("j", cpu=1), "allocate", "gang", "usage", measured=85)


def left_a_busy_node() -> str:
    """rescheduling holds nobody back: what it says is why pods leave."""
    scenario = Scenario().node("n1", cpu=10).node("n2", cpu=10).job("j", cpu=2, on="n1")
    params = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    strategies = [{"name": "lowNodeUtilization", "params": params}]
    plugin = {"name": "rescheduling", "arguments": {"interval": "0s", "strategies": strategies}}
    return cycle_of(scenario, "shuffle", "gang", plugin, measured=60)


def while_all_are_cooling() -> str:
    scenario = Scenario().node("n1", cpu=2)
    for n in range(2):
        scenario.job(f"low{n}", cpu=1, task_labels={"volcano.sh/cooldown-time": "10m"})
    scenario.run(actions=["allocate"], plugins=["gang"])
    scenario.job("high", cpu=2, priority=5).advance(60)
    return cycle_of(scenario, "allocate, preempt", "priority", "gang", "cdp", "predicates")


@dataclass(frozen=True)
class Topic:
    """Where the parts of a topic are."""

    name: str
    cases: tuple[str, ...]
    """How ids of rule cases begin."""
    laws: tuple[str, ...]
    """file::test, tried on random clusters."""
    page: str
    example: tuple[Callable[[], str], str]
    """What is run, and what it says."""
    lint: tuple[str, ...]
    explain: tuple[Callable[[], str], str]
    """Who is asked why, and the answer, with its numbers."""


TOPICS = (
    Topic(
        "network topology",
        ("topology/",),
        (
            f"{PROPERTY}/test_topology_is_kept.py::test_domains_are_kept_nobody_waits_in_vain_and_all_settles",
            f"{PROPERTY}/test_topology_agrees_with_oracle.py::*",
        ),
        "docs/plugins/network-topology-aware.md",
        (lambda: cycled("racks"), "default/wide default 3 8 gpu, 8 cpu gpu-1, gpu-2, gpu-3"),
        ("topology-never-preempts", "topology-not-served", "weight-of-an-unlisted-resource"),
        (lambda: cycled("racks"), "room for 3 of its tasks together: rack-a, the roomiest of 3, has room for 2"),
    ),
    Topic(
        "what a real Volcano does",
        ("remember/", "undone-eviction/", "gangpreempt/", "gangreclaim/", "reclaim/"),
        (f"{CONFORMANCE}/test_compat_is_the_plain_form.py::test_a_cycle_decides_as_the_plain_form_does",),
        "docs/differences.md",
        (lambda: cycled("demo", compat="volcano"), "Placed: 10 pods of 4 jobs"),
        ("veto-overridden", "gang-ignores-never", "predicate-cache"),
        (lambda: cycled("demo", compat="volcano"), "2 of 3 pods have a node"),
    ),
    Topic(
        "admission",
        ("admission/",),
        (f"{PROPERTY}/test_laws_of_scheduling.py::test_every_cycle_keeps_the_laws_and_ten_more_cycles_change_nothing",),
        "docs/plugins/overcommit.md",
        (lambda: played("admission"), "4 completed, 0 evicted, waited 4500 s; 4 completed, 0 evicted, waited 15000 s"),
        ("permit-hides-votes", "capacity-fails-closed"),
        (
            lambda: cycled("admission"),
            "the cluster holds 0 and has promised 5 of 12 cpu (the nodes times "
            "overcommit-factor, 10 × 1.2); 10 more are needed",
        ),
    ),
    Topic(
        "numa-aware",
        ("numa-aware/",),
        (f"{PROPERTY}/test_cpus_are_kept.py::test_no_kubelet_refuses_what_was_bound",),
        "docs/plugins/numa-aware.md",
        (lambda: played("numa"), "3 completed, 0 evicted, waited 200 s"),
        ("numa-never-evicts",),
        (lambda: cycled("numa"), "not 6 CPUs for one container in 1 NUMA node (4 free in the roomiest)"),
    ),
    Topic(
        "deviceshare",
        ("deviceshare/",),
        (f"{PROPERTY}/test_cards_are_kept.py::test_no_card_has_more_users_memory_or_cores_than_it_has",),
        "docs/plugins/deviceshare.md",
        (lambda: played("shared-gpus"), "4 completed, 0 evicted, waited 150 s"),
        ("deviceshare-is-global", "deviceshare-shares-nothing", "geometries-not-read"),
        (lambda: cycled("shared-gpus"), "(the roomiest has 4000 MiB, 70 % of its cores)"),
    ),
    Topic(
        "usage",
        ("usage/",),
        (
            f"{PROPERTY}/test_measurements_are_heeded.py"
            "::test_no_task_goes_to_a_busy_node_each_to_the_least_loaded_and_none_waits_beside_one",
        ),
        "docs/plugins/usage.md",
        (lambda: played("busy-nodes"), "31 completed, 1 evicted"),
        ("usage-without-metrics", "metrics-not-collected", "metrics-interval-fixed"),
        (on_busy_nodes, "cpu usage is above the threshold of 80 %: 85 % or more"),
    ),
    Topic(
        "rescheduling",
        ("rescheduling/",),
        (
            f"{PROPERTY}/test_measurements_are_heeded.py"
            "::test_pods_leave_busy_nodes_for_idle_ones_no_more_than_needed_and_it_ends",
        ),
        "docs/plugins/rescheduling.md",
        (lambda: played("busy-nodes"), "31 completed, 1 evicted"),
        ("rescheduling-period", "rescheduling-thresholds", "shuffle-is-missing"),
        (left_a_busy_node, "1 pods leave n1: cpu 60 % (target 50), memory 0 % (target 100)"),
    ),
    Topic(
        "tdm",
        ("tdm/", "tdm-window/"),
        (
            f"{PROPERTY}/test_hours_are_kept.py"
            "::test_nobody_is_on_a_lent_node_who_may_not_be_and_it_is_given_back_within_budgets",
        ),
        "docs/plugins/tdm.md",
        (lambda: played("lent-nodes"), "37 completed, 2 evicted"),
        ("tdm-without-zones", "shuffle-is-missing"),
        (by_day, "of zone night are lent only from 22:00 to 06:00"),
    ),
    Topic(
        "cdp",
        ("cdp/",),
        (
            f"{PROPERTY}/test_hours_are_kept.py"
            "::test_nobody_is_evicted_in_his_cooldown_and_afterwards_nobody_of_priority_waits",
        ),
        "docs/plugins/cdp.md",
        (lambda: played("cooldown"), "33 completed, 2 evicted"),
        ("cooldown-not-kept", "left-out-of-gang-eviction"),
        (while_all_are_cooling, "all 2 running pods of queue default are kept by cdp"),
    ),
    Topic(
        "Kubernetes' own gangs",
        ("native-gangs/",),
        (
            f"{PROPERTY}/test_native_gangs_are_kept.py::test_a_gang_starts_whole_stays_in_its_rack_and_leaves_together",
            f"{PROPERTY}/test_native_gangs_are_kept.py::test_a_gang_of_kubernetes_is_decided_as_one_of_volcanos",
        ),
        "docs/native-gangs.md",
        (lambda: cycled("native-gangs"), "default/train-workers research 2 8 gpu b1, b2"),
        ("gangs-not-kept",),
        (lambda: cycled("native-gangs"), "room for 4 of its pods together: a, the roomiest of 2, for 3"),
    ),
)
every_topic = pytest.mark.parametrize("topic", TOPICS, ids=[topic.name for topic in TOPICS])


@every_topic
def test_it_has_rule_cases(topic: Topic) -> None:
    for prefix in topic.cases:
        assert [case for case in CASES if case.startswith(prefix)], prefix


def test_every_rule_case_of_a_plugin_belongs_to_a_topic_or_to_the_rules() -> None:
    """Files beside `rules.jsonl` are one topic each."""
    files = {path.stem for path in (ROOT / "tests" / "conformance" / "cases").glob("*.jsonl")} - {"rules"}
    assert files == {
        prefix.split("/")[0] for topic in TOPICS for prefix in topic.cases if prefix.split("/")[0] in files
    }


@every_topic
def test_it_has_a_law_that_is_tried_on_random_clusters(topic: Topic) -> None:
    for law in topic.laws:
        file, _, name = law.partition("::")
        tests = [f for f in ast.parse((ROOT / file).read_text()).body if isinstance(f, ast.FunctionDef)]
        tried = [f.name for f in tests if f.name.startswith("test_") and _is_random(f)]
        assert tried if name == "*" else name in tried, law


def _is_random(test: ast.FunctionDef) -> bool:
    written = " ".join(ast.unparse(decorator) for decorator in test.decorator_list)
    return "given(" in written or "pytest.mark.law" in written or "examples(" in written


@every_topic
def test_it_has_a_page_that_shows_its_example(topic: Topic) -> None:
    page = (ROOT / topic.page).read_text(encoding="utf-8")
    assert topic.page == "docs/differences.md" or re.search(r"pumice (cycle|simulate) examples/", page)


@every_topic
@pytest.mark.part(3)
def test_its_example_says_what_it_is_to_show(topic: Topic) -> None:
    run, says = topic.example
    assert says in run()


@every_topic
def test_its_traps_are_linted(topic: Topic) -> None:
    """That each rule finds its trap is tested with the rules."""
    assert set(topic.lint) <= {rule.name for rule in RULES}


@every_topic
def test_why_is_answered_with_numbers(topic: Topic) -> None:
    ask, says = topic.explain
    assert re.search(r"\d", says)
    assert says in ask()


def test_every_example_of_the_folder_belongs_to_a_test() -> None:
    """One that nobody runs would rot."""
    tests = " ".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    pages = " ".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    for folder in EXAMPLES.iterdir():
        if folder.is_dir():
            assert f'"{folder.name}"' in tests or f"examples/{folder.name}" in pages, folder.name
