"""Configurations as Kubernetes objects: a ConfigMap of Volcano or KAI, and KAI's SchedulingShard.

A ConfigMap holds the conf as text. A SchedulingShard is merged over KAI's defaults, as KAI's operator does it:
``enabled`` and ``priority`` of a plugin or action change one by one, ``arguments`` replace the default ones, and the
highest priority comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Lines
from dataclasses import dataclass, field
from typing import Final

from pumice.config.catalogue import Catalogue
from pumice.config.kai import PARAMETERS, PARAMETERS_KEY, PREFIX, is_nothing
from pumice.config.schema import Position
from pumice.config.tree import ConfEntry, ConfTable, Reading, Scalar, Sequence, Tree, TreeError, join, parse_yaml
from pumice.errors import shown

CONF_MAP_KEYS: Final = ("volcano-scheduler.conf", "config.yaml")
"""The keys of a ConfigMap for the confs of Volcano and KAI; any other key will do if it is the only one."""
PLUGIN_PRIORITIES: Final = {
    "predicates": 1900,
    "proportion": 1800,
    "priority": 1700,
    "nodeavailability": 1600,
    "resourcetype": 1500,
    "podaffinity": 1400,
    "elastic": 1300,
    "kubeflow": 1200,
    "ray": 1100,
    "subgrouporder": 1000,
    "taskorder": 900,
    "nominatednode": 800,
    "dynamicresources": 700,
    "minruntime": 600,
    "topology": 500,
    "snapshot": 400,
    "sg-nodelocalgreedy": 360,
    "sg-multinodegang": 350,
    "gpupack": 300,
    "gpuspread": 300,
    "nodeplacement": 200,
    "gpusharingorder": 100,
}
"""The plugins of a SchedulingShard that names none; those of higher priority come first."""
ACTION_PRIORITIES: Final = {
    "allocate": 500,
    "consolidation": 400,
    "reclaim": 300,
    "preempt": 200,
    "stalegangeviction": 100,
}
FLAGS: Final = {
    "scheduler-name": "schedulerName",
    "restrict-node-scheduling": "restrictSchedulingNodes",
    "nodepool-label-key": "nodePoolLabelKey",
    "partition-label-value": "nodePoolLabelValue",
    "queue-label-key": "queueLabelKey",
    "max-consolidation-preemptees": "maxNumberConsolidationPreemptees",
    "detailed-fit-errors": "detailedFitErrors",
    "schedule-csi-storage": "scheduleCSIStorage",
    "use-scheduling-signatures": "useSchedulingSignatures",
    "full-hierarchy-fairness": "fullHierarchyFairness",
    "allow-consolidating-reclaim": "allowConsolidatingReclaim",
    "default-staleness-grace-period": "globalDefaultStalenessGracePeriod",
    "stuck-in-releasing-threshold": "stuckInReleasingThreshold",
}
"""Flag of KAI's scheduler that decides -> its parameter in a conf."""
_SHARD_KEYS: Final = (
    *("args", "placementStrategy", "partitionLabelValue", "queueDepthPerAction", "minRuntime", "kValue"),
    *("usageDBConfig", "plugins", "actions", "scenarioSearchBudgets"),
)
_AS_THEY_ARE: Final = ("queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets")
_STRATEGIES: Final = ("binpack", "spread")


def unwrapped(reading: Reading, tree: Tree, lines: Lines[str], catalogue: Catalogue) -> Tree:
    """Return the conf that a Kubernetes object holds; a tree that names no kind is returned as it is.

    *lines* are those of the file, or none where there is no file.
    """
    if not isinstance(tree, ConfTable) or "kind" not in tree.entries:
        return tree
    kind = _text(tree.entries["kind"].value)
    if kind.endswith("List"):
        items = reading.items(_value(tree, "items"), "items")
        if len(items) == 1:
            return unwrapped(reading, items[0], lines, catalogue)
        reading.error("wrong-kind", f"must hold one configuration, got {len(items)} objects", "items", tree.position)
    elif kind == "ConfigMap":
        return _of_config_map(reading, tree, lines)
    elif kind == "SchedulingShard":
        return _of_shard(reading, reading.table(_value(tree, "spec"), "spec"), tree.position, catalogue)
    else:
        advice = (
            "; KAI's operator reads it; the configuration of its scheduler is a SchedulingShard"
            if kind == "Config"
            else ""
        )
        message = f"must be a configuration, a ConfigMap that holds one, or a SchedulingShard, got kind {shown(kind)}"
        reading.error("wrong-kind", message + advice, "kind", tree.entries["kind"].key_position)
    return ConfTable({"dialect": _entry("kai")})  # nothing more to say about it


