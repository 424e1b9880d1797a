"""From a configuration to plugins, actions and tiers; and what exists, as the configuration needs to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pumice.config import ArgumentsInfo, Catalogue, HookInfo, PluginConf, SchedulerConf, Stop
from pumice.errors import ConfigError, PumiceError
from pumice.framework.compat import Compat, compat_of
from pumice.framework.plugin import Action
from pumice.framework.points import FLAGS, POINTS, Fold
from pumice.framework.registry import PluginInfo, Registry, build
from pumice.framework.session import PluginEntry, Session
from pumice.state.cluster import ClusterState

_STOPS = {
    Fold.ORDER: Stop.ANSWER,
    Fold.ALL: Stop.ANSWER,
    Fold.ANY: Stop.ANSWER,
    Fold.VOTE: Stop.TIER,
    Fold.FIRST_TIER_ALL: Stop.FIRST_TIER,
    Fold.VICTIMS: Stop.TIER,
    Fold.UNION: Stop.TIER,
    Fold.FIRST: Stop.FIRST_PLUGIN,
}


def arguments_info(read: tuple[str, ...] | None) -> ArgumentsInfo | None:
    """What a plugin declared that it reads; None when it does not say."""
    if read is None:
        return None
    return ArgumentsInfo(
        frozenset(n for n in read if not n.endswith("*")), tuple(n[:-1] for n in read if n.endswith("*"))
    )


def catalogue_of(registry: Registry, *, hooks: bool = False, conf: SchedulerConf | None = None) -> Catalogue:
    """Everything a configuration may name. *hooks*: also who registers where, with the arguments that *conf* gives
    (opens each plugin on an empty cluster)."""
    plugins = {name: arguments_info(info.arguments_read) for name, info in registry.plugins.items()}
    plugins |= {alias: plugins[name] for alias, name in registry.aliases.items() if name in plugins}
    return Catalogue(
        flags=FLAGS,
        plugins=plugins,
        actions={name: arguments_info(tuple(a.arguments_read)) for name, a in registry.actions.items()},
        repeatable={name: f"{name}.name" for name, info in registry.plugins.items() if info.repeatable},
        hooks=_hooks(registry, conf) if hooks else (),
    )


def _hooks(registry: Registry, conf: SchedulerConf | None) -> tuple[HookInfo, ...]:
    given: dict[str, list[Mapping[str, Any]]] = {}
    for tier in conf.tiers if conf is not None else ():
        for plugin in tier.plugins:
            given.setdefault(plugin.name, []).append(plugin.arguments)
    names = {**{n: n for n in registry.plugins}, **registry.aliases}
    plain: dict[str, frozenset[str]] = {}
    tree: dict[str, frozenset[str]] = {}
    for name, own in names.items():
        for into, hierarchy in ((plain, False), (tree, True)):
            found = [_registers(registry.plugins[own], a, hierarchy=hierarchy) for a in given.get(name, [{}])]
            into[name] = frozenset().union(*found)
    return tuple(
        HookInfo(
            name=point.name,
            flag=point.flag,
            fold=point.fold.value,
            stop=_STOPS.get(point.fold, Stop.NEVER),
            plugins=frozenset(n for n in plain if point.name in plain[n] or point.name in tree[n]),
            when={n: "enableHierarchy" for n in plain if point.name in tree[n] and point.name not in plain[n]},
            asked_by=frozenset(point.asked),
        )
        for point in POINTS.values()
    )


def _registers(info: PluginInfo, arguments: Mapping[str, Any], *, hierarchy: bool) -> frozenset[str]:
    """The points at which a plugin registers, found by opening it on an empty cluster."""
    try:
        on = partial(build, info, arguments)
        entry = PluginEntry(info.name, on, lambda flag: hierarchy or flag != "enableHierarchy")
        session = Session(ClusterState(), tiers=[[entry]], environment={"describes": True}).open()
    except PumiceError:
        return frozenset()
    return frozenset(session._registered)


@dataclass(slots=True)
class Assembly:
    """A configuration made ready: actions in order, and how to build each tier's plugins for a session."""

    conf: SchedulerConf
    actions: list[Action]
    plugins: list[list[tuple[PluginInfo, PluginConf, str]]]
    compat: Compat

    def tiers(self) -> list[list[PluginEntry]]:
        """Fresh entries for one session."""
        return [
            [PluginEntry(name, partial(build, info, conf.arguments), conf.enabled) for info, conf, name in tier]
            for tier in self.plugins
        ]

    def action_arguments(self, action: str) -> Mapping[str, Any]:
        """What the configuration gives an action."""
        return self.conf.action_arguments(action)


def assemble(conf: SchedulerConf, registry: Registry, compat: str | None = None) -> Assembly:
    """A configuration made ready.

    :raises ConfigError: an action or plugin that does not exist, or arguments that a plugin refuses.
    """
    actions = []
    for name in conf.actions:
        if name not in registry.actions:
            raise ConfigError(f"action {name!r}: not one of {', '.join(sorted(registry.actions))}")
        actions.append(registry.actions[name]())
    tiers: list[list[tuple[PluginInfo, PluginConf, str]]] = []
    for tier in conf.tiers:
        row = []
        for plugin in tier.plugins:
            info = registry.get(plugin.name)
            if info is None:
                raise ConfigError(f"plugin {plugin.name!r}: not one of {', '.join(sorted(registry.plugins))}")
            try:
                made = build(info, plugin.arguments)
            except PumiceError as exc:
                raise ConfigError(str(exc)) from exc
            row.append((info, plugin, getattr(made, "name", "") if info.repeatable else plugin.name))
        tiers.append(row)
    return Assembly(conf, actions, tiers, compat_of(compat or conf.compat))
