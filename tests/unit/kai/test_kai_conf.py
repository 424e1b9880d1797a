"""A conf of KAI's is recognised, has KAI's defaults, and tells what of it has no effect."""

from __future__ import annotations

import pytest

from pumice.config import InvalidConf, LoadedConf, from_data, load
from pumice.config.lint import lint
from pumice.config.rules import Finding
from pumice.config.rules.chains import INSTEAD
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import assemble, catalogue_of


def loaded(text: str) -> LoadedConf:
    return load(text, catalogue_of(default_registry()), "kai.conf")


@pytest.mark.parametrize(
    "text",
    [
        "dialect: kai\nactions: allocate\n",
        "actions: allocate, consolidation\n",
        "actions: allocate\nqueueDepthPerAction: {reclaim: 10}\n",
        "actions: allocate\ntiers: [{plugins: [{name: proportion}, {name: nodeplacement}]}]\n",
    ],
)
def test_what_only_kai_has_tells_its_conf(text: str) -> None:
    conf = loaded(text).conf
    assert conf.dialect == "kai"
    assert conf.actions[0] == "kai/allocate"
    assert {p.plugin.name for p in conf.listed()} >= {"kai/proportion", "kai/nodeplacement"}
    assemble(conf, default_registry())


def test_names_of_both_worlds_are_two() -> None:
    volcano = loaded("actions: allocate\ntiers: [{plugins: [{name: proportion}, {name: kai/priority}]}]\n").conf
    assert (volcano.dialect, volcano.actions) == ("volcano", ("allocate",))
    assert [p.plugin.name for p in volcano.listed()] == ["proportion", "kai/priority"]
    kai = loaded(
        "dialect: kai\nactions: allocate\ntiers: [{plugins: [{name: priority}, {name: volcano/priority}]}]\n"
    ).conf
    assert [p.plugin.name for p in kai.listed()] == ["kai/priority", "priority"]


def test_without_tiers_a_conf_of_kai_has_its_own_list() -> None:
    names = [p.plugin.name for p in loaded("dialect: kai\nactions: allocate\n").conf.listed()]
    assert names[:3] == ["kai/predicates", "kai/proportion", "kai/priority"]
    assert names[-1] == "kai/sg-multinodegang"


@pytest.mark.parametrize("text", ["dialect: kai\n", "dialect: kai\nactions:\n", "queueDepthPerAction: {reclaim: 1}\n"])
def test_without_actions_a_conf_of_kai_has_its_own(text: str) -> None:
    assert loaded(text).conf.actions == tuple(
        f"kai/{name}" for name in ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
    )


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("dialect: kai\nactions: alocate\n", "allocate, consolidation, preempt, reclaim, stalegangeviction"),
        ("actions: alocate\n", "allocate, backfill, easybackfill"),
    ],
)
def test_actions_of_its_own_world_are_named_where_one_is_unknown(text: str, listed: str) -> None:
    with pytest.raises(InvalidConf, match=f"known: {listed}") as caught:
        loaded(text)
    assert "kai/" not in str(caught.value)


def test_a_conf_reads_back_as_it_was_written() -> None:
    conf = loaded("dialect: kai\nactions: allocate\nqueueDepthPerAction: {reclaim: 3}\n").conf
    again = from_data(conf.to_data(), catalogue_of(default_registry())).conf
    assert (again, again.digest) == (conf, conf.digest)
    assert again.action_arguments("kai") == {"queueDepthPerAction": {"reclaim": 3}}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("usageDBConfig: {clientType: prometheus}", "unused-key"),
        ("usageDBConfig: {usageParams: {fetchInterval: 1m}}", "unused-key"),
        ("usageDBConfig: {usageParams: {windowsize: 1m}}", "unknown-key"),
        ("scenarioSearchBudgets: {maxSearch: 1m}", "unknown-key"),
        ("schedulerParams: {noSuchThing: 1}", "unknown-key"),
        ("schedulerParams: {scheduleCSIStorage: true}", "unused-key"),
        ("schedulerParams: {detailedFitErrors: true}", "unused-key"),
        ("schedulerParams: {schedulerName: mine}", "unused-key"),
        ("tiers: [{plugins: [{name: priority, disableJobOrder: true}]}]", "ignored-switch"),
        ("tiers: [{plugins: [{name: snapshot}]}]", "missing-plugin"),
        ("tiers: [{plugins: [{name: reflectjoborder}]}]", "missing-plugin"),
    ],
)
def test_what_has_no_effect_is_told(text: str, code: str) -> None:
    assert [w.code for w in loaded(f"dialect: kai\nactions: allocate\n{text}\n").warnings] == [code]


@pytest.mark.parametrize(
    "text",
    [
        "dialect: kay",
        "queueDepthPerAction: {reclaim: many}",
        "schedulerParams: {maxNumberConsolidationPreemptees: all}",
        "schedulerParams: {useSchedulingSignatures: 1}",
        "schedulerParams: {globalDefaultStalenessGracePeriod: soon}",
    ],
)
def test_a_wrong_value_is_an_error(text: str) -> None:
    with pytest.raises(InvalidConf):
        loaded(f"actions: allocate, consolidation\n{text}\n")


