"""Names to plugins and actions: built in, from entry points, from a directory. Loading is checked, never silent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakSet

from pumice.errors import BrokenPlugins, PluginLoadError, PumiceError, shown, words_of
from pumice.framework.arguments import Argument, Arguments, arguments_of, declared_by
from pumice.framework.compat import Compat
from pumice.framework.loading import (
    HOOKS,
    builder_of,
    check_action,
    check_builder,
    check_class,
    check_hooks,
    go_hooks,
    import_file,
    modules_in,
)
from pumice.framework.names import unknown
from pumice.framework.offers import Offers
from pumice.framework.plugin import Action, Plugin
from pumice.framework.points.callback import line_of
from pumice.framework.points.guard import FAILS, author_line, let_pass
from pumice.framework.points.table import POINTS

Builder: TypeAlias = Callable[[Arguments], Any]
API_VERSION = 1
GROUPS: Mapping[str, str] = {"pumice": "", "pumice.kai": "kai/"}
"""Groups of entry points -> what stands before the names of their plugins and actions."""


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin that can be named in a configuration."""

    name: str
    build: Builder
    origin: str
    arguments: tuple[Argument[Any], ...] | None = None
    """The declarations of its class; None if it declares nothing and may read anything."""
    repeatable: bool = False
    doc: str = ""

    @property
    def built_in(self) -> bool:
        """Report whether it comes with Pumice."""
        return self.origin.startswith("entry point pumice.")


