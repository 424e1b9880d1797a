"""The room of nodes while a cluster is played forward: how many pods of each shape fit, and where."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import add, sub
from typing import NamedTuple

Amounts = tuple[int, ...]
"""Of each resource that is looked at, in ledger units."""
Place = tuple[str, Amounts]
"""A node, and what is held of it."""
MOST_SHAPES = 64
"""Beyond so many shapes amounts are rounded down, as little as will do, at most to a half: a play costs as many looks
at each node that changes as there are shapes."""
_LOOKED_AT = 32
"""Nodes that are compared when a pod is placed, at most."""
_ANY = 1 << 30


class PodShape(NamedTuple):
    """What one pod asks for, and the nodes that it may be on."""

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
    """What they ask for together."""
    return tuple(map(sum, zip(*([count * asks for asks in shape.each] for count, shape in pods), strict=True)))


Asked = tuple[tuple[int, int], ...]
"""How many pods of which shape, by its number."""


class NodeRoom:
    """What is free on each node, for how many pods of each shape that is enough, and so for which of those who ask."""

    def __init__(self, free: Mapping[str, Amounts], shapes: Sequence[PodShape], asking: Sequence[Asked] = ()) -> None:
        self._free, self._shapes = dict(free), shapes
        self._needs = [(shape.only, [(n, asks) for n, asks in enumerate(shape.each) if asks]) for shape in shapes]
        """Of each shape: its nodes, and the resources that it asks for."""
        self._fits = [{node: n for node, has in free.items() if (n := shape.times(node, has))} for shape in shapes]
        self._total = [sum(fits.values()) for fits in self._fits]
        self._askers: list[tuple[list[int], list[int]]] = [([], []) for _ in shapes]
        """Of each shape: how many of it are asked for, ascending, and by whom."""
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
    """What stands for each shape: itself, or where there are too many, one of rounder and smaller amounts."""
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
