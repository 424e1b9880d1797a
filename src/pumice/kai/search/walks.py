"""Walks along one order of victims: what came out for one comes out for the next, and nothing is sorted out twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pumice.kai.search.ordering import WorkOrder
from pumice.kai.view.jobs import JobView


class Walk:
    """One walk along an order that others have walked before: what came out for them comes out again.

    Where something is put back in, it goes on with an order of its own.
    """

    __slots__ = ("_at", "_own", "_shared")

    def __init__(self, shared: SharedOrder) -> None:
        self._shared = shared
        self._at = 0
        self._own: WorkOrder | None = None

    def __iter__(self) -> Iterator[JobView]:
        """Jobs as they are taken out, in a single walk; others may be put in meanwhile."""
        came = self._shared.came
        while self._own is None and (self._at < len(came) or self._shared.reaches(self._at)):
            self._at += 1
            yield came[self._at - 1]
        while self._own:
            yield self._own.pop()

    def push(self, job: JobView) -> None:
        """Put a job (back) in."""
        if self._own is None:
            self._own = self._shared.after(self._at)
        self._own.push(job)


class SharedOrder:
    """An order that is walked many times while the world is as it was; it is sorted out once."""

    def __init__(self, make: Callable[[], WorkOrder]) -> None:
        """*make*: a fresh order from the beginning, always the same."""
        self._make, self._rest = make, make()
        self.came: list[JobView] = []
        """Who came out so far."""

    def walk(self) -> Walk:
        """A walk from the beginning."""
        return Walk(self)

    def reaches(self, at: int) -> bool:
        """Does a job come out at this place, the first being 0? Then it did by now."""
        while len(self.came) <= at:
            if not self._rest:
                return False
            self.came.append(self._rest.pop())
        return True

    def after(self, many: int) -> WorkOrder:
        """The order when so many were taken out."""
        order = self._make()
        for _ in range(many):
            order.pop()
        return order
