from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.config import DEFAULT_CONF, HELM_CONF, Catalogue, InvalidConf, Position, Problem, from_data, load
from pumice.errors import ConfigError, InvalidInput

CONFS = [json.loads(line) for line in Path(__file__).with_name("confs.jsonl").read_text().splitlines()]


def problems(text: str, catalogue: Catalogue, strict: bool = False) -> tuple[Problem, ...]:
    with pytest.raises(InvalidConf) as caught:
        load(text, catalogue, "scheduler.yaml", strict)
    return caught.value.problems


def only_problem(text: str, catalogue: Catalogue) -> Problem:
    found = problems(text, catalogue)
    assert len(found) == 1, found
    return found[0]


def only_warning(text: str, catalogue: Catalogue) -> Problem:
    """The single warning of a conf that loads; with strict, it is the error."""
    loaded = load(text, catalogue, "scheduler.yaml")
    assert len(loaded.warnings) == 1, loaded.warnings
    assert problems(text, catalogue, strict=True) == loaded.warnings
    return loaded.warnings[0]


def one_plugin(entry: str) -> str:
    return f"actions: allocate\ntiers:\n- plugins:\n  - {entry}\n"


# --- what is read -----------------------------------------------------------------------------------------------------


def test_the_parts_of_a_conf_are_read_as_written(catalogue: Catalogue) -> None:
    loaded = load(
        """\
        actions: " enqueue,allocate , preempt"
        compat: volcano
        tiers:
        - plugins:
          - name: gang
            enablePreemptable: no
            enabledClusterOrder: on
          - name: site-policy
        - plugins:
          - name: usage
            arguments:
              usage.weight: 5
              thresholds: {cpu: 80, mem: 70.5}
        configurations:
        - name: preempt
          arguments: {minCandidateNodesAbsolute: 3}
        metrics:
          type: prometheus
          interval: 30s
          tls.insecureSkipVerify: true
        """,
        catalogue,
        "scheduler.yaml",
        strict=True,
    )
    conf = loaded.conf
    assert loaded.warnings == ()
    assert conf.actions == ("enqueue", "allocate", "preempt")
    assert conf.compat == "volcano"
    assert conf.source == "scheduler.yaml"
    assert [[plugin.name for plugin in tier.plugins] for tier in conf.tiers] == [["gang", "site-policy"], ["usage"]]
    assert conf.tiers[0].plugins[0].flags == {"enablePreemptable": False, "enabledClusterOrder": True}
    assert conf.tiers[0].plugins[0].position == Position(5, 13)
    assert conf.tiers[1].plugins[0].arguments == {"usage.weight": 5, "thresholds": {"cpu": 80, "mem": 70.5}}
    assert conf.action_arguments("preempt") == {"minCandidateNodesAbsolute": 3}
    assert conf.action_arguments("allocate") == {}
    assert conf.metrics == {"type": "prometheus", "interval": "30s", "tls.insecureSkipVerify": "true"}


def test_a_flag_is_as_written_else_its_default_in_the_catalogue(catalogue: Catalogue) -> None:
    plugin = load(one_plugin("{name: gang, enableJobOrder: false}"), catalogue).conf.tiers[0].plugins[0]
    assert not plugin.enabled("enableJobOrder")
    assert plugin.enabled("enableTaskOrder")
    assert not plugin.enabled("enableHierarchy")
    assert not plugin.enabled("enabledClusterOrder")
    with pytest.raises(InvalidInput, match="plugin 'gang': there is no flag 'enableOverused'"):
        plugin.enabled("enableOverused")


def test_the_built_in_confs_are_sound(catalogue: Catalogue) -> None:
    default, helm = (load(text, catalogue, strict=True).conf for text in (DEFAULT_CONF, HELM_CONF))
    names = [listed.plugin.name for listed in default.listed()]
    assert default.actions == helm.actions == ("enqueue", "allocate", "backfill")
    assert names == ["priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder"]
    assert [listed.plugin.name for listed in helm.listed()] == [*names, "binpack"]
    switched_off = [listed.plugin.name for listed in helm.listed() if not listed.plugin.enabled("enablePreemptable")]
    assert switched_off == ["gang", "drf"]


