"""The cluster played forward from now: what runs ends by and by, and what waits takes the room, in its order."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pumice.answers.when.run_times import Kind, RunTimes

Amounts = tuple[int, ...]
"""Of each resource that is looked at, in ledger units."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds room now."""

    kind: Kind
    asks: Amounts
    since: float
    declared: float = math.inf


@dataclass(frozen=True, slots=True)
class Waiter:
    """A job that waits for room, in the order of who goes first."""

    job: str
    kind: Kind
    asks: Amounts
    declared: float = math.inf


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster at one instant."""

    now: float
    free: Amounts
    holders: Sequence[Holder]
    waiters: Sequence[Waiter]


def play(scene: Scene, times: RunTimes, seed: int, last: str = "") -> dict[str, float]:
    """Seconds until each waiting job has its room, with run times that are drawn once; who never has it is left out.

    *last*: nobody after this one is asked about, so nobody after it is looked at.
    """
    rng = random.Random(seed)
    now, free = 0.0, list(scene.free)
    ends: list[tuple[float, Amounts]] = []
    for holder in scene.holders:
        age = scene.now - holder.since
        ends.append((max(times.draw(holder.kind, age, rng.random(), holder.declared) - age, 0.0), holder.asks))
    heapq.heapify(ends)
    waiting = [(w, times.draw(w.kind, 0.0, rng.random(), w.declared)) for w in scene.waiters]
    starts: dict[str, float] = {}
    dimensions = range(len(free))
    while True:
        left = []
        for entry in waiting:
            asks = entry[0].asks
            if all(asks[d] <= free[d] for d in dimensions):
                for d in dimensions:
                    free[d] -= asks[d]
                starts[entry[0].job] = now
                if entry[0].job == last:
                    return starts
                heapq.heappush(ends, (now + entry[1], asks))
            else:
                left.append(entry)
        waiting = left
        if not waiting or not ends:
            return starts
        now = ends[0][0]
        while ends and ends[0][0] <= now:
            asks = heapq.heappop(ends)[1]
            for d in dimensions:
                free[d] += asks[d]


def forecast(scene: Scene, times: RunTimes, *, draws: int, seed: int = 0, last: str = "") -> dict[str, float]:
    """Seconds until each waiting job has its room: the median of several plays; infinite for who has it in no half."""
    plays = [play(scene, times, seed * 1000 + n, last) for n in range(draws)]
    asked = [w.job for w in scene.waiters] if not last else [last]
    return {job: median([found.get(job, math.inf) for found in plays]) for job in asked}
