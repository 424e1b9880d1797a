"""The notebook of examples/research: its cells run from top to bottom, and show something."""

from __future__ import annotations

import ast
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2] / "examples" / "research"
BOOK = json.loads((ROOT / "ten_minutes.ipynb").read_text(encoding="utf-8"))
CELLS = ["".join(cell["source"]) for cell in BOOK["cells"] if cell["cell_type"] == "code"]


def shown(cell: str, names: dict[str, Any]) -> Any:
    """Run a cell; return the value of its last expression, as a notebook shows it."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # type: ignore[attr-defined]


@pytest.mark.timeout(400)  # 10 s of CPU
def test_every_cell_runs_and_shows_a_table_a_text_or_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    figures = tables = 0
    for cell in CELLS:
        value = shown(cell, names)
        if hasattr(value, "savefig"):
            value.savefig(stream := BytesIO(), format="png")
            assert len(stream.getvalue()) > 10_000
            assert value.axes[0].get_title()
            figures += 1
        elif hasattr(value, "_repr_html_"):
            assert "<table" in value._repr_html_()
            tables += 1
    assert (figures, tables) == (4, 6)
    assert "Wait, mean" in names["study"].verdict or "wait" in names["study"].verdict.lower()
    assert (names["preempting"].runs.where(configuration="tiresias")["evictions"] > 0).any()


def test_the_notebook_is_stored_without_outputs() -> None:
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in BOOK["cells"])
