"""Deliberate failures arrive unchanged, wherever they happened."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from collections.abc import Iterator

import pytest

import pumice
from pumice.config.problems import InvalidConf, Problem
from pumice.errors import BrokenPlugins, MissingExtra, PluginError, PluginLoadError, PumiceError

for module in pkgutil.walk_packages(pumice.__path__, "pumice."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)


def kinds(of: type[PumiceError]) -> Iterator[type[PumiceError]]:
    yield of
    for kind in of.__subclasses__():
        yield from kinds(kind)


def same(error: PumiceError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.args) == (type(error), str(error), error.args)
    assert again.__dict__ == error.__dict__


KINDS = {f"{kind.__module__}.{kind.__name__}": kind for kind in kinds(PumiceError)}


@pytest.mark.parametrize("kind", [KINDS[name] for name in sorted(KINDS)])
def test_an_error_of_another_process_is_the_same_here(kind: type[PumiceError]) -> None:
    """Whatever its constructor takes: it is not called again."""
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
