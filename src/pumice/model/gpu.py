"""What a task asks of GPUs: whole devices, a share of one, or some of its memory, in one form."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from pumice.errors import InvalidInput
from pumice.model.resources import Resources, dim

WHOLE: Final = 1000
"""A device in thousandths."""
WHOLE_NAMES: Final = ("nvidia.com/gpu", "amd.com/gpu", "volcano.sh/gpu-number")
MEMORY_NAME: Final = "volcano.sh/gpu-memory"


class GpuRequest(NamedTuple):
    """So many devices, and of each a share in thousandths or, where *memory* is set, so many MiB."""

    devices: int
    milli: int
    memory: int = 0

    @property
    def whole(self) -> bool:
        """Does it want its devices for itself?"""
        return self.milli == WHOLE and not self.memory


def gpu_request(requests: Resources, annotations: Sequence[str | None]) -> GpuRequest | None:
    """What is asked of GPUs, or None. *annotations*: gpu-fraction, gpu-memory, gpu-fraction-num-devices.

    :raises InvalidInput: a share outside (0, 1), memory or a number of devices that is no positive whole number, or two
        ways of asking at once.
    """
    fraction, memory, devices = annotations
    whole = sum(int(requests.get(dim(name))) for name in WHOLE_NAMES)
    card_memory = int(requests.get(dim(MEMORY_NAME)))
    asked = [
        name
        for name, given in (
            ("gpu-fraction", fraction),
            ("gpu-memory", memory),
            ("whole GPUs", whole),
            (MEMORY_NAME, card_memory),
        )
        if given
    ]
    if len(asked) > 1:
        raise InvalidInput(f"GPUs: {' and '.join(asked)} cannot be asked for together")
    if devices is not None and not (fraction or memory):
        raise InvalidInput("annotation gpu-fraction-num-devices: needs gpu-fraction or gpu-memory beside it")
    count = _whole_number("gpu-fraction-num-devices", devices) if devices is not None else 1
    if fraction:
        return GpuRequest(count, _share(fraction))
    if memory:
        return GpuRequest(count, 0, _whole_number("gpu-memory", memory))
    if card_memory:
        return GpuRequest(1, 0, -(-card_memory // 1000))
    return GpuRequest(-(-whole // 1000), WHOLE) if whole else None


def _share(text: str) -> int:
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share < 1:
        raise InvalidInput(f"annotation gpu-fraction: must lie between 0 and 1, got {text!r}")
    return -(-share.numerator * WHOLE // share.denominator)


def _whole_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise InvalidInput(f"annotation {name}: must be a whole number above 0, got {text!r}")
    return int(text)
