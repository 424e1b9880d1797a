"""Type checkers know extension points: they find every wrong plugin and nothing in right ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RIGHT, WRONG = HERE / "right_plugins.py", HERE / "wrong_plugins.py"


def test_there_are_twenty_of_each() -> None:
    for plugins in (RIGHT, WRONG):
        assert len(re.findall(r"^class \w+\(Plugin\):", plugins.read_text(), re.MULTILINE)) == 20
    for written in WRONG.read_text().split("\nclass ")[1:]:
        assert "# wrong" in written


def _run(*command: str) -> str:
    ran = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=HERE, timeout=240)
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout


def _with_mypy(cache: Path) -> list[tuple[str, int, str]]:
    said = _run("mypy", "--strict", "--config-file=", f"--cache-dir={cache}", RIGHT.name, WRONG.name)
    return [(m[1], int(m[2]), m[3]) for m in re.finditer(r"^(\w+\.py):(\d+): error: (.*)$", said, re.MULTILINE)]


def _with_pyright() -> list[tuple[str, int, str]]:
    said = json.loads(_run("pyright", "--pythonpath", sys.executable, "--outputjson", RIGHT.name, WRONG.name))
    return [
        (Path(found["file"]).name, found["range"]["start"]["line"] + 1, found["message"])
        for found in said["generalDiagnostics"]
        if found["severity"] == "error"
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_checker_finds_every_wrong_plugin_and_no_right_one(checker: str, tmp_path: Path) -> None:
    found = _with_mypy(tmp_path) if checker == "mypy" else _with_pyright()
    assert [error for error in found if error[0] == RIGHT.name] == []
    marked = {n for n, line in enumerate(WRONG.read_text().splitlines(), 1) if line.endswith("# wrong")}
    lines = {line for _, line, _ in found}
    assert lines == marked, (sorted(marked - lines), [error for error in found if error[1] not in marked])