def test_the_documented_confs_are_sound(catalogue: Catalogue) -> None:
    text = """\
actions: "reclaim, allocate, backfill, preempt"
tiers:
- plugins:
  - name: extender
    enableJobOrder: true
    enableTaskOrder: false
    enablePredicate: true
    enableNodeOrder: true
    enablePreemptable: true
    enableReclaimable: true
    arguments:
      extender.urlPrefix: http://127.0.0.1:8713
      extender.httpTimeout: 100ms
      extender.onSessionOpenVerb: onSessionOpen
      extender.predicateVerb: predicate
      extender.jobReadyVerb: ""
      extender.ignorable: "true"
      extender.managedResources: example.com/gpu, example.com/fpga
"""
    plugin = load(text, catalogue, strict=True).conf.tiers[0].plugins[0]
    assert plugin.arguments["extender.ignorable"] == "true"
    assert not plugin.enabled("enableTaskOrder")


@pytest.mark.parametrize("case", CONFS, ids=[case["id"] for case in CONFS])
def test_a_conf_that_volcano_ran_is_read_and_written_back(case: dict[str, object], catalogue: Catalogue) -> None:
    data = case["conf"]
    assert isinstance(data, dict)
    conf = from_data(data, catalogue, strict=True).conf
    again = from_data(conf.to_data(), catalogue, strict=True).conf
    assert again == conf
    assert load(json.dumps(data), catalogue, strict=True).conf == conf  # JSON is YAML
    assert ", ".join(conf.actions) == data["actions"]


def test_what_is_left_empty_is_not_written(catalogue: Catalogue) -> None:
    conf = load(
        """\
actions: allocate
tiers:
-
- plugins:
- plugins:
  - name: gang
    enableJobOrder:
    arguments:
configurations:
metrics:
compat:
""",
        catalogue,
        strict=True,
    ).conf
    assert [len(tier.plugins) for tier in conf.tiers] == [0, 0, 1]
    assert conf.tiers[2].plugins[0].flags == {}
    assert conf == load("actions: allocate\ntiers: [{}, {}, {plugins: [{name: gang}]}]", catalogue).conf


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("10:00", "10:00"),
        ("10:00-12:30", "10:00-12:30"),
        ("2024-01-01", "2024-01-01"),
        ("yes", True),
        ("Off", False),
        ("y", True),
        ("N", False),
        ('"yes"', "yes"),
        ("~", None),
        ("", None),
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("010", 8),
        ("0o10", 8),
        ("0x1F", 31),
        ("-0b101", -5),
        ("1_000", 1000),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("08", 8.0),
        ("-.inf", float("-inf")),
        ("!!str 5", "5"),
        ("!!float 5", 5.0),
        ('!!int "5"', 5),
        ("'5'", "5"),
        ("5s", "5s"),
        ("=", "="),
        ("[1, a]", [1, "a"]),
        ("{1: a, yes: b}", {"1": "a", "yes": "b"}),
    ],
)
def test_scalars_are_read_as_volcanos_decoder_reads_them(written: str, value: object, catalogue: Catalogue) -> None:
    conf = load(one_plugin("name: site-policy\n    arguments:\n      x: " + written), catalogue).conf
    read = conf.tiers[0].plugins[0].arguments["x"]
    assert read == value
    assert type(read) is type(value)


def test_merged_keys_give_way_to_written_ones(catalogue: Catalogue) -> None:
    conf = load(
        """\
actions: allocate
tiers:
- plugins:
  - name: site-policy
    arguments: &base {a: 1, b: 2}
  - name: site-policy
    arguments: {<<: [*base, {c: 4, a: 9}], b: 3}
""",
        catalogue,
    ).conf
    assert conf.tiers[0].plugins[1].arguments == {"a": 1, "b": 3, "c": 4}


# --- identity ---------------------------------------------------------------------------------------------------------


def test_the_digest_follows_the_content_and_not_the_layout(catalogue: Catalogue) -> None:
    conf = load(one_plugin("{name: binpack, arguments: {binpack.cpu: 2, binpack.weight: 5}}"), catalogue).conf
    same = load(
        """\
# the same, written otherwise
tiers: [{plugins: [{arguments: {"binpack.weight": 5, binpack.cpu: 2}, name: "binpack"}]}]
actions: "allocate"
""",
        catalogue,
        "elsewhere",
    ).conf
    other = load(one_plugin("{name: binpack, arguments: {binpack.cpu: 2, binpack.weight: 6}}"), catalogue).conf
    assert conf == same
    assert conf.digest == same.digest
    assert conf.digest != other.digest
    assert conf.with_compat("volcano").digest != conf.digest
    assert conf.with_compat("volcano").with_compat(None) == conf


