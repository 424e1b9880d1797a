"""A limit that stops a job, with its numbers: amounts in use, permitted (and by which rule), and requested."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pumice.model.resources import Number, dim_name, unit

_BINARY = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_BYTES = ("memory", "ephemeral-storage")


class Bound(StrEnum):
    """The rule that sets a limit: where to turn to have more."""

    CAPABILITY = "its capability"
    SHARE = "its share"
    CLUSTER = "all that the cluster has"
    GUARANTEES = "what is not guaranteed to other queues"
    PARENT = "what the queue above it leaves"
    DESERVED = "what it deserves"
    OVERCOMMIT = "the nodes times overcommit-factor"
    QUOTA = "spec.hard"


@dataclass(frozen=True, slots=True)
class Limit:
    """One resource of which more would be held than may be. Amounts are in whole units, as a manifest writes them."""

    of: str
    """The owner of the limit: ``queue vision``, ``the cluster``, ``ResourceQuota team-a/small``."""
    resource: str
    holds: float
    may_have: float
    bound: Bound
    asks: float
    promised: float = 0.0
    """To jobs that were let in and have not got it yet."""
    detail: str = ""
    """The figures behind the rule, such as ``weight 2 of 8``."""

    def __str__(self) -> str:
        why = f"{self.bound}, {self.detail}" if self.detail else str(self.bound)
        kept = f" and has promised {self._shown(self.promised)}" if self.promised else ""
        have = f"{self.of} holds {self._shown(self.holds)}{kept} of {self._shown(self.may_have)} {self.resource}"
        asked = f"; {self._shown(self.asks)} more are needed" if self.asks else ""
        return f"{have} ({why}){asked}"

    @property
    def advice(self) -> str:
        """The change that would lift it, other than waiting."""
        ends = f"wait until other work of {self.of} ends"
        if not self.may_have and self.bound in (Bound.CLUSTER, Bound.OVERCOMMIT):
            return f"nodes with {self.resource}, of which {self.of} can have none"
        match self.bound:
            case Bound.CAPABILITY:
                return f"{ends}, or raise the capability of {self.of}"
            case Bound.SHARE:
                return f"{ends}, or raise the weight of {self.of}"
            case Bound.DESERVED:
                return f"{ends}, or raise the deserved of {self.of}"
            case Bound.PARENT:
                return f"{ends}, or raise the capability of {self.detail}"
            case Bound.GUARANTEES:
                helps = f"more nodes with {self.resource}, or smaller guarantees of other queues"
                return f"{ends}, {helps}" if self.may_have else helps
            case Bound.QUOTA:
                return f"wait until other work of the namespace ends, or raise the {self.bound} of {self.of}"
            case _:
                return f"{ends}, or add nodes with {self.resource}"

    def _shown(self, amount: float) -> str:
        return shown(self.resource, amount)


def limit(
    of: str,
    d: int,
    amounts: tuple[Number, Number, Number],
    bound: Bound,
    detail: str = "",
    *,
    promised: Number = 0,
) -> Limit:
    """A limit from (held, may have, asked for) in ledger units."""
    (holds, may_have, asks), per = amounts, unit(d)
    return Limit(of, dim_name(d), holds / per, may_have / per, bound, asks / per, promised / per, detail)


def shown(resource: str, amount: float) -> str:
    """An amount in whole units as a person writes it: ``512Gi``, ``1.5``."""
    if resource in _BYTES or resource.startswith("hugepages-"):
        for suffix, size in _BINARY:
            if abs(amount) >= size:
                return f"{_plain(amount / size)}{suffix}"
    return _plain(amount)


def _plain(amount: float) -> str:
    return f"{amount:.3f}".rstrip("0").rstrip(".")