class Registry:
    """Plugins and actions by name. The default one can be replaced."""

    def __init__(self, *, discover: bool = True) -> None:
        self.plugins: Offers[PluginInfo] = Offers(self._plugin)
        self.aliases: dict[str, str] = {}
        self.actions: Offers[type[Action]] = Offers(self._action)
        self._broken: dict[tuple[str, str], str] = {}
        self.passed_by: list[str] = []
        """The files in a directory of plugins that are none, and why; a line each."""
        self.directories: list[Path] = []
        """Directories whose plugins are in it."""
        if discover:
            self._discover()

    def _discover(self) -> None:
        offered = entry_points()  # of every installed package, read once
        origins: dict[str, str] = {}
        taken: dict[str, str] = {}
        for group, prefix in GROUPS.items():
            for entry in sorted(offered.select(group=f"{group}.actions"), key=lambda e: e.name):
                if (name := prefix + entry.name) in taken:
                    raise _taken(name, _origin_of(entry), taken[name], "action")
                taken[name] = _origin_of(entry)
                self.actions.offer(name, entry)
            for entry in sorted(offered.select(group=f"{group}.plugins"), key=lambda e: e.name):
                name, origin = prefix + entry.name, _origin_of(entry)
                if name in origins:
                    raise _taken(name, origin, origins[name])
                origins[name] = origin
                self.plugins.offer(name, entry)

    @property
    def broken(self) -> Mapping[tuple[str, str], str]:
        """("plugin" or "action", name) -> why what an installed package offers cannot be used."""
        len(self.actions), len(self.plugins)  # what was not asked for yet is loaded
        return self._broken

    def _action(self, name: str, entry: EntryPoint) -> type[Action] | None:
        action: type[Action] | None = self._loaded("action", name, entry)
        try:
            if action is not None:
                check_action(action, entry.name)
        except PluginLoadError as exc:
            self._broken["action", name] = f"action {name!r} from entry point {entry.value}: {exc}"
            return None
        return action

    def _plugin(self, name: str, entry: EntryPoint) -> PluginInfo | None:
        built = self._loaded("plugin", name, entry)
        try:
            return None if built is None else _info(name, built, _origin_of(entry))
        except PluginLoadError as exc:
            self._broken["plugin", name] = f"plugin {name!r} from entry point {entry.value}: {exc}"
            return None

    def _loaded(self, kind: str, name: str, entry: EntryPoint) -> Any:
        """The object of an entry point. A broken one is an error only for a conf that names it."""
        try:
            return entry.load()
        except FAILS as exc:
            let_pass(exc)
            self._broken[kind, name] = f"{kind} {name!r} from entry point {entry.value}: {words_of(exc)}"
            return None

    def register(self, name: str, builder: Builder, *, origin: str = "", override: bool = False) -> None:
        """Make a plugin known under a name.

        :raises PluginLoadError: the name is none, or is taken and *override* is not given.
        """
        if not isinstance(name, str) or not name:
            raise PluginLoadError(f"plugin from {origin or _origin(builder)}: its name must be text, got {shown(name)}")
        known = self.plugins.get(name)
        if known is not None and not override:
            raise _taken(name, origin, known.origin)
        self._broken.pop(("plugin", name), None)
        self.plugins[name] = _info(name, builder, origin or _origin(builder))

    def with_names(self, conf: Mapping[str, Any]) -> dict[str, Any]:
        """The data of a conf with names in the place of classes, which are registered under them.

        :raises PluginLoadError: a class is no plugin, or has no name.
        """
        data = dict(conf)
        if isinstance(data.get("tiers"), (list, tuple)):
            data["tiers"] = [self._tier(tier) for tier in data["tiers"]]
        return data

    def _tier(self, tier: Any) -> Any:
        plugins = tier.get("plugins") if isinstance(tier, Mapping) else None
        if not isinstance(plugins, (list, tuple)):
            return tier  # the reader of confs says what it is
        return {**tier, "plugins": [p if isinstance(p, str) else self.entry(p) for p in plugins]}

    def entry(self, spec: Any) -> Any:
        """The entry of a conf for a plugin: a name, a class, a pair of one and its arguments, or an entry."""
        if isinstance(spec, Mapping):
            return {**spec, "name": self._name(spec["name"])} if isinstance(spec.get("name"), type) else spec
        if not isinstance(spec, (str, tuple, type)):
            return spec
        plugin, arguments = spec if isinstance(spec, tuple) else (spec, {})
        name = self._name(plugin)
        return {"name": name, "arguments": dict(arguments)} if arguments else {"name": name}

    def _name(self, plugin: str | type[Plugin]) -> str:
        if isinstance(plugin, str):
            return plugin
        check_class(plugin)
        if not plugin.name:
            raise PluginLoadError(f'class {plugin.__name__}: has no name, such as name = "my-plugin"', line_of(plugin))
        self.register(plugin.name, plugin, origin=plugin.__qualname__, override=True)
        return plugin.name

    def get(self, name: str) -> PluginInfo | None:
        """The plugin of a name or alias.

        :raises PluginLoadError: an installed package offers it, and it cannot be loaded.
        """
        found = self.plugins.get(name) or self.plugins.get(self.aliases.get(name, ""))
        if found is None and ("plugin", name) in self._broken:
            raise PluginLoadError(self._broken["plugin", name])
        return found

    def action(self, name: str) -> type[Action] | None:
        """The action of a name.

        :raises PluginLoadError: an installed package offers it, and it cannot be loaded.
        """
        found = self.actions.get(name)
        if found is None and ("action", name) in self._broken:
            raise PluginLoadError(self._broken["action", name])
        return found

    def askers(self) -> dict[str, list[str]]:
        """Point -> the actions that ask it, in order of their names."""
        found: dict[str, list[str]] = {}
        for name in sorted(self.actions):
            for point in dict.fromkeys(p.name for p in self.actions[name].asks or ()):
                found.setdefault(point, []).append(name)
        return found

    def copy(self) -> Registry:
        """A registry with the same contents."""
        other = Registry(discover=False)
        other.plugins, other.actions = self.plugins.copied(other._plugin), self.actions.copied(other._action)
        other.aliases = dict(self.aliases)
        other._broken, other.passed_by = dict(self._broken), list(self.passed_by)
        other.directories = list(self.directories)
        return other

    # -- directories ------------------------------------------------------------------------------------------------
    def load_directory(self, directory: Path) -> list[PluginInfo]:
        """Load every ``*.py`` file and package of a directory, in the order of their names; tests are passed by.

        :raises PluginLoadError: the directory or some of its modules cannot be used; names file and line of each.
        """
        modules, passed = modules_in(directory)
        loaded, broken = [], []
        for path, stem in modules:
            try:
                loaded.append(self.load_file(path, stem))
            except PluginLoadError as exc:
                broken.append(exc)
        if len(broken) > 1:
            raise BrokenPlugins([str(exc) for exc in broken])
        if broken:
            raise broken[0]
        self.passed_by += [line for line in passed if line not in self.passed_by]
        self.directories += [directory] if directory not in self.directories else []
        return loaded

    def load_file(self, path: Path, stem: str | None = None) -> PluginInfo:
        """Load one plugin module: it exposes ``New(arguments)`` or one Plugin subclass."""
        stem = stem or path.stem
        module = import_file(path, stem)
        version = getattr(module, "PUMICE_API", API_VERSION)
        if version != API_VERSION:
            raise PluginLoadError(f"{path}: made for plugin API {shown(version)}, this is {API_VERSION}")
        builder = builder_of(module, path)
        dashed = stem.replace("_", "-")
        name = getattr(builder, "name", "") if isinstance(builder, type) else ""
        name = name or dashed
        known = self.plugins.get(name)
        reload = known is not None and known.origin == str(path)
        self.register(name, builder, origin=str(path), override=reload or bool(getattr(module, "override", False)))
        for alias in {stem, dashed} - {name}:
            self.aliases[alias] = name
        return self.plugins[name]


def classes_of(conf: Mapping[str, Any]) -> list[type[Plugin]]:
    """The plugins of a conf's data that are classes."""
    found: list[type[Plugin]] = []
    for tier in conf.get("tiers") or ():
        for spec in tier.get("plugins") or () if isinstance(tier, Mapping) else ():
            named = spec.get("name") if isinstance(spec, Mapping) else spec[0] if isinstance(spec, tuple) else spec
            if isinstance(named, type):
                found.append(named)
    return found


