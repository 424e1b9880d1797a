"""No type is read for the first time by two threads at once: msgspec can then end the process."""

from __future__ import annotations

import ast
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pumice.model import api

SOURCE = Path(__file__).parents[2] / "src" / "pumice"
THREADS = ("kube", "dashboard")
"""Where several threads of a process read."""
ALONE = {"kube/api_client.py: question.answer", "kube/api.py: question.parameters"}
"""Read by one thread alone, that of a command that asks; and made known by `answers/questions.py`."""


def read_types(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The types that functions of a module read, and those that it makes known while it is imported."""
    read, known = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
                name = ast.unparse(call.func)
                if name == "msgspec.convert" and len(call.args) > 1:
                    read.add(ast.unparse(call.args[1]))
                elif name == "msgspec.json.decode":
                    read |= {ast.unparse(k.value) for k in call.keywords if k.arg == "type"}
                elif name in ("msgspec.json.Decoder", "ObjectDecoder") and call.args:
                    read.add(ast.unparse(call.args[0]))
    for node in tree.body:
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "make_known"
        ):
            known |= {ast.unparse(argument) for argument in node.value.args}
    return read, known


def within(kind: Any, found: set[str]) -> set[str]:
    """The names of a type and of all that it is made of."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__name__ not in found:
        found.add(kind.__name__)
        for part in typing.get_type_hints(kind).values():
            within(part, found)
    for part in typing.get_args(kind):
        within(part, found)
    return found


@pytest.mark.parametrize("package", THREADS)
def test_what_several_threads_read_was_made_by_the_one_that_imported_it(package: str) -> None:
    objects: set[str] = set()
    for kind in api.KINDS.values():  # these are made while `kube/kinds.py` is imported
        within(kind, objects)
    wrong, looked_at = [], 0
    for path in sorted((SOURCE / package).rglob("*.py")):
        read, known = read_types(ast.parse(path.read_text()))
        looked_at += len(read)
        where = path.relative_to(SOURCE).as_posix()
        if where not in ("kube/kinds.py", "kube/kinds.py"):  # the one makes all of them with the class of the other
            wrong += [f"{where}: {name}" for name in sorted(read - known - objects)]
    assert looked_at
    assert [name for name in wrong if name not in ALONE] == []
