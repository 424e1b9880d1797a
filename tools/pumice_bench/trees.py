"""Two states of the source side by side in a temporary folder, and child processes that measure one of them.

The protocol between them is old and stays, because earlier commits speak it too: ``python -m pumice_bench.children
SHAPE`` prints one JSON object with ``cpu`` (seconds of process time), ``peak_mib`` and ``wrong`` (what was not right).
Earlier commits have the package in their source, as ``pumice.bench``.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pumice
from pumice.errors import InvalidInput, PumiceError

_SHAPES = "import json, pumice, {package}.shapes as s; print(json.dumps([pumice.__file__, list(s.SHAPES)]))"


class LacksShape(PumiceError):
    """A tree can measure a shape neither with its own code nor with borrowed code."""


@dataclass(frozen=True)
class SourceTree:
    """The source of one commit, or a copy of the working tree."""

    name: str
    root: Path

    @property
    def package(self) -> str:
        """The name of its measuring code."""
        return "pumice_bench" if (self.root / "tools" / "pumice_bench").is_dir() else "pumice.bench"

    @cached_property
    def shapes(self) -> frozenset[str]:
        """The shapes that its own code measures.

        :raises PumiceError: its code does not run here.
        """
        file, names = json.loads(self.python(0, "-c", _SHAPES.format(package=self.package)))
        if not Path(file).is_relative_to(self.root.resolve()):
            raise PumiceError(f"{self.name}: Python imports pumice from {file}, not from the tree to be measured")
        return frozenset(names)

    def measure(self, shape: str, lender: SourceTree, seed: int) -> dict[str, Any]:
        """Measure a shape once, with the code of *lender* where this tree does not know the shape.

        :raises LacksShape: the borrowed code does not fit this tree.
        :raises PumiceError: its own code failed.
        """
        if shape in self.shapes:
            said = self.python(seed, "-m", f"{self.package}.children", shape)
        else:
            try:
                said = self.python(seed, "-m", f"{lender.package}.children", shape, tools=lender.root / "tools")
            except PumiceError as exc:
                raise LacksShape(f"{self.name} lacks the shape {shape}: {exc}") from exc
        measured: dict[str, Any] = json.loads(said)
        return measured

    def python(self, seed: int, *args: str, tools: Path | None = None) -> str:
        """Return what a child process prints that has this tree's package and entry points, whatever is installed."""
        folders = (self.root / "src", self.root / "metadata", tools or self.root / "tools")
        path = os.pathsep.join(map(str, folders))
        env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(seed)}
        # -P: the folder from which the command was called must not be imported from
        child = subprocess.run([sys.executable, "-P", *args], capture_output=True, text=True, check=False, env=env)
        if child.returncode != 0:
            last = child.stderr.strip().splitlines()[-1:] or ["no message"]
            raise PumiceError(f"{self.name}: {last[0]}")
        return child.stdout


def checkout_of_pumice() -> Path:
    """The git checkout from which pumice runs.

    :raises InvalidInput: it was installed in another way.
    """
    checkout = Path(pumice.__file__).resolve().parents[2]
    if not (checkout / "pyproject.toml").is_file() or not (checkout / ".git").exists():
        raise InvalidInput(f"--against: pumice runs from {checkout}, which is not a git checkout of it")
    return checkout


@contextmanager
def trees(checkout: Path, commit: str) -> Iterator[tuple[SourceTree, SourceTree]]:
    """The source of a commit and a copy of the working tree, which may then change; both are gone afterwards.

    :raises InvalidInput: there is no such commit.
    """
    found = _git(checkout, "rev-parse", "--verify", "--quiet", "--short", f"{commit}^{{commit}}")
    if found.returncode != 0:
        raise InvalidInput(f"--against {commit}: not a commit of {checkout}")
    name = found.stdout.decode().strip()
    with tempfile.TemporaryDirectory(prefix="pumice-bench-") as folder:
        then, now = SourceTree(name, Path(folder, "then")), SourceTree("now", Path(folder, "now"))
        # an archive, not a worktree: git need not be told when this process is killed
        there = _git(checkout, "ls-tree", "--name-only", name).stdout.decode().split()
        wanted = [part for part in ("src", "tools", "pyproject.toml") if part in there]
        archive = _git(checkout, "archive", "--format=tar", name, *wanted)
        if archive.returncode != 0:
            raise InvalidInput(f"--against {commit}: {archive.stderr.decode().strip()}")
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(then.root, filter="data")
        for part in ("src", "tools"):
            shutil.copytree(checkout / part, now.root / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(checkout / "pyproject.toml", now.root)
        for tree in (then, now):
            _describe(tree.root)
        yield then, now


def _git(checkout: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", str(checkout), *args], capture_output=True, check=False)
    except FileNotFoundError:
        raise InvalidInput("--against needs git, which is not installed") from None


def _describe(root: Path) -> None:
    """Write the tree's entry points down as an installed package has them: plugins are found through these."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project.get("version", "0")  # a version that is taken from the tag stands in no file
    folder = root / "metadata" / f"{project['name']}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n", encoding="utf-8"
    )
    lines = []
    for section, entries in project.get("entry-points", {}).items():
        lines += [f"[{section}]", *(f"{name} = {where}" for name, where in entries.items()), ""]
    (folder / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
