"""What the Dockerfile does, done in a fresh environment: there is no Docker here, but its commands can be run."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kube_bed import ROOT

LINES = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").splitlines()


@pytest.mark.timeout(600)
def test_the_commands_of_the_dockerfile_give_a_pumice_that_runs_without_writing(tmp_path: Path) -> None:
    source, made = tmp_path / "src", tmp_path / "opt" / "pumice"
    source.mkdir()
    for line in LINES:
        words = line.split()
        if words[:1] == ["COPY"] and not words[1].startswith("--"):
            for name in words[1:-1]:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                (source / name).parent.mkdir(exist_ok=True)
                copy(ROOT / name, source / name)
    base = tmp_path / "base"  # stands for the Python of the base image, which is changed as well
    subprocess.run([sys.executable, "-m", "venv", str(base)], check=True)
    quiet = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}
    for line in LINES:
        if line.startswith("RUN "):
            text = line.removeprefix("RUN ").replace("/opt/", f"{tmp_path}/opt/").replace("/usr/local/", f"{base}/")
            command = shlex.split(text)
            command[0] = str(base / "bin" / "python") if command[0] == "python" else command[0]
            assert command[0].startswith(str(tmp_path)) or str(tmp_path) in command[-1], line
            done = subprocess.run(command, cwd=source, env=quiet, capture_output=True, text=True, timeout=500)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    for python in (base / "bin" / "python", made / "bin" / "python"):
        assert subprocess.run([python, "-m", "pip", "--version"], env=quiet, capture_output=True).returncode == 1
    before = set(made.rglob("*"))
    environment = {"PATH": str(made / "bin"), "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent"}
    conf = ROOT / "deploy" / "helm" / "pumice" / "files" / "scheduler.conf"
    command = [str(made / "bin" / "pumice"), "conf", "check", str(conf)]
    run = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
    assert set(made.rglob("*")) == before
    assert list(made.glob("lib/python*/site-packages/pytest")) == []
