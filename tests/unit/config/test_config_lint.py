from __future__ import annotations

import re
from pathlib import Path

import pytest

from pumice.config import DEFAULT_CONF, HELM_CONF, Catalogue, Position, from_data, load
from pumice.config.lint import RULES, lint
from pumice.config.rules import Finding, Severity

DOCS = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^### (?P<rule>\S+)\n(?P<text>.*?)^```yaml\n(?P<yaml>.*?)^```\n", re.MULTILINE | re.DOTALL)
EXAMPLES = {section["rule"]: section["yaml"] for section in SECTION.finditer(DOCS)}


def findings(text: str, catalogue: Catalogue, rule: str) -> list[Finding]:
    return [finding for finding in lint(load(text, catalogue).conf, catalogue) if finding.rule == rule]


def conf(actions: str, *tiers: str, more: str = "") -> str:
    """A conf with one line per tier: plugin entries in flow style."""
    return f"actions: {actions}\ntiers:\n" + "".join(f"- plugins: [{tier}]\n" for tier in tiers) + more


# --- the documentation ------------------------------------------------------------------------------------------------


def test_every_rule_is_documented_with_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(rule.name for rule in RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", sorted(EXAMPLES))
def test_the_documented_example_triggers_its_rule_and_loads_without_warnings(rule: str, catalogue: Catalogue) -> None:
    loaded = load(EXAMPLES[rule], catalogue, strict=True)
    found = [finding for finding in lint(loaded.conf, catalogue) if finding.rule == rule]
    assert found
    for finding in found:
        assert finding.position is not None
        assert finding.advice.endswith(".")
        assert finding.message[-1] not in ".,;"


def test_every_conf_in_the_documentation_loads(catalogue: Catalogue) -> None:
    texts = re.findall(r"^```yaml\n(.*?)^```\n", DOCS, re.MULTILINE | re.DOTALL)
    assert len(texts) == len(RULES) + 2
    assert DEFAULT_CONF in texts
    for text in texts:
        load(text, catalogue, strict=True)


def test_the_documented_flags_are_those_of_the_catalogue(catalogue: Catalogue) -> None:
    rows = re.findall(r"^\| `(enable\w+)` \| .* \| (true|false) \|$", DOCS, re.MULTILINE)
    assert {flag: default == "true" for flag, default in rows} == dict(catalogue.flags)


# --- the linter -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [DEFAULT_CONF, HELM_CONF])
def test_the_built_in_confs_step_into_no_trap(text: str, catalogue: Catalogue) -> None:
    assert lint(load(text, catalogue).conf, catalogue) == []


def test_findings_come_in_the_order_of_the_file(catalogue: Catalogue) -> None:
    text = conf(
        "allocate", "{name: gang}, {name: usage}", "{name: predicates}, {name: binpack, arguments: {binpack.cpu: '2'}}"
    )
    found = lint(load(text, catalogue).conf, catalogue)
    assert [finding.rule for finding in found] == ["usage-without-metrics", "number-as-text"]
    assert str(found[1]) == (
        "4:61: info: tiers[1].plugins[1].arguments.binpack.cpu: a number in quotes; Volcano takes only a plain number "
        "here and would keep its default [number-as-text] Remove the quotes if Volcano is to read this conf too."
    )


def test_a_conf_from_data_is_linted_without_positions(catalogue: Catalogue) -> None:
    data = {"actions": "allocate", "tiers": [{"plugins": [{"name": name} for name in ("gang", "predicates", "usage")]}]}
    found = lint(from_data(data, catalogue).conf, catalogue)
    assert [(finding.rule, finding.position) for finding in found] == [("usage-without-metrics", None)]


def test_without_hooks_only_what_is_written_is_linted(catalogue: Catalogue) -> None:
    bare = Catalogue(catalogue.flags, catalogue.plugins, catalogue.actions)
    text = conf("preempt, gangpreempt, shuffle", "{name: gang, enableNodeOrder: false}", "{name: drf}")
    assert {finding.rule for finding in lint(load(text, bare).conf, bare)} == {"gang-ignores-never"}


# --- rules about who is asked -----------------------------------------------------------------------------------------


def test_hierarchical_drf_clashes_with_proportion_in_any_tier(catalogue: Catalogue) -> None:
    rule = "hierarchy-with-proportion"
    clash = conf("allocate", "{name: proportion}", "{name: drf, enableHierarchy: true}")
    assert [(f.severity, f.path) for f in findings(clash, catalogue, rule)] == [
        (Severity.ERROR, "tiers[1].plugins[0].enableHierarchy")
    ]
    assert not findings(clash.replace("true", "false"), catalogue, rule)
    assert not findings(clash.replace("proportion", "capacity"), catalogue, rule)


@pytest.mark.parametrize(
    ("plugin", "told"),
    [
        ("{name: gang, enableNodeOrder: false}", ["enableNodeOrder"]),
        ("{name: gang, enableNodeOrder: true}", []),  # its default
        ("{name: gang, enableJobOrder: false}", []),
        ("{name: gang, enableHierarchy: true}", ["enableHierarchy"]),
        ("{name: nodegroup, enableHierarchy: true}", []),
        ("{name: site-policy, enableNodeOrder: false}", []),  # nothing is known of it
    ],
)
def test_a_flag_must_have_something_to_switch(plugin: str, told: list[str], catalogue: Catalogue) -> None:
    found = findings(conf("allocate", plugin), catalogue, "flag-without-effect")
    assert [finding.path for finding in found] == [f"tiers[0].plugins[0].{flag}" for flag in told]


@pytest.mark.parametrize(
    ("actions", "plugins", "told"),
    [
        ("allocate", "{name: gang}, {name: overcommit}", ["tiers[0].plugins[1]"]),
        ("enqueue, allocate", "{name: gang}, {name: overcommit}", []),
        ("allocate, preempt", "{name: gang}, {name: rescheduling}", ["tiers[0].plugins[1]"]),
        ("allocate, shuffle", "{name: gang}, {name: rescheduling}", []),
        ("allocate", "{name: nodeorder}, {name: resourcequota}, {name: deviceshare}", ["tiers[0].plugins[1]"]),
        ("allocate", "{name: gang}, {name: binpack}, {name: usage}", []),
    ],
)
def test_a_plugin_that_no_action_asks_is_named(
    actions: str, plugins: str, told: list[str], catalogue: Catalogue
) -> None:
    found = findings(conf(actions, plugins), catalogue, "plugin-never-asked")
    assert [finding.path for finding in found] == told


def test_a_verb_that_no_action_asks_is_named(catalogue: Catalogue) -> None:
    verbs = ("jobEnqueueable", "preemptable", "reclaimable", "queueOverused", "jobReady", "predicate", "allocateFunc")
    given = ", ".join(f"extender.{verb}Verb: x" for verb in verbs)
    for actions, told in [
        ("reclaim, allocate, backfill, preempt", ["jobEnqueueable"]),
        ("enqueue, allocate", ["preemptable", "reclaimable"]),
        ("enqueue, backfill", ["preemptable", "reclaimable", "queueOverused"]),
        ("enqueue, allocate, preempt, reclaim", []),
    ]:
        text = conf(actions, f"{{name: gang}}, {{name: extender, arguments: {{{given}}}}}")
        found = findings(text, catalogue, "verb-never-asked")
        assert [finding.message.partition(":")[0].rpartition(" ")[2] for finding in found] == told
        assert not findings(text.replace("Verb: x", "Verb: ''"), catalogue, "verb-never-asked")


def test_a_veto_on_victims_is_only_as_strong_as_its_tier(catalogue: Catalogue) -> None:
    text = conf("preempt", "{name: priority}, {name: conformance}", "{name: drf}, {name: pdb}")
    ours = findings(text, catalogue, "veto-overridden")
    theirs = findings(text + "compat: volcano\n", catalogue, "veto-overridden")
    assert [finding.path for finding in ours] == ["tiers[1].plugins[0]", "tiers[1].plugins[1]"]
    assert {finding.severity for finding in ours} == {Severity.INFO}
    assert {finding.severity for finding in theirs} == {Severity.WARNING}
    assert "set enablePreemptable: false here" in ours[0].advice
    assert not findings(text.replace("preempt", "allocate"), catalogue, "veto-overridden")
    assert not findings(
        conf("preempt", "{name: priority}", "{name: drf, enablePreemptable: false}"), catalogue, "veto-overridden"
    )


def test_a_permit_hides_the_votes_of_later_tiers(catalogue: Catalogue) -> None:
    rule = "permit-hides-votes"
    text = conf("enqueue, allocate", "{name: gang}, {name: overcommit}", "{name: proportion}, {name: sla}")
    found = findings(text, catalogue, rule)
    told = [(finding.path, finding.message.partition(":")[0]) for finding in found]
    assert sorted(told) == [
        ("tiers[1].plugins[0]", "job_enqueueable"),
        ("tiers[1].plugins[1]", "job_enqueueable"),
        ("tiers[1].plugins[1]", "job_pipelined"),
    ]
    assert not findings(conf("enqueue", "{name: overcommit}, {name: proportion}"), catalogue, rule)


@pytest.mark.parametrize(
    ("action", "plugins", "silent"),
    [
        ("preempt", "{name: priority}", []),
        ("preempt", "{name: drf}", ["job_starving"]),
        ("preempt", "{name: gang, enablePreemptable: false}", ["preemptable"]),
        ("reclaim", "{name: priority}", ["reclaimable"]),
        ("reclaim", "{name: gang}", []),
        ("gangpreempt", "{name: gang}", []),
        ("gangreclaim", "{name: tdm}", ["unified_evictable"]),
        ("shuffle", "{name: gang}", ["victim_tasks"]),
        ("allocate", "{name: drf}", []),
    ],
)
def test_an_action_needs_plugins_that_take_part(
    action: str, plugins: str, silent: list[str], catalogue: Catalogue
) -> None:
    found = findings(conf(f"enqueue, {action}", plugins), catalogue, "action-evicts-nobody")
    assert [re.findall(r"answers (\w+),", finding.message) for finding in found] == [[hook] for hook in silent]
    assert {finding.path for finding in found} <= {"actions[1]"}


@pytest.mark.parametrize(
    ("action", "told"),
    [("gangpreempt", ["drf", "pdb"]), ("gangreclaim", ["proportion", "pdb"]), ("preempt", [])],
)
def test_plugins_that_the_gang_actions_do_not_ask_are_named(action: str, told: list[str], catalogue: Catalogue) -> None:
    text = conf(action, "{name: priority}, {name: gang}, {name: drf}, {name: proportion}, {name: pdb}")
    found = findings(text, catalogue, "left-out-of-gang-eviction")
    assert [re.findall(r"does not ask '([\w-]+)'", finding.message) for finding in found] == [[name] for name in told]


def test_only_the_gang_actions_ignore_the_preemption_policy(catalogue: Catalogue) -> None:
    rule = "gang-ignores-never"
    assert [f.path for f in findings(conf("allocate, gangpreempt", "{name: gang}"), catalogue, rule)] == ["actions[1]"]
    assert not findings(conf("allocate, preempt", "{name: gang}"), catalogue, rule)


def test_fifo_is_told_of_only_when_age_alone_orders_jobs(catalogue: Catalogue) -> None:
    assert findings("actions: allocate", catalogue, "no-strict-fifo")
    assert findings(conf("allocate", "{name: gang, enableJobOrder: false}"), catalogue, "no-strict-fifo")
    assert not findings(conf("allocate", "{name: gang}"), catalogue, "no-strict-fifo")


def test_capacity_alone_leaves_nobody_to_call_a_queue_overused(catalogue: Catalogue) -> None:
    rule = "capacity-has-no-overused"
    assert findings(conf("allocate", "{name: capacity}"), catalogue, rule)
    assert not findings(conf("allocate", "{name: capacity}, {name: proportion}"), catalogue, rule)
    assert not findings(conf("enqueue", "{name: capacity}"), catalogue, rule)


def test_capacity_fails_closed_only_with_a_tree_of_queues(catalogue: Catalogue) -> None:
    assert not findings(conf("allocate", "{name: capacity}"), catalogue, "capacity-fails-closed")


# --- rules about what is written --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ("{usage.weight: '5'}", ["usage.weight"]),
        ("{usage.weight: '-0.5e3'}", ["usage.weight"]),
        ("{usage.weight: 5}", []),
        ("{usage.weight: five}", []),
        ("{usage.weight: '5m'}", []),
        ("{thresholds: {cpu: '80', mem: 80}}", ["thresholds.cpu"]),
        ("{estimator: [1, '2']}", ["estimator[1]"]),
    ],
)
def test_numbers_in_quotes_are_found_at_any_depth(arguments: str, paths: list[str], catalogue: Catalogue) -> None:
    found = findings(conf("allocate", f"{{name: usage, arguments: {arguments}}}"), catalogue, "number-as-text")
    assert [finding.path for finding in found] == [f"tiers[0].plugins[0].arguments.{path}" for path in paths]


