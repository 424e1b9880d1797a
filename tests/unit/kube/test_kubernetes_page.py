"""The page about Kubernetes names only what exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer.main

from pumice.cli import controllers, run
from pumice.cli.app import app
from pumice.cli.run import IDLE
from pumice.config.settings import ControllersSettings, SchedulerSettings, from_plain, json_schema, read, seconds
from pumice.kube.gangs import HALF

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")


def options() -> set[str]:
    command = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    return {name for p in command.params for name in p.opts if name.startswith("-")}


def defaults(settings: Any, above: str = "") -> dict[str, Any]:
    """Return every setting by its path, with its default."""
    found: dict[str, Any] = {}
    for name, key in zip(settings.__struct_fields__, settings.__struct_encode_fields__, strict=True):
        value = getattr(settings, name)
        deeper = isinstance(value, msgspec.Struct)
        found |= defaults(value, f"{above}{key}.") if deeper else {f"{above}{key}": value}
    return {path: value for path, value in found.items() if path not in ("apiVersion", "kind")}


def test_every_flag_on_the_page_exists() -> None:
    others = r"```.*?```|`--(?:set|set-file|values)\b[^`]*`|`pumice (?!run)[^`]*`"  # of helm, and of other commands
    prose = re.sub(others, "", TEXT, flags=re.DOTALL)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", prose))
    assert named
    assert named - options() - {"--config"} == set()


def test_every_file_on_the_page_exists() -> None:
    named = set(re.findall(r"deploy/[\w./-]+\w", TEXT))
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


PAGES = {"kubernetes.md": (SchedulerSettings, run.FLAGS), "controllers.md": (ControllersSettings, controllers.FLAGS)}


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_has_its_flag_and_its_default_on_the_page(page: str) -> None:
    kind, flags = PAGES[page]
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    table = text.partition("| setting | flag |")[2].partition("\n\n")[0]
    known, told = defaults(kind()), dict.fromkeys(re.findall(r"^\|((?: `[\w.]+`,?)+)", table, re.MULTILINE))
    assert {path for cell in told for path in re.findall(r"`([\w.]+)`", cell)} == set(known)
    for row in table.splitlines()[2:]:
        cells = [re.findall(r"`([^`]+)`", cell) for cell in row.split("|")[1:4]]
        assert cells[1] == [re.split("[ /]", flag.name)[0] for path in cells[0] for flag in flags if flag.path == path]
        plain = [
            str(known[path])
            for path in cells[0]
            if isinstance(known[path], (int, float, str)) and not isinstance(known[path], bool)
        ]
        assert not plain or cells[2] == plain


def test_the_example_of_the_page_is_a_settings_file_that_is_read() -> None:
    example = next(text for text in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL) if "kind: Scheduler" in text)
    found = from_plain(read(example, "page", SchedulerSettings), SchedulerSettings)
    assert (found.answers.dashboard, found.history.keep) == (True, "90d")


@pytest.mark.parametrize("name", ["scheduler", "controllers"])
def test_the_json_schema_in_the_docs_is_that_of_the_code(name: str) -> None:
    kind = SchedulerSettings if name == "scheduler" else ControllersSettings
    text = (ROOT / "docs" / "reference" / f"settings-{name}.json").read_text(encoding="utf-8")
    assert json.loads(text) == json.loads(json.dumps(json_schema(kind))), "run tools/write_api.py"


def test_the_page_says_how_long_a_gang_may_be_half() -> None:
    assert f"after **{HALF:g} seconds** (`halfGangTimeout`)" in TEXT
    assert seconds(SchedulerSettings().half_gang_timeout) == HALF


def test_no_flag_both_works_and_changes_nothing() -> None:
    assert set(IDLE) & options() == set()
