"""Steps of the scores by requests, in floating point where that is exact: for one class and for many alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.model.resources import CPU, MEMORY, dim
from pumice.model.task import TaskClass

Floats = npt.NDArray[np.float64]

MAX: Final = 100
GPU: Final = dim("nvidia.com/gpu")


def asks_for_any(klass: TaskClass) -> bool:
    """Report whether the class asks for any of the balanced resources. The score is left out for others."""
    requests = klass.requests
    return bool(requests.get(CPU) or requests.get(MEMORY) or requests.get(GPU))


def requested(left: Floats, offered: Floats, least: int, most: int) -> Floats:
    """Least and most requested, each times its weight, where so much would be *left*, which is changed."""
    np.maximum(left, 0.0, out=left)
    taken = offered - left if most else None
    total = _percent(left, offered, least) if least else None
    if taken is not None:
        part = _percent(taken, offered, most)
        total = part if total is None else total + part
    assert total is not None
    return total


def _percent(amounts: Floats, offered: Floats, weight: int) -> Floats:
    """The amounts of cpu and memory in percent of what is offered, averaged, each step cut off, times *weight*."""
    amounts *= MAX
    amounts /= offered
    np.floor(amounts, out=amounts)
    both: Floats = amounts[0] + amounts[1]
    both *= 0.5
    np.floor(both, out=both)
    if weight != 1:
        both *= weight
    return both


def gained(before: Floats, after: Floats, weight: int) -> Floats:
    """The balanced score, times *weight*: how much more even the node would be used. Changes *after*."""
    gain = np.subtract(after, before, out=after)
    gain += 150.0  # 50 + (50 + gain) / 2, cut off
    gain *= 0.5
    np.floor(gain, out=gain)
    if weight != 1:
        gain *= weight
    return gain


def evenness_of_two(parts: Floats) -> Floats:
    """100 when both resources are used to the same part (at most 1 each), down to 50, cut off."""
    np.minimum(parts, 1.0, out=parts)
    apart: Floats = parts[0] - parts[1]
    np.abs(apart, out=apart)
    np.subtract(2.0, apart, out=apart)
    apart *= MAX / 2  # exactly 100 * (1 - apart / 2): a factor of 2 changes no digit
    np.floor(apart, out=apart)
    return apart


def evenness_of_three(parts: Floats) -> Floats:
    """100 less the standard deviation of the used parts, step by step; of *parts* as above."""
    np.minimum(parts, 1.0, out=parts)
    mean: Floats = parts[0] + parts[1]
    mean += parts[2]
    mean /= 3
    parts -= mean
    parts *= parts
    apart: Floats = parts[0] + parts[1]
    apart += parts[2]
    apart /= 3
    np.sqrt(apart, out=apart)
    np.subtract(1.0, apart, out=apart)
    apart *= MAX
    np.floor(apart, out=apart)
    return apart


def evenness_of_one(parts: Sequence[float]) -> float:
    """As `evenness_of_two` or `evenness_of_three` say of a node that is used to so many parts."""
    cut = [min(part, 1.0) for part in parts]
    if len(cut) == 2:
        return math.floor((1.0 - abs(cut[0] - cut[1]) * 0.5) * MAX)
    mean = (cut[0] + cut[1] + cut[2]) / 3
    squares = [(part - mean) * (part - mean) for part in cut]
    return math.floor((1.0 - math.sqrt((squares[0] + squares[1] + squares[2]) / 3)) * MAX)