# -- ConfigMap ----------------------------------------------------------------------------------------------------
def _of_config_map(reading: Reading, tree: ConfTable, lines: Lines[str]) -> Tree:
    data = reading.table(_value(tree, "data"), "data").entries
    key = next((key for key in CONF_MAP_KEYS if key in data), next(iter(data)) if len(data) == 1 else "")
    if not key:
        message = f"must have a key {' or '.join(map(repr, CONF_MAP_KEYS))}, got {', '.join(data) or 'none'}"
        reading.error("wrong-kind", message, "data", tree.position)
        return ConfTable({"dialect": _entry("kai")})
    given = data[key].value
    place = _Placing(given, lines)
    try:
        found, errors, second = parse_yaml(reading.text(given, join("data", key)))
    except TreeError as error:
        raise TreeError(error.code, error.message, error.path, place.moved(error.position)) from error
    for problem in errors:
        reading.error(problem.code, problem.message, problem.path, place.moved(problem.position))
    if second is not None:
        message = "only the first YAML document is read, this one is not"
        reading.warn("second-document", message, "", place.moved(second))
    return place.tree(found)


class _Placing:
    """Moves positions of a text to where it stands in the file: below ``|``, or at its quotation mark."""

    def __init__(self, given: Tree, lines: Lines[str]) -> None:
        self._start = given.position
        self._block, self._indent = False, 0
        if given.position is not None and given.position.line < len(lines):
            self._block = lines[given.position.line - 1][given.position.column - 1 :].startswith("|")
            below = next((line for line in lines[given.position.line :] if line.strip()), "")
            self._indent = len(below) - len(below.lstrip())

    def moved(self, position: Position | None) -> Position | None:
        if position is None or self._start is None or not self._block:
            return self._start
        return Position(self._start.line + position.line, self._indent + position.column)

    def tree(self, given: Tree) -> Tree:
        at = self.moved(given.position)
        if isinstance(given, Scalar):
            inside = self.moved(given.text_position) if given.text_position is not None and self._block else None
            return Scalar(given.value, given.text, at, inside)
        if isinstance(given, Sequence):
            return Sequence(tuple(map(self.tree, given.items)), at)
        entries = {k: ConfEntry(self.tree(e.value), self.moved(e.key_position)) for k, e in given.entries.items()}
        return ConfTable(entries, at)


# -- SchedulingShard ----------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Option:
    """A plugin or an action of a shard: KAI's default, changed by what the shard says."""

    priority: int = 0
    enabled: bool = True
    arguments: dict[str, ConfEntry] = field(default_factory=dict)
    written: Position | None = None


def _of_shard(reading: Reading, spec: ConfTable, position: Position | None, catalogue: Catalogue) -> Tree:
    """Return the conf that KAI's operator writes for a shard; ``reading.names`` says where each part came from."""
    reading.warn_of_unknown_keys(spec, "spec", _SHARD_KEYS)
    plugins = {name: _Option(priority) for name, priority in PLUGIN_PRIORITIES.items()}
    actions = {name: _Option(priority) for name, priority in ACTION_PRIORITIES.items()}
    _place(reading, spec, plugins, actions)
    if "kValue" in spec.entries:
        plugins["proportion"].arguments["kValue"] = spec.entries["kValue"]
    times = _section(reading, spec, "minRuntime", ("preemptMinRuntime", "reclaimMinRuntime"))
    for key, entry in times.items():
        plugins["minruntime"].arguments[f"default{key[:1].upper()}{key[1:]}"] = entry
    _override(reading, spec, "plugins", plugins)
    _override(reading, spec, "actions", actions)
    entries = {
        "dialect": _entry("kai"),
        "actions": _entry(", ".join(_in_order(actions)), position),
        "tiers": ConfEntry(Sequence((ConfTable({"plugins": ConfEntry(_listed(reading, plugins, catalogue))}),))),
        PARAMETERS_KEY: ConfEntry(ConfTable(_parameters(reading, spec))),
    }
    for number, name in enumerate(_in_order(actions)):
        reading.names[f"actions[{number}]"] = f"spec.actions.{name}"
    for key in _AS_THEY_ARE:
        if key in spec.entries:
            entries[key] = spec.entries[key]
            reading.names[key] = f"spec.{key}"
    return ConfTable(entries, position)


