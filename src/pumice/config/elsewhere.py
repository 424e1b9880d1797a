"""Plugins of the schedulers whose confs people bring, which Pumice does not have."""

from __future__ import annotations

from typing import Final

VOLCANO: Final = "Volcano"
KAI: Final = "KAI-Scheduler"

PLUGINS: Final[dict[str, str]] = {
    **dict.fromkeys(("capacity-card", "cdp", "deviceshare"), VOLCANO),
    **dict.fromkeys(("numa-aware", "numaaware", "rescheduling", "tdm"), VOLCANO),
    **dict.fromkeys(("numa", "podaffinity"), KAI),
}
"""Plugin -> whose it is."""


def said(name: str, whose: str) -> str:
    """What is said of a conf that names one."""
    return f"plugin {name!r} of {whose} does not exist in Pumice; leave it out to go on without it"
