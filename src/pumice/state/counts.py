"""Which sums a task of each status counts in: the one table of the ledger, and what moves change, made of it."""

from __future__ import annotations

from typing import Final, NamedTuple

from pumice.model.status import MOVES, STATUS_COUNT, TaskStatus

S = TaskStatus
OUT: Final = STATUS_COUNT
"""Where a task comes from when it is first seen and goes to when its pod is gone; beside the statuses."""


class Counts(NamedTuple):
    """What a task counts in, in units of its request."""

    idle: int = 0
    used: int = 0
    releasing: int = 0
    pipelined: int = 0
    there: int = 0
    """Is it on its node: one of the node's tasks and pods?"""
    allocated: int = 0
    held: int = 0
    pending: int = 0
    total: int = 1


_PLACED: Final = Counts(idle=-1, used=1, there=1, allocated=1, held=1)
COUNTS: Final[dict[int, Counts]] = {
    S.PENDING: Counts(pending=1),
    S.ALLOCATED: _PLACED,
    S.PIPELINED: Counts(pipelined=1, there=1, held=1),
    S.BINDING: _PLACED,
    S.BOUND: _PLACED,
    S.RUNNING: _PLACED,
    S.RELEASING: Counts(idle=-1, used=1, releasing=1, there=1),
    S.SUCCEEDED: Counts(),
    S.FAILED: Counts(),
    S.UNKNOWN: Counts(idle=-1, used=1, there=1),
    OUT: Counts(total=0),
}
"""The table: what a task of each status counts in. The first five where its node is known."""

_EVERY: Final = range(STATUS_COUNT + 1)
THERE: Final = tuple(bool(COUNTS[s].there) for s in _EVERY)
ON: Final = tuple(tuple(COUNTS[s][:4]) for s in _EVERY)
COLUMNS: Final = tuple(tuple(tuple(b - a for a, b in zip(ON[x], ON[y], strict=True)) for y in _EVERY) for x in _EVERY)
"""[before][after]: what a move on one node does to its idle, used, releasing and pipelined."""
SUMS: Final = tuple(
    tuple(tuple(b - a for a, b in zip(COUNTS[x][5:], COUNTS[y][5:], strict=True)) for y in _EVERY) for x in _EVERY
)
"""[before][after]: what a move does to allocated, held, pending and total."""
HOLDS: Final = tuple(COUNTS[s] is _PLACED for s in _EVERY)
"""Does a task of that status hold its place, and is it seen there?"""
NOTHING: Final = (0, 0, 0, 0)
ALLOWED: Final = tuple(tuple((x, y) in MOVES for y in S) for x in S)
"""[before][after]: may a session do that?"""
Items = tuple[tuple[int, int], ...]
