"""Names to plugins and actions: built in, from entry points, from a directory. Loading is checked, never silent."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeAlias

from pumice.errors import PluginLoadError
from pumice.framework.plugin import Action, Arguments, Plugin

Builder: TypeAlias = Callable[[Arguments], Any]
API_VERSION = 1


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin that can be named in a configuration."""

    name: str
    build: Builder
    origin: str
    arguments_read: tuple[str, ...] | None = None
    repeatable: bool = False
    doc: str = ""


class Registry:
    """Plugins and actions by name. The default one can be replaced."""

    def __init__(self, *, discover: bool = True) -> None:
        self.plugins: dict[str, PluginInfo] = {}
        self.aliases: dict[str, str] = {}
        self.actions: dict[str, type[Action]] = {}
        if discover:
            self._discover()

    def _discover(self) -> None:
        for entry in sorted(entry_points(group="pumice.actions"), key=lambda e: e.name):
            self.actions[entry.name] = entry.load()
        for entry in sorted(entry_points(group="pumice.plugins"), key=lambda e: e.name):
            try:
                built = entry.load()
            except (Exception, SystemExit) as exc:
                raise PluginLoadError(f"plugin {entry.name!r} from entry point {entry.value}: {exc}") from exc
            self.register(entry.name, built, origin=f"entry point {entry.value}")

    def register(self, name: str, builder: Builder, *, origin: str = "", override: bool = False) -> None:
        """Make a plugin known under a name.

        :raises PluginLoadError: the name is taken and *override* is not given.
        """
        known = self.plugins.get(name)
        if known is not None and not override:
            raise PluginLoadError(f"plugin {name!r} from {origin}: the name is taken by the one from {known.origin}")
        cls = builder if isinstance(builder, type) else None
        read = getattr(cls, "arguments_read", None)
        doc = (cls.__doc__ or "").strip() if cls else (getattr(builder, "__doc__", "") or "").strip()
        self.plugins[name] = PluginInfo(
            name,
            builder,
            origin or _origin(builder),
            tuple(read) if read is not None else None,
            bool(getattr(cls, "repeatable", False)),
            doc,
        )

    def get(self, name: str) -> PluginInfo | None:
        """The plugin of a name or alias."""
        return self.plugins.get(name) or self.plugins.get(self.aliases.get(name, ""))

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
        other.plugins, other.aliases, other.actions = dict(self.plugins), dict(self.aliases), dict(self.actions)
        return other

    # -- directories ------------------------------------------------------------------------------------------------
    def load_directory(self, directory: Path) -> list[PluginInfo]:
        """Load every ``*.py`` file and package of a directory, in the order of their names.

        :raises PluginLoadError: the directory or one of its modules cannot be used; names file and line.
        """
        if not directory.is_dir():
            raise PluginLoadError(f"plugins directory {str(directory)!r}: not a directory")
        loaded = []
        for path in sorted(directory.iterdir()):
            if path.name.startswith(("_", ".")):
                continue
            if path.suffix == ".py":
                loaded.append(self.load_file(path))
            elif path.is_dir() and (path / "__init__.py").is_file():
                loaded.append(self.load_file(path / "__init__.py", stem=path.name))
        return loaded

    def load_file(self, path: Path, stem: str | None = None) -> PluginInfo:
        """Load one plugin module: it exposes ``New(arguments)`` or one Plugin subclass."""
        stem = stem or path.stem
        module = _import(path, f"pumice_plugin_{stem.replace('-', '_').replace('.', '_')}")
        version = getattr(module, "PUMICE_API", API_VERSION)
        if version != API_VERSION:
            raise PluginLoadError(f"{path}: made for plugin API {version}, this is {API_VERSION}")
        builder = _builder_of(module, path)
        dashed = stem.replace("_", "-")
        name = getattr(builder, "name", "") if isinstance(builder, type) else ""
        name = name or dashed
        known = self.plugins.get(name)
        reload = known is not None and known.origin == str(path)
        self.register(name, builder, origin=str(path), override=reload or bool(getattr(module, "override", False)))
        for alias in {stem, dashed} - {name}:
            self.aliases[alias] = name
        return self.plugins[name]


def _builder_of(module: ModuleType, path: Path) -> Builder:
    new = getattr(module, "New", None)
    if callable(new):
        return new  # type: ignore[no-any-return]
    classes = [
        v
        for v in vars(module).values()
        if isinstance(v, type) and issubclass(v, Plugin) and v is not Plugin and v.__module__ == module.__name__
    ]
    if len(classes) != 1:
        names = ", ".join(c.__name__ for c in classes) or "none"
        raise PluginLoadError(f"{path}:1: must expose New(arguments) or exactly one Plugin subclass, found {names}")
    return classes[0]


class _FromSource(SourceFileLoader):
    """Reads the source each time: byte code kept from a second ago may be that of another version of the file."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _import(path: Path, name: str) -> ModuleType:
    locations = [str(path.parent)] if path.name == "__init__.py" else None
    loader = _FromSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise PluginLoadError(f"{path}: not a Python module")
    module = importlib.util.module_from_spec(spec)
    before = {n: m for n, m in sys.modules.items() if n == name or n.startswith(f"{name}.")}
    for known in before:  # parts of a package are read again too
        del sys.modules[known]
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as exc:
        sys.modules.update(before)
        raise PluginLoadError(f"{exc.filename or path}:{exc.lineno}: {exc.msg}") from exc
    except (Exception, SystemExit) as exc:
        sys.modules.update(before)
        frames = [f for f in traceback.extract_tb(exc.__traceback__) if f.filename == str(path)]
        line = frames[-1].lineno if frames else 1
        raise PluginLoadError(f"{path}:{line}: {type(exc).__name__}: {exc}") from exc
    return module


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


def build(info: PluginInfo, arguments: Mapping[str, Any]) -> Any:
    """A plugin object from its arguments.

    :raises PluginLoadError: it cannot be built, or lacks what a plugin must have.
    """
    plugin = info.build(Arguments(arguments, owner=info.name))
    if not isinstance(plugin, Plugin) and not (hasattr(plugin, "on_session_open") or hasattr(plugin, "name")):
        raise PluginLoadError(f"plugin {info.name!r} from {info.origin}: built a {type(plugin).__name__}, not a plugin")
    return plugin
