"""Plugins and actions of the schedulers whose confs people bring, which Pumice does not have."""

from __future__ import annotations

from typing import Final

VOLCANO: Final = "Volcano"
KAI: Final = "KAI-Scheduler"

PLUGINS: Final[dict[str, str]] = {
    **dict.fromkeys(("capacity-card", "cdp", "deviceshare"), VOLCANO),
    **dict.fromkeys(("numa-aware", "numaaware", "rescheduling", "tdm"), VOLCANO),
    **dict.fromkeys(("dynamicresources", "elastic", "gpusharingorder", "kubeflow", "minruntime"), KAI),
    **dict.fromkeys(("nodeavailability", "nodeplacement", "nominatednode", "numa", "podaffinity"), KAI),
    **dict.fromkeys(("ray", "reflectjoborder", "resourcetype", "sg-multinodegang", "sg-nodelocalgreedy"), KAI),
    **dict.fromkeys(("snapshot", "subgrouporder", "taskorder", "topology"), KAI),
}
"""Plugin -> whose it is."""
ACTIONS: Final[dict[str, str]] = dict.fromkeys(("consolidation", "stalegangeviction"), KAI)
"""Action -> whose it is."""


def said(kind: str, name: str, whose: str) -> str:
    """What is said of a conf that names one."""
    return f"{kind} {name!r} of {whose} does not exist in Pumice; leave it out to go on without it"
