"""Plugins of the schedulers whose confs people bring, which Pumice does not have."""

from __future__ import annotations

from typing import Final

VOLCANO: Final = "Volcano"
KAI: Final = "KAI-Scheduler"

PLUGINS: Final[dict[str, str]] = {
    "capacity-card": VOLCANO,
}
"""Plugin -> whose it is."""
LIMITS: Final = "docs/limits.md#plugins-of-volcano-and-kai-scheduler-that-are-missing"


def said(name: str, whose: str) -> str:
    """What is said of a conf that names one."""
    return f"{whose}'s plugin {name!r}, not in Pumice: see {LIMITS}; leave it out to go on without it"
