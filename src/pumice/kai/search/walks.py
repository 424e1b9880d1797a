"""Walks along one order of victims: what came out for one comes out for the next, and nothing is sorted out twice."""

from __future__ import annotations

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

    def __bool__(self) -> bool:
        return bool(self._own) if self._own is not None else self._shared.reaches(self._at)

    def pop(self) -> JobView:
        """The next job, taken out."""
        if self._own is not None:
            return self._own.pop()
        self._at += 1
        return self._shared.nth(self._at - 1)

    def push(self, job: JobView) -> None:
        """Put a job (back) in."""
        if self._own is None:
            self._own = self._shared.after(self._at)
        self._own.push(job)


class SharedOrder:
    """An order that is walked many times while the world is as it was; it is sorted out once."""

    def __init__(self, order: WorkOrder) -> None:
        self._whole, self._rest = order, order.copy()
        self._came: list[JobView] = []

    def walk(self) -> Walk:
        """A walk from the beginning."""
        return Walk(self)

    def reaches(self, at: int) -> bool:
        """Is there a job at this place?"""
        return at < len(self._came) or bool(self._rest)

    def nth(self, at: int) -> JobView:
        """The job at a place that it reaches, the first being 0."""
        while len(self._came) <= at:
            self._came.append(self._rest.pop())
        return self._came[at]

    def after(self, many: int) -> WorkOrder:
        """The order when so many were taken out."""
        order = self._whole.copy()
        for _ in range(many):
            order.pop()
        return order
