"""Traps of single plugins: what each needs beside it, or does otherwise than one expects; and traps of KAI's confs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pumice.config.catalogue import Catalogue
from pumice.config.explain import taking_part
from pumice.config.kai import PREFIX, SETTINGS, USAGE_KEY
from pumice.config.rules import Hit, Severity
from pumice.config.rules.chains import EVICTING
from pumice.config.schema import Listed, SchedulerConf


def numa_never_evicts(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """numa-aware stands beside actions that evict, which never do so for CPUs of one NUMA node."""
    evicting = [action for action in conf.actions if action in EVICTING]
    for listed in conf.listed():
        if listed.plugin.name == "numa-aware" and evicting:
            yield Hit(
                Severity.INFO,
                listed.path,
                f"{evicting[0]} evicts nobody on nodes that lack CPUs in the right NUMA nodes, here as in Volcano",
                "Give pods that need a NUMA policy nodes of their own, or enough of them.",
            )


_SWITCHES: Final = tuple(f"deviceshare.{name}Enable" for name in ("VGPU", "GPUSharing", "GPUNumber"))


def deviceshare_shares_nothing(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """deviceshare has no switch on, or a policy for nodes that has no weight."""
    for listed in conf.listed():
        if listed.plugin.name != "deviceshare":
            continue
        arguments = listed.plugin.arguments
        if not any(arguments.get(switch) not in (None, False, "false", 0) for switch in _SWITCHES):
            yield Hit(
                Severity.WARNING,
                listed.path,
                "no switch of deviceshare is on, so it does nothing",
                f"Set one of {', '.join(_SWITCHES)}.",
            )
        elif arguments.get("deviceshare.SchedulePolicy") and not arguments.get("deviceshare.ScheduleWeight"):
            yield Hit(
                Severity.INFO,
                f"{listed.path}.arguments.deviceshare.SchedulePolicy",
                "without a weight the policy chooses among the cards of a node, not among nodes",
                "Set deviceshare.ScheduleWeight, if nodes are to be chosen by it too.",
            )


def geometries_not_read(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """deviceshare is told of a ConfigMap with MIG geometries, which only Volcano reads."""
    for listed in conf.listed():
        for name in ("deviceshare.KnownGeometriesCMName", "deviceshare.KnownGeometriesCMNamespace"):
            if listed.plugin.name == "deviceshare" and name in listed.plugin.arguments:
                yield Hit(
                    Severity.WARNING,
                    f"{listed.path}.arguments.{name}",
                    "the ConfigMap is read by Volcano alone: here the conf itself says how MIG cards are cut",
                    "Copy its knownMigGeometries into deviceshare.KnownMigGeometries.",
                )


def weight_of_an_unlisted_resource(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A resource has a weight and is not in the list of those that count."""
    for listed in conf.listed():
        prefix = {"binpack": "binpack.resources", "network-topology-aware": "hypernode.binpack.resources"}.get(
            listed.plugin.name
        )
        if prefix is None:
            continue
        written = listed.plugin.arguments.get(prefix) or ""
        counted = {name.strip() for name in str(written).split(",")}
        for key in listed.plugin.arguments:
            name = key.removeprefix(f"{prefix}.")
            if key != name and name not in counted:
                yield Hit(
                    Severity.WARNING,
                    f"{listed.path}.arguments.{key}",
                    f"{name} has a weight, and {prefix} does not name it: it does not count",
                    f"Add it: {prefix}: {', '.join(sorted({*counted, name} - {''}))}.",
                )


