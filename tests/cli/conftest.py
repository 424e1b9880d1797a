"""What tests of this folder are given; `cli_fixtures` defines it."""

from __future__ import annotations

from cli_fixtures import pumice, saved_demo

__all__ = ["pumice", "saved_demo"]