def test_numbers_in_quotes_are_found_among_the_arguments_of_actions(catalogue: Catalogue) -> None:
    text = conf("preempt", more="configurations: [{name: preempt, arguments: {minCandidateNodesAbsolute: '3'}}]")
    found = findings(text, catalogue, "number-as-text")
    assert [finding.path for finding in found] == ["configurations[0].arguments.minCandidateNodesAbsolute"]


@pytest.mark.parametrize(
    ("plugin", "argument", "value", "told"),
    [
        ("extender", "extender.managedResources", "a, b", True),
        ("extender", "extender.managedResources", "[a, 5]", True),
        ("extender", "extender.managedResources", "[a, b]", False),
        ("predicates", "volumebinding.bindTimeoutSeconds", "'600'", True),
        ("predicates", "volumebinding.bindTimeoutSeconds", "600", False),
        ("resource-strategy-fit", "resources", "{cpu: {type: MostAllocated, weight: '2'}}", True),
        ("resource-strategy-fit", "resources", "{cpu: {type: MostAllocated, weight: 2}}", False),
        ("usage", "thresholds", "{cpu: '80'}", False),
    ],
)
def test_arguments_that_would_end_volcano_are_named(
    plugin: str, argument: str, value: str, told: bool, catalogue: Catalogue
) -> None:
    text = conf("allocate", f"{{name: {plugin}, arguments: {{{argument}: {value}}}}}")
    found = findings(text, catalogue, "fatal-argument")
    assert [finding.path for finding in found] == [f"tiers[0].plugins[0].arguments.{argument}"] * told
    if told:
        assert not findings(text, catalogue, "number-as-text")  # told once


