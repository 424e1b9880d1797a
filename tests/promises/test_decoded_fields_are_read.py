"""Every field that is decoded from an object of the cluster is read by some module: none is taken in and forgotten."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pumice.model import api, kai, native

SOURCE = Path(__file__).parents[2] / "src" / "pumice"
OWN_STRUCTS = ("Struct", "AnyObject", "Metadata", "OwnerReference", "OwnedMeta")


def structs(cls: type[Any]) -> Iterator[type[Any]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from structs(sub)


def fields() -> list[tuple[str, str]]:
    """Each struct of the model's three modules with each field that it declares itself."""
    modules = {module.__name__ for module in (api, native, kai)}
    found = {cls for cls in structs(api._Struct) if cls.__module__ in modules}
    return sorted((cls.__name__, name) for cls in found for name in {*cls.__annotations__} & {*cls.__struct_fields__})


def declared(tree: ast.AST) -> set[str]:
    """Fields of structs that a module declares itself: a read there is perhaps one of its own."""
    return {
        line.target.id
        for made in ast.walk(tree)
        if isinstance(made, ast.ClassDef) and any(ast.unparse(base).endswith(OWN_STRUCTS) for base in made.bases)
        for line in made.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }


def reads(path: Path) -> set[str]:
    """Names of attributes that a module reads, by a dot or by a text such as ``getattr`` takes."""
    tree = ast.parse(path.read_text())
    dots = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)}
    if path.parent.name == "model":
        return dots
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return (dots | {text for text in texts if "_" in text and text.isidentifier()}) - declared(tree)


@pytest.fixture(scope="module")
def read() -> set[str]:
    return {name for path in SOURCE.rglob("*.py") for name in reads(path)}


def test_fields_are_found() -> None:
    assert {("ContainerStatus", "allocated_resources"), ("KaiQueueSpec", "display_name"), ("Workload", "metadata")} & {
        *fields()
    }
    assert len(fields()) > 150


@pytest.mark.parametrize(("struct", "field"), fields())
def test_a_decoded_field_is_read(struct: str, field: str, read: set[str]) -> None:
    assert field in read, f"{struct}.{field} is decoded, and no module reads it"
