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
BEFORE = TEXT.index("## 2.")
"""Installing is what the fixture does."""


def saved_as(at: int) -> str:
    """The file that the text names last before a block."""
    return str(re.findall(r"`(tidy/[\w./]+)`", TEXT[:at])[-1])


@pytest.mark.slow
@pytest.mark.timeout(300)  # some fifteen seconds, on a machine that is not busy
def test_every_step_of_the_tutorial_does_what_the_page_says(tmp_path: Path, wheel: Path) -> None:
    scripts = installed(wheel, tmp_path, also=("pytest",))
    home = tmp_path / "home"
    home.mkdir()
    env = {**environment(), "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    said = ""
    kinds: list[str] = []
    for step in STEP.finditer(TEXT):
        kind, body = step["kind"], step["body"]
        if kind in ("python", "yaml"):
            (home / saved_as(step.start())).write_text(body, encoding="utf-8")
        elif kind == "console":
            said = ""
            for command in re.findall(r"^\$ (.*)$", body, re.MULTILINE):
                command = command.replace("pytest -q", f"{scripts}/python -m pytest -q -p no:cacheprovider")
                ran = subprocess.run(
                    command, shell=True, cwd=home, env=env, capture_output=True, text=True, check=False
                )
                assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
                said += ran.stdout + ran.stderr
        elif step.start() > BEFORE:
            flat = " ".join(said.split())
            missing = [line for line in body.splitlines() if line not in flat]
            assert missing == [], said
        kinds.append(kind)
    assert [kinds.count(kind) for kind in ("console", "python", "yaml")] == [7, 2, 3]
    assert (home / "tidy" / "out.html").stat().st_size > 100_000
