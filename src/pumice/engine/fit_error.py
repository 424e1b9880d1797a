"""Why a task fits nowhere, in numbers of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pumice.engine.views import Bools
from pumice.model.reason import Reason, parts_of, reason_of

ReasonCounts = Mapping[int, int] | Mapping[Reason, int]
"""How many nodes a reason, or its number, stands for."""


class FitError:
    """Why a task fits nowhere: how many nodes each reason stands for. Counted when first asked for."""

    __slots__ = ("_count", "_counted_at", "_counts", "_nodes", "_now", "_text", "_told", "at", "first", "never", "room")

    def __init__(
        self,
        counts: ReasonCounts | None = None,
        nodes: int = 0,
        text: str = "",
        count: Callable[[], tuple[ReasonCounts, int]] | None = None,
        now: Callable[[], int] | None = None,
        room: Callable[[], int] | None = None,
        first: bool = False,
    ) -> None:
        """*first*: a node counts for the first resource that it lacks only.

        *now*: where the log of touched rows stands; it is counted again when that has moved on.

        *room*: for how many equal tasks there is room when somebody asks.
        """
        self._counts: ReasonCounts = counts or {}
        self._nodes, self._text = nodes, text
        self._count, self._now, self._counted_at = count, now, -1
        self.room, self.first = room, first
        self._told: tuple[ReasonCounts, str] | None = None
        """The words that were last made, and of which counts."""
        self.at = -1
        """Where the log of touched rows stood when the task did not fit."""
        self.never: Bools | None = None
        """Rows that objected for good, where that is remembered."""

    def settle(self) -> None:
        """Count now, while the state is still the one in which the task did not fit."""
        self._follow()
        self._count = None

    def _follow(self) -> None:
        if self._count is None:
            return
        if self._now is None:
            count, self._count = self._count, None
            self._counts, self._nodes = count()
        elif (now := self._now()) != self._counted_at:
            self._counts, self._nodes = self._count()
            self._counted_at = now

    @property
    def text(self) -> str:
        """What was said where it is not for nodes."""
        return self._text

    @property
    def counts(self) -> ReasonCounts:
        """Reason, or its number -> nodes."""
        self._follow()
        return self._counts

    @property
    def nodes(self) -> int:
        """How many nodes were looked at."""
        self._follow()
        return self._nodes

    def reasons(self) -> list[tuple[Reason, int]]:
        """(reason, nodes), most frequent first. A node counts for every resource that it lacks."""
        pairs: dict[Reason, int] = {}
        for code, n in self.counts.items():
            for reason in parts_of(reason_of(code), first=self.first):
                pairs[reason] = pairs.get(reason, 0) + n
        return sorted(pairs.items(), key=lambda p: (-p[1], p[0].text))

    def __str__(self) -> str:
        if self.text:
            return self.text
        counts = self.counts
        if self._told is None or self._told[0] is not counts:  # many jobs are told of the same error
            parts = [f"{n} {reason.text}" for reason, n in self.reasons()]
            if self.first:
                parts.sort()
            reasons = f": {', '.join(parts)}" if parts else ""
            told = f"0/{self.nodes if parts else 0} nodes are unavailable{reasons}."
            self._told = counts, told
        return self._told[1]
