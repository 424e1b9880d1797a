"""Every action stands on its page, and every argument that it reads stands there with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pumice.framework.registry import default_registry

DOCS = Path(__file__).parents[2] / "docs"
ACTIONS = default_registry().actions


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_an_action_is_in_the_table_of_its_page(name: str) -> None:
    page = (DOCS / ("kai.md" if name.startswith("kai/") else "actions.md")).read_text()
    row = re.search(rf"^\| `?{name.removeprefix('kai/')}`? \| .+\|$", page, flags=re.MULTILINE)
    assert row, f"{name} has no row"
    if not name.startswith("kai/"):
        said = page if "see below" in row[0] else row[0]
        assert [argument for argument in ACTIONS[name].arguments_read if f"`{argument}`" not in said] == []
