"""What the labels of a node say of its GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pumice.model import keys
from pumice.model.node import Node
from pumice.state.devices import device_memory

_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")


def gpu_memory(node: Node) -> int | None:
    """MiB of each GPU of a node, in hundreds; None where no label tells."""
    memory = device_memory(node)
    return None if memory is None else memory - memory % 100


def is_divided(node: Node, instances: Iterable[int]) -> bool:
    """Are its GPUs divided into MIG instances? As its labels say, else where it has such; *instances*: their names."""
    said = node.labels.get(keys.MIG_ENABLED)
    return said in _TRUE if said is not None else any(node.allocatable.get(d) for d in instances)
