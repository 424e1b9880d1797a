"""There is one way to write to an API server, and one reader of quantities."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "pumice"
MODULES = sorted((SOURCE / "kube").rglob("*.py"))
ASKING = {
    "lease.py": "the lease decides who may write, so it cannot be written by who may",
    "access.py": "a review asks a question by POST, and changes nothing",
    "client.py": "what everything is sent with",
    "writer.py": "the one way",
    "api_client.py": "asks a running scheduler, and reads",
}
READS = {"GET"}


def requests_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and method of every request that a module sends with a client of its own."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "request":
            first = node.args[0] if node.args else None
            yield node.lineno, str(first.value) if isinstance(first, ast.Constant) else "?"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_nobody_writes_but_the_writer(path: Path) -> None:
    """The codes 404, 409 and 429, the time that is left and what is tried again are settled in `kube/writer.py`."""
    written = [f"{path.name}:{line} {method}" for line, method in requests_of(path) if method not in READS]
    assert path.name in ASKING or written == []


def test_whoever_is_excepted_sends_something() -> None:
    sends = {path.name for path in MODULES if any(True for _ in requests_of(path))}
    assert sends >= ASKING.keys()


def test_suffixes_of_quantities_are_known_to_one_module() -> None:
    """Whoever has a table of Ki, Mi and Gi of its own reads quantities by rules of its own."""
    table = re.compile(r"""["'](Ki|Mi|Gi|Ti)["']|KMGTPE""")
    found = [str(p.relative_to(SOURCE)) for p in sorted(SOURCE.rglob("*.py")) if table.search(p.read_text())]
    for_people = ["cli/text.py", "model/limit.py"]  # they write, and read nothing
    assert [path for path in found if path not in for_people] == ["model/quantity.py"]
