"""A task's request for GPUs: whole devices, a share of one, or some of its memory, in one form."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from pumice.errors import InvalidInput, shown
from pumice.model import keys
from pumice.model.quantity import whole_number
from pumice.model.resources import Resources, dim

WHOLE: Final = 1000
"""A device in thousandths."""
DEVICE: Final = 10**9
"""A device in the units of its ledger: decimals of nine digits are exact, and so are MiB of at most 200,000."""
_ROUNDING: Final = 1e-6
"""Units by which the product of a decimal and a device may be off."""
WHOLE_NAMES: Final = ("nvidia.com/gpu", "amd.com/gpu", "volcano.sh/gpu-number")
MEMORY_NAME: Final = "volcano.sh/gpu-memory"


class GpuRequest(NamedTuple):
    """So many devices, and of each a share in thousandths or, where *memory* is set, so many MiB."""

    devices: int
    milli: int
    memory: int = 0
    part: float = 0.0
    """The share as it is written; of shares of devices alone."""

    @property
    def share(self) -> int:
        """The share in units of the ledger; 0 of a request by memory."""
        if self.part:
            return math.ceil(self.part * DEVICE - _ROUNDING)
        return self.milli * (DEVICE // WHOLE)

    @property
    def whole(self) -> bool:
        """Report whether it wants its devices for itself."""
        return self.milli == WHOLE and not self.memory


def gpu_request(requests: Resources, annotations: Sequence[str | None]) -> GpuRequest | None:
    """The request for GPUs, or None. *annotations*: gpu-fraction, gpu-memory, gpu-fraction-num-devices.

    :raises InvalidInput: a share outside (0, 1), memory or a number of devices that is no positive whole number, or two
        ways of asking at once.
    """
    fraction, memory, devices = annotations
    whole = sum(int(requests.get(dim(name))) for name in WHOLE_NAMES)
    card_memory = int(requests.get(dim(MEMORY_NAME)))
    asked = [
        name
        for name, given in (
            (keys.GPU_FRACTION, fraction),
            (keys.GPU_MEMORY, memory),
            ("whole GPUs", whole),
            (MEMORY_NAME, card_memory),
        )
        if given
    ]
    if len(asked) > 1:
        raise InvalidInput(f"GPUs: {' and '.join(asked)} cannot be asked for together")
    if devices is not None and not (fraction or memory):
        raise InvalidInput("annotation gpu-fraction-num-devices: needs gpu-fraction or gpu-memory beside it")
    count = _whole_number(keys.GPU_DEVICES, devices) if devices is not None else 1
    if fraction:
        return GpuRequest(count, _share(fraction), part=float(fraction))
    if memory:
        return GpuRequest(count, 0, _whole_number(keys.GPU_MEMORY, memory))
    if card_memory:
        return GpuRequest(1, 0, -(-card_memory // 1000))
    return GpuRequest(-(-whole // 1000), WHOLE) if whole else None


_SHARE: Final = re.compile(r"0?\.([0-9]{1,18})", re.ASCII)
_MOST: Final = 10**12 - 1
"""MiB or devices: more than any node has, and far from what the ledgers overflow at."""


def _share(text: str) -> int:
    """Thousandths of a device, rounded up; a plain decimal, so that reading it costs nothing whatever it says."""
    found = _SHARE.fullmatch(text)
    digits = found[1] if found is not None else "0"
    milli: int = -(-int(digits) * WHOLE // 10 ** len(digits))
    if not milli or int(digits) == 0:
        raise InvalidInput(f"annotation gpu-fraction: must be a decimal between 0 and 1 such as 0.5, got {shown(text)}")
    return milli


def _whole_number(name: str, text: str) -> int:
    number = whole_number(text, 1, _MOST)
    if number is None:
        raise InvalidInput(f"annotation {name}: must be a whole number above 0 of at most 12 digits, got {shown(text)}")
    return number