def test_a_position_is_that_of_the_nearest_thing_that_has_one(catalogue: Catalogue) -> None:
    conf = load(one_plugin("name: binpack\n    arguments:\n      binpack.weight: 5"), catalogue).conf
    assert conf.position("tiers[0].plugins[0].arguments.binpack.weight") == Position(6, 7)
    assert conf.position("tiers[0].plugins[0].arguments.binpack.cpu") == Position(5, 5)
    assert conf.position("tiers[0].plugins[0].enableJobOrder") == Position(4, 5)
    assert conf.position("tiers[7]") == Position(2, 1)
    assert conf.position("metrics.interval") == Position(1, 1)
    assert from_data({"actions": "allocate"}, catalogue).conf.position("actions") is None


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("actions: [allocate}", Position(1, 19), "not YAML"),
        ("actions: allocate\n\ttiers: []", Position(2, 1), "not YAML"),
        ("actions: *nobody", Position(1, 10), "not YAML"),
        ('actions: "allocate', Position(1, 19), "not YAML"),
        ("actions: allocate\ntiers: @here", Position(2, 8), "not YAML"),
        ("actions: allocate\n---\n]", Position(3, 1), "not YAML"),
        ("actions: \x00", None, "not YAML"),
        ("actions: \ud800", None, "not YAML"),
        ("[" * 100_000, Position(1, 101), "nested more than 100 levels deep"),
        ("&a [*a]", Position(1, 5), "grow without end"),
    ],
)
def test_text_that_is_no_yaml_is_refused_with_its_place(
    text: str, position: Position | None, says: str, catalogue: Catalogue
) -> None:
    problem = only_problem(text, catalogue)
    assert problem.code == "yaml"
    assert says in problem.message
    assert problem.position == position


def test_aliases_cannot_blow_a_conf_up(catalogue: Catalogue) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "grow without end" in only_problem("\n".join(lines), catalogue).message


@pytest.mark.parametrize("text", ["", "# nothing", "tiers: []", "actions:", "actions: ''", "actions: '  '"])
def test_a_conf_without_actions_is_refused(text: str, catalogue: Catalogue) -> None:
    problem = only_problem(text, catalogue)
    assert (problem.code, problem.path) == ("no-actions", "actions")


def test_an_unknown_action_is_named_at_its_own_place_with_the_nearest_known_one(catalogue: Catalogue) -> None:
    problem = only_problem('actions: "enqueue, alocate, backfill"', catalogue)
    assert (problem.code, problem.path, problem.value) == ("unknown-action", "actions[1]", "alocate")
    assert problem.position == Position(1, 20)
    assert str(problem) == (
        "scheduler.yaml:1:20: actions[1]: unknown action 'alocate' (known: allocate, backfill, enqueue, gangpreempt, "
        "gangreclaim, preempt, reclaim, shuffle); did you mean 'allocate'?"
    )


def test_the_place_of_an_action_in_folded_text_is_that_of_the_text(catalogue: Catalogue) -> None:
    problem = only_problem("actions: >-\n  enqueue,\n  alocate\n", catalogue)
    assert problem.position == Position(1, 10)


def test_a_trailing_comma_is_an_action_without_a_name(catalogue: Catalogue) -> None:
    problem = only_problem("actions: enqueue, allocate,", catalogue)
    assert (problem.code, problem.path) == ("unknown-action", "actions[2]")
    assert "no action's name" in problem.message


def test_an_unknown_plugin_is_refused_with_the_nearest_known_one(catalogue: Catalogue) -> None:
    problem = only_problem(one_plugin("name: predicate"), catalogue)
    assert (problem.code, problem.path, problem.value) == ("unknown-plugin", "tiers[0].plugins[0].name", "predicate")
    assert problem.position == Position(4, 11)
    assert problem.nearest == "predicates"
    assert problem.message == "unknown plugin 'predicate' (`pumice plugin list` lists those that there are)"


def test_nothing_is_suggested_when_nothing_is_near(catalogue: Catalogue) -> None:
    assert only_problem(one_plugin("name: zzzz"), catalogue).nearest is None


@pytest.mark.parametrize("entry", ["", "{}", "name:", "name: ''", "{arguments: {}}"])
def test_a_plugin_needs_a_name(entry: str, catalogue: Catalogue) -> None:
    problem = only_problem(one_plugin(entry), catalogue)
    assert (problem.code, problem.message) == ("unknown-plugin", "the plugin has no name")


