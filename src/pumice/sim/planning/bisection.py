"""The smallest number that meets a goal, found with few tries; and whether more is always better, as far as seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search."""

    answer: int | None
    """The smallest number that meets the goal, and with it every larger one that was tried; None if none does."""
    tried: tuple[int, ...]
    """In order."""
    broken: tuple[tuple[int, int], ...]
    """Pairs of which the smaller meets the goal and the larger does not: more is not always better."""


def smallest(meets: Callable[[int], bool], low: int, high: int, start: int) -> Found:
    """Return the smallest number from *low* to *high* that meets a goal, searched from *start* on.

    Doubles or halves from the start, then bisects, then looks at the neighbours of the answer: a goal that is met
    here and missed above is no rare thing where large jobs are let in by larger clusters.
    """
    known: dict[int, bool] = {}

    def met(number: int) -> bool:
        if number not in known:
            known[number] = meets(number)
        return known[number]

    at = min(max(start, low), high)
    if met(at):
        top, bottom = at, low - 1
        while top > low:
            below = max(low, top // 2)
            if not met(below):
                bottom = below
                break
            top = below
    else:
        bottom, top = at, high + 1
        while bottom < high:
            above = min(high, max(2 * bottom, 1))
            if met(above):
                top = above
                break
            bottom = above
    while True:
        top = _between(met, bottom, top)
        if top >= high or met(top + 1):
            break
        bottom = top + 1  # met here and missed above: look for the place from which on it is met
        top = min((number for number, good in known.items() if good and number > bottom), default=high + 1)
        if top > high and not met(high):
            break
        top = min(top, high)
    if low <= top - 2 <= high:
        met(top - 2)
    return _judged(known)


def first_from(met: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return a number from *low* to *high* that meets a goal, of which the one below was found not to; else ``None``.

    It steps up by 0, 1, 2, 4, … from *low* and bisects the last step.
    """
    below, step = low - 1, 0
    while True:
        at = min(low + step, high)
        if met(at):
            return _between(met, below, at)
        if at == high:
            return None
        below, step = at, max(1, 2 * step)


def _between(met: Callable[[int], bool], bottom: int, top: int) -> int:
    """The first that meets, between one that misses and one that meets."""
    while top - bottom > 1:
        middle = (top + bottom) // 2
        if met(middle):
            top = middle
        else:
            bottom = middle
    return top


def _judged(known: dict[int, bool]) -> Found:
    tried = tuple(sorted(known))
    answer = None
    for number in reversed(tried):
        if not known[number]:
            break
        answer = number
    broken = tuple((a, b) for a, b in pairwise(tried) if known[a] and not known[b])
    return Found(answer, tried, broken)
