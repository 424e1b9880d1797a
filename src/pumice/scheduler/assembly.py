"""From a configuration to plugins, actions and tiers; and what exists, as the configuration needs to know it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from pumice.config import ArgumentsInfo, Catalogue, HookInfo, InvalidConf, PluginConf, Problem, SchedulerConf
from pumice.errors import ConfigError, MissingExtra, PluginLoadError, PumiceError
from pumice.framework import quota
from pumice.framework.arguments import Argument, Arguments, WrongArgument, arguments_of, declared_by
from pumice.framework.compat import Compat, compat_of
from pumice.framework.docs import Who
from pumice.framework.plugin import Action, Plugin
from pumice.framework.points import FLAGS, POINTS
from pumice.framework.registry import PluginInfo, Registry, build, build_action
from pumice.framework.session.questions import PluginEntry
from pumice.framework.session.session import Session
from pumice.model.limit import Bound
from pumice.model.queue import Queue
from pumice.model.reason import PASS, Verdict
from pumice.model.resources import Number
from pumice.model.task import Task
from pumice.scheduler import assembly as capabilities
from pumice.scheduler.trying import Trial, try_plugins
from pumice.state.cluster import ClusterState

KEEPERS: Final = frozenset(("proportion", "capacity"))
"""The plugins that keep queues within their capabilities themselves, where they are asked what a queue may take."""
ASKED: Final = "enabledAllocatable"


class Capabilities(Plugin):
    """Refuses a task by which its queue, or one above it, would hold more than its capability. Pod slots aside."""

    name = "capability"
    persistent = True
    _version = -1

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        if ssn.state.queue_version != self._version:
            self._version = ssn.state.queue_version
            self._limited = any(queue.capability.amounts for queue in ssn.queues.values())
            self._below: dict[str, list[Queue]] = {}
        if self._limited:
            ssn.add_allocatable_fn(self.name, self._allocatable, max_tasks=self._max_tasks)

    def _allocatable(self, queue: Queue, task: Task) -> Verdict:
        for above, most in self._limits(queue):
            request = [(d, v) for d, v in task.klass.items if d in most]
            held = self._held(above)
            if not quota.fits(most, held, request):
                of = f"queue {above.name}"
                return quota.insufficient(quota.lacking(of, most, held, request, lambda _: (Bound.CAPABILITY, "")))
        return PASS

    def _max_tasks(self, queue: Queue, task: Task) -> int:
        room = quota.UNLIMITED
        for above, most in self._limits(queue):
            request = [(d, v) for d, v in task.klass.items if d in most]
            room = min(room, quota.room(most, self._held(above), request))
        return room

    def _limits(self, queue: Queue) -> Iterator[tuple[Queue, dict[int, Number]]]:
        """The queue and those above it that have a capability, and of what."""
        seen: set[str] = set()
        above: Queue | None = queue
        while above is not None and above.name not in seen:
            seen.add(above.name)
            if above.capability.amounts:
                yield above, quota.capability_of(above)
            above = self._ssn.queues.get(above.parent)

    def _held(self, queue: Queue) -> dict[int, Number]:
        """The amounts that a queue and all below it hold, promises of this session included."""
        if queue.name not in self._below:
            queues = self._ssn.queues
            self._below[queue.name] = [q for q in queues.values() if quota.is_below(queues, q.name, queue.name)]
        held: dict[int, Number] = {}
        for below in self._below[queue.name]:
            quota.added(held, below.held.amounts.items())
        return held


def keeper() -> PluginEntry:
    """The entry of a tier that keeps queues within their capabilities."""
    return PluginEntry(Capabilities.name, lambda: Capabilities(Arguments({}, owner=Capabilities.name)), lambda _: True)


log = logging.getLogger("pumice.plugins")
K = TypeVar("K")

BROKEN_PLUGIN: Final = "broken-plugin"
"""The code of problems that only the author of a plugin can mend."""


def arguments_info(declared: Sequence[Argument[Any]] | None) -> ArgumentsInfo | None:
    """The names of declared arguments; None if a plugin declares none and may read any."""
    if declared is None:
        return None
    return ArgumentsInfo(
        frozenset(one.name for one in declared if not one.prefix), tuple(one.prefix for one in declared if one.prefix)
    )


def catalogue_of(registry: Registry, *, hooks: bool = False, conf: SchedulerConf | None = None) -> Catalogue:
    """Everything a configuration may name. *hooks*: also who registers where, with the arguments that *conf* gives
    (opens each plugin on an empty cluster)."""
    known = registry.copy()  # as it is now

    def plugin(name: str) -> ArgumentsInfo | None:
        info = known.get(name)
        if info is None:
            raise KeyError(name)
        return arguments_info(info.arguments)

    def action(name: str) -> ArgumentsInfo | None:
        found = known.action(name)
        if found is None:
            raise KeyError(name)
        return arguments_info(declared_by(found))

    def broken(kind: str) -> list[str]:
        return [name for what, name in known.broken if what == kind]

    def told_apart_by(name: str) -> str:
        if not known.plugins[name].repeatable:
            raise KeyError(name)
        return f"{name}.name"

    return Catalogue(
        flags=FLAGS,
        plugins=_Known(lambda: [*known.plugins, *known.aliases, *broken("plugin")], _unless_broken(plugin)),
        actions=_Known(lambda: [*known.actions, *broken("action")], _unless_broken(action)),
        repeatable=_Known(lambda: [name for name, info in known.plugins.items() if info.repeatable], told_apart_by),
        hooks=_hooks(registry, conf) if hooks else (),
    )


class _Known(Mapping[str, K]):
    """The facts about each plugin and action that a conf may name; each is loaded when it is named."""

    def __init__(self, names: Callable[[], Iterable[str]], look: Callable[[str], K]) -> None:
        self._names, self._look = names, look

    def __getitem__(self, name: str) -> K:
        return self._look(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(self._names()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _unless_broken(look: Callable[[str], K]) -> Callable[[str], K | None]:
    """The result of *look*, and None for a plugin that cannot be loaded: a conf that names it gets the reason."""

    def said(name: str) -> K | None:
        try:
            return look(name)
        except PluginLoadError:
            return None

    return said


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
    """The askers and answerers of each point, of everything that is known to a registry."""
    answers: dict[str, list[str]] = {}
    for name in sorted(registry.plugins):
        for point in points_of(registry.plugins[name]):
            answers.setdefault(point, []).append(name)
    return Who(registry.askers(), answers)


def points_of(info: PluginInfo) -> list[str]:
    """The points at which a plugin answers when it is given no arguments."""
    return sorted(_registers(info, {}, hierarchy=False) | _registers(info, {}, hierarchy=True))


def _registers(info: PluginInfo, arguments: Mapping[str, Any], *, hierarchy: bool) -> frozenset[str]:
    """The points at which a plugin registers, found by opening it on an empty cluster."""
    entry = PluginEntry(info.name, partial(build, info, arguments), lambda flag: hierarchy or flag != "enableHierarchy")
    return frozenset(Trial(ClusterState(), [[entry]]).open().registered())


@dataclass(slots=True)
class Assembly:
    """A configuration made ready: actions in order, and how to build each tier's plugins for a session."""

    conf: SchedulerConf
    actions: list[Action]
    plugins: list[list[tuple[PluginInfo, PluginConf, str]]]
    compat: Compat
    registry: Registry
    """The values that it was made of."""
    unasked: Container[str]
    """Points that no action asks."""
    warnings: tuple[Problem, ...] = ()
    """Arguments in the place of which a default is used."""
    ours: bool = field(init=False)
    """Whether all plugins and actions come with Pumice."""

    def __post_init__(self) -> None:
        self.ours = all(type(action).__module__.startswith("pumice.") for action in self.actions) and all(
            info.built_in for tier in self.plugins for info, _, _ in tier
        )

    def tiers(self) -> list[list[PluginEntry]]:
        """Return entries whose plugins are not built. If no plugin keeps queues within capabilities, one comes last."""
        tiers = [
            [
                _entry(info, name, partial(build, info, conf.arguments, self.compat), conf, self.unasked)
                for info, conf, name in tier
            ]
            for tier in self.plugins
        ]
        return tiers if self._keeps else [*tiers, [capabilities.keeper()]]

    @property
    def _keeps(self) -> bool:
        """Report whether queues are kept within their capabilities without us, or are not to be."""
        return (
            self.compat.blind_capability
            or self.conf.dialect == "kai"
            or any(
                info.name in capabilities.KEEPERS and conf.enabled(capabilities.ASKED)
                for tier in self.plugins
                for info, conf, _ in tier
            )
        )

    def action_arguments(self, action: str) -> Mapping[str, Any]:
        """The arguments of an action from the configuration."""
        return self.conf.action_arguments(action)


