"""What plugins registered, and what was made of it, from one session to the next on the same state.

A cycle opens every plugin. One that says so (`Plugin.on_session_reopen`) goes on with what it registered in the last
one, and with it stand the session itself, the chains, the bound points, the sort keys and the engine that were made of
that. The others are built anew, and only the points at which they register are put together again.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Left:
    """What one plugin did while it was opened."""

    at: list[tuple[str, str]] = field(default_factory=list)
    """Where it registered: point, and under which name."""
    warnings: list[str] = field(default_factory=list)
    lasts: bool = True
    """May it go on with that in the next session? Handlers, binders and preparations are those of one session."""
    closes: bool = True
    """Has it anything to do when a session closes?"""


@dataclass(slots=True)
class PluginEntry:
    """A plugin of a tier: its object, its conf name and which of its flags are on."""

    name: str
    build: Callable[[], Any]
    enabled: Callable[[str], bool]
    unasked: Container[str] = frozenset()
    """Points that no action asks: where it registers there, its author is told."""
    plugin: Any = None
    left: Left | None = None
    """What it did when it was opened; None where it was not, or failed."""
