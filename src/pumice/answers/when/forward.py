"""The cluster played forward from now: what runs ends by and by, and what waits takes the room, in its order."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, le, sub
from statistics import median

from pumice.answers.when.run_times import Kind, Outlook, RunTimes

Amounts = tuple[int, ...]
"""Of each resource that is looked at, in ledger units."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds room now."""

    kind: Kind
    asks: Amounts
    since: float
    declared: float = math.inf
    submitted: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiter:
    """A job that waits for room, in the order of who goes first."""

    job: str
    kind: Kind
    asks: Amounts
    declared: float = math.inf
    submitted: float = 0.0


@dataclass(frozen=True, slots=True)
class Lane:
    """What a queue may have."""

    deserved: Amounts | None = None
    """Who has the least of this goes first; None: nobody shares."""
    most: Amounts | None = None
    """Beyond this nobody of the queue starts."""


NO_LANE = Lane()


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster at one instant, when whoever could start has started: nobody does before something ends."""

    now: float
    free: Amounts
    holders: Sequence[Holder]
    waiters: Sequence[Waiter]
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    """Of queues that have limits, or a share."""


class _Queue:
    """A queue while it is played: what it holds, and its jobs that wait, those that ask for the same in one line."""

    __slots__ = ("deserved", "held", "lines", "most")

    def __init__(self, lane: Lane, nothing: Amounts) -> None:
        self.deserved, self.most, self.held = lane.deserved, lane.most, nothing
        self.lines: dict[Amounts, deque[tuple[int, str, float]]] = {}

    def share(self) -> float:
        """How much of its part it has."""
        if self.deserved is None:
            return 0.0
        return max((held / part for held, part in zip(self.held, self.deserved, strict=True) if part), default=0.0)

    def first(self, free: Amounts) -> tuple[int, Amounts] | None:
        """The place of its first job that there is room for, and what that asks for."""
        best: tuple[int, Amounts] | None = None
        for asks, line in self.lines.items():
            if (best is None or line[0][0] < best[0]) and all(map(le, asks, free)):
                if self.most is not None and not all(map(le, map(add, self.held, asks), self.most)):
                    continue
                best = line[0][0], asks
        return best


def play(scene: Scene, times: Outlook, seed: int, last: str = "") -> dict[str, float]:
    """Seconds until each waiting job has its room, with run times that are drawn once; who never has it is left out.

    *last*: only this one is asked about, so nothing after its start is looked at.
    """
    rng = random.Random(seed)
    free = scene.free
    nothing = tuple(0 for _ in free)
    shared = any(lane.deserved is not None for lane in scene.lanes.values())
    queues: dict[str, _Queue] = {}

    def of(kind: Kind) -> _Queue:
        name = kind.queue if kind.queue in scene.lanes else ""
        if name not in queues:
            queues[name] = _Queue(scene.lanes.get(name, NO_LANE), nothing)
        return queues[name]

    ends: list[tuple[float, int, Amounts, _Queue]] = []
    for number, holder in enumerate(scene.holders):
        age = max(scene.now - holder.since, 0.0)
        left = times.draw(holder.kind, holder.submitted, age, rng.random(), holder.declared) - age
        queue = of(holder.kind)
        queue.held = tuple(map(add, queue.held, holder.asks))
        ends.append((max(left, 0.0), number, holder.asks, queue))
    heapq.heapify(ends)
    number = len(ends)
    for place, waiter in enumerate(scene.waiters):
        takes = times.draw(waiter.kind, waiter.submitted, 0.0, rng.random(), waiter.declared)
        of(waiter.kind).lines.setdefault(waiter.asks, deque()).append((place, waiter.job, takes))
    waiting = [queue for queue in queues.values() if queue.lines]
    starts: dict[str, float] = {}
    while waiting and ends:
        now = ends[0][0]
        while ends and ends[0][0] <= now:
            _, _, asks, queue = heapq.heappop(ends)
            free = tuple(map(add, free, asks))
            queue.held = tuple(map(sub, queue.held, asks))
        while waiting and (found := _next(waiting, free, shared)) is not None:
            queue, asks = found
            line = queue.lines[asks]
            _, job, takes = line.popleft()
            starts[job] = now
            if job == last:
                return starts
            if not line:
                del queue.lines[asks]
                if not queue.lines:
                    waiting.remove(queue)
            free = tuple(map(sub, free, asks))
            queue.held = tuple(map(add, queue.held, asks))
            number += 1
            heapq.heappush(ends, (now + takes, number, asks, queue))
    return starts


def _next(waiting: Sequence[_Queue], free: Amounts, shared: bool) -> tuple[_Queue, Amounts] | None:
    """Whose turn it is: the queue that has least of its part, and in it, or where nobody shares, who comes first."""
    best: tuple[float, int] | None = None
    found: tuple[_Queue, Amounts] | None = None
    for queue in waiting:
        first = queue.first(free)
        if first is not None:
            turn = (queue.share() if shared else 0.0, first[0])
            if best is None or turn < best:
                best, found = turn, (queue, first[1])
    return found


def forecast(scene: Scene, times: RunTimes, *, draws: int, seed: int = 0, last: str = "") -> dict[str, float]:
    """Seconds until each waiting job has its room: the median of several plays; infinite for who has it in no half."""
    outlook = times.outlook()
    plays = [play(scene, outlook, seed * 1000 + n, last) for n in range(draws)]
    asked = [w.job for w in scene.waiters] if not last else [last]
    return {job: median([found.get(job, math.inf) for found in plays]) for job in asked}