def _info(name: str, builder: Builder, origin: str) -> PluginInfo:
    cls = builder if isinstance(builder, type) else None
    doc = (getattr(builder, "__doc__", "") or "").strip()
    repeatable = bool(getattr(cls, "repeatable", False))
    return PluginInfo(name, builder, origin, _declared(cls), repeatable, doc)


def _declared(cls: type | None) -> tuple[Argument[Any], ...] | None:
    """The arguments that a class declares; None if it declares none and has a constructor, which may read any."""
    own = cls is None or not issubclass(cls, Plugin) or cls.__init__ is not Plugin.__init__
    declared = declared_by(cls)
    return None if own and not declared else declared


def _taken(name: str, origin: str, other: str, kind: str = "plugin") -> PluginLoadError:
    said = f"{kind} {name!r} from {origin}: the name is taken by the one from {other}"
    return PluginLoadError(f"{said}; `override = True` in its module replaces that one" if kind == "plugin" else said)


def _origin_of(entry: EntryPoint) -> str:
    return f"entry point {entry.value}"


def _origin(builder: Builder) -> str:
    code = getattr(builder, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else f"{builder.__module__}.{builder.__qualname__}"


_default: list[Registry] = []


def default_registry() -> Registry:
    """The process-wide registry, filled from entry points when first asked for."""
    if not _default:
        _default.append(Registry())
    return _default[0]


def set_default_registry(registry: Registry) -> None:
    """Replace the process-wide registry."""
    _default[:] = [registry]


def register_plugin_builder(name: str, builder: Builder) -> None:
    """Make a plugin known to the default registry: *builder* takes the arguments and gives the plugin."""
    default_registry().register(name, builder)


_SOUND: WeakSet[type] = WeakSet()
"""Classes of plugins that were looked at and are well written: plugins are built anew every cycle."""


def build(info: PluginInfo, arguments: Mapping[str, Any], compat: Compat | None = None) -> Any:
    """A plugin object from its arguments; *compat* says how those of a plugin that comes with Pumice are read.

    :raises PluginLoadError: it cannot be built, or lacks what a plugin must have; names the author's line.
    :raises InvalidInput: an argument that it refuses.
    """
    reads = compat if compat is not None and info.built_in else Compat()
    given = arguments_of(arguments, info.name, reads)
    try:
        plugin = info.build(given)
    except PumiceError:
        raise
    except FAILS as exc:
        let_pass(exc)
        check_builder(info.build, f"plugin {info.name!r}: what builds it")
        more = unknown(exc, (Arguments,)) if isinstance(exc, AttributeError) else ""
        text = f"plugin {info.name!r}: {type(exc).__name__}: {words_of(exc)}{more}"
        raise PluginLoadError(text, at=author_line(exc, info.build)) from exc
    if type(plugin) not in _SOUND:
        _check(info, plugin)
        _SOUND.add(type(plugin))
    return plugin


def build_action(cls: type[Action], name: str, arguments: Arguments | None = None) -> Action:
    """An action object with its arguments.

    :raises PluginLoadError: its constructor raised; names the author's line.
    """
    try:
        action = cls()
        if arguments is not None:
            action.arguments = arguments
        return action
    except FAILS as exc:
        let_pass(exc)
        text = f"action {name!r}: {type(exc).__name__}: {words_of(exc)}"
        raise PluginLoadError(text, at=author_line(exc, cls)) from exc


def _check(info: PluginInfo, plugin: Any) -> None:
    """Report whether it is a plugin, and a caller exists for its methods."""
    if isinstance(plugin, type):
        text = f"built the class {plugin.__name__}, not an object of it, such as {plugin.__name__}(arguments)"
        raise PluginLoadError(f"plugin {info.name!r} from {info.origin}: {text}", at=line_of(plugin))
    cls = type(plugin)
    of = f"plugin {info.name!r} from {info.origin}: built a {cls.__name__}"
    if isinstance(plugin, Plugin):
        check_class(cls)
        _check_name(of, plugin)
        return
    missing = [name for name in HOOKS if hasattr(plugin, name)] or [p for p in POINTS if hasattr(plugin, p)]
    wrong = go_hooks(cls)
    if wrong or not missing:
        raise PluginLoadError(
            f"{of}, not a plugin: it has neither on_session_open(ssn) nor a method named after an extension point"
            + "".join(wrong),
            at="" if cls.__module__ == "builtins" else line_of(cls),
        )
    check_hooks(cls)
    _check_name(of, plugin)


def _check_name(of: str, plugin: Any) -> None:
    name = getattr(plugin, "name", "")
    if not isinstance(name, str):
        raise PluginLoadError(f"{of}: its name must be text, got {shown(name)}", at=line_of(type(plugin)))