def _place(reading: Reading, spec: ConfTable, plugins: dict[str, _Option], actions: dict[str, _Option]) -> None:
    """Apply ``placementStrategy``: it chooses plugins, and consolidation would undo what spreads."""
    given = _section(reading, spec, "placementStrategy", ("gpu", "cpu"))
    texts: dict[str, str] = {}
    for key in ("gpu", "cpu"):
        entry = plugins["nodeplacement"].arguments[key] = given.get(key, _entry(_STRATEGIES[0]))
        texts[key] = _text(entry.value)
        if texts[key] not in _STRATEGIES:
            message = f"must be {' or '.join(_STRATEGIES)}, got {shown(texts[key])}"
            at = f"spec.placementStrategy.{key}"
            reading.error("wrong-value", message, at, entry.value.position, texts[key], _STRATEGIES)
    packs = texts["gpu"] == _STRATEGIES[0]
    plugins["gpusharingorder"].enabled = plugins["gpupack"].enabled = packs
    plugins["gpuspread"].enabled = not packs
    actions["consolidation"].enabled = "spread" not in texts.values()


def _override(reading: Reading, spec: ConfTable, section: str, options: dict[str, _Option]) -> None:
    """Change options field by field as the shard says; a name that KAI does not have is one more."""
    keys = ("enabled", "priority", "arguments") if section == "plugins" else ("enabled", "priority")
    for name, entry in reading.table(_value(spec, section), f"spec.{section}").entries.items():
        option = options.setdefault(name, _Option())
        option.written = entry.key_position
        at = f"spec.{section}.{name}"
        table = reading.table(entry.value, at)
        reading.warn_of_unknown_keys(table, at, keys)
        enabled, priority, arguments = (_value(table, key) for key in ("enabled", "priority", "arguments"))
        if not is_nothing(enabled):
            value = enabled.value if isinstance(enabled, Scalar) else None
            if isinstance(value, bool):
                option.enabled = value
            elif enabled is not None:
                reading.wrong_type(enabled, join(at, "enabled"), "true or false")
        if not is_nothing(priority):
            value = priority.value if isinstance(priority, Scalar) else None
            if isinstance(value, int) and not isinstance(value, bool):
                option.priority = value
            elif priority is not None:
                reading.wrong_type(priority, join(at, "priority"), "a whole number")
        if not is_nothing(arguments) and section == "plugins":
            option.arguments = dict(reading.table(arguments, join(at, "arguments")).entries)


def _in_order(options: Mapping[str, _Option]) -> list[str]:
    return sorted((n for n, option in options.items() if option.enabled), key=lambda n: (-options[n].priority, n))


def _listed(reading: Reading, plugins: Mapping[str, _Option], catalogue: Catalogue) -> Sequence:
    """Return the plugins in their order, without defaults of KAI that decide nothing and do not exist here."""
    items: list[Tree] = []
    for name in _in_order(plugins):
        option = plugins[name]
        if option.written is None and PREFIX + name not in catalogue.plugins:
            continue
        reading.names[f"tiers[0].plugins[{len(items)}]"] = f"spec.plugins.{name}"
        entries = {"name": _entry(name, option.written), "arguments": ConfEntry(ConfTable(option.arguments))}
        items.append(ConfTable(entries, option.written))
    return Sequence(tuple(items))


def _parameters(reading: Reading, spec: ConfTable) -> dict[str, ConfEntry]:
    """Return what the shard passes to KAI's scheduler as flags, as parameters of a conf."""
    found = {"nodePoolLabelValue": spec.entries.get("partitionLabelValue", _entry(""))}
    for flag, entry in reading.table(_value(spec, "args"), "spec.args").entries.items():
        name = FLAGS.get(flag)
        if name is None:
            message = f"{flag!r} is a flag of KAI's process and decides nothing; `pumice run` has settings of its own"
            reading.warn("unused-key", message, f"spec.args.{flag}", entry.key_position)
            continue
        text = _text(entry.value)
        value: bool | int | str = text
        if PARAMETERS[name] is bool and text in ("true", "false"):
            value = text == "true"
        elif PARAMETERS[name] is int and text.lstrip("-").isdecimal():
            value = int(text)
        found[name] = ConfEntry(Scalar(value, text, entry.value.position), entry.key_position)
        reading.names[join(PARAMETERS_KEY, name)] = f"spec.args.{flag}"
    return found


# -- trees --------------------------------------------------------------------------------------------------------
def _section(reading: Reading, spec: ConfTable, key: str, known: Lines[str]) -> Mapping[str, ConfEntry]:
    """Return the entries of a mapping of the shard that are known and say something."""
    table = reading.table(_value(spec, key), f"spec.{key}")
    reading.warn_of_unknown_keys(table, f"spec.{key}", known)
    return {name: e for name, e in table.entries.items() if name in known and not is_nothing(e.value)}


def _value(table: ConfTable, key: str) -> Tree | None:
    entry = table.entries.get(key)
    return entry.value if entry is not None else None


def _text(tree: Tree) -> str:
    return tree.text if isinstance(tree, Scalar) else ""


def _entry(text: str, position: Position | None = None) -> ConfEntry:
    return ConfEntry(Scalar(text, text, position), position)
