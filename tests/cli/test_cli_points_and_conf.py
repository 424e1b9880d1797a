"""``points``, ``plugins``, ``conf`` and ``version``."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from cli_runs import DEMO_CONF, Pumice

from pumice.cli.plugin import question
from pumice.framework.points import POINTS, Point

ROOT = Path(__file__).parents[2]
GOOD = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n'


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path / "scheduler.conf"


def test_points_lists_every_point(pumice: Pumice) -> None:
    assert [p["name"] for p in pumice("plugin", "points", "-o", "json").data] == list(POINTS)
    out = pumice("plugin", "points").out
    assert all(f"\n{name} " in out for name in POINTS)


@pytest.mark.parametrize("name", ["predicate", "PredicateFn", "AddPredicateFn", "Predicate"])
def test_a_point_is_found_by_its_python_and_its_go_name(pumice: Pumice, name: str) -> None:
    shown = pumice("plugin", "points", name, "-o", "json").data
    assert shown["name"] == "predicate"
    assert shown["register"] == "add_predicate_fn"
    assert shown["flag"] == "enablePredicate"


def test_a_point_is_shown_with_its_contract(pumice: Pumice) -> None:
    out = pumice("plugin", "points", "job_ready").out
    assert "May the job's placements be committed?" in out
    assert "ssn.add_job_ready_fn(name, fn)" in out


def test_the_list_of_points_says_what_each_asks(pumice: Pumice) -> None:
    listed = " ".join(pumice("plugin", "points").out.split())
    assert [p.name for p in POINTS.values() if f"{p.name} {question(p)[:60].rpartition(' ')[0]}" not in listed] == []


def test_the_list_of_points_fits_100_columns(pumice: Pumice) -> None:
    assert max(map(len, pumice("plugin", "points").out.splitlines())) <= 100


def test_a_point_is_shown_with_its_example(pumice: Pumice) -> None:
    assert (
        "    def victim_filter(self, pending: Job, victim: Job) -> bool:"
        in pumice("plugin", "points", "victim_filter").out
    )
    assert pumice("plugin", "points", "-o", "json").data[0]["example"].startswith("class MyPlugin(Plugin):")


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("AllocateFunc", "plugin-development.md#event-handlers"),
        ("DeallocateFunc", "plugin-development.md#event-handlers"),
        ("EventHandler", "plugin-development.md#event-handlers"),
        ("AddEventHandler", "plugin-development.md#event-handlers"),
        ("OnSessionOpen", "plugin-development.md#the-interface"),
        ("on_session_close", "plugin-development.md#the-interface"),
        ("New", "plugin-development.md#a-plugin-in-five-steps"),
        ("RegisterPluginBuilder", "plugin-development.md#a-plugin-in-five-steps"),
        ("Arguments", "plugin-development.md#arguments"),
        ("bindVerb", "extender.md"),
    ],
)
def test_a_word_that_is_no_point_leads_to_its_page(pumice: Pumice, word: str, page: str) -> None:
    said = pumice("plugin", "points", word, code=1).err
    assert f"{word!r} is no extension point" in said
    path, _, anchor = f"docs/{'' if page.startswith('extender') else 'guides/'}{page}".partition("#")
    assert f"see {path}" in said
    headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), flags=re.MULTILINE)
    assert anchor in ["", *(heading.lower().replace(" ", "-") for heading in headings)]


@pytest.mark.parametrize(("verb", "point"), [("QueueOverused", "overused"), ("jobReadyVerb", "job_ready")])
def test_a_verb_of_the_extender_leads_to_its_point(pumice: Pumice, verb: str, point: str) -> None:
    assert pumice("plugin", "points", verb, "-o", "json").data["name"] == point


@pytest.mark.parametrize("point", POINTS.values(), ids=lambda point: point.name)
def test_what_holds_when_nobody_answers_is_said_in_words(point: Point[..., Any, Any]) -> None:
    assert point.without != "0" or point.rule.name == "sum"


def test_a_plugin_is_shown_with_the_points_at_which_it_answers(pumice: Pumice) -> None:
    assert "job_enqueueable" in pumice("plugin", "show", "overcommit").out
    assert pumice("plugin", "show", "pdb", "-o", "json").data["points"] == [
        "preemptable",
        "reclaimable",
        "victim_tasks",
    ]


def test_plugins_lists_what_each_reads(pumice: Pumice) -> None:
    listed = {p["name"]: p for p in pumice("plugin", "list", "-o", "json").data}
    assert listed["gang"]["arguments"] == []
    assert {
        "name": "binpack.cpu",
        "default": "1",
        "value": "whole number, at least 0, else the default",
        "meaning": "Weight of cpu.",
    } in (listed["binpack"]["arguments"])
    assert "binpack" in pumice("plugin", "list").out


def test_a_plugin_is_shown_with_its_documentation(pumice: Pumice) -> None:
    assert "minMember" in pumice("plugin", "show", "gang").out


def test_conf_check_accepts_a_good_conf(pumice: Pumice) -> None:
    assert "OK: 3 actions, 7 plugins in 2 tiers" in pumice("conf", "check", DEMO_CONF).out
    assert pumice("conf", "check", DEMO_CONF, "-o", "json").data["ok"] is True


def test_conf_check_treats_what_is_written_in_vain_as_an_error(pumice: Pumice, conf: Path) -> None:
    conf.write_text(GOOD + "    enableOverused: true\n")
    ran = pumice("conf", "check", conf, code=1)
    assert f"{conf}:5:5" in ran.out
    assert "did you mean 'enabledOverused'?" in ran.out
    [problem] = pumice("conf", "check", conf, "-o", "json", code=1).data["problems"]
    assert (problem["line"], problem["column"], problem["nearest"]) == (5, 5, "enabledOverused")


def test_conf_check_refuses_arguments_that_a_plugin_refuses(pumice: Pumice, conf: Path) -> None:
    conf.write_text(GOOD + "  - name: binpack\n    arguments: {binpack.weight: heavy}\n")
    assert "binpack.weight" in pumice("conf", "check", conf, code=1).out


def test_conf_explain_shows_the_chain_that_runs(pumice: Pumice) -> None:
    chains = {c["hook"]: c for c in pumice("conf", "explain", DEMO_CONF, "-o", "json").data}
    assert [link["plugin"] for tier in chains["job_order"]["tiers"] for link in tier["links"]] == ["priority", "gang"]
    assert "tier 1: priority -> gang" in pumice("conf", "explain", DEMO_CONF).out


def test_conf_explain_knows_what_the_arguments_make_a_plugin_register(pumice: Pumice, conf: Path) -> None:
    """The extender registers where a verb is given; nobody listens at the address, and nobody is called."""
    conf.write_text(
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: extender\n    arguments:\n"
        "      extender.urlPrefix: http://127.0.0.1:9\n      extender.onSessionOpenVerb: open\n"
        "      extender.jobReadyVerb: ready\n"
    )
    chains = {c["hook"]: c for c in pumice("conf", "explain", conf, "-o", "json").data}
    ready = [[link["plugin"] for link in tier["links"]] for tier in chains["job_ready"]["tiers"]]
    assert ready == [["gang"], ["extender"]]
    assert "extender" not in str(chains.get("batch_predicate", ""))


def test_conf_explain_without_a_file_explains_the_default(pumice: Pumice) -> None:
    assert "overcommit" in pumice("conf", "explain").out


def test_conf_lint_names_a_trap(pumice: Pumice, conf: Path) -> None:
    conf.write_text(GOOD + "    enableNodeOrder: false\n  - name: predicates\n")
    [finding] = pumice("conf", "check", conf, "-o", "json").data["findings"]
    assert (finding["rule"], finding["position"]["line"]) == ("flag-without-effect", 5)
    assert f"{conf}:5:5: info: tiers[0].plugins[0].enableNodeOrder" in pumice("conf", "check", conf).out


def test_conf_lint_fails_where_a_conf_asks_for_what_excludes_each_other(pumice: Pumice, conf: Path) -> None:
    hierarchy = "  - name: drf\n    enableHierarchy: true\n- plugins:\n  - name: proportion\n"
    conf.write_text(GOOD + hierarchy)
    assert "[hierarchy-with-proportion]" in pumice("conf", "check", conf, code=1).out


def test_conf_lint_says_when_there_is_no_trap(pumice: Pumice) -> None:
    assert "OK: " in pumice("conf", "check", DEMO_CONF).out


def test_version_is_the_package_version(pumice: Pumice) -> None:
    assert pumice("--version").out == f"pumice {version('pumice')}\n"
