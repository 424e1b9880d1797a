"""From a configuration to plugins, actions and tiers; and what exists, as the configuration needs to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pumice.config import ArgumentsInfo, Catalogue, HookInfo, PluginConf, SchedulerConf
from pumice.errors import ConfigError, PumiceError
from pumice.framework.compat import Compat, compat_of
from pumice.framework.docs import Who
from pumice.framework.plugin import Action
from pumice.framework.points import FLAGS, POINTS
from pumice.framework.registry import PluginInfo, Registry, build
from pumice.framework.session import PluginEntry, Session
from pumice.state.cluster import ClusterState


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
    askers = registry.askers()
    silent = frozenset(name for name, action in registry.actions.items() if action.asks is None)
    return tuple(
        HookInfo(
            name=point.name,
            flag=point.flag,
            fold=point.rule.text,
            stop=point.rule.stop,
            plugins=frozenset(n for n in plain if point.name in plain[n] or point.name in tree[n]),
            when={n: "enableHierarchy" for n in plain if point.name in tree[n] and point.name not in plain[n]},
            asked_by=frozenset(askers.get(point.name, ())) | silent,
        )
        for point in POINTS.values()
    )


def who(registry: Registry) -> Who:
    """Who asks and who answers at each point, of everything that is known to a registry."""
    answers: dict[str, list[str]] = {}
    for name in sorted(registry.plugins):
        info = registry.plugins[name]
        for point in sorted(_registers(info, {}, hierarchy=False) | _registers(info, {}, hierarchy=True)):
            answers.setdefault(point, []).append(name)
    return Who(registry.askers(), answers)


def _registers(info: PluginInfo, arguments: Mapping[str, Any], *, hierarchy: bool) -> frozenset[str]:
    """The points at which a plugin registers, found by opening it on an empty cluster."""
    try:
        on = partial(build, info, arguments)
        entry = PluginEntry(info.name, on, lambda flag: hierarchy or flag != "enableHierarchy")
        session = Session(ClusterState(), tiers=[[entry]], environment={"describes": True}).open()
    except PumiceError:
        return frozenset()
    return frozenset(session.registered())


@dataclass(slots=True)
class Assembly:
    """A configuration made ready: actions in order, and how to build each tier's plugins for a session."""

    conf: SchedulerConf
    actions: list[Action]
    plugins: list[list[tuple[PluginInfo, PluginConf, str]]]
    compat: Compat
    unasked: frozenset[str] = frozenset()
    """Points that no action asks."""

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
    unasked = frozenset(POINTS) - frozenset(registry.askers())
    if any(action.asks is None for action in registry.actions.values()):
        unasked = frozenset()  # one that does not say may ask anything
    return Assembly(conf, actions, tiers, compat_of(compat or conf.compat), unasked)
