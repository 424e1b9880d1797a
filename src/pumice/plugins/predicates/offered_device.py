"""A device that a slice offers, as claims and their selectors see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pumice.model.api import Taint
from pumice.plugins.predicates.cel_parts import CelDomains
from pumice.plugins.predicates.cel_values import CelAmount, CelVersion

Counter: TypeAlias = tuple[str, str, str, str]
"""Driver, pool, counter set and name of a counter that devices share."""


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A device of a slice; attributes and capacity by (domain, name)."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[tuple[str, str], Any]
    capacity: Mapping[tuple[str, str], int]
    taints: tuple[Taint, ...] = ()
    consumes: Mapping[Counter, int] = field(default_factory=dict)
    place: Mapping[str, Any] = field(default_factory=dict)
    """``nodeName`` or ``nodeSelector`` where it is not usable on all nodes."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Driver, pool and name: what allocations are written with."""
        return self.driver, self.pool, self.name

    def shown_to_cel(self) -> dict[str, Any]:
        """The device as a selector sees it."""
        attributes, capacity = CelDomains(), CelDomains()
        for (domain, name), held in self.attributes.items():
            attributes.setdefault(domain, {})[name] = CelVersion(held) if isinstance(held, tuple) else held
        for (domain, name), milli in self.capacity.items():
            capacity.setdefault(domain, {})[name] = CelAmount(milli)
        shown_as = {"driver": self.driver, "attributes": attributes, "capacity": capacity}
        return {**shown_as, "allowMultipleAllocations": False}  # those that do are given to one claim, whole
