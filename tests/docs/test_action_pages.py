"""Every action stands on its page, and every argument that it reads stands there with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pumice.framework.arguments import declared_by
from pumice.framework.registry import default_registry
from pumice.testing import Scenario

DOCS = Path(__file__).parents[2] / "docs"
ACTIONS = default_registry().actions


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_an_action_is_in_the_table_of_its_page(name: str) -> None:
    page = (DOCS / ("kai.md" if name.startswith("kai/") else "actions.md")).read_text()
    row = re.search(rf"^\| `?{name.removeprefix('kai/')}`? \| .+\|$", page, flags=re.MULTILINE)
    assert row, f"{name} has no row"
    if not name.startswith("kai/"):
        said = page if "see below" in row[0] else row[0]
        assert [one.name for one in declared_by(ACTIONS[name]) if f"`{one.name}`" not in said] == []


def test_the_action_of_the_page_places_gangs_and_reads_its_argument() -> None:
    block = re.search(r"```python\n(.*?)```", (DOCS / "actions.md").read_text(), flags=re.DOTALL)
    assert block is not None
    found: dict[str, Any] = {}
    exec(compile(block[1], str(DOCS / "actions.md"), "exec"), found)
    registry = default_registry().copy()
    registry.actions["first-fit"] = found["FirstFit"]
    conf: dict[str, Any] = {"actions": "enqueue, first-fit", "tiers": [{"plugins": [{"name": "gang"}]}]}
    scenario = Scenario(registry=registry).node("n1", cpu=4).node("n2", cpu=4)
    scenario.job("a", tasks=3).job("b", tasks=2).job("large", tasks=9)
    cycle = scenario.run(conf=conf)
    assert sorted(cycle.binds) == ["default/a-0", "default/a-1", "default/a-2", "default/b-0", "default/b-1"]
    scenario.assert_no_errors()
    scenario.assert_invariants()
    few = {**conf, "configurations": [{"name": "first-fit", "arguments": {"most": "1"}}]}
    assert len(Scenario(registry=registry).node("n1").job("a").job("b").run(conf=few).binds) == 1
