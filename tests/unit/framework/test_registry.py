"""Names to plugins: built in, registered, from entry points and from a directory; load errors name file and line."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from pumice import Arguments, Plugin, PluginLoadError, register_plugin_builder
from pumice.config import load
from pumice.errors import BrokenPlugins, ConfigError
from pumice.framework import registry as module
from pumice.framework.registry import Registry, build, default_registry, set_default_registry
from pumice.scheduler.assembly import assemble, catalogue_of

GOOD = """
from pumice import Argument, Plugin

class Mine(Plugin):
    '''Does it.'''
    name = "{name}"
    weight = Argument(1, "Weight of the score.")
"""


@pytest.fixture
def registry() -> Registry:
    return Registry(discover=False)


def write(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text)
    return directory


class Mine(Plugin):
    """Mine."""

    name = "mine"


def test_a_registered_builder_is_found_by_its_name(registry: Registry) -> None:
    registry.register("mine", Mine)
    info = registry.get("mine")
    assert info is not None
    assert (info.name, info.doc, info.arguments, info.repeatable) == ("mine", "Mine.", (), False)
    assert info.origin.endswith("Mine")
    assert isinstance(build(info, {}), Mine)
    assert registry.get("other") is None


def test_a_name_is_given_once_unless_it_is_overridden(registry: Registry) -> None:
    registry.register("mine", Mine, origin="here")
    with pytest.raises(PluginLoadError, match="plugin 'mine' from there: the name is taken by the one from here"):
        registry.register("mine", Mine, origin="there")
    registry.register("mine", Mine, origin="there", override=True)
    assert registry.plugins["mine"].origin == "there"


def test_the_default_registry_can_be_replaced_and_written_to() -> None:
    before = default_registry()
    set_default_registry(before.copy())
    try:
        register_plugin_builder("mine", lambda arguments: Mine(arguments))
        assert default_registry().get("mine") is not None
        assert "test_registry.py:" in default_registry().plugins["mine"].origin
    finally:
        set_default_registry(before)
    assert default_registry().get("mine") is None


def test_what_a_builder_gives_must_be_a_plugin(registry: Registry) -> None:
    registry.register("odd", lambda arguments: 5, origin="here")
    missing = r"neither on_session_open\(ssn\) nor a method named after an extension point"
    with pytest.raises(PluginLoadError, match=f"plugin 'odd' from here: built a int, not a plugin: it has {missing}"):
        build(registry.plugins["odd"], {})


def test_a_directory_gives_files_and_packages_in_order(registry: Registry, tmp_path: Path) -> None:
    write(
        tmp_path,
        b_file=GOOD.format(name="named-here"),
        a_new="def New(arguments):\n    return type('P', (), {'on_session_open': lambda self, ssn: None})()\n",
        _private="raise RuntimeError",
    )
    (tmp_path / "pack").mkdir()
    write(tmp_path / "pack", __init__=GOOD.format(name=""))
    (tmp_path / "notes.txt").write_text("not a plugin")
    (tmp_path / "empty").mkdir()
    loaded = registry.load_directory(tmp_path)
    assert [info.name for info in loaded] == ["a-new", "named-here", "pack"]
    assert registry.aliases == {"a_new": "a-new", "b_file": "named-here", "b-file": "named-here"}
    assert registry.get("b_file") is registry.get("named-here") is not None
    assert [one.name for one in loaded[1].arguments or ()] == ["weight"]
    assert loaded[1].doc == "Does it."
    assert loaded[0].origin == str(tmp_path / "a_new.py")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x = 1\nclass (:\n", r"bad\.py:2: "),
        ("x = 1\n\nraise RuntimeError('boom')\n", r"bad\.py:3: RuntimeError: boom"),
        ("import sys\nsys.exit(3)\n", r"bad\.py:2: SystemExit: 3"),
        ("import nothing_of_that_name\n", r"bad\.py:1: ModuleNotFoundError"),
        ("x = 1\n", r"bad\.py:1: must expose New\(arguments\) or exactly one Plugin subclass, found none"),
        (
            "from pumice import Plugin\nclass A(Plugin): name='a'\nclass B(Plugin): name='b'\n",
            r"bad\.py:1: must expose .*, found A, B",
        ),
        ("PUMICE_API = 9\n" + GOOD.format(name="x"), r"bad\.py: made for plugin API 9, this is 1"),
    ],
)
def test_a_module_that_cannot_be_used_is_named_with_its_line(
    registry: Registry, tmp_path: Path, text: str, error: str
) -> None:
    with pytest.raises(PluginLoadError, match=error):
        registry.load_directory(write(tmp_path, bad=text))


def test_a_directory_that_is_none_is_named(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(PluginLoadError, match="not a directory"):
        registry.load_directory(tmp_path / "nowhere")


def test_a_built_in_is_replaced_only_on_purpose(tmp_path: Path) -> None:
    registry = Registry()
    write(tmp_path, gang=GOOD.format(name="gang"))
    with pytest.raises(
        PluginLoadError, match=r"the name is taken by the one from entry point pumice\.plugins.gang:Gang"
    ):
        registry.load_directory(tmp_path)
    write(tmp_path, gang="override = True\n" + GOOD.format(name="gang"))
    registry.load_directory(tmp_path)
    assert registry.plugins["gang"].origin == str(tmp_path / "gang.py")


def test_a_changed_file_is_loaded_again(registry: Registry, tmp_path: Path) -> None:
    registry.load_directory(write(tmp_path, mine=GOOD.format(name="mine")))
    registry.load_directory(write(tmp_path, mine=GOOD.format(name="mine").replace("Does it.", "Mends it")))
    assert registry.plugins["mine"].doc == "Mends it"


def test_built_in_plugins_and_actions_come_from_entry_points() -> None:
    registry = Registry()
    assert {"gang", "priority"} <= set(registry.plugins)
    assert {"enqueue", "allocate", "backfill"} <= set(registry.actions)


@pytest.mark.parametrize("kind", ["plugin", "action"])
def test_a_broken_entry_point_is_an_error_only_for_who_names_it(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    broken = EntryPoint("broken", "pumice.nothing:Here", f"pumice.{kind}s")
    from importlib.metadata import entry_points as others

    known = [entry for group in ("pumice.actions", "pumice.plugins") for entry in others(group=group)]
    monkeypatch.setattr(module, "entry_points", lambda: EntryPoints([*known, broken]))
    registry = Registry()
    catalogue = catalogue_of(registry)
    assert assemble(load('actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n', catalogue).conf, registry)
    named = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: broken\n'
    if kind == "action":
        named = 'actions: "allocate, broken"\ntiers:\n- plugins:\n  - name: gang\n'
    conf = load(named, catalogue, "my.conf").conf
    with pytest.raises(ConfigError, match=rf"^my.conf:.*{kind} 'broken' from entry point pumice\.nothing:Here: No mod"):
        assemble(conf, registry)
    if kind == "plugin":
        registry.register("broken", Mine)
        assert assemble(conf, registry).plugins[0][0][0].build is Mine


def test_a_copy_has_a_life_of_its_own(registry: Registry) -> None:
    registry.register("mine", Mine)
    copy = registry.copy()
    copy.register("other", Mine)
    assert registry.get("other") is None
    assert copy.get("mine") is registry.get("mine")


def test_arguments_carry_the_name_of_their_plugin(registry: Registry) -> None:
    got: list[Arguments] = []

    def builder(arguments: Arguments) -> Any:
        got.append(arguments)
        return Mine(arguments)

    registry.register("mine", builder)
    build(registry.plugins["mine"], {"weight": "x"})
    with pytest.raises(Exception, match=r"^mine: argument weight"):
        got[0].int("weight", 1)


def test_tests_and_folders_beside_plugins_are_passed_by_with_a_word(registry: Registry, tmp_path: Path) -> None:
    broken = "raise RuntimeError('loaded')"
    write(tmp_path, mine=GOOD.format(name="mine"), test_mine=broken, mine_test=broken, conftest=broken)
    for folder in ("loose", "data", "_hidden"):
        (tmp_path / folder).mkdir()
    write(tmp_path / "loose", other=broken)
    write(tmp_path / "_hidden", other=broken)
    (tmp_path / "data" / "weights.csv").write_text("1")
    assert [info.name for info in registry.load_directory(tmp_path)] == ["mine"]
    told = [line.removeprefix(f"{tmp_path}/") for line in registry.passed_by]
    assert told == [
        "conftest.py: passed by, its name is that of a test",
        "loose: passed by, a folder without __init__.py is no plugin; --plugins-dir may name it",
        "mine_test.py: passed by, its name is that of a test",
        "test_mine.py: passed by, its name is that of a test",
    ]
    registry.load_directory(tmp_path)
    assert len(registry.passed_by) == 4


def test_every_module_that_cannot_be_used_is_named(registry: Registry, tmp_path: Path) -> None:
    write(tmp_path, a="x = 1\n", b=GOOD.format(name="b"), c="class (:\n")
    with pytest.raises(BrokenPlugins) as caught:
        registry.load_directory(tmp_path)
    assert [line.removeprefix(f"{tmp_path}/").partition(": ")[0] for line in caught.value.problems] == [
        "a.py:1",
        "c.py:1",
    ]


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_name_must_be_text(registry: Registry, name: Any) -> None:
    with pytest.raises(PluginLoadError, match="its name must be text, got"):
        registry.register(name, Mine)


def test_a_plugins_own_logger_follows_that_of_pumice(registry: Registry, tmp_path: Path) -> None:
    log = "import logging\nlog = logging.getLogger(__name__)\ninner = logging.getLogger(__name__ + '.inner')\n"
    registry.load_directory(write(tmp_path, chatty=log + GOOD.format(name="chatty")))
    chatty = sys.modules["pumice_plugin_chatty"]
    ours = logging.getLogger("pumice")
    before = ours.level
    try:
        for level in (logging.DEBUG, logging.ERROR):
            ours.setLevel(level)
            assert (chatty.log.getEffectiveLevel(), chatty.inner.getEffectiveLevel()) == (level, level)
    finally:
        ours.setLevel(before)
