"""Who goes next: jobs of the queue that goes first, walked down the tree of queues from its top."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from operator import itemgetter
from typing import Any, Final, cast

from pumice.framework.points import table as t
from pumice.kai.search.claims import QueueClaim, held_by
from pumice.kai.search.runs import JobRun, rank, sorted_out
from pumice.kai.view.amounts import NOTHING, Amounts, plus
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.world import KaiWorld

ASKS: Final = (t.JOB_ORDER, t.TASK_ORDER, t.QUEUE_CLAIM_ORDER, t.SUB_GROUP_ORDER)


class _Branch:
    """A queue that has work, with a heap of the branches below it or with its jobs.

    A branch that was served keeps its place in the heap above until it is on top there, or has spoken for what is above
    it: only then it is compared anew.
    Jobs come from runs that orders share, read from a place on, and from a heap of its own.
    """

    __slots__ = ("at", "branches", "head", "more", "parent", "queue", "run", "runs", "stale")

    def __init__(self, queue: QueueView, runs: Sequence[JobRun] = ()) -> None:
        self.queue, self.runs = queue, runs
        self.parent: _Branch | None = None
        self.branches: list[_Branch] = []
        self.run = self.at = 0
        """The place: a run, and what of it is next."""
        self.more: list[tuple[Any, int, JobView]] = []
        self.head: JobView | None = None
        """The job that is next; None where there is none, or others are below."""
        self.stale = False

    def copy(self, parent: _Branch | None, known: dict[str, _Branch]) -> _Branch:
        """The same, to be changed on its own."""
        other = known[self.queue.name] = _Branch(self.queue, self.runs)
        other.parent = parent
        other.branches = [branch.copy(other, known) for branch in self.branches]
        other.run, other.at, other.head, other.stale = self.run, self.at, self.head, self.stale
        other.more = list(self.more)
        return other

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


class WorkOrder:
    """Jobs in the order in which they are served; *victims*: in which they would go, the worst first."""

    def __init__(
        self, world: KaiWorld, jobs: Iterable[JobView], *, victims: bool = False, depth: int | None = None
    ) -> None:
        self._begin(world, victims, None)
        for runs in sorted_out(world, jobs, victims=victims, depth=depth):
            self._branches[runs[0].queue.name] = _Branch(runs[0].queue, runs)
        self._grow()

    @classmethod
    def of_runs(
        cls,
        world: KaiWorld,
        runs: Mapping[str, Sequence[JobRun]],
        *,
        victims: bool = False,
        admits: Callable[[JobView], bool] | None = None,
        more: Iterable[JobView] = (),
    ) -> WorkOrder:
        """An order of jobs that are sorted out already, those that are *admitted*, and of some *more*."""
        order = cls.__new__(cls)
        order._begin(world, victims, admits)
        for listed in runs.values():
            if listed:
                order._branches[listed[0].queue.name] = _Branch(listed[0].queue, listed)
        key = order._rank()
        for job in more:
            leaf = order._branches.setdefault(job.queue.name, _Branch(job.queue))
            heapq.heappush(leaf.more, (key(job), next(order._number), job))
        order._grow()
        return order

    def _begin(self, world: KaiWorld, victims: bool, admits: Callable[[JobView], bool] | None) -> None:
        self._world, self._victims, self._admits = world, victims, admits
        self._order = cast(Callable[[QueueClaim, QueueClaim], int], world.ssn.queue_claim_order)
        self._top: list[_Branch] = []
        self._branches: dict[str, _Branch] = {}
        self._gone: dict[str, tuple[list[JobView], Amounts]] = {}
        """Queue -> the victims that were taken from it, and what they hold."""
        self._number = count()
        self._served: _Branch | None = None

    def _rank(self) -> Callable[[JobView], Any]:
        return rank(self._world, victims=self._victims)

    def copy(self) -> WorkOrder:
        """The same order, to be walked on its own; right as long as the world is as it was."""
        other = WorkOrder.__new__(WorkOrder)
        other._begin(self._world, self._victims, self._admits)
        other._top = [branch.copy(None, other._branches) for branch in self._top]
        other._gone = {name: (list(jobs), held) for name, (jobs, held) in self._gone.items()}
        other._number = count(sum(len(branch.more) for branch in self._branches.values()) + 1)
        return other

    def _grow(self) -> None:
        """Put every branch below the one above it, the deepest first: what is compared has all its work by then."""
        for name, leaf in list(self._branches.items()):
            leaf.find_head(self._admits)
            if leaf.head is None:
                del self._branches[name]
        for leaf in list(self._branches.values()):
            for queue in leaf.queue.chain():
                self._branches.setdefault(queue.name, _Branch(queue))
        for branch in sorted(self._branches.values(), key=lambda b: -sum(1 for _ in b.queue.chain())):
            above = branch.queue.parent
            branch.parent = self._branches[above.name] if above is not None else None
            self._push(branch.parent.branches if branch.parent is not None else self._top, branch)

    def _link(self, branch: _Branch) -> None:
        """Put a new branch below the one above it, which is made where there is none yet."""
        above = branch.queue.parent
        if above is None:
            self._push(self._top, branch)
            return
        parent = self._branches.get(above.name)
        known = parent is not None
        if parent is None:
            parent = self._branches[above.name] = _Branch(above)
        branch.parent = parent
        self._push(parent.branches, branch)
        if not known:
            self._link(parent)

    def push(self, job: JobView) -> None:
        """Put a job (back) in."""
        name = job.queue.name
        leaf = self._branches.get(name)
        known = leaf is not None
        if leaf is None:
            leaf = self._branches[name] = _Branch(job.queue)
        heapq.heappush(leaf.more, (self._rank()(job), next(self._number), job))
        leaf.find_head(self._admits)
        if not known:
            self._link(leaf)
        _mark(leaf)

    def __bool__(self) -> bool:
        return bool(self._top)

    def pop(self) -> JobView:
        """The next job, taken out."""
        leaf = self._best(self._top)
        while leaf.branches:
            leaf = self._best(leaf.branches)
        self._served = leaf
        job = leaf.take(self._admits)
        if self._victims:
            gone, held = self._gone.get(leaf.queue.name) or ([], NOTHING)
            gone.append(job)
            self._gone[leaf.queue.name] = (gone, plus(held, held_by(job)))
        self._prune(leaf)
        return job

    def pass_likes(self) -> None:
        """Pass by those that come next because they ask for the same as the last job, from the same queue."""
        leaf = self._served
        if leaf is not None and leaf.head is not None:
            leaf.pass_run(self._admits)
            self._prune(leaf)

    def _prune(self, leaf: _Branch) -> None:
        """Take out what has no work any more, and have the rest compared anew; the leaf is on top of its heaps."""
        branch: _Branch | None = leaf
        while branch is not None and branch.head is None and not branch.branches:
            heap = branch.parent.branches if branch.parent is not None else self._top
            del self._branches[branch.queue.name]
            self._take_off(heap)
            branch = branch.parent
        if branch is not None:
            _mark(branch)

    def __iter__(self) -> Iterator[JobView]:
        while self:
            yield self.pop()

    # -- heaps of branches ------------------------------------------------------------------------------------------
    def _best(self, heap: list[_Branch]) -> _Branch:
        """The branch on top, which is compared anew if it was served since."""
        while heap[0].stale:
            heap[0].stale = False
            self._sink(heap)
        return heap[0]

    def _take_off(self, heap: list[_Branch]) -> None:
        """Take out the branch on top."""
        last = heap.pop()
        if heap:
            heap[0] = last
            self._sink(heap)

    def _sink(self, heap: list[_Branch]) -> None:
        at, size = 0, len(heap)
        while (child := 2 * at + 1) < size:
            if child + 1 < size and self._before(heap[child + 1], heap[child]):
                child += 1
            if not self._before(heap[child], heap[at]):
                return
            heap[at], heap[child] = heap[child], heap[at]
            at = child

    def _push(self, heap: list[_Branch], branch: _Branch) -> None:
        heap.append(branch)
        at = len(heap) - 1
        while at and self._before(heap[at], heap[(at - 1) // 2]):
            above = (at - 1) // 2
            heap[at], heap[above] = heap[above], heap[at]
            at = above

    def _claim(self, branch: _Branch) -> QueueClaim:
        leaf = self._next_leaf(branch)
        job = leaf.head
        if self._victims:
            return QueueClaim(branch.queue, None, job, *self._gone.get(leaf.queue.name, ((), NOTHING)))
        return QueueClaim(branch.queue, job)

    def _next_leaf(self, branch: _Branch) -> _Branch:
        """The queue that speaks for a branch: the one on top of it.

        One that was served since speaks once more, and takes its new place then.
        """
        heap = branch.branches
        if not heap:
            return branch
        top = heap[0]
        leaf = self._next_leaf(top)
        if top.stale and len(heap) > 1:
            self._take_off(heap)
            self._push(heap, top)
            top.stale = False
        return leaf

    def _before(self, left: _Branch, right: _Branch) -> bool:
        said = self._order(self._claim(left), self._claim(right))
        if not said:
            a, b = left.queue, right.queue
            said = -1 if (a.creation, a.uid) < (b.creation, b.uid) else 1
        return said > 0 if self._victims else said < 0


def _mark(branch: _Branch) -> None:
    """It and all above it are to be compared anew."""
    each: _Branch | None = branch
    while each is not None:
        each.stale = True
        each = each.parent