def test_arguments_of_actions_stick_only_where_there_are_some(catalogue: Catalogue) -> None:
    text = conf("allocate", more="configurations: [{name: allocate, arguments: {}}]")
    assert not findings(text, catalogue, "action-arguments-stick")


def test_the_gang_actions_read_the_arguments_of_allocate(catalogue: Catalogue) -> None:
    rule = "arguments-of-absent-action"
    more = "configurations: [{name: allocate, arguments: {predicateErrorCacheEnable: false}}]"
    assert findings(conf("enqueue", more=more), catalogue, rule)
    assert not findings(conf("gangpreempt", more=more), catalogue, rule)
    assert not findings(conf("allocate", more=more), catalogue, rule)


def test_deviceshare_is_told_of_by_its_switches_only(catalogue: Catalogue) -> None:
    text = conf("allocate", "{name: deviceshare, arguments: {deviceshare.ScheduleWeight: 5}}")
    assert not findings(text, catalogue, "deviceshare-is-global")


def test_an_unscored_single_candidate_matters_more_under_compat(catalogue: Catalogue) -> None:
    rule = "prioritize-not-always-asked"
    text = conf("allocate", "{name: extender, arguments: {extender.prioritizeVerb: score}}")
    assert [finding.severity for finding in findings(text, catalogue, rule)] == [Severity.INFO]
    assert [f.severity for f in findings(text + "compat: volcano", catalogue, rule)] == [Severity.WARNING]
    assert not findings(text.replace("score", "''"), catalogue, rule)