def test_the_depth_of_queues_bounds_what_an_action_looks_at() -> None:
    from kai_cases import cluster, decided, job, node, queue

    parts = (node("n1", gpu=4), queue("q"), *(job(f"j{n}", "q", minute=n) for n in range(3)))
    got = decided(cluster(*parts, actions="allocate", conf={"queueDepthPerAction": {"allocate": 2}}))
    assert got == {"j0-0": "Binding n1", "j1-0": "Binding n1", "j2-0": "Pending"}


@pytest.mark.parametrize(
    "text",
    [
        "scenarioSearchBudgets: {maxJobSearchDuration: -1s}",
        "scenarioSearchBudgets: {minJobSearchDuration: 5m}",
        "scenarioSearchBudgets: {maxGeneratorSearchDuration: {sg-multinodegang: 1m}}",
        "scenarioSearchBudgets: {maxActionSearchDuration: 1m}",
        "usageDBConfig: {usageParams: {windowSize: 0s}}",
        "usageDBConfig: {usageParams: {windowType: cron}}",
        "usageDBConfig: {usageParams: {windowType: cron, cronString: every day}}",
        "usageDBConfig: {usageParams: {windowType: cron, cronString: 0 0 30 2 *}}",
        "usageDBConfig: {usageParams: {halfLifePeriod: often}}",
    ],
)
def test_what_kai_would_stumble_over_is_refused(text: str) -> None:
    with pytest.raises(InvalidConf, match=r"scenarioSearchBudgets|usageDBConfig"):
        loaded(f"dialect: kai\nactions: allocate\n{text}\n")


def test_budgets_and_windows_that_are_right_are_taken_without_a_word() -> None:
    found = loaded(
        "dialect: kai\nactions: allocate\n"
        "scenarioSearchBudgets: {maxActionSearchDuration: {default: 1m, reclaim: 0s}, minJobSearchDuration: 1s}\n"
        "usageDBConfig: {usageParams: {windowSize: 1w, halfLifePeriod: 1d, windowType: tumbling}}\n"
    )
    assert not found.warnings
    found = loaded(
        "dialect: kai\nactions: allocate\nusageDBConfig: {usageParams: {windowType: cron, cronString: '@daily'}}\n"
    )
    assert not found.warnings


@pytest.mark.parametrize(
    "text",
    [
        "actions: allocate, kai/reclaim\n",
        "dialect: kai\nactions: allocate, volcano/backfill\n",
        "actions: allocate\ntiers: [{plugins: [{name: kai/nodeplacement}]}]\n",
        "dialect: volcano\nactions: allocate\ntiers: [{plugins: [{name: kai/proportion}]}]\n",
    ],
)
def test_what_cannot_serve_the_other_world_is_refused(text: str) -> None:
    with pytest.raises(InvalidConf) as caught:
        loaded(text)
    assert [p.code for p in caught.value.problems] == ["other-dialect"]


@pytest.mark.parametrize(
    "plugin",
    [
        '{name: nodeplacement, arguments: {gpu: "", cpu: ""}}',
        '{name: minruntime, arguments: {defaultPreemptMinRuntime: "", reclaimResolveMethod: ""}}',
    ],
)
def test_an_argument_that_says_nothing_is_as_good_as_none(plugin: str) -> None:
    text = f"dialect: kai\nactions: allocate\ntiers: [{{plugins: [{plugin}]}}]\n"
    assemble(loaded(text).conf, default_registry()).tiers()


TIERS = "tiers: [{plugins: [{name: proportion}"
WITHOUT_COUNTERPART = {
    "kai": {*("job_ready", "sub_job_ready", "job_pipelined", "sub_job_pipelined", "job_enqueued", "job_starving")},
    "volcano": {"on_job_solution_start"},
}
"""Points of the other dialect in whose place nothing is asked."""


def test_a_registration_that_no_action_of_the_dialect_asks_names_the_point_that_is_asked() -> None:
    found = _never_asked(f"dialect: kai\nactions: 'allocate, reclaim'\n{TIERS}, {{name: volcano/gang}}]}}]\n")
    told = {finding.message.split(" registers at ")[1].split(",")[0]: finding.advice for finding in found}
    assert told["preemptable"] == "KAI's actions ask preempt_victim_filter (KAI's AddPreemptVictimFilterFn) instead."
    assert told["job_ready"] == "KAI's actions ask nothing in its place."
    assert {finding.path for finding in found} == {"tiers[0].plugins[1]"}
    assert not _never_asked(f"actions: allocate\n{TIERS}, {{name: gang}}]}}]\n")


def _never_asked(text: str) -> list[Finding]:
    registry = default_registry()
    conf = loaded(text).conf
    found = lint(conf, catalogue_of(registry, hooks=True, conf=conf))
    return [finding for finding in found if finding.rule == "registration-never-asked"]


def test_the_points_of_one_dialect_say_what_the_other_asks_instead() -> None:
    askers = {name: {a.startswith("kai/") for a in of} for name, of in default_registry().askers().items()}
    for dialect, foreign in (("kai", {False}), ("volcano", {True})):
        assert {name for name in INSTEAD[dialect] if askers.get(name, foreign) != foreign} == set()
        left = {name for name, of in askers.items() if of == foreign} - set(INSTEAD[dialect])
        assert left == WITHOUT_COUNTERPART[dialect]
