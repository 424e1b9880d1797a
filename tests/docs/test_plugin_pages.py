"""Every plugin has a page, and the page is true: its arguments, their defaults, and an example that loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from write_points import with_arguments

from pumice.config import load
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import assemble, catalogue_of

PAGES = Path(__file__).parents[2] / "docs" / "plugins"
PLUGINS = default_registry().plugins
BY_NAME = sorted(PLUGINS)


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text()


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
def test_the_table_of_arguments_is_made_from_what_the_plugin_declares(name: str) -> None:
    assert PLUGINS[name].arguments is not None
    assert with_arguments(page(name), PLUGINS[name].arguments or ()) == page(name), "run tools/write_points.py"


@pytest.mark.parametrize("name", BY_NAME)
def test_every_argument_says_in_a_sentence_what_it_means(name: str) -> None:
    for one in PLUGINS[name].arguments or ():
        assert one.kind
        assert one.doc[0].isupper() or one.doc[0] == "`", one.name
        assert one.doc[-1] in ".?", one.name


@pytest.mark.parametrize("name", BY_NAME)
def test_a_page_has_an_example_conf_that_names_the_plugin_and_loads_without_a_warning(name: str) -> None:
    registry = default_registry()
    confs = [text for text in examples(page(name)) if f"name: {name}" in text]
    assert confs
    for text in confs:
        loaded = load(text, catalogue_of(registry), source=f"{name}.md")
        assert [str(warning) for warning in loaded.warnings] == []
        assemble(loaded.conf, registry)