def test_pdb_and_the_predicate_cache_matter_only_beside_evictions(catalogue: Catalogue) -> None:
    plugins = "{name: pdb}, {name: predicates, arguments: {predicate.CacheEnable: 'true'}}"
    evicting = {finding.rule for finding in lint(load(conf("preempt", plugins), catalogue).conf, catalogue)}
    placing = {finding.rule for finding in lint(load(conf("allocate", plugins), catalogue).conf, catalogue)}
    assert evicting - placing >= {"pdb-drops-unlabelled", "predicate-cache"}
    assert not findings(conf("preempt", plugins.replace("true", "false")), catalogue, "predicate-cache")


def test_in_volcano_rescheduling_must_read_the_period_that_is_collected(catalogue: Catalogue) -> None:
    rule = "rescheduling-period"
    found = findings(conf("shuffle", "{name: rescheduling}"), catalogue, rule)
    assert [finding.severity for finding in found] == [Severity.INFO]
    assert "rescheduling reads '5m'" in found[0].message
    assert not findings(conf("shuffle", "{name: rescheduling, arguments: {metricsPeriod: 10m}}"), catalogue, rule)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ("{thresholds: {cpu: 20, memory: 20}}", []),
        (
            "{thresholds: {cpu: 20.5}, targetThresholds: {memory: '80', pods: 3}}",
            ["thresholds.cpu", "targetThresholds.memory", "targetThresholds.pods"],
        ),
        ("{thresholds: {cpu: true}}", ["thresholds.cpu"]),
        ("{thresholds: 5}", []),
        ("none", []),
    ],
)
def test_thresholds_of_rescheduling_are_whole_and_known(params: str, told: list[str], catalogue: Catalogue) -> None:
    arguments = f"{{metricsPeriod: 10m, strategies: [{{name: lowNodeUtilization, params: {params}}}, none]}}"
    text = conf("shuffle", f"{{name: rescheduling, arguments: {arguments}}}")
    prefix = "tiers[0].plugins[0].arguments.strategies[0].params."
    found = findings(text, catalogue, "rescheduling-thresholds")
    assert [finding.path.removeprefix(prefix) for finding in found] == told


