"""The operator's configuration: the scheduler conf, its errors, its traps and its effect.

Lives here: reading Volcano's conf file with positions, reloading it, linting it, explaining it, Go durations. Does not
live here: what plugins and actions do. The existing plugins and actions are handed in as a ``Catalogue``. ``lint`` and
``explain`` are imported from their modules.
"""

from pumice.config.catalogue import ArgumentsInfo, Catalogue, HookInfo, Stop
from pumice.config.durations import format_duration, parse_duration
from pumice.config.loader import COMPAT_PROFILES, DEFAULT_CONF, HELM_CONF, ConfSource, LoadedConf, from_data, load
from pumice.config.problems import InvalidConf, Problem
from pumice.config.schema import ActionConf, PluginConf, Position, SchedulerConf, Tier

__all__ = [
    "COMPAT_PROFILES",
    "DEFAULT_CONF",
    "HELM_CONF",
    "ActionConf",
    "ArgumentsInfo",
    "Catalogue",
    "ConfSource",
    "HookInfo",
    "InvalidConf",
    "LoadedConf",
    "PluginConf",
    "Position",
    "Problem",
    "SchedulerConf",
    "Stop",
    "Tier",
    "format_duration",
    "from_data",
    "load",
    "parse_duration",
]
