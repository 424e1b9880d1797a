"""KAI-Scheduler's conf: how it is told from Volcano's, its defaults, and what of it becomes of the settings here.

Plugins and actions of one name in both worlds are two. In a conf of KAI a bare name is KAI's, in any other Volcano's;
``kai/NAME`` and ``volcano/NAME`` name one from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pumice.config.catalogue import Catalogue
from pumice.config.cron import CronSchedule
from pumice.config.durations import SECOND, parse_duration
from pumice.config.schema import ActionConf, PluginConf, Tier
from pumice.config.tree import ConfEntry, ConfTable, Reading, Scalar, Sequence, Tree, join, plain
from pumice.errors import InvalidInput

DIALECTS: Final = ("volcano", "kai")
PREFIX: Final = "kai/"
_VOLCANO: Final = "volcano/"
OWN_KEYS: Final = ("queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets")
"""Keys that only a conf of KAI has."""
PARAMETERS_KEY: Final = "schedulerParams"
BUDGETS_KEY: Final = "scenarioSearchBudgets"
USAGE_KEY: Final = "usageDBConfig"
BUDGETS: Final[dict[str, tuple[str, ...]]] = {
    "maxActionSearchDuration": ("default", "reclaim", "preempt", "consolidation"),
    "maxJobSearchDuration": (),
    "minJobSearchDuration": (),
    "maxGeneratorSearchDuration": ("default", "NodeLocalGreedy", "MultiNodeGang"),
}
"""Budget -> the names that it may be given for; none: one for all."""
WINDOWS: Final = ("sliding", "tumbling", "cron")
USAGE_UNUSED: Final = ("fetchInterval", "stalenessPeriod", "waitTimeout", "extraParams")
USAGE_PARAMETERS: Final = (
    *("windowSize", "windowType", "halfLifePeriod", "tumblingWindowStartTime", "cronString"),
    *USAGE_UNUSED,
)
KEYS: Final = (*OWN_KEYS, PARAMETERS_KEY)
SETTINGS: Final = "kai"
"""The entry of ``configurations`` that holds what is set for all of KAI's actions."""
_TELLING_ACTIONS: Final = ("consolidation", "stalegangeviction")
_TELLING_PLUGINS: Final = (
    *("elastic", "kubeflow", "ray", "nodeavailability", "gpusharingorder", "resourcetype", "subgrouporder"),
    *("taskorder", "nominatednode", "dynamicresources", "nodeplacement", "minruntime", "snapshot"),
    *("sg-nodelocalgreedy", "sg-multinodegang", "reflectjoborder", "numa", "podaffinity"),
)
DEFAULT_ACTIONS: Final = "allocate, consolidation, reclaim, preempt, stalegangeviction"
DEFAULT_PLUGINS: Final = (
    *("predicates", "proportion", "priority", "elastic", "kubeflow", "ray", "nodeavailability", "gpusharingorder"),
    *("gpupack", "resourcetype", "subgrouporder", "taskorder", "nominatednode", "dynamicresources", "nodeplacement"),
    *("minruntime", "topology", "snapshot", "sg-nodelocalgreedy", "sg-multinodegang"),
)
"""KAI's list of plugins where a conf has none."""
VOLCANO_ACTIONS: Final = (
    *("enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle"),
    *("gangpreempt", "gangreclaim", "easybackfill"),
)
"""Actions that work on Volcano's view of a cluster."""
ANYWHERE: Final = ("kubeflow", "priority", "ray", "taskorder")
"""Plugins of KAI that look at jobs and tasks only, so that they serve Volcano's actions too."""
WITHOUT_EFFECT: Final = {
    "snapshot": "decides nothing; `pumice cycle save` saves a cycle",
    "reflectjoborder": "decides nothing; `pumice why --all` tells the order",
}
PARAMETERS: Final[dict[str, type]] = {
    "maxNumberConsolidationPreemptees": int,
    "allowConsolidatingReclaim": bool,
    "useSchedulingSignatures": bool,
    "globalDefaultStalenessGracePeriod": str,
    "stuckInReleasingThreshold": str,
    "fullHierarchyFairness": bool,
    "restrictSchedulingNodes": bool,
    "scheduleCSIStorage": bool,
    "detailedFitErrors": bool,
    "queueLabelKey": str,
    "nodePoolLabelKey": str,
    "nodePoolLabelValue": str,
    "schedulerName": str,
}
"""Flags of KAI's scheduler, which may stand in the conf here."""
UNUSED_PARAMETERS: Final = {
    "scheduleCSIStorage": "the capacity of storage is not looked at",
    "detailedFitErrors": "`pumice why --all` and `pumice why` tell all details",
    "schedulerName": "whose pods are scheduled is said by --scheduler-name",
}
"""Flag of KAI's -> why it has no effect here."""