def test_usage_with_a_source_of_metrics_is_only_worth_knowing(catalogue: Catalogue) -> None:
    text = conf("allocate", "{name: usage}", more="metrics: {type: prometheus, address: http://x}")
    assert [f.severity for f in findings(text, catalogue, "usage-without-metrics")] == [Severity.INFO]


def test_a_finding_points_at_the_argument(catalogue: Catalogue) -> None:
    text = EXAMPLES["dra-switch-not-read"]
    found = findings(text, catalogue, "dra-switch-not-read")
    assert [finding.position for finding in found] == [Position(3, 62)]


def test_a_cooldown_is_kept_where_cdp_is_asked_in_the_first_tier_that_answers(catalogue: Catalogue) -> None:
    late = conf("allocate, preempt, reclaim", "{name: gang}", "{name: predicates}, {name: cdp}")
    found = findings(late, catalogue, "cooldown-not-kept")
    assert [(f.severity, f.message.partition(":")[0]) for f in found] == [
        (Severity.WARNING, "Preemptable"), (Severity.WARNING, "Reclaimable"),
    ]  # fmt: skip
    assert {f.advice for f in found} == {"Move cdp to tier 1."}
    assert findings(conf("allocate, preempt", "{name: gang}, {name: cdp}"), catalogue, "cooldown-not-kept") == []
    assert findings(conf("allocate", "{name: gang}", "{name: cdp}"), catalogue, "cooldown-not-kept") == []
    moved = conf("allocate, shuffle", "{name: gang}, {name: cdp}")
    assert [f.severity for f in findings(moved, catalogue, "cooldown-not-kept")] == [Severity.INFO]


def test_gangs_are_kept_by_gang_and_their_domains_by_predicates(catalogue: Catalogue) -> None:
    def found(*plugins: str) -> list[tuple[Severity, str]]:
        text = conf("allocate", ", ".join(plugins))
        return [(f.severity, f.advice.split(",")[0]) for f in findings(text, catalogue, "gangs-not-kept")]

    no_gang, no_domains = (Severity.WARNING, "Add gang."), (Severity.INFO, "Add predicates")
    assert found("{name: priority}") == [no_gang, no_domains]
    assert found("{name: gang}") == [no_domains]
    assert found("{name: predicates}") == [no_gang]
    assert found("{name: gang, enableJobReady: false}", "{name: predicates, enablePredicate: false}") == [
        no_gang, no_domains,
    ]  # fmt: skip
    assert found("{name: gang}", "{name: predicates}") == []
