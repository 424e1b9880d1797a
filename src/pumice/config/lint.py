"""Known traps that a conf can show. Every rule stands in one table and has an example in docs/configuration.md."""

from __future__ import annotations

from typing import Final

from pumice.config.catalogue import Catalogue
from pumice.config.findings import Finding, Rule
from pumice.config.rules import chains, values
from pumice.config.schema import Position, SchedulerConf

RULES: Final = (
    Rule("hierarchy-with-proportion", chains.hierarchy_with_proportion),
    Rule("flag-without-effect", chains.flag_without_effect),
    Rule("plugin-never-asked", chains.plugin_never_asked),
    Rule("veto-overridden", chains.veto_overridden),
    Rule("permit-hides-votes", chains.permit_hides_votes),
    Rule("action-evicts-nobody", chains.action_evicts_nobody),
    Rule("left-out-of-gang-eviction", chains.left_out_of_gang_eviction),
    Rule("gang-ignores-never", chains.gang_ignores_never),
    Rule("topology-never-preempts", chains.topology_never_preempts),
    Rule("topology-not-served", chains.topology_not_served),
    Rule("no-strict-fifo", chains.no_strict_fifo),
    Rule("capacity-has-no-overused", chains.capacity_has_no_overused),
    Rule("capacity-fails-closed", values.capacity_fails_closed),
    Rule("number-as-text", values.number_as_text),
    Rule("fatal-argument", values.fatal_argument),
    Rule("action-arguments-stick", values.action_arguments_stick),
    Rule("arguments-of-absent-action", values.arguments_of_absent_action),
    Rule("metrics-interval-fixed", values.metrics_interval_fixed),
    Rule("volume-binding-fixed", values.volume_binding_fixed),
    Rule("deviceshare-is-global", values.deviceshare_is_global),
    Rule("verb-never-asked", values.verb_never_asked),
    Rule("prioritize-not-always-asked", values.prioritize_not_always_asked),
    Rule("pdb-drops-unlabelled", values.pdb_drops_unlabelled),
    Rule("rescheduling-period", values.rescheduling_period),
    Rule("rescheduling-thresholds", values.rescheduling_thresholds),
    Rule("usage-without-metrics", values.usage_without_metrics),
    Rule("predicate-cache", values.predicate_cache),
    Rule("dra-switch-not-read", values.dra_switch_not_read),
)


def lint(conf: SchedulerConf, catalogue: Catalogue) -> list[Finding]:
    """Every trap that *conf* steps into, in the order of the file, then of the table.

    Rules about who answers what need ``catalogue.hooks``; without them they find nothing.
    """
    findings = [
        Finding(rule.name, hit.severity, hit.path, conf.position(hit.path), hit.message, hit.advice)
        for rule in RULES
        for hit in rule.check(conf, catalogue)
    ]
    return sorted(findings, key=lambda finding: finding.position or Position(0, 0))