def dialect_of(top: ConfTable, given: str) -> str:
    """The dialect of a conf: the written one, else the one of its names."""
    if given:
        return given
    if any(key in top.entries for key in (*OWN_KEYS, PARAMETERS_KEY)):
        return "kai"
    actions = top.entries.get("actions")
    if actions is not None and isinstance(actions.value, Scalar):
        names = [name.strip() for name in actions.value.text.split(",")]
        if any(name in _TELLING_ACTIONS for name in names):
            return "kai"
    return "kai" if any(name in _TELLING_PLUGINS for name in _plugin_names(top)) else "volcano"


def _plugin_names(top: ConfTable) -> list[str]:
    tiers = top.entries.get("tiers")
    found: list[str] = []
    for tier in tiers.value.items if tiers is not None and isinstance(tiers.value, Sequence) else ():
        plugins = tier.entries.get("plugins") if isinstance(tier, ConfTable) else None
        for plugin in plugins.value.items if plugins is not None and isinstance(plugins.value, Sequence) else ():
            name = plugin.entries.get("name") if isinstance(plugin, ConfTable) else None
            if name is not None and isinstance(name.value, Scalar):
                found.append(name.value.text)
    return found


def resolve(name: str, dialect: str, known: Mapping[str, object]) -> str:
    """The name under which the plugin or action that a conf of a dialect means is known."""
    if name.startswith(_VOLCANO):
        return name[len(_VOLCANO) :]
    if dialect == "kai" and PREFIX + name in known:
        return PREFIX + name
    return name


def written(name: str, dialect: str) -> str:
    """Return the name of a plugin or action as a conf of the dialect writes it."""
    return name.removeprefix(PREFIX) if dialect == "kai" else name


def of_dialect(names: Iterable[str], dialect: str) -> list[str]:
    """The names of one world as a conf of it writes them."""
    if dialect == "kai":
        return [name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)]
    return [name for name in names if not name.startswith(PREFIX)]


def foreign(name: str, dialect: str, known: Mapping[str, object], *, action: bool) -> str:
    """Why a plugin or action cannot serve a conf of a dialect; nothing where it can, or does not exist."""
    if name not in known:
        return ""
    of_kai = name.startswith(PREFIX)
    if action and (of_kai if dialect != "kai" else name in VOLCANO_ACTIONS and PREFIX + "allocate" in known):
        return f"action {name!r}: actions of KAI and of Volcano keep two views of a cluster; a conf has those of one"
    if of_kai and dialect != "kai" and name[len(PREFIX) :] not in ANYWHERE:
        others = f"elsewhere work: {', '.join(ANYWHERE)}"
        return f"plugin {name!r} reads what only KAI's actions keep ({others}); set dialect: kai"
    return ""


def default_tier(catalogue: Catalogue) -> Tier:
    """KAI's own list of plugins, as far as they exist here."""
    names = [PREFIX + name for name in DEFAULT_PLUGINS if PREFIX + name in catalogue.plugins]
    return Tier(tuple(PluginConf(name, {}, {}, None, catalogue.flags) for name in names))


def missing(name: str, dialect: str) -> str:
    """The message about a plugin that a conf of KAI lists and that does not exist; empty for any other."""
    if dialect != "kai" or name not in (*DEFAULT_PLUGINS, "reflectjoborder"):
        return ""
    return f"plugin {name!r} of KAI-Scheduler {WITHOUT_EFFECT.get(name, 'does not exist here, so it is passed by')}"


def warn_of_switch(reading: Reading, key: str, entry: ConfEntry, path: str) -> bool:
    """Warn of a switch that KAI reads and ignores; False for another key."""
    if not key.casefold().startswith("disable"):
        return False
    reading.warn("ignored-switch", f"{key!r} is a switch that KAI ignores, and so does this", path, entry.key_position)
    return True


def settings(reading: Reading, top: ConfTable) -> ActionConf | None:
    """The settings of a conf of KAI's for all its actions, or None without any."""
    found: dict[str, object] = {}
    checks = {
        PARAMETERS_KEY: _check_parameters,
        "queueDepthPerAction": _check_depths,
        BUDGETS_KEY: _check_budgets,
        USAGE_KEY: _check_usage,
    }
    for key, check in checks.items():
        entry = top.entries.get(key)
        if entry is not None and not is_nothing(entry.value):
            table = reading.table(entry.value, key)
            found[key] = {k: plain(e.value) for k, e in table.entries.items()}
            check(reading, table)
    return ActionConf(SETTINGS, found) if found else None


