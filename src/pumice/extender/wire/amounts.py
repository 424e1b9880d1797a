"""Amounts in their three notations: base units, Kubernetes quantities ("1500m", "2Gi"), documented units.

Base units are those of ``objects.Amounts``. Documented units are cores, MiB and whole units.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from pumice.errors import InvalidInput
from pumice.extender.wire.objects import Amounts

_MIB: Final = 2**20
_NEARLY: Final = 2.0**-50
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE]))?")
_SUFFIX: Final[dict[str, Fraction]] = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), start=-3)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def scale(name: str) -> int:
    """How many base units one whole unit of the resource *name* has."""
    return 1 if name in ("memory", "pods") else 1000


def is_counted(name: str) -> bool:
    """Whether Volcano counts the resource *name* at all; others in a resource list are dropped."""
    if name in ("cpu", "memory", "pods", "ephemeral-storage"):
        return True
    if name.startswith("count/"):
        return False
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return "/" in name and not name.startswith("requests.")


@lru_cache(maxsize=4096)
def quantity(text: str) -> Fraction:
    """The exact value of a Kubernetes quantity.

    :raises InvalidInput: *text* is no quantity.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InvalidInput(f"quantity {text!r}: must be a number with an optional suffix such as m, k, Mi or e3")
    number, exponent, suffix = match.groups()
    return Fraction(number) * (Fraction(10) ** int(exponent) if exponent else _SUFFIX[suffix or ""])


def from_quantities(resources: dict[str, str | int | float] | None) -> Amounts:
    """A Kubernetes resource list in base units, rounded up as Kubernetes does, without what Volcano does not count."""
    if not resources:
        return {}
    return {name: math.ceil(quantity(str(text)) * scale(name)) for name, text in resources.items() if is_counted(name)}


def to_quantities(amounts: Amounts) -> dict[str, str]:
    """A Kubernetes resource list that says *amounts*, sorted by name."""
    return {name: _to_quantity(name, amounts[name]) for name in sorted(amounts)}


def _to_quantity(name: str, amount: int | float) -> str:
    whole = math.ceil(amount)
    if name == "memory":
        for suffix, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if whole and whole % size == 0:
                return f"{whole // size}{suffix}"
    if scale(name) == 1:
        return str(whole)
    return str(whole // 1000) if whole % 1000 == 0 else f"{whole}m"


def to_documented(name: str, amount: int | float) -> int | float:
    """One amount in documented units. Exact below 2**51 base units, and for any number of whole documented units."""
    unit = _MIB if name == "memory" else scale(name)
    whole, rest = divmod(amount, unit)
    return int(whole) if rest == 0 else amount / unit


def from_documented(name: str, number: int | float) -> int | float:
    """One amount in base units, from documented ones; the inverse of ``to_documented``.

    :raises InvalidInput: too large for a number.
    """
    amount = number * (_MIB if name == "memory" else scale(name))
    if amount in (math.inf, -math.inf):
        raise InvalidInput(f"amount of {name}: must be a number below 1e300, got {number}")
    return tidy(amount)


def tidy(amount: int | float) -> int | float:
    """*amount* as an ``int`` if it is whole but for the rounding of a float."""
    if isinstance(amount, int):
        return amount
    nearest = round(amount)
    return nearest if abs(amount - nearest) <= abs(amount) * _NEARLY else amount


def total(amounts: list[Amounts]) -> Amounts:
    """The sum, resource by resource, sorted by name."""
    result: Amounts = {}
    for one in amounts:
        for name, amount in one.items():
            result[name] = result.get(name, 0) + amount
    return {name: result[name] for name in sorted(result)}


def largest(left: Amounts, right: Amounts) -> Amounts:
    """The larger of the two, resource by resource."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in sorted(left.keys() | right.keys())}
