"""How plugins have been doing, and when one of them is left out."""

from __future__ import annotations

from dataclasses import dataclass

QUARANTINE_AFTER = 5
"""A plugin that failed in so many cycles in a row is left out until the configuration is loaded again."""


@dataclass(slots=True)
class Health:
    """How a plugin has been doing."""

    failures: int = 0
    failing_cycles: int = 0
    quarantined: bool = False
    last: str = ""