def assemble(conf: SchedulerConf, registry: Registry, compat: str | None = None) -> Assembly:
    """A configuration made ready, its plugins tried: what one of them raises on a made-up cluster is logged.

    :raises InvalidConf: an action or plugin that does not exist, arguments that a plugin refuses, a plugin that cannot
        work whatever the cluster; all of them, each with file and line.
    :raises MissingExtra: a plugin needs what is not installed.
    """
    known = compat_of(compat or conf.compat)
    problems: list[Problem] = []
    ignored: list[Problem] = []
    actions = []
    for index, name in enumerate(conf.actions):
        try:
            action = registry.action(name)
            if action is not None:
                given = arguments_of(conf.action_arguments(name), f"action {name}", known)
                path = next((f"configurations[{i}]" for i, c in enumerate(conf.configurations) if c.name == name), "")
                if wrong := _check_arguments(conf, path, declared_by(action), given, ignored):
                    problems += wrong
                    continue
                actions.append(build_action(action, name, given))
        except PluginLoadError as exc:
            problems.append(_problem(conf, f"actions[{index}]", exc))
            continue
        if action is None:
            text = f"unknown action {name!r} (known: {', '.join(sorted(registry.actions))})"
            problems.append(_problem(conf, f"actions[{index}]", ConfigError(text)))
    unasked = _Unasked(actions, registry)
    tiers: list[list[tuple[PluginInfo, PluginConf, str]]] = [[] for _ in conf.tiers]
    entries: list[list[PluginEntry]] = [[] for _ in conf.tiers]
    for listed in conf.listed():
        plugin = listed.plugin
        try:
            info = registry.get(plugin.name)
            if info is None:
                raise ConfigError(f"unknown plugin {plugin.name!r} (known: {', '.join(sorted(registry.plugins))})")
            given = arguments_of(plugin.arguments, info.name, known if info.built_in else Compat())
            if wrong := _check_arguments(conf, listed.path, info.arguments or (), given, ignored):
                problems += wrong
                continue
            made = build(info, plugin.arguments, known)
        except MissingExtra:
            raise
        except PumiceError as exc:
            problems.append(_problem(conf, listed.path, exc))
            continue
        name = getattr(made, "name", "") if info.repeatable else plugin.name
        tiers[listed.tier].append((info, plugin, name))
        entries[listed.tier].append(_entry(info, name, partial(_given, made), plugin, unasked))
    tried = try_plugins(entries, conf.actions, known)
    problems += [_problem(conf, "", exc) for exc in tried.errors]
    if problems:
        raise InvalidConf(problems)
    for warning in (*ignored, *tried.warnings):
        log.warning("%s", warning)
    return Assembly(conf, actions, tiers, known, registry, unasked, tuple(ignored))


