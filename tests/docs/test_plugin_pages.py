"""Every plugin has a page, and the page is true: its arguments, their defaults, and an example that loads."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.config import load
from pumice.framework.plugin import Arguments
from pumice.framework.registry import PluginInfo, default_registry
from pumice.scheduler.assembly import assemble, catalogue_of

PAGES = Path(__file__).parents[2] / "docs" / "plugins"
PLUGINS = default_registry().plugins
BY_NAME = sorted(PLUGINS)
ROW = re.compile(r"^\| `(?P<name>[^`]+)` \|\s*(?P<default>[^|]*?)\s*\|", flags=re.MULTILINE)


class Recording(Arguments):
    """Arguments that remember what was asked for, and with which default."""

    def __init__(self) -> None:
        super().__init__({})
        self.defaults: dict[str, Any] = {}

    def int(self, key: builtins.str, default: builtins.int) -> builtins.int:
        self.defaults[key] = default
        return super().int(key, default)

    def float(self, key: builtins.str, default: builtins.float) -> builtins.float:
        self.defaults[key] = default
        return super().float(key, default)

    def bool(self, key: builtins.str, default: builtins.bool) -> builtins.bool:
        self.defaults[key] = default
        return super().bool(key, default)

    def str(self, key: builtins.str, default: builtins.str) -> builtins.str:
        self.defaults[key] = default
        return super().str(key, default)

    def list(self, key: builtins.str, default: Sequence[builtins.str] = ()) -> list[builtins.str]:
        self.defaults[key] = ", ".join(default)
        return super().list(key, default)


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text()


def arguments_on(text: str) -> dict[str, str]:
    """Argument -> default, from the tables of the page's arguments; those that have no effect have none."""
    section = re.search(r"^## Arguments\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    if section is None:
        return {}
    said = {m["name"].replace("<name>", "*"): m["default"].strip() for m in ROW.finditer(section[1])}
    for sentence in re.findall(r"[^.|]*(?:\.[^ \n][^.|]*)*accepted and have no effect", section[1]):
        said |= dict.fromkeys(re.findall(r"`([^`]+)`", sentence), "")
    return said


def written(default: object) -> str:
    """A default as pages write it."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float) and default.is_integer():
        return str(int(default))
    return str(default)


def examples(text: str) -> list[str]:
    """The confs of a page; an entry or tiers alone are made whole."""
    out = []
    for block in re.findall(r"^```yaml\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        data = yaml.safe_load(block)
        if isinstance(data, list) and all(isinstance(entry, dict) and "name" in entry for entry in data):
            out.append(f"actions: allocate\ntiers:\n- plugins:\n{_indented(block)}")
        elif isinstance(data, dict) and "tiers" in data:
            out.append(block if "actions" in data else f"actions: allocate\n{block}")
    return out


def _indented(block: str) -> str:
    return "".join(f"  {line}\n" for line in block.splitlines())


def test_there_is_no_page_of_a_plugin_that_does_not_exist() -> None:
    assert {path.relative_to(PAGES).with_suffix("").as_posix() for path in PAGES.rglob("*.md")} <= set(PLUGINS)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_page_has_its_plugin_as_title_and_says_what_it_is_for(name: str) -> None:
    lines = page(name).splitlines()
    assert lines[0] == f"# {name}"
    assert lines[2].endswith(".") or len(lines[2]) > 60


@pytest.mark.parametrize("name", BY_NAME)
def test_a_page_lists_exactly_the_arguments_that_the_plugin_reads(name: str) -> None:
    assert set(arguments_on(page(name))) == set(PLUGINS[name].arguments_read or ())


@pytest.mark.parametrize("name", BY_NAME)
def test_a_page_gives_the_defaults_that_the_code_uses(name: str) -> None:
    info: PluginInfo = PLUGINS[name]
    arguments = Recording()
    info.build(arguments)
    said = arguments_on(page(name))
    for argument, default in arguments.defaults.items():
        want = ("", "none") if default == "" else (written(default),)
        assert said[argument] in want, f"{argument}: the page says {said[argument]!r}, the code uses {default!r}"


@pytest.mark.parametrize("name", BY_NAME)
def test_a_page_has_an_example_conf_that_names_the_plugin_and_loads_without_a_warning(name: str) -> None:
    registry = default_registry()
    confs = [text for text in examples(page(name)) if f"name: {name}" in text]
    assert confs
    for text in confs:
        loaded = load(text, catalogue_of(registry), source=f"{name}.md")
        assert [str(warning) for warning in loaded.warnings] == []
        assemble(loaded.conf, registry)