def _check_parameters(reading: Reading, table: ConfTable) -> None:
    reading.warn_of_unknown_keys(table, PARAMETERS_KEY, PARAMETERS)
    for key, entry in table.entries.items():
        wanted = PARAMETERS.get(key)
        if wanted is None:
            continue
        path = join(PARAMETERS_KEY, key)
        value = entry.value.value if isinstance(entry.value, Scalar) else None
        if wanted is bool and not isinstance(value, bool):
            reading.wrong_type(entry.value, path, "true or false")
        elif wanted is int and (not isinstance(value, int) or isinstance(value, bool)):
            reading.wrong_type(entry.value, path, "a whole number")
        elif key in UNUSED_PARAMETERS and value:
            message = f"{key!r} is read and has no effect: {UNUSED_PARAMETERS[key]}"
            reading.warn("unused-key", message, path, entry.key_position)
        elif key in ("globalDefaultStalenessGracePeriod", "stuckInReleasingThreshold"):
            try:
                parse_duration(reading.text(entry.value, path), days=True)
            except InvalidInput as exc:
                reading.error("wrong-value", str(exc), path, entry.value.position)


def _check_budgets(reading: Reading, table: ConfTable) -> None:
    reading.warn_of_unknown_keys(table, BUDGETS_KEY, BUDGETS)
    times: dict[str, int] = {}
    for key, entry in table.entries.items():
        path, names = join(BUDGETS_KEY, key), BUDGETS.get(key)
        if names is None or not names:
            times[key] = _duration(reading, entry.value, path, least=0) if names is not None else 0
            continue
        for name, each in reading.table(entry.value, path).entries.items():
            if name not in names:  # KAI skips every cycle then
                message = f"unknown name {name!r} (known: {', '.join(names)})"
                reading.error("unknown-key", message, join(path, name), each.key_position, name, names)
            _duration(reading, each.value, join(path, name), least=0)
    most = times.get("maxJobSearchDuration", 240 * SECOND)
    if most > 0 and times.get("minJobSearchDuration", 0) >= most:
        entry = table.entries["minJobSearchDuration"]
        message = "must be below maxJobSearchDuration, or KAI's actions do nothing"
        reading.error("wrong-value", message, join(BUDGETS_KEY, "minJobSearchDuration"), entry.value.position)


def _check_usage(reading: Reading, table: ConfTable) -> None:
    reading.warn_of_unknown_keys(
        table, USAGE_KEY, ("clientType", "connectionString", "connectionStringEnvVar", "usageParams")
    )
    for key in ("clientType", "connectionString", "connectionStringEnvVar"):
        if key in table.entries:
            message = f"{key!r} is read and not used: the scheduler keeps its own account of past use"
            reading.warn("unused-key", message, join(USAGE_KEY, key), table.entries[key].key_position)
    entry = table.entries.get("usageParams")
    path = join(USAGE_KEY, "usageParams")
    params = reading.table(entry.value if entry is not None else None, path)
    reading.warn_of_unknown_keys(params, path, USAGE_PARAMETERS)
    for key, each in params.entries.items():
        at = join(path, key)
        if key in ("windowSize", "halfLifePeriod"):
            _duration(reading, each.value, at, least=1)
        elif key == "windowType" and (text := reading.text(each.value, at)) not in WINDOWS:
            message = f"must be one of {', '.join(WINDOWS)}, got {text!r}"
            reading.error("wrong-value", message, at, each.value.position, text, WINDOWS)
        elif key in USAGE_UNUSED:
            reading.warn("unused-key", f"{key!r} is read and not used: no database is asked", at, each.key_position)
    _check_cron(reading, params, path)


def _check_cron(reading: Reading, params: ConfTable, path: str) -> None:
    """Windows by cron need to know when they begin."""
    kind, entry = params.entries.get("windowType"), params.entries.get("cronString")
    by_cron = kind is not None and isinstance(kind.value, Scalar) and kind.value.value == "cron"
    at = join(path, "cronString")
    if entry is None:
        if by_cron and kind is not None:
            message = "windows by cron begin when cronString says, which is missing"
            reading.error("wrong-value", message, join(path, "windowType"), kind.value.position)
        return
    if not by_cron:
        message = "'cronString' is read and not used: the type of the window is not cron"
        reading.warn("unused-key", message, at, entry.key_position)
    try:
        CronSchedule.parse(reading.text(entry.value, at))
    except InvalidInput as exc:
        reading.error("wrong-value", str(exc), at, entry.value.position)


def _duration(reading: Reading, tree: Tree, path: str, least: int) -> int:
    try:
        found = parse_duration(reading.text(tree, path), days=True)
    except InvalidInput as exc:
        reading.error("wrong-value", str(exc), path, tree.position)
        return 0
    if found < least:
        reading.error("wrong-value", f"must {'not be negative' if not least else 'be above 0'}", path, tree.position)
    return found


def _check_depths(reading: Reading, table: ConfTable) -> None:
    for key, entry in table.entries.items():
        value = entry.value.value if isinstance(entry.value, Scalar) else None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            reading.wrong_type(entry.value, join("queueDepthPerAction", key), "a whole number of at least 0")


def is_nothing(tree: Tree | None) -> bool:
    """Report whether no value is written there."""
    return tree is None or (isinstance(tree, Scalar) and tree.value is None)
