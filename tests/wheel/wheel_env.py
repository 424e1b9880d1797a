"""The built wheel in fresh environments that hold just what an installation with some extras would."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def run(*words: object, cwd: Path, code: int = 0) -> str:
    """What a command prints on stdout, then on stderr; it must end with *code*."""
    command = [str(word) for word in words]
    ran = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == code, f"{' '.join(command)}\n{ran.stdout}{ran.stderr}"
    return ran.stdout + ran.stderr


def environment() -> dict[str, str]:
    """That of somebody who has no source tree."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "COV"))}


def built(directory: Path) -> Path:
    """The wheel."""
    options = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", directory / "dist", ROOT, cwd=directory)
    [wheel] = (directory / "dist").glob("pumice-*.whl")
    return wheel


def installed(wheel: Path, directory: Path, *extras: str, also: tuple[str, ...] = ()) -> Path:
    """The scripts of a fresh environment with the wheel, what it and its *extras* require, and *also* others.

    Nothing is downloaded: what is required is linked from the environment in which the tests run.
    """
    run(sys.executable, "-m", "venv", "--without-pip", directory / "venv", cwd=directory.parent)
    [packages] = (directory / "venv").glob("lib/python*/site-packages")
    scripts = directory / "venv" / "bin"
    pip = (sys.executable, "-m", "pip", "--python", scripts / "python", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=directory)
    [info] = packages.glob("pumice-*.dist-info")
    for found in closure(Distribution.at(info), set(extras), also).values():
        link(found, packages)
    return scripts


def closure(top: Distribution, extras: set[str], also: tuple[str, ...] = ()) -> dict[str, Distribution]:
    """Every distribution that one with some extras requires, by name, and those that *also* require."""
    found: dict[str, Distribution] = {}
    waiting = [(Requirement(line), extras) for line in top.requires or ()]
    waiting += [(Requirement(name), set()) for name in also]
    while waiting:
        requirement, given = waiting.pop()
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in (given or {""})):
            continue
        if requirement.name == "pumice":  # an extra that is made of others
            waiting += [(Requirement(line), set(requirement.extras)) for line in top.requires or ()]
        elif requirement.name not in found:
            found[requirement.name] = made = distribution(requirement.name)
            waiting += [(Requirement(line), set(requirement.extras)) for line in made.requires or ()]
    return found


def link(found: Distribution, packages: Path) -> None:
    """Make the files of a distribution visible in another folder of packages."""
    base = Path(str(found.locate_file("")))
    for top in {Path(file).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
        there = packages / top
        if not there.exists():
            there.symlink_to(base / top)
