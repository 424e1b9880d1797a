"""Kubernetes quantities as they stand in our CSV ("1500m", "2Gi"), read and written exactly.

Not ``pumice.model``: the trace readers stand alone, and need two units and no arithmetic.
"""

from __future__ import annotations

import re
from fractions import Fraction

_QUANTITY = re.compile(
    r"(?P<number>\+?(?:\d+\.?\d*|\.\d+))(?:[eE](?P<exponent>[+-]?\d{1,2})|(?P<unit>[KMGTPE]i|[mkMGTPE]?))", re.ASCII
)
_UNITS = {
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)},
}
MOST = 2**63 - 1
"""The greatest amount, in the unit asked for, that the ledgers of the scheduler can hold."""


def cpu_milli(text: str) -> int:
    """Return thousandths of a CPU, rounded up as Kubernetes does. :raises ValueError: not a quantity."""
    return _ceil(_parse(text) * 1000)


def memory_bytes(text: str) -> int:
    """Return bytes, rounded up as Kubernetes does. :raises ValueError: not a quantity."""
    return _ceil(_parse(text))


def cpu_text(milli: int) -> str:
    """Return the shortest quantity that reads back as *milli* thousandths of a CPU."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def memory_text(amount: int) -> str:
    """Return the amount in the greatest binary unit that divides it; reads back as the same number of bytes."""
    for power, unit in reversed(list(enumerate("KMGTPE", start=1))):
        if amount and amount % 1024**power == 0:
            return f"{amount // 1024**power}{unit}i"
    return str(amount)


def _parse(text: str) -> Fraction:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    exponent = match["exponent"]
    factor = _UNITS[match["unit"]] if exponent is None else Fraction(10) ** int(exponent)
    return Fraction(match["number"]) * factor


def _ceil(number: Fraction) -> int:
    amount = -(-number.numerator // number.denominator)
    if amount > MOST:
        raise ValueError(amount)
    return amount
