"""Traps of confs of KAI-Scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pumice.config.catalogue import Catalogue
from pumice.config.explain import taking_part
from pumice.config.findings import Hit, Severity
from pumice.config.kai import PREFIX, SETTINGS, USAGE_KEY
from pumice.config.schema import Listed, SchedulerConf

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
    """Nobody says who may reclaim, so nobody may."""
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
