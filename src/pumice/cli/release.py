"""Which Pumice this is, told without loading anything else of it."""

from __future__ import annotations

from importlib.metadata import version


def number() -> str:
    """The version."""
    return version("pumice")


def line() -> str:
    """The name and the version."""
    return f"pumice {number()}"
