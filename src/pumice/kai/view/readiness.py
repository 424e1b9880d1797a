"""Which nodes are up."""

from __future__ import annotations

from pumice.model.node import Node


def is_ready(node: Node) -> bool:
    """Is the node up? One without conditions is taken to be."""
    conditions = node.object.status.conditions
    return not conditions or any(c.type == "Ready" and c.status == "True" for c in conditions)
