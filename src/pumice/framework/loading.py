"""Plugin modules in files: which files of a directory are plugins, and what a file offers."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from pumice.errors import PluginLoadError, shown, words_of
from pumice.framework.names import hint, snake
from pumice.framework.plugin import Action, Plugin
from pumice.framework.points.callback import check_runs, line_of, takes, where
from pumice.framework.points.guard import FAILS, let_pass
from pumice.framework.points.point import Point
from pumice.framework.points.table import POINTS

HOOKS: Final = ("on_session_open", "on_session_close")
_NEARLY: Final = 0.85
"""How alike a method's name and that of a point are, at least, to be taken for a slip."""


def modules_in(directory: Path) -> tuple[list[tuple[Path, str]], list[str]]:
    """The plugin modules of a directory with their stems, in the order of their names; and what was passed by, and why.

    Hidden names and files that are no Python are passed by without a word.

    :raises PluginLoadError: it is no directory.
    """
    if not directory.is_dir():
        raise PluginLoadError(f"plugins directory {str(directory)!r}: not a directory")
    found, passed = [], []
    for path in sorted(directory.iterdir()):
        if path.name.startswith(("_", ".")):
            continue
        if path.suffix == ".py" and path.is_file():
            if is_test(path):
                passed.append(f"{path}: passed by, its name is that of a test")
            else:
                found.append((path, path.stem))
        elif path.is_dir() and (path / "__init__.py").is_file():
            found.append((path / "__init__.py", path.name))
        elif path.is_dir() and any(path.glob("*.py")):
            passed.append(f"{path}: passed by, a folder without __init__.py is no plugin; --plugins-dir may name it")
    return found, passed


def is_test(path: Path) -> bool:
    """Report whether it is a file of tests by its name."""
    return path.stem == "conftest" or path.stem.startswith("test_") or path.stem.endswith("_test")


def builder_of(module: ModuleType, path: Path) -> Callable[..., Any]:
    """The builder of a module's plugin: its ``New``, or its one Plugin subclass.

    :raises PluginLoadError: there is none or more than one, or it cannot be called with arguments.
    """
    new = getattr(module, "New", None)
    if callable(new):
        check_builder(new, "New")
        return new  # type: ignore[no-any-return]
    own = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__]
    classes = [c for c in own if issubclass(c, Plugin)]
    if len(classes) == 1:
        check_class(classes[0])
        return classes[0]
    for cls in own if not classes else ():
        if any(hasattr(cls, name) for name in HOOKS) or go_hooks(cls):
            text = f"class {cls.__name__}: must be a subclass of pumice.Plugin, or be what New(arguments) returns"
            raise PluginLoadError(text + "".join(go_hooks(cls)), at=line_of(cls))
    names = ", ".join(c.__name__ for c in classes) or "none"
    raise PluginLoadError(f"must expose New(arguments) or exactly one Plugin subclass, found {names}", at=f"{path}:1")


def check_class(cls: type) -> None:
    """Look at a plugin class before anything is built of it.

    :raises PluginLoadError: it is written in a way that cannot work; names its line.
    """
    name = inspect.getattr_static(cls, "name", "")
    if not isinstance(name, str):
        written = name.fget if isinstance(name, property) else name
        at = where(written) if callable(written) else line_of(cls)
        told = "a method" if callable(name) else f"a {type(name).__name__}"
        raise PluginLoadError(f'class {cls.__name__}: name must be text, such as name = "my-plugin", not {told}', at=at)
    wrong = go_hooks(cls) + misspelt(cls)
    if wrong:
        raise PluginLoadError(f"class {cls.__name__}: {''.join(wrong).removeprefix('; ')}", at=line_of(cls))
    check_builder(cls, f"class {cls.__name__}")
    check_hooks(cls)


def check_hooks(cls: type) -> None:
    """Look at what is called as a session opens or closes.

    :raises PluginLoadError: it does nothing, or cannot be called with the session; or a point is no method.
    """
    for name in HOOKS:
        check_runs(getattr(cls, name, None), f"class {cls.__name__}: {name}")
        _check_takes_session(cls, name)
    for name in POINTS:
        found = getattr(cls, name, None)
        if found is not None and not callable(found):
            text = f"class {cls.__name__}: {name} is the name of an extension point, and must be a method, not "
            raise PluginLoadError(text + shown(found), at=line_of(cls))


def check_action(cls: Any, name: str) -> None:
    """Look at what a package offers as an action of a name.

    :raises PluginLoadError: it is none, or is written in a way that cannot work; names its line.
    """
    if not isinstance(cls, type) or not issubclass(cls, Action):
        raise PluginLoadError(f"must be a subclass of pumice.Action, got {shown(cls)}")
    of, at = f"class {cls.__name__}", line_of(cls)
    if cls.execute is Action.execute:
        raise PluginLoadError(f"{of}: has no execute(ssn)", at=at)
    check_runs(cls.execute, f"{of}: execute")
    _check_takes_session(cls, "execute")
    asks: Any = cls.asks
    if asks is not None and not (isinstance(asks, Collection) and all(isinstance(point, Point) for point in asks)):
        raise PluginLoadError(f"{of}: asks must be a list of points, got {shown(asks)}", at=at)
    if cls.name != name:
        raise PluginLoadError(f"{of}: its name is {shown(cls.name)}, and that of its entry point {name!r}", at=at)
    if not takes(cls, 0):
        raise PluginLoadError(f"{of}: an action is built without arguments", at=where(cls))


