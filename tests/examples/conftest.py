"""What tests of this folder are given; `example_fixtures` defines it."""

from __future__ import annotations

from example_fixtures import plugin, registry, scenario

__all__ = ["plugin", "registry", "scenario"]
