"""The cluster played forward from now: what runs ends by and by, and what waits takes the room, in its order."""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import islice
from operator import add, itemgetter, le, sub
from statistics import median
from typing import NamedTuple

from pumice.answers.when.run_times import Kind, Outlook, RunTimes

Amounts = tuple[int, ...]
"""The free amounts of each resource that is looked at, in ledger units."""
Place = tuple[str, Amounts]
"""A node, and what is held of it."""
MOST_SHAPES = 64
"""Beyond this many shapes amounts are rounded down, as little as possible, at most to a half: a play looks at each
changed node once for each shape."""
_LOOKED_AT = 32
"""Nodes that are compared when a pod is placed, at most."""
_ANY = 1 << 30


class PodShape(NamedTuple):
    """The requests of one pod, and its permitted nodes."""

    each: Amounts
    only: frozenset[str] | None = None
    """None: all."""

    def times(self, node: str, free: Amounts) -> int:
        """How many of it fit on a node."""
        if self.only is not None and node not in self.only:
            return 0
        least = _ANY
        for has, asks in zip(free, self.each, strict=True):
            if asks:
                fits = has // asks
                if fits < least:
                    if fits <= 0:
                        return 0
                    least = fits
        return least


Pods = tuple[tuple[int, PodShape], ...]
"""How many pods of each shape a job needs together."""


def amounts_sum(amounts: Iterable[Amounts]) -> Amounts:
    """All of them together."""
    return tuple(map(sum, zip(*amounts, strict=True)))


def total(pods: Pods) -> Amounts:
    """The sum of their requests."""
    return tuple(map(sum, zip(*([count * asks for asks in shape.each] for count, shape in pods), strict=True)))


Asked = tuple[tuple[int, int], ...]
"""How many pods of which shape, by its number."""


class NodeRoom:
    """The free amounts on each node, the number of pods of each shape that fit, and so the jobs that fit."""

    def __init__(self, free: Mapping[str, Amounts], shapes: Sequence[PodShape], asking: Sequence[Asked] = ()) -> None:
        self._free, self._shapes = dict(free), shapes
        self._needs = [(shape.only, [(n, asks) for n, asks in enumerate(shape.each) if asks]) for shape in shapes]
        """For each shape: its nodes, and the resources that it asks for."""
        self._fits = [{node: n for node, has in free.items() if (n := shape.times(node, has))} for shape in shapes]
        self._total = [sum(fits.values()) for fits in self._fits]
        self._askers: list[tuple[list[int], list[int]]] = [([], []) for _ in shapes]
        """For each shape: the numbers of pods asked for, ascending, and the jobs."""
        for count, shape, line in sorted(
            (count, shape, line) for line, asked in enumerate(asking) for count, shape in asked
        ):
            self._askers[shape][0].append(count)
            self._askers[shape][1].append(line)
        self._unmet = [sum(self._total[shape] < count for count, shape in asked) for asked in asking]
        self.open = {line for line, unmet in enumerate(self._unmet) if not unmet}
        """Those who seem to have room, by number; pods of several shapes may be in each other's way."""

    def copy(self) -> NodeRoom:
        """The same, to be changed."""
        other = NodeRoom({}, ())
        other._free, other._shapes, other._total = dict(self._free), self._shapes, list(self._total)
        other._needs, other._askers = self._needs, self._askers
        other._fits = [dict(fits) for fits in self._fits]
        other._unmet, other.open = list(self._unmet), set(self.open)
        return other

    def take(self, asked: Asked) -> list[Place] | None:
        """Give pods their places, on nodes where few more fit; None if there is no room for all of them."""
        taken: list[Place] = []
        for count, shape in asked:
            left, each, fits = count, self._shapes[shape].each, self._fits[shape]
            while left:
                if not fits:
                    self.give(taken)
                    return None
                node = min(islice(fits, _LOOKED_AT), key=fits.__getitem__) if len(fits) > 1 else next(iter(fits))
                many = min(left, fits[node])
                amounts = tuple([many * asks for asks in each]) if many > 1 else each
                self._change(node, tuple(map(sub, self._free[node], amounts)))
                taken.append((node, amounts))
                left -= many
        return taken

    def give(self, places: Sequence[Place]) -> None:
        """Take places back; those on nodes that take nothing new are gone."""
        for node, amounts in places:
            if node in self._free:
                self._change(node, tuple(map(add, self._free[node], amounts)))

    def _change(self, node: str, free: Amounts) -> None:
        """A node has so much free from now on. Asked for every pod of a play, so `PodShape.times` is written out."""
        self._free[node] = free
        for number, (only, needs) in enumerate(self._needs):
            if only is not None and node not in only:
                continue
            n = _ANY
            for resource, asks in needs:
                fits_here = free[resource] // asks
                if fits_here < n:
                    if fits_here <= 0:
                        n = 0
                        break
                    n = fits_here
            fits = self._fits[number]
            before = fits.get(node, 0)
            if n != before:
                if n:
                    fits[node] = n
                else:
                    del fits[node]
                total = self._total[number]
                self._total[number] = total + n - before
                self._reach(number, total, total + n - before)

    def _reach(self, shape: int, before: int, after: int) -> None:
        """So many of a shape fit where others did: who asks for a number in between finds them, or no longer does."""
        counts, lines = self._askers[shape]
        low, high = bisect_right(counts, min(before, after)), bisect_right(counts, max(before, after))
        for line in lines[low:high]:
            self._unmet[line] += 1 if after < before else -1
            if self._unmet[line]:
                self.open.discard(line)
            else:
                self.open.add(line)


