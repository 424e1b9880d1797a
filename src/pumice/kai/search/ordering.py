"""Who goes next: jobs of the queue that goes first, walked down the tree of queues from its top."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from operator import attrgetter
from typing import Any, Final, cast

from pumice.framework.points import table as t
from pumice.kai.search.branches import WaitingBranch, mark
from pumice.kai.search.claims import QueueClaim, held_by
from pumice.kai.search.runs import JobRun, rank, sorted_out
from pumice.kai.view.amounts import NOTHING, Amounts, plus
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.world import KaiWorld

_depth: Final = attrgetter("depth")
ASKS: Final = (t.JOB_ORDER, t.TASK_ORDER, t.QUEUE_CLAIM_ORDER, t.SUB_GROUP_ORDER)


class WorkOrder:
    """Jobs in the order in which they are served; *victims*: in which they would go, the worst first."""

    def __init__(
        self, world: KaiWorld, jobs: Iterable[JobView], *, victims: bool = False, depth: int | None = None
    ) -> None:
        self._begin(world, victims, None)
        for runs in sorted_out(world, jobs, victims=victims, depth=depth):
            self._branches[runs[0].queue.name] = WaitingBranch(runs[0].queue, runs)
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
                order._branches[listed[0].queue.name] = WaitingBranch(listed[0].queue, listed)
        key = order._rank()
        for job in more:
            leaf = order._branches.get(job.queue.name)
            if leaf is None:
                leaf = order._branches[job.queue.name] = WaitingBranch(job.queue)
            heapq.heappush(leaf.more, (key(job), next(order._number), job))
        order._grow()
        return order

    def _begin(self, world: KaiWorld, victims: bool, admits: Callable[[JobView], bool] | None) -> None:
        self._world, self._victims, self._admits = world, victims, admits
        self._keys = world.orders.claim_keys()
        self._top: list[WaitingBranch] = []
        self._branches: dict[str, WaitingBranch] = {}
        self._gone: dict[str, tuple[list[JobView], Amounts]] = {}
        """Queue -> the victims that were taken from it, and what they hold."""
        self._number = count()
        self._served: WaitingBranch | None = None

    def _rank(self) -> Callable[[JobView], Any]:
        return rank(self._world, victims=self._victims)

    def _grow(self) -> None:
        """Put every branch below the one above it, the deepest first: what is compared has all its work by then."""
        for name, leaf in list(self._branches.items()):
            leaf.find_head(self._admits)
            if leaf.head is None:
                del self._branches[name]
        found = self._branches
        for leaf in list(found.values()):
            for queue in leaf.queue.chain():
                if queue.name not in found:
                    found[queue.name] = WaitingBranch(queue)
        for branch in sorted(found.values(), key=_depth, reverse=True):
            above = branch.queue.parent
            branch.parent = found[above.name] if above is not None else None
            heap = branch.parent.branches if branch.parent is not None else self._top
            if heap:
                self._push(heap, branch)
            else:
                heap.append(branch)

    def _link(self, branch: WaitingBranch) -> None:
        """Put a new branch below the one above it, which is made where there is none yet."""
        above = branch.queue.parent
        if above is None:
            self._push(self._top, branch)
            return
        parent = self._branches.get(above.name)
        known = parent is not None
        if parent is None:
            parent = self._branches[above.name] = WaitingBranch(above)
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
            leaf = self._branches[name] = WaitingBranch(job.queue)
        heapq.heappush(leaf.more, (self._rank()(job), next(self._number), job))
        leaf.find_head(self._admits)
        if not known:
            self._link(leaf)
        mark(leaf)

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

    def _prune(self, leaf: WaitingBranch) -> None:
        """Take out what has no work any more, and have the rest compared anew; the leaf is on top of its heaps."""
        branch: WaitingBranch | None = leaf
        while branch is not None and branch.head is None and not branch.branches:
            heap = branch.parent.branches if branch.parent is not None else self._top
            del self._branches[branch.queue.name]
            self._take_off(heap)
            branch = branch.parent
        if branch is not None:
            mark(branch)

    def __iter__(self) -> Iterator[JobView]:
        while self:
            yield self.pop()

    # -- heaps of branches ------------------------------------------------------------------------------------------
    def _best(self, heap: list[WaitingBranch]) -> WaitingBranch:
        """The branch on top, which is compared anew if it was served since."""
        while heap[0].stale:
            heap[0].stale = False
            self._sink(heap)
        return heap[0]

    def _take_off(self, heap: list[WaitingBranch]) -> None:
        """Take out the branch on top."""
        last = heap.pop()
        if heap:
            heap[0] = last
            self._sink(heap)

    def _sink(self, heap: list[WaitingBranch]) -> None:
        at, size = 0, len(heap)
        while (child := 2 * at + 1) < size:
            if child + 1 < size and self._before(heap[child + 1], heap[child]):
                child += 1
            if not self._before(heap[child], heap[at]):
                return
            heap[at], heap[child] = heap[child], heap[at]
            at = child

    def _push(self, heap: list[WaitingBranch], branch: WaitingBranch) -> None:
        heap.append(branch)
        at = len(heap) - 1
        while at and self._before(heap[at], heap[(at - 1) // 2]):
            above = (at - 1) // 2
            heap[at], heap[above] = heap[above], heap[at]
            at = above

    def _claim(self, branch: WaitingBranch, leaf: WaitingBranch) -> QueueClaim:
        job = leaf.head
        if self._victims:
            return QueueClaim(branch.queue, None, job, *self._gone.get(leaf.queue.name, ((), NOTHING)))
        return QueueClaim(branch.queue, job)

    def _key_of(
        self, branch: WaitingBranch, leaf: WaitingBranch, key: Callable[[QueueView, Amounts, Amounts], Any]
    ) -> Any:
        """The key of a branch's claim, kept as long as the claim is the same."""
        job, held, gone = leaf.head, branch.queue.allocated, self._gone.get(leaf.queue.name) if self._victims else None
        assert job is not None, f"queue {leaf.queue.name} has no job left"
        changes, claimed = job.whole.changes, leaf.claimed
        if claimed[0] is not job or claimed[1] != changes or claimed[2] is not gone:
            claimed = leaf.claimed = (job, changes, gone, self._amounts_of(job, gone))
        amounts, known = claimed[3], branch.known
        if known[0] is not amounts or known[1] is not held:
            made = key(branch.queue, NOTHING, amounts) if self._victims else key(branch.queue, amounts, NOTHING)
            known = branch.known = (amounts, held, made)
        return known[2]

    def _amounts_of(self, job: JobView, gone: tuple[list[JobView], Amounts] | None) -> Amounts:
        """What a job asks for; of a victim: what is given back when it goes too."""
        if not self._victims:
            return self._world.next_request(job)
        return plus(gone[1] if gone is not None else NOTHING, held_by(job))

    def _next_leaf(self, branch: WaitingBranch) -> WaitingBranch:
        """The queue that speaks for a branch: the one on top of it.

        One that was served since speaks once more, and takes its new place then.
        """
        heap = branch.branches
        top = heap[0]
        leaf = self._next_leaf(top) if top.branches else top
        if top.stale and len(heap) > 1:
            self._take_off(heap)
            self._push(heap, top)
            top.stale = False
        return leaf

    def _before(self, left: WaitingBranch, right: WaitingBranch) -> bool:
        mine = self._next_leaf(left) if left.branches else left
        theirs = self._next_leaf(right) if right.branches else right
        if self._keys is not None:
            key, settle = self._keys
            one, two = self._key_of(left, mine, key), self._key_of(right, theirs, key)
            said = settle(left.queue, right.queue) if one == two else -1 if one < two else 1
        else:
            order = cast("Callable[[QueueClaim, QueueClaim], int]", self._world.ssn.queue_claim_order)
            said = order(self._claim(left, mine), self._claim(right, theirs))
        if not said:
            a, b = left.queue, right.queue
            said = -1 if (a.creation, a.uid) < (b.creation, b.uid) else 1
        return said > 0 if self._victims else said < 0
