"""Who goes next: jobs of the queue that goes first, walked down the tree of queues from its top."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, Final, cast

from pumice.framework.points import table as t
from pumice.kai.search.claims import QueueClaim, held_by
from pumice.kai.view.amounts import NOTHING, Amounts, plus
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.world import KaiWorld

ASKS: Final = (t.JOB_ORDER, t.TASK_ORDER, t.QUEUE_CLAIM_ORDER, t.SUB_GROUP_ORDER)


class _Last:
    """A sort key turned round."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: _Last) -> bool:
        return bool(other.key < self.key)


class _Branch:
    """A queue that has work, with a heap of the branches below it or of its jobs.

    A branch that was served keeps its place in the heap above until it is on top there: only then it is compared anew.
    """

    __slots__ = ("branches", "jobs", "parent", "queue", "stale")

    def __init__(self, queue: QueueView, parent: _Branch | None = None) -> None:
        self.queue, self.parent = queue, parent
        self.branches: list[_Branch] = []
        self.jobs: list[tuple[Any, int, JobView]] = []
        self.stale = False

    def copy(self, parent: _Branch | None, known: dict[str, _Branch]) -> _Branch:
        """The same, to be changed on its own."""
        other = known[self.queue.name] = _Branch(self.queue, parent)
        other.branches = [branch.copy(other, known) for branch in self.branches]
        other.jobs, other.stale = list(self.jobs), self.stale
        return other


class WorkOrder:
    """Jobs in the order in which they are served; *victims*: in which they would go, the worst first."""

    def __init__(
        self, world: KaiWorld, jobs: Iterable[JobView], *, victims: bool = False, depth: int | None = None
    ) -> None:
        self._world, self._victims = world, victims
        self._order = cast(Callable[[QueueClaim, QueueClaim], int], world.ssn.queue_claim_order)
        self._top: list[_Branch] = []
        self._branches: dict[str, _Branch] = {}
        self._gone: dict[str, tuple[list[JobView], Amounts]] = {}
        """Queue -> the victims that were taken from it, and what they hold."""
        self._number = count()
        per_leaf: dict[str, list[JobView]] = {}
        for job in jobs:
            if job.queue.is_leaf:
                per_leaf.setdefault(job.queue.name, []).append(job)
        key = self._rank()
        for listed in per_leaf.values():
            ranked = world.sort_jobs(listed)
            chosen = ranked[::-1] if victims else ranked
            leaf = self._branches[listed[0].queue.name] = _Branch(listed[0].queue)
            leaf.jobs = [(key(job), next(self._number), job) for job in chosen[:depth]]
        self._grow()

    def _rank(self) -> Callable[[JobView], Any]:
        key = self._world.job_key()
        return (lambda job: _Last(key(job))) if self._victims else key

    def copy(self) -> WorkOrder:
        """The same order, to be walked on its own; right as long as the world is as it was."""
        other = WorkOrder(self._world, (), victims=self._victims)
        other._top = [branch.copy(None, other._branches) for branch in self._top]
        other._gone = {name: (list(jobs), held) for name, (jobs, held) in self._gone.items()}
        other._number = count(sum(len(branch.jobs) for branch in self._branches.values()) + 1)
        return other

    def _grow(self) -> None:
        """Put every branch below the one above it, the deepest first: what is compared has all its work by then."""
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
        heapq.heappush(leaf.jobs, (self._rank()(job), next(self._number), job))
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
        job = heapq.heappop(leaf.jobs)[2]
        if self._victims:
            gone, held = self._gone.get(leaf.queue.name) or ([], NOTHING)
            gone.append(job)
            self._gone[leaf.queue.name] = (gone, plus(held, held_by(job)))
        branch: _Branch | None = leaf
        while branch is not None and not branch.jobs and not branch.branches:
            heap = branch.parent.branches if branch.parent is not None else self._top
            del self._branches[branch.queue.name]
            last = heap.pop()  # the branch is on top of its heap
            if heap:
                heap[0] = last
                self._sink(heap)
            branch = branch.parent
        if branch is not None:
            _mark(branch)
        return job

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
        leaf = branch
        while leaf.branches:
            leaf = leaf.branches[0]
        job = leaf.jobs[0][2]
        if self._victims:
            return QueueClaim(branch.queue, None, job, *self._gone.get(leaf.queue.name, ((), NOTHING)))
        return QueueClaim(branch.queue, job)

    def _before(self, left: _Branch, right: _Branch) -> bool:
        said = self._order(self._claim(left), self._claim(right))
        if not said:
            a, b = left.queue, right.queue
            said = -1 if (a.creation, a.uid) < (b.creation, b.uid) else 1
        return said > 0 if self._victims else said < 0


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


def _mark(branch: _Branch) -> None:
    """It and all above it are to be compared anew."""
    each: _Branch | None = branch
    while each is not None:
        each.stale = True
        each = each.parent
