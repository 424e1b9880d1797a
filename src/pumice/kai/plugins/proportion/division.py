"""Fair shares: quota first, then what is left by priority and weight, then what rounding left over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pumice.kai.view.amounts import UNLIMITED, finite


@dataclass(slots=True)
class DividedShare:
    """One queue's part in the division of one resource."""

    uid: str
    quota: float
    limit: float
    weight: float
    request: float
    priority: int = 0
    creation: float = 0.0
    usage: float = 0.0
    """Its part of what there was in the past, 0 to 1."""
    fair: float = 0.0

    @property
    def requestable(self) -> float:
        """What it asks for, as far as it may have it."""
        return min(self.request, finite(self.limit))


def divide(total: float, shares: Sequence[DividedShare], k: float = 1.0) -> float:
    """Give every queue its fair share of *total*; returns what is left."""
    left = total
    for s in shares:
        given = min(total if s.quota == UNLIMITED else s.quota, s.requestable)
        s.fair += given
        left -= given
    return divide_surplus(left, shares, k) if left > 0 else 0.0


def divide_surplus(total: float, shares: Sequence[DividedShare], k: float = 1.0) -> float:
    """Divide what quotas leave: higher priorities first, by weight, less for who used much; returns what is left."""
    left = total
    buckets = [list(g) for _, g in groupby(sorted(shares, key=lambda s: -s.priority), key=lambda s: s.priority)]
    remainders: dict[str, float] = {}
    for bucket in buckets:
        left = _divide_bucket(left, bucket, k, remainders)
    for bucket in buckets:
        owed = [s for s in bucket if s.uid in remainders]
        for s in sorted(owed, key=lambda s: (-remainders[s.uid], s.creation, s.uid)):
            if left <= 0:
                return left
            unit = min(1.0, left)
            s.fair += unit
            left -= unit
    return left


def _divide_bucket(left: float, bucket: Sequence[DividedShare], k: float, remainders: dict[str, float]) -> float:
    while True:
        wanting = [s for s in bucket if s.requestable > s.fair]
        weights = sum(s.weight for s in wanting)
        if weights == 0:
            return left
        parts = {}
        for s in wanting:
            w = s.weight / weights
            parts[s.uid] = max(0.0, w + k * (w - s.usage))
        whole = sum(parts.values())
        if whole == 0:
            return left
        given, again = left, False
        for s in wanting:
            if left == 0:
                return left
            if s.weight == 0:
                continue
            want, share = s.requestable - s.fair, given * parts[s.uid] / whole
            if want <= share:
                got = want
                remainders.pop(s.uid, None)
            else:
                got = math.floor(share)
                if share - got > 0:
                    remainders[s.uid] = share - got
            s.fair += got
            left -= got
            again = again or want < share
        if not again or left == 0:
            return left
