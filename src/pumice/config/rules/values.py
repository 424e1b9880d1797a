"""Traps in what is written: arguments and settings that are read otherwise than they look."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pumice.config.catalogue import Catalogue
from pumice.config.explain import asked
from pumice.config.rules import Hit, Severity
from pumice.config.rules.chains import EVICTING, GANG_ACTIONS
from pumice.config.schema import Listed, SchedulerConf

_NUMBER: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
STRUCTURED: Final = {
    "predicates": ("volumebinding.",),
    "resource-strategy-fit": ("resources", "sra", "proportional"),
    "extender": ("extender.managedResources",),
}
"""Plugin -> beginnings of the arguments that Volcano decodes as a structure, and exits if one does not fit."""


def number_as_text(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A number stands in quotes: Pumice reads it, Volcano keeps its default."""
    for path, owner, arguments in _all_arguments(conf):
        for name, value in arguments.items():
            if _is_structured(owner, name):
                continue
            for where in _texts_with_numbers(value, f"{path}.{name}"):
                yield Hit(
                    Severity.INFO,
                    where,
                    "a number in quotes; Volcano takes only a plain number here and would keep its default",
                    "Remove the quotes if Volcano is to read this conf too.",
                )


def score_turned_off(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A plugin is listed whose whole score has the weight 0."""
    for listed in conf.listed():
        name = f"{listed.plugin.name}.weight"
        if listed.plugin.arguments.get(name) in (0, "0"):
            yield Hit(
                Severity.WARNING,
                f"{listed.path}.arguments.{name}",
                f"the weight 0 turns the score of {listed.plugin.name} off, so it ranks no node",
                "Write a weight above 0, or remove the plugin.",
            )


def fatal_argument(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """An argument has a shape at which Volcano ends its process."""
    for listed in conf.listed():
        for name, value in listed.plugin.arguments.items():
            path = f"{listed.path}.arguments.{name}"
            if name == "extender.managedResources" and not _is_list_of_texts(value):
                wanted = "a list of names, such as [example.com/gpu]"
            elif _is_structured(listed.plugin.name, name) and list(_texts_with_numbers(value, path)):
                wanted = "plain numbers, without quotes"
            else:
                continue
            yield Hit(
                Severity.INFO,
                path,
                f"Volcano takes only {wanted} here; anything else ends its process",
                f"Write {wanted}, if Volcano is to read this conf too.",
            )


def action_arguments_stick(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """An action has arguments, which Volcano keeps after they are removed."""
    for index, entry in enumerate(conf.configurations):
        if entry.arguments:
            yield Hit(
                Severity.INFO,
                f"configurations[{index}].arguments",
                f"Volcano keeps these arguments of {entry.name} after they are removed from the conf, until it "
                "restarts; Pumice goes back to the defaults",
                "In Volcano, write the default instead of removing the argument.",
            )


def arguments_of_absent_action(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """An action has arguments but does not run."""
    gang_runs = not GANG_ACTIONS.keys().isdisjoint(conf.actions)
    for index, entry in enumerate(conf.configurations):
        read_by_others = entry.name == "allocate" and gang_runs  # they share its predicateErrorCacheEnable
        if entry.name in catalogue.actions and entry.name not in conf.actions and not read_by_others:
            yield Hit(
                Severity.INFO,
                f"configurations[{index}]",
                f"{entry.name} is not among the actions, so its arguments change nothing",
                "Add the action, or remove its arguments.",
            )


def metrics_interval_fixed(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """The interval of metrics is set, which Volcano reads once."""
    if conf.metrics.get("interval"):
        yield Hit(
            Severity.INFO,
            "metrics.interval",
            "Volcano reads the interval when it starts; a changed one is not used before a restart",
            "Restart Volcano after changing it.",
        )


def volume_binding_fixed(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """An argument of volume binding is set, which Volcano reads once."""
    for _listed, name, path in _arguments_of(conf, "predicates"):
        if name.startswith("volumebinding."):
            yield Hit(
                Severity.INFO,
                path,
                f"Volcano reads {name} once per process; a changed one is not used before a restart",
                "Restart Volcano after changing it.",
            )


def deviceshare_is_global(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A switch of deviceshare is set, which Volcano keeps for the whole process."""
    for _listed, name, path in _arguments_of(conf, "deviceshare"):
        if name.endswith("Enable"):
            yield Hit(
                Severity.INFO,
                path,
                f"in Volcano {name} belongs to the process, not to the conf: removing it here does not switch it off",
                "Write false instead of removing it, and restart Volcano.",
            )


def prioritize_not_always_asked(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """An extender scores nodes, but a single candidate is not scored."""
    for listed, name, path in _arguments_of(conf, "extender"):
        if name == "extender.prioritizeVerb" and listed.plugin.arguments[name]:
            volcano = conf.compat == "volcano"
            yield Hit(
                Severity.WARNING if volcano else Severity.INFO,
                path,
                "with a single candidate node Volcano asks nobody for scores, so the extender is not called"
                + (" (compat: volcano does the same)" if volcano else ""),
                "Do not use prioritize to learn of every placement; allocateFunc is called for each.",
            )


VERB_HOOKS: Final = {"queueOverused": "overused", "prioritize": "node_order"}
"""Verbs of an extender that are not called as the hook at which they are asked is."""


def verb_never_asked(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """An extender answers what no action of this conf asks."""
    for listed, name, path in _arguments_of(conf, "extender"):
        verb = name.removeprefix("extender.").removesuffix("Verb")
        hook = catalogue.hook(VERB_HOOKS.get(verb, verb)) if name.endswith("Verb") else None
        if hook is not None and hook.asked_by is not None and listed.plugin.arguments[name] and not asked(conf, hook):
            yield Hit(
                Severity.WARNING,
                path,
                f"the extender is never called for {verb}: no action of this conf asks {hook.name}",
                f"Add an action that does ({', '.join(sorted(hook.asked_by))}), or remove the verb.",
            )


def capacity_fails_closed(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """capacity manages a tree of queues, and one bad queue stops them all in Volcano."""
    for listed in conf.listed():
        if listed.plugin.name == "capacity" and listed.plugin.flags.get("enableHierarchy"):
            yield Hit(
                Severity.INFO,
                f"{listed.path}.enableHierarchy",
                "in Volcano one bad queue (a cycle, an unknown parent, no 'root', a job in a queue with children) "
                "makes capacity refuse every job of every queue",
                "Check queues before they are created.",
            )


def predicate_cache(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """The predicate cache is on beside actions that evict."""
    if EVICTING.isdisjoint(conf.actions):
        return
    for listed, name, path in _arguments_of(conf, "predicates"):
        if name == "predicate.CacheEnable" and _is_true(listed.plugin.arguments[name]):
            yield Hit(
                Severity.INFO,
                path,
                "in Volcano a cached refusal counts as an error of the node, so no eviction is tried there",
                "Leave the cache off where preempt or reclaim must work, if Volcano runs this conf.",
            )


def dra_switch_not_read(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A documented switch of predicates has no effect."""
    for _listed, name, path in _arguments_of(conf, "predicates"):
        if name == "predicate.DynamicResourceAllocationEnable":
            yield Hit(
                Severity.WARNING,
                path,
                "this switch is documented but never read: dynamic resource allocation follows the Kubernetes gate",
                "Remove it.",
            )


def _all_arguments(conf: SchedulerConf) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """The path, the owner and the content of every ``arguments`` in the conf."""
    for listed in conf.listed():
        yield f"{listed.path}.arguments", listed.plugin.name, listed.plugin.arguments
    for index, entry in enumerate(conf.configurations):
        yield f"configurations[{index}].arguments", entry.name, entry.arguments


def _arguments_of(conf: SchedulerConf, plugin: str) -> Iterator[tuple[Listed, str, str]]:
    """Every argument of every entry of *plugin*: the entry, the argument's name and the path to it."""
    for listed in conf.listed():
        if listed.plugin.name == plugin:
            for name in listed.plugin.arguments:
                yield listed, name, f"{listed.path}.arguments.{name}"


def _texts_with_numbers(value: object, path: str) -> Iterator[str]:
    """The paths below *path* at which a text stands that reads as a number."""
    if isinstance(value, str):
        if _NUMBER.fullmatch(value):
            yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts_with_numbers(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts_with_numbers(item, f"{path}[{index}]")


def _is_structured(plugin: str, argument: str) -> bool:
    return argument.startswith(STRUCTURED.get(plugin, ()))


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value in ("1", "t", "T", "TRUE", "true", "True"))