def tdm_without_zones(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """tdm knows no zone, or one whose hours Volcano ends at midnight."""
    for listed in conf.listed():
        if listed.plugin.name != "tdm":
            continue
        zones = {k: v for k, v in listed.plugin.arguments.items() if k.startswith("tdm.revocable-zone.")}
        if not zones:
            yield Hit(
                Severity.WARNING,
                listed.path,
                "no zone has hours, so nodes of a revocable zone are for nobody, at any time",
                "Set tdm.revocable-zone.NAME to hours such as 22:00-06:00.",
            )
        for key, hours in zones.items():
            begins, _, ends = str(hours).partition("-")
            if ends and ends <= begins:
                yield Hit(
                    Severity.INFO,
                    f"{listed.path}.arguments.{key}",
                    f"in Volcano a window that crosses midnight ends there: {hours} is over at 00:00",
                    "Give the hours after midnight a zone and nodes of their own, if Volcano runs this conf.",
                )


def pdb_drops_unlabelled(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """pdb is on, which in Volcano shields pods that have no labels."""
    if EVICTING.isdisjoint(conf.actions):
        return
    for listed in conf.listed():
        if listed.plugin.name == "pdb":
            yield Hit(
                Severity.INFO,
                listed.path,
                "in Volcano pdb drops pods without labels from the victims, so they are never preempted or reclaimed",
                "Give every pod a label, if Volcano runs this conf.",
            )


def rescheduling_period(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """rescheduling reads a period of metrics that Volcano does not collect."""
    for listed in conf.listed():
        if listed.plugin.name == "rescheduling" and listed.plugin.arguments.get("metricsPeriod") != "10m":
            period = listed.plugin.arguments.get("metricsPeriod", "5m")
            yield Hit(
                Severity.INFO,
                f"{listed.path}.arguments.metricsPeriod",
                f"Volcano collects usage for '10m' only, and rescheduling reads {period!r}: every node there "
                "looks idle",
                "Set metricsPeriod: 10m, if Volcano runs this conf.",
            )


def rescheduling_thresholds(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A threshold of rescheduling is not whole, or is one that nobody looks at."""
    for listed in conf.listed():
        strategies = listed.plugin.arguments.get("strategies")
        if listed.plugin.name != "rescheduling" or not isinstance(strategies, list):
            continue
        for index, strategy in enumerate(strategies):
            params = strategy.get("params") if isinstance(strategy, dict) else None
            for group in ("thresholds", "targetThresholds"):
                given = params.get(group) if isinstance(params, dict) else None
                for resource, value in given.items() if isinstance(given, dict) else ():
                    path = f"{listed.path}.arguments.strategies[{index}].params.{group}.{resource}"
                    if resource == "pods":
                        message, advice = "the threshold for pods is never looked at", "Remove it."
                    elif isinstance(value, bool) or not isinstance(value, int):
                        message, advice = f"Volcano reads only whole numbers as thresholds, got {value!r}", "Round it."
                    else:
                        continue
                    yield Hit(Severity.WARNING, path, message, advice)


def shuffle_is_missing(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A plugin names pods that should leave, and no action evicts them."""
    if "shuffle" in conf.actions:
        return
    for listed in conf.listed():
        if listed.plugin.name in ("rescheduling", "tdm"):
            what = "lent nodes are never taken back" if listed.plugin.name == "tdm" else "no pod is ever moved"
            yield Hit(
                Severity.WARNING,
                listed.path,
                f"{listed.plugin.name} names pods that should leave, and only the action shuffle evicts them: {what}",
                "Add the action shuffle.",
            )


def metrics_not_collected(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """The measurements come from where Pumice does not ask."""
    kind = conf.metrics.get("type")
    if kind and kind not in ("prometheus", "metrics-server"):
        yield Hit(
            Severity.WARNING,
            "metrics.type",
            f"Volcano's {kind}, not in Pumice: see docs/limits.md#operating; nodes count as not measured",
            "Use prometheus or metrics-server.",
        )


def usage_without_metrics(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """usage needs metrics: a node without fresh ones scores 0, below every loaded node."""
    for listed in conf.listed():
        if listed.plugin.name != "usage":
            continue
        if not conf.metrics.get("type"):
            yield Hit(
                Severity.WARNING,
                listed.path,
                "metrics.type is not set, so nothing is measured: nodes are scored by what their pods ask for",
                "Set metrics.type and metrics.address, or remove the plugin.",
            )
        else:
            yield Hit(
                Severity.INFO,
                listed.path,
                "in Volcano a node whose metrics are missing or older than 5 minutes scores 0, below a loaded node",
                "Watch that every node is measured.",
            )


SEARCHING: Final = ("consolidation", "reclaim", "preempt")
"""Actions that look for victims."""
_GENERATORS: Final = "sg-nodelocalgreedy and sg-multinodegang"


def searches_nothing(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """Actions look for victims, and no plugin says where to look."""
    hook = catalogue.hook("ScenarioGenerator")
    if hook is None or taking_part(conf, hook):
        return
    for n, action in enumerate(conf.actions):
        if action.removeprefix(PREFIX) in SEARCHING:
            yield Hit(
                Severity.WARNING,
                f"actions[{n}]",
                f"{action.removeprefix(PREFIX)!r} evicts and moves nobody: no plugin of this conf gives scenarios",
                f"List the plugins {_GENERATORS}, which stand in KAI's own list.",
            )


def reclaims_nothing(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """No plugin allows a reclaim, so every reclaim is rejected."""
    hook = catalogue.hook("CanReclaimResources")
    at = _action(conf, "reclaim")
    if hook is not None and at is not None and not taking_part(conf, hook):
        yield Hit(
            Severity.WARNING,
            f"actions[{at}]",
            "'reclaim' evicts nobody: no plugin of this conf says what queues are entitled to",
            "List the plugin proportion.",
        )


def packs_what_is_spread(conf: SchedulerConf, _: Catalogue) -> Iterator[Hit]:
    """Work is spread when it starts, and moved together afterwards."""
    at = _action(conf, "consolidation")
    for listed in conf.listed() if at is not None else ():
        ways = [k for k in ("cpu", "gpu") if listed.plugin.arguments.get(k) == "spread"]
        if _is(listed, "gpuspread") or (_is(listed, "nodeplacement") and ways):
            yield Hit(
                Severity.INFO,
                listed.path,
                f"{listed.plugin.name.removeprefix(PREFIX)!r} spreads work that 'consolidation' moves together",
                "Leave one of them out; KAI's operator leaves out consolidation where a strategy is spread.",
            )


def packs_and_spreads(conf: SchedulerConf, _: Catalogue) -> Iterator[Hit]:
    """GPUs are scored for being full and for being empty: the sum says nothing."""
    packing = [listed for listed in conf.listed() if _is(listed, "gpupack")]
    for listed in conf.listed() if packing else ():
        if _is(listed, "gpuspread"):
            yield Hit(
                Severity.WARNING,
                listed.path,
                "'gpuspread' and 'gpupack' cancel each other: every GPU scores the same",
                "Leave one of them out.",
            )


def past_use_is_not_counted(conf: SchedulerConf, _: Catalogue) -> Iterator[Hit]:
    """A weight for past use is set, and no past use is counted."""
    if _settings(conf).get(USAGE_KEY) is not None:
        return
    for listed in conf.listed():
        if _is(listed, "proportion") and "kValue" in listed.plugin.arguments:
            yield Hit(
                Severity.INFO,
                f"{listed.path}.arguments.kValue",
                "past use is counted only with usageDBConfig, so kValue changes nothing",
                "Add usageDBConfig (an empty one has KAI's defaults), or remove the argument.",
            )


def depth_of_absent_action(conf: SchedulerConf, _: Catalogue) -> Iterator[Hit]:
    """A depth is set for an action that the conf does not run."""
    depths = _settings(conf).get("queueDepthPerAction")
    for name in depths if isinstance(depths, Mapping) else ():
        if _action(conf, str(name)) is None:
            yield Hit(
                Severity.WARNING,
                "queueDepthPerAction",
                f"a depth is set for {name!r}, and no such action is in this conf",
                "Correct the name, add the action, or remove the depth.",
            )


def _settings(conf: SchedulerConf) -> Mapping[str, object]:
    return conf.action_arguments(SETTINGS)


def _action(conf: SchedulerConf, name: str) -> int | None:
    return next((n for n, action in enumerate(conf.actions) if action.removeprefix(PREFIX) == name), None)


def _is(listed: Listed, name: str) -> bool:
    return listed.plugin.name == PREFIX + name
