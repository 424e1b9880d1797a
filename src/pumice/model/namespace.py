"""A namespace: its sums and its quotas."""

from __future__ import annotations

from pumice.model.api import ResourceQuota
from pumice.model.resources import Number, Resources
from pumice.model.task import reader


class Namespace:
    """A namespace as plugins see it."""

    __slots__ = ("_allocated", "_name", "quotas")

    name: str = reader("_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._allocated: dict[int, Number] = {}
        self.quotas: dict[str, ResourceQuota] = {}

    @property
    def allocated(self) -> Resources:
        """Held by its tasks now."""
        return Resources(self._allocated)
