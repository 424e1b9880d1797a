"""The tutorial from its first line to its last, with nothing but what the wheel brings."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from wheel_env import ROOT, environment, installed

TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
STEP = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL = "pip install ./pumice pytest\n"
"""The fixture has done it: nothing is downloaded."""
MARK = "end of block"


@pytest.mark.slow
@pytest.mark.timeout(300)  # some fifteen seconds, on a machine that is not busy
def test_the_tutorial_can_be_pasted_into_one_shell(tmp_path: Path, wheel: Path) -> None:
    scripts = installed(wheel, tmp_path, also=("pytest",))
    home = tmp_path / "home"
    home.mkdir()
    steps = [(step["kind"], step["body"]) for step in STEP.finditer(TEXT)]
    assert {kind for kind, _ in steps} == {"bash", "text"}
    blocks = [body for kind, body in steps if kind == "bash"]
    assert [INSTALL in body for body in blocks] == [True] + [False] * (len(blocks) - 1)
    script = f"\necho '{MARK}'\n".join(blocks)
    script = script.replace(INSTALL, "").replace("python3 -m venv venv\n. venv/bin/activate\n", "")
    script = script.replace("pytest -q", f"{scripts}/python -m pytest -q -p no:cacheprovider")
    env = {**environment(), "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "-e"], input=script, cwd=home, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert ran.returncode == 0, ran.stdout
    printed = iter(ran.stdout.split(MARK))
    said = ""
    for kind, body in steps:
        if kind == "bash":
            said = " ".join(next(printed).split())
        else:
            assert [line for line in body.splitlines() if line not in said] == [], said
    assert list(printed) == []
    assert (home / "tidy" / "out.html").stat().st_size > 100_000