def _check_takes_session(cls: type, name: str) -> None:
    """:raises PluginLoadError: a method cannot be called with the session alone."""
    bound = 1 if isinstance(inspect.getattr_static(cls, name, None), (staticmethod, classmethod)) else 2
    if callable(fn := getattr(cls, name, None)) and not takes(fn, bound):
        raise PluginLoadError(f"class {cls.__name__}: {name} must take one parameter, the session", at=where(fn))


def check_builder(builder: Callable[..., Any], what: str) -> None:
    """:raises PluginLoadError: it cannot be called with a plugin's arguments."""
    if not takes(builder, 1):
        raise PluginLoadError(f"{what} must take one parameter, the arguments", at=where(builder))
    check_runs(builder, what)


def go_hooks(cls: type) -> list[str]:
    """A hint for each method that nobody calls, because it is spelt as in Go."""
    silent = getattr(cls, "on_session_open", Plugin.on_session_open) is Plugin.on_session_open
    found = []
    for name in vars(cls):
        ours = snake(name)
        if not name[:1].isupper() or not callable(getattr(cls, name)):
            continue
        if ours == "name" and not getattr(cls, "name", ""):
            found.append(f'; nobody calls {name}: here it is an attribute, name = "my-plugin"')
        elif ours in HOOKS and getattr(cls, ours, None) in (None, getattr(Plugin, ours)):
            found.append(f"; nobody calls {name}: here it is {ours!r}")
        elif silent and (point := hint(name, POINTS)):
            found.append(f"; nobody calls {name}{point.replace('; ', ': ')}")
    return found


def misspelt(cls: type) -> list[str]:
    """A hint for each method that nobody calls, because it is nearly named as a point or a hook.

    A method that is named in the code of the class, of its bases or of their modules counts as called there. A method
    without parameters could not answer. A helper that only other modules call cannot be seen here: its name must say
    so.
    """
    if getattr(cls, "on_session_open", Plugin.on_session_open) is not Plugin.on_session_open:
        return []
    own = {name: fn for name, fn in vars(cls).items() if inspect.isfunction(fn)}
    lacking = [name for name in (*POINTS, *HOOKS) if name not in own]
    found, called = [], set[str]()
    for name, fn in own.items():
        if not name[:1].islower() or name in POINTS or name in HOOKS or not _takes_something(fn):
            continue
        for near in difflib.get_close_matches(name, lacking, n=1, cutoff=_NEARLY):
            called = called or set(_named_around(cls))
            if name not in called:
                found.append(f"; nobody calls {name}; did you mean {near!r}? Else name it {f'_{name}'!r}")
    return found


def _takes_something(method: Callable[..., Any]) -> bool:
    """Report whether a method takes more than its object."""
    return len(inspect.signature(method).parameters) > 1


def _named_around(cls: type) -> Iterator[str]:
    """Every name in the code of a class, of its bases, and of their modules."""
    classes = {base: None for base in cls.__mro__ if base not in (object, Plugin)}
    for module in {base.__module__ for base in classes}:
        for value in vars(sys.modules[module]).values() if module in sys.modules else ():
            if isinstance(value, type) and value.__module__ == module:
                classes[value] = None
            elif inspect.isfunction(value):
                yield from _names_in(value.__code__)
    for one in classes:
        for part in vars(one).values():
            if inspect.isfunction(fn := inspect.unwrap(getattr(part, "fget", None) or getattr(part, "__func__", part))):
                yield from _names_in(fn.__code__)


def _names_in(code: CodeType) -> Iterator[str]:
    """Every name that code uses, also in the functions and comprehensions within it."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names_in(part)


class _FromSource(SourceFileLoader):
    """Reads the source each time: byte code kept from a second ago may be that of another version of the file."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def import_file(path: Path, stem: str) -> ModuleType:
    """The module of a file, read anew; its own logger is shown as those of all plugins are.

    :raises PluginLoadError: it cannot be imported; names file and line.
    """
    name = f"pumice_plugin_{stem.replace('-', '_').replace('.', '_')}"
    # what ``logging.getLogger(__name__)`` gives there heeds --log-level, as ssn.log does
    logging.getLogger(name).parent = logging.getLogger("pumice.plugins")
    locations = [str(path.parent)] if path.name == "__init__.py" else None
    loader = _FromSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise PluginLoadError(f"{path}: not a Python module")
    module = importlib.util.module_from_spec(spec)
    parts = f"{name}."
    before = {n: m for n, m in sys.modules.items() if n == name or n.startswith(parts)}
    for known in before:  # parts of a package are read again too
        del sys.modules[known]
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as exc:
        sys.modules.update(before)
        raise PluginLoadError(f"{exc.msg}", at=f"{exc.filename or path}:{exc.lineno}") from exc
    except PluginLoadError as exc:
        sys.modules.update(before)
        raise PluginLoadError(exc.text, at=exc.at or _line_in(path, exc)) from exc
    except FAILS as exc:
        sys.modules.update(before)
        let_pass(exc)
        raise PluginLoadError(f"{type(exc).__name__}: {words_of(exc)}", at=_line_in(path, exc)) from exc
    return module


def _line_in(path: Path, exc: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(exc.__traceback__) if f.filename == str(path)]
    return f"{path}:{frames[-1].lineno if frames else 1}"
