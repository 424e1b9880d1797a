"""Known traps that a conf can show. Every rule stands in one table and has an example in docs/configuration.md."""

from __future__ import annotations

from typing import Final

from pumice.config.catalogue import Catalogue
from pumice.config.kai import DIALECTS
from pumice.config.rules import Finding, LintRule, chains, plugins, values
from pumice.config.schema import Position, SchedulerConf

RULES: Final = (
    LintRule("hierarchy-with-proportion", chains.hierarchy_with_proportion),
    LintRule("flag-without-effect", chains.flag_without_effect, DIALECTS),
    LintRule("plugin-never-asked", chains.plugin_never_asked, DIALECTS),
    LintRule("registration-never-asked", chains.registration_never_asked, DIALECTS),
    LintRule("veto-overridden", chains.veto_overridden),
    LintRule("permit-hides-votes", chains.permit_hides_votes),
    LintRule("action-evicts-nobody", chains.action_evicts_nobody),
    LintRule("left-out-of-gang-eviction", chains.left_out_of_gang_eviction),
    LintRule("cooldown-not-kept", chains.cooldown_not_kept),
    LintRule("gangs-not-kept", chains.gangs_not_kept),
    LintRule("gang-ignores-never", chains.gang_ignores_never),
    LintRule("topology-never-preempts", chains.topology_never_preempts),
    LintRule("topology-not-served", chains.topology_not_served),
    LintRule("no-strict-fifo", chains.no_strict_fifo),
    LintRule("capacity-has-no-overused", chains.capacity_has_no_overused),
    LintRule("capacity-fails-closed", values.capacity_fails_closed),
    LintRule("number-as-text", values.number_as_text),
    LintRule("score-turned-off", values.score_turned_off),
    LintRule("fatal-argument", values.fatal_argument),
    LintRule("action-arguments-stick", values.action_arguments_stick),
    LintRule("arguments-of-absent-action", values.arguments_of_absent_action),
    LintRule("metrics-interval-fixed", values.metrics_interval_fixed),
    LintRule("volume-binding-fixed", values.volume_binding_fixed),
    LintRule("deviceshare-is-global", values.deviceshare_is_global),
    LintRule("deviceshare-shares-nothing", plugins.deviceshare_shares_nothing),
    LintRule("geometries-not-read", plugins.geometries_not_read),
    LintRule("weight-of-an-unlisted-resource", plugins.weight_of_an_unlisted_resource),
    LintRule("tdm-without-zones", plugins.tdm_without_zones),
    LintRule("verb-never-asked", values.verb_never_asked),
    LintRule("prioritize-not-always-asked", values.prioritize_not_always_asked),
    LintRule("pdb-drops-unlabelled", plugins.pdb_drops_unlabelled),
    LintRule("rescheduling-period", plugins.rescheduling_period),
    LintRule("rescheduling-thresholds", plugins.rescheduling_thresholds),
    LintRule("shuffle-is-missing", plugins.shuffle_is_missing),
    LintRule("metrics-not-collected", plugins.metrics_not_collected),
    LintRule("usage-without-metrics", plugins.usage_without_metrics),
    LintRule("numa-never-evicts", plugins.numa_never_evicts),
    LintRule("predicate-cache", values.predicate_cache),
    LintRule("dra-switch-not-read", values.dra_switch_not_read),
    LintRule("kai-searches-nothing", plugins.searches_nothing, ("kai",)),
    LintRule("kai-reclaims-nothing", plugins.reclaims_nothing, ("kai",)),
    LintRule("kai-packs-what-is-spread", plugins.packs_what_is_spread, ("kai",)),
    LintRule("kai-packs-and-spreads", plugins.packs_and_spreads, ("kai",)),
    LintRule("kai-past-use-is-not-counted", plugins.past_use_is_not_counted, ("kai",)),
    LintRule("kai-depth-of-absent-action", plugins.depth_of_absent_action, ("kai",)),
)


def lint(conf: SchedulerConf, catalogue: Catalogue) -> list[Finding]:
    """Every trap that *conf* steps into, in the order of the file, then of the table.

    Rules about who answers what need ``catalogue.hooks``; without them they find nothing.
    """
    findings = [
        Finding(rule.name, hit.severity, hit.path, conf.position(hit.path), hit.message, hit.advice)
        for rule in RULES
        if conf.dialect in rule.dialects
        for hit in rule.check(conf, catalogue)
    ]
    return sorted(findings, key=lambda finding: finding.position or Position(0, 0))
