"""Deliberate failures arrive unchanged, wherever they happened."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pumice
from pumice.config.problems import InvalidConf, Problem
from pumice.errors import BrokenPlugins, MissingExtra, PluginError, PluginLoadError, PumiceError

ROOT = Path(pumice.__file__).parent
RAISED = re.compile(r"^class \w+\((?:\w*Error|InvalidInput|WireError)\b", re.MULTILINE)


def kinds(of: type[PumiceError]) -> Iterator[type[PumiceError]]:
    yield of
    for kind in of.__subclasses__():
        yield from kinds(kind)


def same(error: PumiceError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.args) == (type(error), str(error), error.args)
    assert again.__dict__ == error.__dict__


def test_an_error_of_another_process_is_the_same_here() -> None:
    """Every kind that there is, whatever its constructor takes: it is not called again."""
    for path in ROOT.rglob("*.py"):
        if RAISED.search(path.read_text(encoding="utf-8")):
            importlib.import_module(".".join(path.relative_to(ROOT.parent).with_suffix("").parts))
    found = set(kinds(PumiceError))
    assert len(found) > 20
    for kind in found:
        error = kind.__new__(kind, "it", 3)
        error.__dict__["what"] = ["more"]
        same(error)


@pytest.mark.parametrize(
    "error",
    [
        InvalidConf([Problem("wrong", "is wrong", path, None, "my.conf") for path in ("tiers[0]", "actions")]),
        BrokenPlugins(["a.py:1: no", "b.py:2: no"]),
        PluginLoadError("no", "a.py:1"),
        PluginError("mine", "predicate", "no", "a.py:1"),
        MissingExtra("pumice tune", "optuna", "tune"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_with_fields_of_their_own_keep_them(error: PumiceError) -> None:
    same(error)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'pumice[kube]'"),
        ({"url": "file:///src/my%20pumice", "dir_info": {}}, "pip install '/src/my pumice[kube]'"),
        ({"url": "file:///src/pumice", "dir_info": {"editable": True}}, "pip install --editable '/src/pumice[kube]'"),
        ({"url": "file:///dist/pumice-1.whl", "archive_info": {}}, "pip install '/dist/pumice-1.whl[kube]'"),
        (
            {"url": "https://x.example/p.whl", "archive_info": {}},
            "pip install 'pumice[kube] @ https://x.example/p.whl'",
        ),
        (
            {"url": "https://x.example/p.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'pumice[kube] @ git+https://x.example/p.git@abc'",
        ),
    ],
    ids=["index", "folder", "editable", "wheel", "archive", "git"],
)
def test_a_missing_extra_is_installed_from_where_pumice_came(
    origin: dict[str, Any] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if origin is None else json.dumps(origin)

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed())
    assert str(MissingExtra("pumice run", "aiohttp", "kube")).endswith(f"which is not installed: {command}")
