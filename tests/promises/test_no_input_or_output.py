"""Deciding code does no input or output: what the import contract does not see, calls of built-ins, is looked for."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
[CONTRACT] = [c for c in CONTRACTS if c["name"] == "Deciding code does no I/O of its own"]
FORBIDDEN = {"open", "print", "input", "breakpoint", "__import__"}


def calls(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno


@pytest.mark.parametrize("package", CONTRACT["source_modules"])
@pytest.mark.part(3)
def test_no_file_is_opened_and_nothing_printed(package: str) -> None:
    folder = ROOT / "src" / package.replace(".", "/")
    files = [*folder.rglob("*.py")]
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files
        for name, line in calls(ast.parse(path.read_text()))
        if name in FORBIDDEN
    ]
    assert found == []


def test_the_contract_names_every_package_that_decides_and_every_way_out() -> None:
    assert {
        "pumice.model",
        "pumice.state",
        "pumice.engine",
        "pumice.framework",
        "pumice.actions",
        "pumice.plugins",
    } <= {*CONTRACT["source_modules"]}
    ways = {"asyncio", "socket", "http", "urllib", "pathlib", "gzip", "io", "os", "subprocess", "threading", "tempfile"}
    assert ways <= {*CONTRACT["forbidden_modules"]}
