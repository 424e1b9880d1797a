"""The room of nodes while a cluster is played forward: how many pods of each shape fit, and where."""

from __future__ import annotations

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
    """What is free on each node, and for how many pods of each shape that is enough."""

    def __init__(self, free: Mapping[str, Amounts], shapes: Sequence[PodShape]) -> None:
        self._free, self._shapes = dict(free), shapes
        self._fits = [{node: n for node, has in free.items() if (n := shape.times(node, has))} for shape in shapes]
        self._total = [sum(fits.values()) for fits in self._fits]

    def copy(self) -> NodeRoom:
        """The same, to be changed."""
        other = NodeRoom({}, ())
        other._free, other._shapes, other._total = dict(self._free), self._shapes, list(self._total)
        other._fits = [dict(fits) for fits in self._fits]
        return other

    def has(self, asked: Asked) -> bool:
        """Whether there seems to be room for pods; those of several shapes may be in each other's way."""
        return all(self._total[shape] >= count for count, shape in asked)

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
        self._free[node] = free
        for number, shape in enumerate(self._shapes):
            fits = self._fits[number]
            n, before = shape.times(node, free), fits.get(node, 0)
            if n != before:
                self._total[number] += n - before
                if n:
                    fits[node] = n
                else:
                    del fits[node]


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
