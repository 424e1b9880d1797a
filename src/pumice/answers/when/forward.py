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
from typing import NamedTuple

from pumice.answers.when.room import Amounts, Asked, NodeRoom, Place, Pods, few, total
from pumice.answers.when.run_times import Kind, Outlook, RunTimes


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds room now."""

    kind: Kind
    places: Sequence[Place]
    since: float
    declared: float = math.inf
    submitted: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiter:
    """A job that waits for room, in the order of who goes first."""

    job: str
    kind: Kind
    pods: Pods
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
    free: Mapping[str, Amounts]
    """Of each node that takes pods."""
    holders: Sequence[Holder]
    waiters: Sequence[Waiter]
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    """Of queues that have limits, or a share."""
    arrives: Sequence[Place] = ()
    """Room that is there as soon as the play begins."""


class _Queue:
    """A queue while it is played: what it holds, and its jobs that wait, those that ask for the same in one line."""

    __slots__ = ("deserved", "held", "lines", "most")

    def __init__(self, lane: Lane, nothing: Amounts) -> None:
        self.deserved, self.most, self.held = lane.deserved, lane.most, nothing
        self.lines: dict[int, deque[tuple[int, str, float]]] = {}

    def share(self) -> float:
        """How much of its part it has."""
        if self.deserved is None:
            return 0.0
        return max((held / part for held, part in zip(self.held, self.deserved, strict=True) if part), default=0.0)

    def first(self, room: NodeRoom, lines: Sequence[_Line], not_now: set[int]) -> tuple[int, int] | None:
        """The place of its first job that there is room for, and its line."""
        best: tuple[int, int] | None = None
        for number, line in self.lines.items():
            if (best is None or line[0][0] < best[0]) and room.has(lines[number].asked) and number not in not_now:
                if self.most is not None and not all(map(le, map(add, self.held, lines[number].total), self.most)):
                    continue
                best = line[0][0], number
        return best


class _Line(NamedTuple):
    """What those in a line ask for."""

    asked: Asked
    total: Amounts


class Playback:
    """A scene, made ready to be played several times."""

    def __init__(self, scene: Scene, times: Outlook) -> None:
        self.scene, self.times = scene, times
        standing = few(shape for waiter in scene.waiters for _, shape in waiter.pods)
        shapes = list(dict.fromkeys(standing.values()))
        numbers = {shape: shapes.index(stands) for shape, stands in standing.items()}
        known: dict[Pods, int] = {}
        lines: dict[Asked, int] = {}
        for waiter in scene.waiters:
            if waiter.pods not in known:
                asked = tuple((count, numbers[shape]) for count, shape in waiter.pods)
                known[waiter.pods] = lines.setdefault(asked, len(lines))
        self._of = [known[waiter.pods] for waiter in scene.waiters]
        self._lines = [_Line(asked, total(tuple((n, shapes[shape]) for n, shape in asked))) for asked in lines]
        self._held = [_sum(holder.places) for holder in scene.holders]
        self._room = NodeRoom(scene.free, shapes)
        self._shared = any(lane.deserved is not None for lane in scene.lanes.values())
        some = next(iter(scene.free.values()), self._lines[0].total if self._lines else ())
        self._nothing: Amounts = tuple(0 for _ in some)

    def play(self, seed: int, last: str = "") -> dict[str, float]:
        """Seconds until each waiting job has its room, with run times drawn once; who never has it is left out.

        *last*: only this one is asked about, so nothing after its start is looked at.
        """
        scene, draw, rng = self.scene, self.times.draw, random.Random(seed)
        room = self._room.copy()
        queues: dict[str, _Queue] = {}

        def of(kind: Kind) -> _Queue:
            name = kind.queue if kind.queue in scene.lanes else ""
            if name not in queues:
                queues[name] = _Queue(scene.lanes.get(name, NO_LANE), self._nothing)
            return queues[name]

        ends: list[tuple[float, int, Sequence[Place], Amounts, _Queue]] = []
        for number, (holder, held) in enumerate(zip(scene.holders, self._held, strict=True)):
            age = max(scene.now - holder.since, 0.0)
            left = draw(holder.kind, holder.submitted, age, rng.random(), holder.declared) - age
            queue = of(holder.kind)
            queue.held = tuple(map(add, queue.held, held))
            ends.append((max(left, 0.0), number, holder.places, held, queue))
        if scene.arrives:
            ends.append((0.0, -1, scene.arrives, self._nothing, of(Kind("", 0))))
        heapq.heapify(ends)
        number = len(ends)
        for place, (waiter, row) in enumerate(zip(scene.waiters, self._of, strict=True)):
            takes = draw(waiter.kind, waiter.submitted, 0.0, rng.random(), waiter.declared)
            of(waiter.kind).lines.setdefault(row, deque()).append((place, waiter.job, takes))
        waiting = [queue for queue in queues.values() if queue.lines]
        starts: dict[str, float] = {}
        while waiting and ends:
            now = ends[0][0]
            while ends and ends[0][0] <= now:
                _, _, places, held, queue = heapq.heappop(ends)
                room.give(places)
                queue.held = tuple(map(sub, queue.held, held))
            not_now: set[int] = set()
            while waiting and (found := self._next(waiting, room, not_now)) is not None:
                queue, row = found
                taken = room.take(self._lines[row].asked)
                if taken is None:  # pods of several shapes are in each other's way
                    not_now.add(row)
                    continue
                line = queue.lines[row]
                _, job, takes = line.popleft()
                starts[job] = now
                if job == last:
                    return starts
                if not line:
                    del queue.lines[row]
                    if not queue.lines:
                        waiting.remove(queue)
                held = self._lines[row].total
                queue.held = tuple(map(add, queue.held, held))
                number += 1
                heapq.heappush(ends, (now + takes, number, taken, held, queue))
        return starts

    def _next(self, waiting: Sequence[_Queue], room: NodeRoom, not_now: set[int]) -> tuple[_Queue, int] | None:
        """Whose turn it is: the queue with the least of its part, and in it, or where nobody shares, who is first."""
        best: tuple[float, int] | None = None
        found: tuple[_Queue, int] | None = None
        for queue in waiting:
            first = queue.first(room, self._lines, not_now)
            if first is not None:
                turn = (queue.share() if self._shared else 0.0, first[0])
                if best is None or turn < best:
                    best, found = turn, (queue, first[1])
        return found


def forecast(scene: Scene, times: RunTimes, *, draws: int, seed: int = 0, last: str = "") -> dict[str, float]:
    """Seconds until each waiting job has its room: the median of several plays; infinite for who has it in no half."""
    playback = Playback(scene, times.outlook())
    plays = [playback.play(seed * 1000 + n, last) for n in range(draws)]
    asked = [w.job for w in scene.waiters] if not last else [last]
    return {job: median([found.get(job, math.inf) for found in plays]) for job in asked}


def _sum(places: Sequence[Place]) -> Amounts:
    return places[0][1] if len(places) == 1 else tuple(map(sum, zip(*(held for _, held in places), strict=True)))
