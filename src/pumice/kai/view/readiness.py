"""Which nodes are up."""

from __future__ import annotations

from typing import Final

from pumice.model.node import Node

_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def is_ready(node: Node) -> bool:
    """Could pods be placed there: is it not cordoned, and does no condition speak against it?

    What is not known of a node speaks against it; what it has no condition for does not.
    """
    if node.unschedulable:
        return False
    for condition in node.object.status.conditions or ():
        wanted = "True" if condition.type == "Ready" else "False" if condition.type in _PRESSURES else condition.status
        if condition.status != wanted:
            return False
    return True
