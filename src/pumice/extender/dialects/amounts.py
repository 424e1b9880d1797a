"""Amounts in messages: cores and MiB as documented, thousandths as Go has them, and both in units of the ledgers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import Meta

from pumice.errors import InvalidInput
from pumice.model import api
from pumice.model.dimensions import offered_dim, unit_of
from pumice.model.resources import LIMIT, is_counted

Ledger = Mapping[int, int]
"""Amounts in the units of the ledgers, by dimension."""
MOST: Final = 7 * 10**13
"""Of anything, in documented units; ledgers hold a thousand times as much."""
MOST_MEMORY: Final = 6 * 10**10
"""MiB."""
_MIB: Final = 2**20
_GO_UNITS: Final = {"memory": 1, "pods": 1}
"""So many of Go's make one as written in a manifest; of everything else a thousand."""


def _between(least: int, most: int) -> dict[str, Any]:
    return {"type": "number", "minimum": least * most, "maximum": most}


def _memory(least: int) -> Meta:
    return Meta(extra_json_schema={"properties": {"memory": _between(least, MOST_MEMORY)}})


_Request: TypeAlias = Annotated[float, Meta(extra_json_schema=_between(0, MOST))]
_Amount: TypeAlias = Annotated[float, Meta(extra_json_schema=_between(-1, MOST))]
Requests: TypeAlias = Annotated[dict[str, _Request], _memory(0)]
Amounts: TypeAlias = Annotated[dict[str, _Amount], _memory(-1)]
"""Cores, MiB, whole units. What is allowed stands at the types, and the OpenAPI document is made from them."""


class Ledgers(NamedTuple):
    """What is free, taken, given back and promised on a node."""

    idle: Ledger
    used: Ledger
    releasing: Ledger = {}
    pipelined: Ledger = {}


class GoResource(msgspec.Struct):
    """Amounts: milli-cores, bytes, thousandths (``pods``: whole pods)."""

    MilliCPU: int | float = 0
    Memory: int | float = 0
    ScalarResources: dict[str, int | float] | None = None

    def quantities(self) -> dict[str, api.Quantity]:
        """The amounts as a manifest would write them."""
        return {name: amount / _GO_UNITS.get(name, 1000) for name, amount in self._named().items()}

    def _named(self) -> dict[str, int | float]:
        return {"cpu": self.MilliCPU, "memory": self.Memory, **(self.ScalarResources or {})}


def quantities(documented: Mapping[str, float] | None, least: int = -1) -> dict[str, api.Quantity]:
    """Documented amounts as a manifest would write them; *least* is 0 or -1 (may be negative).

    :raises InvalidInput: more, or less, than a cluster has.
    """
    found: dict[str, api.Quantity] = {}
    for name, amount in (documented or {}).items():
        most = MOST_MEMORY if name == "memory" else MOST
        if not least * most <= amount <= most:
            rule = f"must be below {most}" if amount > 0 or least else "must not be negative"
            raise InvalidInput(f"amount of {name}: {rule}, got {amount}")
        found[name] = round(amount * _MIB if name == "memory" else amount, 9)
    return found


def ledger(told: GoResource | Mapping[str, float] | None) -> Ledger | None:
    """Amounts of either form in ledger units, of the names that are counted; nothing of nothing.

    :raises InvalidInput: one that no machine has and that sums could not hold.
    """
    if told is None:
        return None
    if isinstance(told, GoResource):
        amounts, units, usual = told._named(), _GO_UNITS, 1000
    else:
        amounts, units, usual = cast("dict[str, int | float]", quantities(told)), {}, 1
    found: dict[int, int] = {}
    for name, amount in amounts.items():
        if not is_counted(name):
            continue
        scaled = amount * unit_of(name) // units.get(name, usual)
        if not -LIMIT < scaled < LIMIT:
            raise InvalidInput(f"amount of {name}: must be below {LIMIT} in ledger units, got {amount}")
        found[offered_dim(name)] = int(scaled)
    return found


def less(left: Ledger | None, right: Ledger | None) -> Ledger:
    """The difference, dimension by dimension."""
    left, right = left or {}, right or {}
    return {d: left.get(d, 0) - right.get(d, 0) for d in left.keys() | right.keys()}
