"""No public class name stands twice, no file name twice inside a top package: a name tells what a thing is."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pumice

ROOT = Path(pumice.__file__).parent
MODULES = [path.relative_to(ROOT) for path in sorted(ROOT.rglob("*.py"))]


def test_no_public_class_has_the_name_of_another() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        for node in ast.parse((ROOT / module).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(module))
    assert len(homes) > 500
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_file_of_a_top_package_has_the_name_of_another() -> None:
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in MODULES:
        if module.name not in {"__init__.py", "__main__.py"}:
            homes[module.parts[0], module.name].append(str(module))
    assert {where: files for where, files in homes.items() if len(files) > 1} == {}
