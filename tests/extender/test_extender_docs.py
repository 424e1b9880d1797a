"""docs/extender.md says what is true: its code runs, its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from extender_serving import Serving

from pumice.config import from_data
from pumice.extender.asking.settings import PATHS, SETTINGS
from pumice.extender.protocol import PREEMPT, VERBS
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import catalogue_of

PAGE = (Path(__file__).parents[2] / "docs" / "extender.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_arguments_have_one_table_and_the_page_leads_there() -> None:
    """The table is looked at with those of the other plugins: every argument, every default."""
    assert "(plugins/extender.md#arguments)" in PAGE
    assert re.findall(r"^\| `extender\.\w+", PAGE, re.MULTILINE) == []
    assert {f"extender.{name}" for name in re.findall(r"`extender\.(\w+)`", PAGE)} <= {
        one.name for one in (*SETTINGS, *PATHS)
    }


def test_every_verb_has_its_row() -> None:
    for name, verb in VERBS.items():
        if verb is not PREEMPT:
            assert re.search(rf"^\| [A-Za-z, ]*\b{name}\b", PAGE, re.MULTILINE), name


def test_the_configuration_of_the_page_is_clean() -> None:
    ours = [block for block in _blocks("yaml") if "tiers:" in block]
    assert ours
    for block in ours:
        loaded = from_data(yaml.safe_load(block), catalogue_of(default_registry()))
        assert list(loaded.warnings) == []


def test_the_policy_of_the_page_can_be_served() -> None:
    names: dict[str, Any] = {"__name__": "same_rack"}
    for block in _blocks("python"):
        exec(compile(block, "docs/extender.md", "exec"), names)
    with Serving(names["application"]) as serving:
        question = {
            "task": {"namespace": "default", "name": "task-1", "labels": {"rack": "a"}, "resources": {"cpu": 2}},
            "node": {"name": "node-1", "labels": {"rack": "b"}, "allocatable": {"cpu": 8, "memory": 16384}},
        }
        assert serving.post("predicate", question) == (200, {"code": 2, "errorMessage": "wants rack a"})
        question["node"]["labels"] = {"rack": "a"}
        assert serving.post("predicate", question) == (200, {"code": 0, "errorMessage": ""})
