"""What a decoder refuses is told in plain words: no text of the decoder's own reaches a user."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pumice.errors import InvalidInput
from pumice.model.api import decode

SOURCE = Path(__file__).parents[2] / "src" / "pumice"
REFUSALS = re.compile(r"ValidationError|(?<!Unicode)DecodeError|MsgspecError")
QUOTE = "; in YAML quote it: n, no, off and 12 are no text"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("Node", {"metadata": {"name": False}}, f"metadata.name: must be text, got a truth value{QUOTE}"),
    ("Pod", {"metadata": {"labels": {"a": 1}}}, f"metadata.labels[...]: must be text, got a whole number{QUOTE}"),
    ("PodGroup", {"spec": {"minMember": "2"}}, "spec.minMember: must be a whole number, got text"),
    ("Pod", {"spec": {"tolerations": {}}}, "spec.tolerations: must be a list or nothing, got a mapping"),
    ("Node", {"spec": {"taints": [{"key": "a"}]}}, "spec.taints[0].effect: is missing"),
    ("Pod", {"spec": []}, "spec: must be a mapping, got a list"),
    ("Queue", {"spec": {"weight": 1.5}}, "spec.weight: must be a whole number, got a number"),
]


@pytest.mark.parametrize(("kind", "data", "words"), REFUSED)
def test_a_value_of_the_wrong_kind_is_told_by_field_and_rule(kind: str, data: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        decode(kind, {"metadata": {"name": "x"}} | data)
    assert str(caught.value).endswith(f": {words}")


def worded_raw(tree: ast.AST) -> Iterator[int]:
    """Lines in which a refusal of the decoder goes into a text as it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type and REFUSALS.search(ast.unparse(node.type)):
            for part in ast.walk(node):
                if isinstance(part, ast.FormattedValue) and ast.unparse(part.value) in (node.name, f"str({node.name})"):
                    yield part.lineno


def test_no_module_puts_a_refusal_of_the_decoder_into_a_text() -> None:
    found = [f"{path.relative_to(SOURCE)}:{at}" for path in SOURCE.rglob("*.py")
             for at in worded_raw(ast.parse(path.read_text()))]  # fmt: skip
    assert found == []