def test_hierarchical_drf_beside_proportion_in_one_tier_is_refused(catalogue: Catalogue) -> None:
    entry = "name: drf\n    enableHierarchy: true\n  - name: proportion"
    problem = only_problem(one_plugin(entry), catalogue)
    assert (problem.code, problem.path) == ("hierarchy-conflict", "tiers[0].plugins[0].enableHierarchy")
    assert problem.position == Position(5, 5)
    load(one_plugin(entry.replace("true", "false")), catalogue, strict=True)
    load(one_plugin("name: drf\n    enableHierarchy: true"), catalogue, strict=True)


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("just text", "", "must be a mapping, got the text 'just text'"),
        ("[allocate]", "", "must be a mapping, got a list"),
        ("- plugins: [{name: gang}]", "", "must be a mapping, got a list of tiers; write it below 'tiers:'"),
        ("actions: [allocate]", "actions", "must be comma-separated text such as"),
        ("actions: {a: b}", "actions", "got a mapping"),
        ("actions: allocate\ntiers: {}", "tiers", "must be a list, got a mapping"),
        ("actions: allocate\ntiers: 5", "tiers", "must be a list, got the number 5"),
        ("actions: allocate\ntiers: [gang]", "tiers[0]", "must be a mapping, got the text 'gang'"),
        ("actions: allocate\ntiers: [[gang]]", "tiers[0]", "must be a mapping, got a list"),
        ("actions: allocate\ntiers: [{plugins: gang}]", "tiers[0].plugins", "must be a list, got the text 'gang'"),
        (one_plugin("gang"), "tiers[0].plugins[0]", "must be a mapping, got the text 'gang'"),
        (one_plugin("name: [gang]"), "tiers[0].plugins[0].name", "must be text, got a list"),
        (
            one_plugin("{name: gang, enableJobOrder: 1}"),
            "tiers[0].plugins[0].enableJobOrder",
            "must be true or false, got",
        ),
        (
            one_plugin("{name: gang, enableJobOrder: 'true'}"),
            "tiers[0].plugins[0].enableJobOrder",
            "must be true or false, without quotes, got the text 'true'",
        ),
        (one_plugin("{name: gang, enableJobOrder: []}"), "tiers[0].plugins[0].enableJobOrder", "got a list"),
        (
            one_plugin("{name: gang, arguments: 5}"),
            "tiers[0].plugins[0].arguments",
            "must be a mapping, got the number 5",
        ),
        (one_plugin("{name: gang, arguments: [a]}"), "tiers[0].plugins[0].arguments", "must be a mapping, got a list"),
        ("actions: allocate\nconfigurations: {}", "configurations", "must be a list, got a mapping"),
        ("actions: allocate\nconfigurations: [true]", "configurations[0]", "must be a mapping, got the boolean true"),
        (
            "actions: allocate\nconfigurations: [{name: allocate, arguments: yes}]",
            "configurations[0].arguments",
            "must be a mapping, got the boolean yes",
        ),
        ("actions: allocate\nmetrics: [a]", "metrics", "must be a mapping, got a list"),
        ("actions: allocate\nmetrics: {address: {a: b}}", "metrics.address", "must be text, got a mapping"),
        ("actions: allocate\ncompat: [volcano]", "compat", "must be text, got a list"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_at_its_place(
    text: str, path: str, message: str, catalogue: Catalogue
) -> None:
    found = [problem for problem in problems(text, catalogue) if problem.code == "wrong-type"]
    assert [problem.path for problem in found] == [path]
    assert message in found[0].message
    assert found[0].position is not None


def test_an_unknown_compat_profile_is_refused(catalogue: Catalogue) -> None:
    problem = only_problem("actions: allocate\ncompat: Volcano", catalogue)
    assert (problem.code, problem.nearest, problem.position) == ("unknown-compat", "volcano", Position(2, 9))


@pytest.mark.parametrize(
    ("text", "path", "position"),
    [
        ("actions: allocate\nactions: enqueue", "actions", Position(2, 1)),
        (one_plugin("{name: gang, name: drf}"), "tiers[0].plugins[0].name", Position(4, 18)),
        (
            one_plugin("{name: site-policy, arguments: {a: 1, a: 1}}"),
            "tiers[0].plugins[0].arguments.a",
            Position(4, 43),
        ),
        (
            one_plugin("{name: site-policy, arguments: {1: a, '1': b}}"),
            "tiers[0].plugins[0].arguments.1",
            Position(4, 43),
        ),
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str, path: str, position: Position, catalogue: Catalogue) -> None:
    problem = only_problem(text, catalogue)
    assert (problem.code, problem.path, problem.position) == ("duplicate-key", path, position)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("!!int five", "'five' is no int"),
        ("!secret x", "the tag '!secret' is not supported"),
        ("!!binary aGk=", "is not supported"),
        ("{? [a] : b}", "a key must be text"),
        ("{<<: 5}", "'<<' needs a mapping to merge"),
    ],
)
def test_yaml_that_json_cannot_say_is_refused(written: str, says: str, catalogue: Catalogue) -> None:
    problem = only_problem(one_plugin("name: site-policy\n    arguments: {x: " + written + "}"), catalogue)
    assert says in problem.message
    assert problem.path.startswith("tiers[0].plugins[0].arguments")


