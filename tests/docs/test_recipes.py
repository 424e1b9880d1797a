"""The recipes of examples/recipes/README.md work: each is run on a copy of the source, and so is its test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "examples" / "recipes" / "README.md"
STEP = re.compile(
    r"^```python (?P<what>insert|new|test)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
HEADINGS = (
    "A point",
    "A plugin",
    "An action",
    "A verb of the extender",
    "A field of a queue",
    "A metric",
    "A lint rule",
)


@pytest.mark.slow
def test_the_recipes_work_on_a_copy(tmp_path: Path) -> None:
    page = PAGE.read_text()
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tools", copy / "tools", ignore=shutil.ignore_patterns("__pycache__", "kube"))
    tests = ["from __future__ import annotations\n"]
    steps = list(STEP.finditer(page))
    for step in steps:
        path, text = copy / (step["file"] or ""), step["text"]
        match step["what"]:
            case "new":
                assert not path.exists(), f"{step['file']} is no new file"
                path.write_text(text)
            case "insert":  # its first or last line stands in the file, and makes way for the whole
                known, lines = path.read_text(), text.splitlines(keepends=True)
                anchor = next(
                    line for line in (lines[0], lines[-1], lines[-2]) if known.splitlines(True).count(line) == 1
                )
                path.write_text(known.replace(anchor, text))
            case _:
                tests.append(text)
    (copy / "test_recipes_of_the_copy.py").write_text("\n\n".join(tests))
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(copy / "src"), str(copy / "tools")]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(copy), str(copy)],
        cwd=copy,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{sum('def test_' in text for text in tests)} passed" in done.stdout


def test_every_recipe_has_its_test() -> None:
    parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    assert tuple(part.partition("\n")[0] for part in parts) == HEADINGS
    assert all("```python test" in part for part in parts)
