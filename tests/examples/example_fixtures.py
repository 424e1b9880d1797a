"""Plugins of ``examples/plugins``, loaded from their files as the scheduler loads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pumice.framework.registry import Registry, build
from pumice.testing import Scenario

DIRECTORY = Path(__file__).parents[2] / "examples" / "plugins"
Build = Callable[..., Any]


@pytest.fixture(scope="session")
def registry() -> Registry:
    """Built-in plugins and those of the examples."""
    registry = Registry()
    registry.load_directory(DIRECTORY)
    return registry


@pytest.fixture
def plugin(registry: Registry) -> Build:
    """``plugin("name", {arguments})``: an example plugin, built from its arguments."""

    def made(name: str, arguments: dict[str, Any] | None = None) -> Any:
        info = registry.get(name)
        assert info is not None
        return build(info, arguments or {})

    return made


@pytest.fixture
def scenario(scenario: Scenario) -> Scenario:
    """An empty cluster whose scheduler has the example plugins, as with ``--plugins-dir``."""
    return scenario.plugins_from(DIRECTORY)