def test_all_problems_are_told_together_in_the_order_of_the_file(catalogue: Catalogue) -> None:
    text = """\
tiers:
- plugins:
  - name: gangg
    enableJobOrder: 5
- plugin: []
actions: alocate
"""
    with pytest.raises(ConfigError) as caught:
        load(text, catalogue, "scheduler.yaml", strict=True)
    assert isinstance(caught.value, InvalidConf)
    assert [problem.code for problem in caught.value.problems] == [
        "unknown-plugin",
        "wrong-type",
        "unknown-key",
        "unknown-action",
    ]
    lines = str(caught.value).splitlines()
    assert lines[0] == "4 problems in the scheduler conf:"
    assert lines[3] == "  scheduler.yaml:5:3: tiers[1].plugin: unknown key 'plugin'; did you mean 'plugins'?"


# --- warnings ---------------------------------------------------------------------------------------------------------


def test_a_misspelt_flag_is_told_with_the_right_spelling(catalogue: Catalogue) -> None:
    text = one_plugin("name: gang\n  - name: proportion\n    enableOverused: false")
    problem = only_warning(text, catalogue)
    assert str(problem) == (
        "scheduler.yaml:6:5: tiers[0].plugins[1].enableOverused: unknown flag 'enableOverused'; "
        "did you mean 'enabledOverused'?"
    )
    assert load(text, catalogue).conf.tiers[0].plugins[1].enabled("enabledOverused")


@pytest.mark.parametrize(
    ("text", "code", "path", "nearest"),
    [
        ("actions: allocate\nTiers: []", "unknown-key", "Tiers", "tiers"),
        ("actions: allocate\nzzz: 1", "unknown-key", "zzz", None),
        (
            "actions: allocate\ndialect: volcano\nqueueDepthPerAction: {reclaim: 10}",
            "unused-key",
            "queueDepthPerAction",
            None,
        ),
        ("actions: allocate\nusageDBConfig: {clientType: prometheus}", "unused-key", "usageDBConfig.clientType", None),
        ("actions: allocate\ntiers: [{name: one, plugins: []}]", "unknown-key", "tiers[0].name", None),
        (one_plugin("{name: gang, argument: {}}"), "unknown-key", "tiers[0].plugins[0].argument", "arguments"),
        (
            one_plugin("{name: gang, EnableJobOrder: false}"),
            "unknown-flag",
            "tiers[0].plugins[0].EnableJobOrder",
            "enableJobOrder",
        ),
        (one_plugin("{name: usage, cpu.weight: 2}"), "misplaced-argument", "tiers[0].plugins[0].cpu.weight", None),
        (
            one_plugin("{name: binpack, arguments: {binpack.wieght: 2}}"),
            "unread-argument",
            "tiers[0].plugins[0].arguments.binpack.wieght",
            "binpack.weight",
        ),
        (
            one_plugin("{name: tdm, arguments: {tdm.revocable-zone.: x}}"),
            "unread-argument",
            "tiers[0].plugins[0].arguments.tdm.revocable-zone.",
            "tdm.revocable-zone.",
        ),
        (one_plugin("{name: gang, arguments: {a: 1}}"), "unread-argument", "tiers[0].plugins[0].arguments.a", None),
        (
            "actions: allocate\nconfigurations: [{name: alocate}]",
            "unknown-action",
            "configurations[0].name",
            "allocate",
        ),
        ("actions: allocate\nconfigurations: [{}]", "unknown-action", "configurations[0].name", None),
        (
            "actions: allocate\nconfigurations: [{name: allocate, args: {}}]",
            "unknown-key",
            "configurations[0].args",
            "arguments",
        ),
        (
            "actions: allocate\nconfigurations: [{name: allocate, arguments: {predicateErrorCache: true}}]",
            "unread-argument",
            "configurations[0].arguments.predicateErrorCache",
            "predicateErrorCacheEnable",
        ),
        (
            "actions: allocate\nconfigurations: [{name: allocate}, {name: allocate}]",
            "unread-entry",
            "configurations[1]",
            None,
        ),
        ("actions: allocate\nmetrics: {adress: http://x}", "unknown-key", "metrics.adress", "address"),
        ("actions: allocate\nmetrics: {interval: soon}", "ignored-value", "metrics.interval", None),
        ("actions: allocate\nmetrics: {interval: 30}", "ignored-value", "metrics.interval", None),
        ("actions: allocate\nmetrics: {interval: 0s}", "ignored-value", "metrics.interval", None),
        (one_plugin("name: gang\n- plugins: [{name: gang}]"), "repeated-plugin", "tiers[1].plugins[0]", None),
        ("actions: allocate\n---\nactions: enqueue", "second-document", "", None),
    ],
)
def test_what_volcano_ignores_is_a_warning(
    text: str, code: str, path: str, nearest: str | None, catalogue: Catalogue
) -> None:
    problem = only_warning(text, catalogue)
    assert (problem.code, problem.path, problem.nearest) == (code, path, nearest)
    assert problem.position is not None


