"""Branches of the tree of queues that have work: what of it is next, and which are to be compared anew."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from pumice.kai.search.runs import JobRun
from pumice.kai.view.amounts import NOTHING, Amounts
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView


class WaitingBranch:
    """A queue that has work, with a heap of the branches below it or with its jobs.

    A branch that was served keeps its place in the heap above until it is on top there, or has spoken for what is above
    it: only then it is compared anew.
    Jobs come from runs that orders share, read from a place on, and from a heap of its own.
    """

    __slots__ = (
        "at",
        "branches",
        "claimed",
        "depth",
        "head",
        "known",
        "more",
        "parent",
        "queue",
        "run",
        "runs",
        "stale",
    )

    def __init__(self, queue: QueueView, runs: Sequence[JobRun] = ()) -> None:
        self.queue, self.runs = queue, runs
        self.depth = len(queue.chain())
        self.parent: WaitingBranch | None = None
        self.branches: list[WaitingBranch] = []
        self.run = self.at = 0
        """The place: a run, and what of it is next."""
        self.more: list[tuple[Any, int, JobView]] = []
        self.head: JobView | None = None
        """The job that is next; None where there is none, or others are below."""
        self.stale = False
        self.claimed: tuple[JobView | None, int, object, Amounts] = (None, 0, None, NOTHING)
        """Who was next when it spoke last, as he was then, beside whom, and what the claim comes to."""
        self.known: tuple[Amounts | None, Amounts, Any] = (None, NOTHING, None)
        """What was claimed when it was compared last, what it held then, and its key."""

    def find_head(self, admits: Callable[[JobView], bool] | None) -> None:
        """Find out who is next; who is not admitted is passed by."""
        runs = self.runs
        while self.run < len(runs):
            entries = runs[self.run].entries
            while self.at < len(entries):
                key, job = entries[self.at]
                if admits is None or admits(job):
                    self.head = self.more[0][2] if self.more and self.more[0][0] < key else job
                    return
                self.at += 1
            self.run, self.at = self.run + 1, 0
        self.head = self.more[0][2] if self.more else None

    def take(self, admits: Callable[[JobView], bool] | None) -> JobView:
        """Take out who is next."""
        job = self.head
        assert job is not None, f"queue {self.queue.name} has no job left"
        if self.more and self.more[0][2] is job:
            heapq.heappop(self.more)
        else:
            self.at += 1
        self.find_head(admits)
        return job

    def pass_run(self, admits: Callable[[JobView], bool] | None) -> None:
        """Pass by what is left of the run that the last job was of, as far as nobody of the own heap comes between."""
        if not self.at or self.run >= len(self.runs):
            return
        entries = self.runs[self.run].entries
        self.at = bisect_left(entries, self.more[0][0], self.at, key=itemgetter(0)) if self.more else len(entries)
        self.find_head(admits)


def mark(branch: WaitingBranch) -> None:
    """It and all above it are to be compared anew."""
    each: WaitingBranch | None = branch
    while each is not None:
        each.stale = True
        each = each.parent
