"""The order of work: jobs of the queue that goes first, walked down the tree of queues from its top."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, cast

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


@dataclass(slots=True, eq=False)
class JobRun:
    """Jobs of one queue in order."""

    queue: QueueView
    entries: list[tuple[Any, JobView]]
    """(sort key, job), best first."""
    request: Amounts | None = None
    """The request of the next piece of each; None: they may differ."""

    def first(self) -> Any:
        """The key of the first."""
        return self.entries[0][0]


def rank(world: KaiWorld, *, victims: bool) -> Callable[[JobView], Any]:
    """A sort key of jobs; *victims*: the worst first."""
    key = world.orders.job_key()
    return (lambda job: Last(key(job))) if victims else key


def sorted_out(
    world: KaiWorld, jobs: Iterable[JobView], *, victims: bool, depth: int | None = None
) -> Iterator[list[JobRun]]:
    """The jobs of each queue that has some in one run; *depth*: so many at most."""
    listed: dict[str, list[JobView]] = {}
    for job in jobs:
        if job.queue.is_leaf:
            listed.setdefault(job.queue.name, []).append(job)
    for found in listed.values():
        ordered = world.orders.ranked(found)
        chosen = (ordered[::-1] if victims else ordered)[:depth]
        if chosen:
            entries = [(Last(key), job) for key, job in chosen] if victims else chosen
            yield [JobRun(found[0].queue, entries)]


class RankedJobs:
    """All jobs that belong somewhere (*belongs*), in order. Right as long as it is told who changed (`learn`)."""

    def __init__(self, world: KaiWorld, belongs: Callable[[JobView], bool], *, victims: bool) -> None:
        self._world, self._belongs, self._victims = world, belongs, victims
        self._lasts = world.only_kai(t.JOB_ORDER)  # they look at the job's own tasks
        self._splits = not victims and world.only_kai(t.QUEUE_CLAIM_ORDER)  # of a job it looks at the amounts
        self._keys: dict[str, Any] = {}
        self._runs: dict[str, list[JobRun]] = {}
        self._begun = False
        """Was it asked yet? Until then nothing is put in order."""
        self._key: Callable[[JobView], Any] = rank(world, victims=victims)

    def runs(self) -> dict[str, list[JobRun]]:
        """Queue -> its jobs."""
        if not self._begun or not self._lasts:  # a plugin's order may depend on more than the job
            self._begun = True
            self._build()
        return self._runs

    def _build(self) -> None:
        self._runs = {name: [] for name, queue in self._world.queues.items() if queue.is_leaf}
        self._keys = {}
        jobs = [job for job in self._world.jobs.values() if self._belongs(job)]
        for (run,) in sorted_out(self._world, jobs, victims=self._victims):
            self._keys.update((job.job.uid, key) for key, job in run.entries)
            self._runs[run.queue.name] = list(self._split(run)) if self._splits else [run]

    def _split(self, run: JobRun) -> Iterator[JobRun]:
        part: JobRun | None = None
        for key, job in run.entries:
            request = self._world.next_request(job)
            if part is not None and part.request == request:
                part.entries.append((key, job))
                continue
            if part is not None:
                yield part
            part = JobRun(run.queue, [(key, job)], request)
        if part is not None:
            yield part

    def learn(self, jobs: Iterable[JobView]) -> None:
        """These changed: each takes its new place, or none."""
        if not self._begun or not self._lasts:
            return
        key = self._key
        for job in jobs:
            self._remove(job)
            if job.queue.is_leaf and self._belongs(job):
                self._keys[job.job.uid] = made = key(job)
                self._insert(made, job)

    def _remove(self, job: JobView) -> None:
        key = self._keys.pop(job.job.uid, None)
        if key is None:
            return
        runs = self._runs[job.queue.name]
        at = bisect_right(runs, key, key=JobRun.first) - 1
        entries = runs[at].entries
        del entries[bisect_left(entries, key, key=_key_of)]
        if not entries:
            del runs[at]

    def _insert(self, key: Any, job: JobView) -> None:
        runs = self._runs[job.queue.name]
        request = self._world.next_request(job) if self._splits else None
        at = bisect_right(runs, key, key=JobRun.first) - 1
        if at >= 0 and runs[at].request == request:
            insort(runs[at].entries, (key, job), key=_key_of)
            return
        if at >= 0:
            run = runs[at]
            cut = bisect_left(run.entries, key, key=_key_of)
            if cut < len(run.entries):
                runs.insert(at + 1, JobRun(run.queue, run.entries[cut:], run.request))
                del run.entries[cut:]
        if at + 1 < len(runs) and runs[at + 1].request == request:
            runs[at + 1].entries.insert(0, (key, job))
        else:
            runs.insert(at + 1, JobRun(job.queue, [(key, job)], request))


class WaitingBranch:
    """A queue that has work, with a heap of the branches below it or with its jobs.

    A branch that was served keeps its place in the heap above until it is on top there, or has answered for the branch
    above it. Then it is compared anew. Jobs come from runs that orders share, read from a place on, and from a heap of
    its own.
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
        """The next job of the last answer, as it was then, its neighbours, and the value of the claim."""
        self.known: tuple[Amounts | None, Amounts, Any] = (None, NOTHING, None)
        """The claim of the last comparison, the amounts held then, and its key."""

    def find_head(self, admits: Callable[[JobView], bool] | None) -> None:
        """Find the next job; jobs that are not admitted are skipped."""
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
        """Skip the rest of the run of the last job, as far as no job of the own heap comes between."""
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


_depth: Final = attrgetter("depth")
ASKS: Final = (t.JOB_ORDER, t.TASK_ORDER, t.QUEUE_CLAIM_ORDER, t.SUB_GROUP_ORDER)


class WorkOrder:
    """Jobs in the order in which they are served; *victims*: in the order of eviction, the worst first."""

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