def few(shapes: Iterable[PodShape]) -> dict[PodShape, PodShape]:
    """The representative of each shape: itself, or with too many shapes, one of rounder and smaller amounts."""
    known = dict.fromkeys(shapes)
    for bits in (None, 4, 3, 2, 1):
        standing = {shape: shape if bits is None else _rounded(shape, bits) for shape in known}
        if len(set(standing.values())) <= MOST_SHAPES:
            break
    return standing


def _rounded(shape: PodShape, bits: int) -> PodShape:
    """All but the last amount, which are devices, by their first bits."""
    *others, devices = shape.each
    lows = [max(amount.bit_length() - bits, 0) for amount in others]
    return PodShape((*(amount >> low << low for amount, low in zip(others, lows, strict=True)), devices), shape.only)


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds room now."""

    kind: Kind
    places: Sequence[Place]
    since: float
    declared: float = math.inf
    submitted: float = 0.0
    job: str = ""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A job that waits for room, in the order of who goes first."""

    job: str
    kind: Kind
    pods: Pods
    declared: float = math.inf
    submitted: float = 0.0


class Arrival(NamedTuple):
    """A job like one that came lately, so many seconds from now."""

    after: float
    kind: Kind
    pods: Pods


@dataclass(frozen=True, slots=True)
class Lane:
    """The limits of a queue."""

    deserved: Amounts | None = None
    """The queue with the least of this goes first; None: queues do not share."""
    most: Amounts | None = None
    """Beyond this nobody of the queue starts."""


NO_LANE = Lane()
MOST_ARRIVALS = 2000
"""So many jobs come in a play, at most."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster at one instant, after every possible start: nothing starts before something ends."""

    now: float
    free: Mapping[str, Amounts]
    """The free amounts of each node that takes pods."""
    holders: Sequence[Holder]
    waiters: Sequence[Waiter]
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    """The queues with limits, or a share."""
    coming: Sequence[Arrival] = ()
    """Recent arrivals, repeated; used if queues share, because new jobs may go first there."""


NO_SCENE = Scene(0.0, {}, (), ())


class _Entry(NamedTuple):
    """A place in a line: a job that waits, or one that came while it was played, with its run time."""

    place: int
    waiter: Waiter | None
    takes: float = 0.0


class _Queue:
    """A queue while it is played: what it holds, and its jobs that wait, those that ask for the same in one line."""

    __slots__ = ("deserved", "held", "lines", "most", "share")

    def __init__(self, lane: Lane, nothing: Amounts) -> None:
        self.deserved, self.most, self.held = lane.deserved, lane.most, nothing
        self.share = 0.0
        """How much of its part it has."""
        self.lines: dict[int, deque[_Entry]] = {}

    def hold(self, held: Amounts) -> None:
        """It holds so much from now on."""
        self.held = held
        if self.deserved is not None:
            self.share = max([has / part for has, part in zip(held, self.deserved, strict=True) if part], default=0.0)

    def beyond(self, asks: Amounts) -> bool:
        """Whether it would have more than its part with these."""
        if self.deserved is None:
            return False
        return any(held + more > part for held, more, part in zip(self.held, asks, self.deserved, strict=True) if more)

    def first(self, fits: Container[int], not_now: Container[int], lines: Sequence[_Line]) -> tuple[int, int] | None:
        """The place of its first job that there is room for, and its line."""
        best: tuple[int, int] | None = None
        for number, line in self.lines.items():
            if number in fits and number not in not_now and (best is None or line[0].place < best[0]):
                if self.most is not None and not all(map(le, map(add, self.held, lines[number].total), self.most)):
                    continue
                best = line[0].place, number
        return best


