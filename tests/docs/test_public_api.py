"""The public API is one list, ``__all__`` of the public packages. A page has all of it, and docs use nothing else."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

import pumice

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from write_api import FOR_POLICIES, OF_A_SESSION, PACKAGES, PAGE, page  # noqa: E402

NAMES = [(package, name) for package in PACKAGES for name in import_module(package).__all__]
INSIDE = {
    "docs/guides/plugin-development.md": {"pumice.framework.registry"},
    "docs/simulator-python.md": {
        "pumice.scheduler.assembly",
        "pumice.sim.results",
        "pumice.sim.run",
        "pumice.sim.scenario",
    },
    "docs/extender.md": {"pumice.extender.server"},
}
"""Pages that show what is inside, and say beside it that these names may change."""
SHOWN = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md", *ROOT.glob("examples/**/*.py")])


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run tools/write_api.py"


ROWS = re.compile(r"^\| `(?P<name>\w+)(?P<call>\()?[^`]*` \|", re.MULTILINE)
ENTRY = re.compile(r"^### (?P<package>[\w.]+)\.(?P<name>\w+)\n(?P<body>.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("entry", [*ENTRY.finditer(PAGE.read_text(encoding="utf-8"))], ids=lambda e: e["name"])
def test_what_the_page_shows_as_a_method_is_called_and_all_else_is_read(entry: re.Match[str]) -> None:
    value = getattr(import_module(entry["package"]), entry["name"])
    for row in ROWS.finditer(entry["body"]):
        member = inspect.getattr_static(value, row["name"], None)
        called = isinstance(member, (FunctionType, classmethod, staticmethod))
        assert called is bool(row["call"]), row[0]


def test_the_page_begins_with_what_policies_need() -> None:
    named = re.findall(r"^### [\w.]+\.(\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert named[0] == "Plugin"
    assert set(FOR_POLICIES) < set(import_module("pumice").__all__)
    assert {*OF_A_SESSION} <= {*re.findall(r"^\| `(\w+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)}


def test_a_package_lists_its_public_names_alone() -> None:
    assert dir(pumice) == sorted(pumice.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_list_is_in_order_and_what_it_names_is_there(package: str) -> None:
    names = import_module(package).__all__
    assert len(names) == len(set(names))  # ruff looks after the order
    assert set(names) <= set(dir(import_module(package)))


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_a_public_name_says_what_it_is(package: str, name: str) -> None:
    value = getattr(import_module(package), name)
    assert value.__doc__, name
    for member, found in vars(value).items() if inspect.isclass(value) else ():
        if not member.startswith("_") and inspect.isfunction(found):
            assert found.__doc__, f"{name}.{member}"


def imported(path: Path) -> list[str]:
    """Modules of ours that the Python of a file or a page imports from."""
    text = path.read_text(encoding="utf-8")
    blocks = [text] if path.suffix == ".py" else re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    found = []
    for block in blocks:
        if block.startswith("    "):  # goes on a class above
            continue
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                found.append(node.module or "")
            elif isinstance(node, ast.Import):
                found += [alias.name for alias in node.names]
    return [module for module in found if module.split(".")[0] == "pumice"]


@pytest.mark.parametrize("path", SHOWN, ids=[str(path.relative_to(ROOT)) for path in SHOWN])
def test_what_we_show_uses_public_names_alone(path: Path) -> None:
    inside = INSIDE.get(str(path.relative_to(ROOT)), set())
    assert set(imported(path)) - set(PACKAGES) == inside
    if inside:
        assert "not public" in path.read_text(encoding="utf-8")