def test_a_plugin_without_arguments_says_so(catalogue: Catalogue) -> None:
    problem = only_warning(one_plugin("{name: gang, arguments: {a: 1}}"), catalogue)
    assert problem.message == "plugin 'gang' does not read the argument 'a'; it reads none"


def test_open_ended_and_unknown_arguments_are_accepted(catalogue: Catalogue) -> None:
    load(one_plugin("{name: binpack, arguments: {binpack.resources.nvidia.com/gpu: 5}}"), catalogue, strict=True)
    load(one_plugin("{name: site-policy, arguments: {whatever: 5}}"), catalogue, strict=True)


def test_extenders_may_be_repeated_under_names_of_their_own(catalogue: Catalogue) -> None:
    def two(first: str, second: str) -> str:
        entries = (f"name: extender\n    arguments: {{extender.name: {name}}}" for name in (first, second))
        return one_plugin("\n  - ".join(entries))

    load(two("a", "b"), catalogue, strict=True)
    problem = only_warning(two("a", "a"), catalogue)
    assert problem.code == "repeated-plugin"
    assert "each of its entries needs an 'extender.name' of its own" in problem.message


# --- data -------------------------------------------------------------------------------------------------------------


def test_data_is_checked_as_text_is_but_has_no_positions(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidConf) as caught:
        from_data({"actions": "allocate", "tiers": [{"plugins": [{"name": "gangg"}]}]}, catalogue, "case 7")
    problem = caught.value.problems[0]
    assert problem.position is None
    assert str(problem).startswith("case 7: tiers[0].plugins[0].name: unknown plugin 'gangg'")
    assert problem.nearest == "gang"


def test_data_that_is_no_json_is_refused(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidConf, match=r"metrics\.address: object is no JSON value"):
        from_data({"actions": "allocate", "metrics": {"address": object()}}, catalogue)
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InvalidConf, match="nested more than 100 levels deep"):
        from_data({"actions": "allocate", "tiers": endless}, catalogue)


TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))  # YAML has no surrogate pairs
KEYS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=160)  # 1024 as YAML, escaped
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["actions", "tiers", "configurations", "metrics", "compat", "x"]), JSON))
def test_any_data_loads_or_is_refused_with_problems(catalogue: Catalogue, data: dict[str, object]) -> None:
    try:
        loaded = from_data(data, catalogue)
    except InvalidConf as error:
        assert error.problems
    else:
        assert from_data(loaded.conf.to_data(), catalogue).conf == loaded.conf


@settings(deadline=None)
@given(st.text(alphabet="ab:-[]{},&*!|>'\"%@# \n\t0", max_size=60))
def test_any_text_loads_or_is_refused_with_problems(catalogue: Catalogue, text: str) -> None:
    try:
        load(f"actions: allocate\n{text}", catalogue)
    except InvalidConf as error:
        assert error.problems


@settings(deadline=None)
@given(st.dictionaries(KEYS, JSON, max_size=5))
def test_json_arguments_are_read_the_same_from_text_and_from_data(
    catalogue: Catalogue, arguments: dict[str, object]
) -> None:
    data = {"actions": "allocate", "tiers": [{"plugins": [{"name": "site-policy", "arguments": arguments}]}]}
    assert load(json.dumps(data), catalogue).conf == from_data(data, catalogue).conf