class _Line(NamedTuple):
    """The requests of the jobs in a line."""

    asked: Asked
    total: Amounts


class Playback:
    """A scene, made ready to be played several times."""

    def __init__(self, scene: Scene, times: Outlook) -> None:
        self.scene, self.times = scene, times
        self._shared = any(lane.deserved is not None for lane in scene.lanes.values())
        coming = scene.coming if self._shared else ()
        asking = [waiter.pods for waiter in scene.waiters] + [arrival.pods for arrival in coming]
        standing = few(shape for pods in asking for _, shape in pods)
        shapes = list(dict.fromkeys(standing.values()))
        numbers = {shape: shapes.index(stands) for shape, stands in standing.items()}
        known: dict[Pods, int] = {}
        lines: dict[Asked, int] = {}
        for pods in asking:
            if pods not in known:
                asked = tuple((count, numbers[shape]) for count, shape in pods)
                known[pods] = lines.setdefault(asked, len(lines))
        self._coming = [(arrival, known[arrival.pods]) for arrival in coming]
        self._waiting: dict[tuple[str, int], list[_Entry]] = {}
        """Lane and line -> who waits there, in order."""
        for place, waiter in enumerate(scene.waiters):
            lane = waiter.kind.queue if waiter.kind.queue in scene.lanes else ""
            self._waiting.setdefault((lane, known[waiter.pods]), []).append(_Entry(place, waiter))
        self._lines = [_Line(asked, total(tuple((n, shapes[shape]) for n, shape in asked))) for asked in lines]
        self._held = [_sum(holder.places) for holder in scene.holders]
        self._room = NodeRoom(scene.free, shapes, [line.asked for line in self._lines])
        some = next(iter(scene.free.values()), self._lines[0].total if self._lines else ())
        self._nothing: Amounts = tuple(0 for _ in some)

    def play(self, seed: int, last: str = "") -> dict[str, float]:
        """Seconds until each waiting job has its room, with run times drawn once; who never has it is left out.

        *last*: only this one is asked about, so nothing after its start is looked at.
        """
        scene, draw, rng, luck = self.scene, self.times.draw, random.Random(seed), partial(_luck, seed)
        room = self._room.copy()
        queues: dict[str, _Queue] = {}

        def of(name: str) -> _Queue:
            name = name if name in scene.lanes else ""
            if name not in queues:
                queues[name] = _Queue(scene.lanes.get(name, NO_LANE), self._nothing)
            return queues[name]

        ends: list[tuple[float, int, Sequence[Place], Amounts, _Queue]] = []
        for number, (holder, held) in enumerate(zip(scene.holders, self._held, strict=True)):
            age = max(scene.now - holder.since, 0.0)
            left = draw(holder.kind, holder.submitted, age, luck(holder.job or number), holder.declared) - age
            queue = of(holder.kind.queue)
            queue.held = tuple(map(add, queue.held, held))
            ends.append((max(left, 0.0), number, holder.places, held, queue))
        heapq.heapify(ends)
        number = len(ends)
        for (name, row), entries in self._waiting.items():
            of(name).lines[row] = deque(entries)
        for coming, _ in self._coming:
            of(coming.kind.queue)
        self._divide(list(queues.values()))
        waiting = [queue for queue in queues.values() if queue.lines]
        place = len(scene.waiters)
        starts: dict[str, float] = {}
        arrivals = self._arrivals(rng)
        arrival = next(arrivals, None)
        while len(starts) < len(scene.waiters) and ends:
            now = min(ends[0][0], arrival[0]) if arrival is not None else ends[0][0]
            while ends and ends[0][0] <= now:
                _, _, places, held, queue = heapq.heappop(ends)
                room.give(places)
                queue.hold(tuple(map(sub, queue.held, held)))
            while arrival is not None and arrival[0] <= now:
                _, kind, row = arrival
                queue = of(kind.queue)
                if not queue.lines:
                    waiting.append(queue)
                takes = draw(kind, scene.now, 0.0, rng.random())
                queue.lines.setdefault(row, deque()).append(_Entry(place, None, takes))
                place += 1
                arrival = next(arrivals, None)
            not_now: set[int] = set()
            while room.open and waiting and (found := self._next(waiting, room.open, not_now)) is not None:
                queue, row = found
                taken = room.take(self._lines[row].asked)
                if taken is None:  # pods of several shapes are in each other's way
                    not_now.add(row)
                    continue
                line = queue.lines[row]
                _, waiter, takes = line.popleft()
                if waiter is not None:
                    starts[waiter.job] = now
                    if waiter.job == last:
                        return starts
                    takes = draw(waiter.kind, waiter.submitted, 0.0, luck(waiter.job), waiter.declared)
                if not line:
                    del queue.lines[row]
                    if not queue.lines:
                        waiting.remove(queue)
                held = self._lines[row].total
                queue.hold(tuple(map(add, queue.held, held)))
                number += 1
                heapq.heappush(ends, (now + takes, number, taken, held, queue))
        return starts

    def _divide(self, queues: Sequence[_Queue]) -> None:
        """All the room, by the parts of those queues that hold or ask for anything."""
        parts = [queue.deserved for queue in queues if queue.deserved is not None]
        if parts:
            whole = amounts_sum(parts)
            nothing = tuple(0 for _ in whole)  # no node takes pods, and none has any
            room = amounts_sum([nothing, *self.scene.free.values(), *self._held])
            for queue in queues:
                if queue.deserved is not None:
                    shares = zip(queue.deserved, room, whole, strict=True)
                    queue.deserved = tuple(part * has // all_ if all_ else has for part, has, all_ in shares)
                    queue.hold(queue.held)

    def _arrivals(self, rng: random.Random) -> Iterator[tuple[float, Kind, int]]:
        """The arrivals during a play: recent ones, again and again, from a moment that is drawn."""
        if not self._coming:
            return
        span = max(arrival.after for arrival, _ in self._coming) + 1.0
        begins = rng.random() * span
        turned = sorted((((a.after - begins) % span, a.kind, row) for a, row in self._coming), key=itemgetter(0))
        for number in range(MOST_ARRIVALS):
            again, at = divmod(number, len(turned))
            after, kind, row = turned[at]
            yield again * span + after, kind, row

    def _next(
        self, waiting: Sequence[_Queue], fits: Container[int], not_now: Container[int]
    ) -> tuple[_Queue, int] | None:
        """The next job: of the queue with the least of its share, and there, or without shares, the first."""
        best: tuple[float, int] | None = None
        found: tuple[_Queue, int] | None = None
        # nobody goes beyond his part while others wait that have less than theirs
        poor = self._shared and len(waiting) > 1 and min([queue.share for queue in waiting]) < 1.0
        for queue in waiting:
            first = queue.first(fits, not_now, self._lines)
            if first is None or (poor and queue.beyond(self._lines[first[1]].total)):
                continue
            turn = (queue.share, first[0])
            if best is None or turn < best:
                best, found = turn, (queue, first[1])
        return found


def _luck(seed: int, job: str | int) -> float:
    """The draws of a play for a job, from 0 to 1: independent of other jobs, so that two scenes can be compared."""
    drawn = blake2b(f"{seed}/{job}".encode(), digest_size=7).digest()
    return int.from_bytes(drawn, "big") / 2.0**56


def forecast(scene: Scene, times: RunTimes, *, draws: int, seed: int = 0, last: str = "") -> dict[str, float]:
    """Seconds until each waiting job has its room: the median of several plays; infinite for who has it in no half."""
    playback = Playback(scene, times.outlook())
    plays = [playback.play(seed * 1000 + n, last) for n in range(draws)]
    asked = [w.job for w in scene.waiters] if not last else [last]
    return {job: median([found.get(job, math.inf) for found in plays]) for job in asked}


def _sum(places: Sequence[Place]) -> Amounts:
    return places[0][1] if len(places) == 1 else tuple(map(sum, zip(*(held for _, held in places), strict=True)))
