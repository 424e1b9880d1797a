"""A namespace: its sums and its quotas."""

from __future__ import annotations

from typing import Final

from pumice.model.api import ResourceQuota
from pumice.model.mapping import ReadOnlyMap
from pumice.model.resources import Number, Resources
from pumice.model.sealed import Sealed


class Namespace(Sealed):
    """A namespace as plugins see it."""

    __slots__ = ("_allocated", "allocated", "name", "quotas")

    name: Final[str]
    allocated: Final[Resources]
    """Held by its tasks now."""
    quotas: Final[ReadOnlyMap[str, ResourceQuota]]

    def __init__(self, name: str) -> None:
        self.name = name
        self._allocated: dict[int, Number] = {}
        self.allocated = Resources(self._allocated)
        self.quotas = ReadOnlyMap()
