"""Promise: a reason is one of a list of words that do not change, and the list is documented.

Enumerates every member of `ReasonCode`, every stage, and every place in the source where a reason is written: an event,
a condition, a rejection of a built-in plugin.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pumice
from pumice.framework.session.outcome import Refusal, Stage
from pumice.model.codes import ReasonCode

SOURCE = Path(pumice.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "reasons.md"
FILES = sorted(SOURCE.rglob("*.py"))
REASON_AT = {"Note": 3, "reject": 1, "set_condition": 3, "_condition": 2, "_note": 1}
"""Functions that take a reason, and at which place."""


def meanings() -> dict[str, str]:
    """Code -> the first line of what the source says of it."""
    tree = ast.parse((SOURCE / "model" / "codes.py").read_text(encoding="utf-8"))
    (listed,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    out = {}
    for member, said in zip(listed.body, listed.body[1:], strict=False):
        if isinstance(member, ast.Assign):
            assert isinstance(member.value, ast.Constant)
            assert isinstance(said, ast.Expr), member.value.value
            assert isinstance(said.value, ast.Constant), member.value.value
            out[str(member.value.value)] = str(said.value.value)
    return out


def written(tree: ast.AST) -> Iterator[ast.expr]:
    """The expressions that are written as reasons."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            at = REASON_AT.get(name)
            if at is not None and len(node.args) > at:
                yield node.args[at]
            yield from (k.value for k in node.keywords if k.arg == "reason" and name in (*REASON_AT, "Refusal"))
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "reason":
                    yield value


def constants(value: ast.expr) -> Iterator[str]:
    parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    for part in parts:
        if isinstance(part, (ast.Constant, ast.JoinedStr)):
            yield ast.unparse(part)


def test_nobody_writes_a_reason_of_his_own() -> None:
    own, seen = {}, 0
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if "reason" in text or any(f"{name}(" in text for name in REASON_AT):  # nothing else can write one
            found = [*written(ast.parse(text))]
            seen += len(found)
            if texts := [text for value in found for text in constants(value)]:
                own[str(path.relative_to(SOURCE))] = texts
    assert own == {}
    assert seen > 50


@pytest.mark.parametrize(
    "own",
    [
        'Note("Pod", key, "Warning", "Mine", text)',
        'Note("Pod", key, "Warning", "Mine" if bad else ReasonCode.INVALID, text)',
        'reject("no", "Mine")',
        'reject("no", reason="Mine")',
        'condition = {"type": "Admitted", "reason": "Mine"}',
    ],
)
def test_the_scan_sees_what_is_written(own: str) -> None:
    assert [text for value in written(ast.parse(own)) for text in constants(value)] == ["'Mine'"]


def test_every_reason_is_used() -> None:
    used = {name for path in FILES for name in re.findall(r"\bReasonCode\.(\w+)", path.read_text(encoding="utf-8"))}
    assert [code.name for code in ReasonCode if code.name not in used] == ["OPEN_QUEUE", "CLOSE_QUEUE"]


def test_the_two_that_nobody_names_are_the_commands_of_queues() -> None:
    from pumice.kube.controllers.queues import CLOSE_ACTION, OPEN_ACTION

    assert (ReasonCode(OPEN_ACTION), ReasonCode(CLOSE_ACTION)) == (ReasonCode.OPEN_QUEUE, ReasonCode.CLOSE_QUEUE)


@pytest.mark.parametrize("code", [code for code in ReasonCode if code is not ReasonCode.GANG_READY])
def test_a_reason_is_one_word_in_camel_case(code: ReasonCode) -> None:
    assert re.fullmatch(r"([A-Z][a-z]+)+", code)
    assert code.name == re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).upper()


def test_the_page_lists_every_reason_with_what_it_means() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [code for code, _ in rows] == [str(code) for code in ReasonCode]
    assert dict(rows) == meanings()


@pytest.mark.parametrize("stage", Stage)
def test_every_stage_has_a_word_of_its_own(stage: Stage) -> None:
    assert Refusal(stage, "no").code == stage.code
    assert [other for other in Stage if other.code == stage.code] == [stage]