def _check_arguments(
    conf: SchedulerConf, path: str, declared: Iterable[Argument[Any]], given: Arguments, ignored: list[Problem]
) -> list[Problem]:
    """The arguments that are not what was declared; *ignored* gets those in the place of which a default is used."""
    wrong = []
    for one in declared:
        try:
            for key, text in one.ignored(given):
                at = f"{path}.arguments.{key}"
                ignored.append(Problem("ignored-value", text, at, conf.position(at), conf.source))
        except WrongArgument as exc:
            wrong.append(_problem(conf, path, exc))
    return wrong


def _entry(
    info: PluginInfo, name: str, make: Callable[[], Any], conf: PluginConf, unasked: Container[str]
) -> PluginEntry:
    """An entry of a tier. Our own plugins answer only points that are asked, as a test says: they need no warning."""
    return PluginEntry(name, make, conf.enabled, frozenset() if info.built_in else unasked)


class _Unasked(Container[str]):
    """The points that no action asks; those of a conf are looked at first, because the others must be loaded."""

    def __init__(self, actions: Sequence[Action], registry: Registry) -> None:
        self._actions, self._registry = actions, registry
        self._known: dict[str, bool] = {}

    def __contains__(self, point: object) -> bool:
        if not isinstance(point, str):
            return False
        if point not in self._known:
            self._known[point] = not (
                any(_may_ask(action, point) for action in self._actions)
                or any(_may_ask(action, point) for action in self._registry.actions.values())
            )
        return self._known[point]


def _may_ask(action: Action | type[Action], point: str) -> bool:
    """Report whether it asks a point. One that does not say may ask anything."""
    return action.asks is None or any(asked.name == point for asked in action.asks)


def _given(made: Any) -> Any:
    return made


def _problem(conf: SchedulerConf, path: str, exc: PumiceError) -> Problem:
    """A mistake at the line of its author: the plugin's, or the conf's."""
    if isinstance(exc, PluginLoadError) and exc.at:
        return Problem(BROKEN_PLUGIN, exc.text, "", None, exc.at)
    if isinstance(exc, WrongArgument):
        path = f"{path}.arguments.{exc.key}"
    code = "wrong-argument" if isinstance(exc, WrongArgument) else "refused"
    return Problem(code, str(exc), path, conf.position(path), conf.source)
