"""The controllers by name."""

from __future__ import annotations

from typing import Final

NAMES: Final = ("job", "podgroup", "queue")
