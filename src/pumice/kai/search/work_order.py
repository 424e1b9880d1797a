"""The order of work: jobs of the queue that goes first, walked down the tree of queues from its top."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, TypeAlias, cast

from pumice.framework.points import table as t
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import NOTHING, Amounts, QueueView, plus, total
from pumice.kai.view.tasks import ALLOCATED
from pumice.kai.view.world import KaiWorld


class QueueClaim(NamedTuple):
    """A queue with the job that it would place next or, where victims are taken, the jobs that would go."""

    queue: QueueView
    job: JobView | None
    victim: JobView | None = None
    """The one that would go next."""
    gone: Sequence[JobView] = ()
    """Those that went before it; more may be added later."""
    gone_held: Amounts = NOTHING
    """What these hold."""

    def translated(self, real: Callable[[object], Any]) -> QueueClaim:
        """The same of the cluster's own jobs and queues, for plugins of others."""
        gone = [real(job) for job in self.gone]
        return QueueClaim(real(self.queue), real(self.job), real(self.victim), gone, self.gone_held)

    @property
    def victims(self) -> list[JobView]:
        """All that would go."""
        return [*self.gone, self.victim] if self.victim is not None else []

    @property
    def released(self) -> Amounts:
        """The amounts that the victims hold."""
        return plus(self.gone_held, held_by(self.victim)) if self.victim is not None else NOTHING


def held_by(job: JobView) -> Amounts:
    """The amounts that the tasks of a job count in its queue."""
    only = job.only
    if only is not None:
        return only.accepted if only.stage in ALLOCATED else NOTHING
    return total(x.accepted for x in job.tasks.values() if x.stage in ALLOCATED)


_key_of: Final = itemgetter(0)


class Last:
    """A sort key turned round."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: Last) -> bool:
        return bool(other.key < self.key)


RankedList: TypeAlias = list[tuple[Any, JobView]]
"""(sort key, job) of the jobs of a queue, best first."""


def rank(world: KaiWorld, *, victims: bool) -> Callable[[JobView], Any]:
    """A sort key of jobs; *victims*: the worst first."""
    key = world.orders.job_key()
    return (lambda job: Last(key(job))) if victims else key


def ranked_by_queue(
    world: KaiWorld, jobs: Iterable[JobView], *, victims: bool, depth: int | None = None
) -> dict[str, RankedList]:
    """Queue -> its jobs in order, of queues that have some; *depth*: so many at most."""
    listed: dict[str, list[JobView]] = {}
    for job in jobs:
        if job.queue.is_leaf:
            listed.setdefault(job.queue.name, []).append(job)
    found = {}
    for name, some in listed.items():
        ordered = world.orders.ranked(some)
        chosen = (ordered[::-1] if victims else ordered)[:depth]
        if chosen:
            found[name] = [(Last(key), job) for key, job in chosen] if victims else chosen
    return found


class RankedJobs:
    """All jobs that belong somewhere (*belongs*), in order by queue; valid as long as `learn` names what changed."""

    def __init__(self, world: KaiWorld, belongs: Callable[[JobView], bool], *, victims: bool) -> None:
        self._world, self._belongs, self._victims = world, belongs, victims
        self._lasts = world.only_kai(t.JOB_ORDER)  # they look at the job's own tasks
        self._keys: dict[str, Any] = {}
        self._listed: dict[str, RankedList] | None = None
        self._key: Callable[[JobView], Any] = rank(world, victims=victims)

    def listed(self) -> dict[str, RankedList]:
        """Queue -> its jobs."""
        if self._listed is None or not self._lasts:  # a plugin's order may depend on more than the job
            self._listed = self._build()
        return self._listed

    def _build(self) -> dict[str, RankedList]:
        jobs = [job for job in self._world.jobs.values() if self._belongs(job)]
        found = ranked_by_queue(self._world, jobs, victims=self._victims)
        self._keys = {job.job.uid: key for listed in found.values() for key, job in listed}
        return found

    def learn(self, jobs: Iterable[JobView]) -> None:
        """These changed: each takes its new place, or none."""
        listed = self._listed
        if listed is None or not self._lasts:
            return
        for job in jobs:
            uid, name = job.job.uid, job.queue.name
            if uid in self._keys:
                del listed[name][bisect_left(listed[name], self._keys.pop(uid), key=_key_of)]
            if job.queue.is_leaf and self._belongs(job):
                self._keys[uid] = key = self._key(job)
                insort(listed.setdefault(name, []), (key, job), key=_key_of)


class WaitingBranch:
    """A queue that has work, with a heap of the branches below it or with its jobs.

    A branch that was served keeps its place in the heap above until it is on top there, or has spoken for what is above
    it: only then it is compared anew.
    Jobs come from a list that orders share, read from a place on, and from a heap of its own.
    """

    def __init__(self, queue: QueueView, listed: RankedList | None = None) -> None:
        self.queue, self.listed = queue, listed or []
        self.depth = len(queue.chain())
        self.parent: WaitingBranch | None = None
        self.branches: list[WaitingBranch] = []
        self.at = 0
        """Which of the list is next."""
        self.more: list[tuple[Any, int, JobView]] = []
        self.head: JobView | None = None
        """The job that is next; None where there is none, or others are below."""
        self.stale = False
        self.claimed: tuple[JobView | None, int, object, Amounts] = (None, 0, None, NOTHING)
        """The next job of the last answer, as it was then, its neighbours, and the value of the claim."""
        self.known: tuple[Amounts | None, Amounts, Any] = (None, NOTHING, None)
        """The claim of the last comparison, the amounts held then, and its key."""

    def find_head(self, admits: Callable[[JobView], bool] | None) -> None:
        """Find out who is next; who is not admitted is passed by."""
        listed = self.listed
        while self.at < len(listed):
            key, job = listed[self.at]
            if admits is None or admits(job):
                self.head = self.more[0][2] if self.more and self.more[0][0] < key else job
                return
            self.at += 1
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


def mark(branch: WaitingBranch) -> None:
    """It and all above it are to be compared anew."""
    each: WaitingBranch | None = branch
    while each is not None:
        each.stale = True
        each = each.parent


_depth: Final = attrgetter("depth")
ASKS: Final = (t.JOB_ORDER, t.TASK_ORDER, t.QUEUE_CLAIM_ORDER, t.SUB_GROUP_ORDER)


class WorkOrder:
    """Jobs in the order in which they are served; *victims*: in the order of eviction, the worst first."""

    def __init__(
        self, world: KaiWorld, jobs: Iterable[JobView], *, victims: bool = False, depth: int | None = None
    ) -> None:
        self._begin(world, victims, None)
        self._add(ranked_by_queue(world, jobs, victims=victims, depth=depth))
        self._grow()

    @classmethod
    def of_listed(
        cls,
        world: KaiWorld,
        listed: Mapping[str, RankedList],
        *,
        victims: bool = False,
        admits: Callable[[JobView], bool] | None = None,
        more: Iterable[JobView] = (),
    ) -> WorkOrder:
        """An order of jobs that are sorted out already, those that are *admitted*, and of some *more*."""
        order = cls.__new__(cls)
        order._begin(world, victims, admits)
        order._add(listed)
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

    def _add(self, listed: Mapping[str, RankedList]) -> None:
        for name, entries in listed.items():
            if entries:
                self._branches[name] = WaitingBranch(entries[0][1].queue, entries)

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
        job = leaf.take(self._admits)
        if self._victims:
            gone, held = self._gone.get(leaf.queue.name) or ([], NOTHING)
            gone.append(job)
            self._gone[leaf.queue.name] = (gone, plus(held, held_by(job)))
        self._prune(leaf)
        return job

    def pass_likes(self, job: JobView) -> None:
        """Pass by the jobs that come next after *job* in its queue and ask for the same: their turns change nothing."""
        leaf, asks = self._branches.get(job.queue.name), self._world.next_request
        if leaf is None or self._keys is None:  # the keys of claims are made of amounts alone
            return
        request = asks(job)
        while (head := leaf.head) is not None and asks(head) == request:
            if leaf.more and leaf.more[0][2] is head:
                break
            leaf.at += 1
            leaf.find_head(self._admits)
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
        """The request of a job; of a victim: the amounts that its eviction gives back too."""
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
