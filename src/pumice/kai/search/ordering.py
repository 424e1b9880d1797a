"""Who goes next: jobs of the queue that goes first, walked down the tree of queues from its top."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Final, cast

from pumice.framework.points import table as t
from pumice.kai.search.claims import Claim
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.world import World

ASKS: Final = (t.JOB_ORDER, t.TASK_ORDER, t.QUEUE_CLAIM_ORDER, t.SUB_GROUP_ORDER)


class _Ranked:
    """A job in a heap, compared by the order of jobs."""

    __slots__ = ("job", "less")

    def __init__(self, job: JobView, less: Callable[[JobView, JobView], bool]) -> None:
        self.job, self.less = job, less

    def __lt__(self, other: _Ranked) -> bool:
        return self.less(self.job, other.job)


class _Branch:
    """A queue that has work, with the branches below it or its jobs."""

    __slots__ = ("branches", "heap", "popped", "queue")

    def __init__(self, queue: QueueView) -> None:
        self.queue = queue
        self.branches: dict[str, _Branch] = {}
        self.heap: list[tuple[_Ranked, int]] = []
        self.popped: list[JobView] = []


class WorkOrder:
    """Jobs in the order in which they are served; *victims*: in which they would go, the worst first."""

    def __init__(
        self, world: World, jobs: Iterable[JobView], *, victims: bool = False, depth: int | None = None
    ) -> None:
        self._world, self._victims, self._depth = world, victims, depth
        less = world.job_less()
        self._less: Callable[[JobView, JobView], bool] = (lambda a, b: less(b, a)) if victims else less
        self._order = cast(Callable[[Claim, Claim], int], world.ssn.queue_claim_order)
        self._top: dict[str, _Branch] = {}
        self._number = count()
        per_leaf: dict[str, list[JobView]] = {}
        for job in jobs:
            if job.queue.is_leaf:
                per_leaf.setdefault(job.queue.name, []).append(job)
        for listed in per_leaf.values():
            ranked = sorted(_Ranked(j, self._less) for j in listed)
            for r in ranked[:depth] if depth is not None else ranked:
                leaf = self._leaf(r.job.queue)
                leaf.heap.append((r, next(self._number)))

    def _leaf(self, queue: QueueView) -> _Branch:
        branches = self._top
        found: _Branch | None = None
        for each in [*queue.chain()][::-1]:
            found = branches.get(each.name)
            if found is None:
                found = branches[each.name] = _Branch(each)
            branches = found.branches
        assert found is not None
        return found

    def push(self, job: JobView) -> None:
        """Put a job (back) in."""
        heapq.heappush(self._leaf(job.queue).heap, (_Ranked(job, self._less), next(self._number)))

    def __bool__(self) -> bool:
        return bool(self._top)

    def pop(self) -> JobView:
        """The next job, taken out."""
        path: list[tuple[dict[str, _Branch], _Branch]] = []
        branches = self._top
        while branches:
            best = self._best(branches.values())
            path.append((branches, best))
            branches = best.branches
        leaf = path[-1][1]
        job = heapq.heappop(leaf.heap)[0].job
        leaf.popped.append(job)
        for above, branch in reversed(path):
            if branch.heap or branch.branches:
                break
            del above[branch.queue.name]
        return job

    def __iter__(self) -> Iterator[JobView]:
        while self:
            yield self.pop()

    def _best(self, branches: Iterable[_Branch]) -> _Branch:
        found: _Branch | None = None
        claim: Claim | None = None
        for branch in branches:
            own = self._claim(branch)
            if found is None or claim is None or self._before(own, claim):
                found, claim = branch, own
        assert found is not None
        return found

    def _claim(self, branch: _Branch) -> Claim:
        leaf = branch
        while leaf.branches:
            leaf = self._best(leaf.branches.values())
        job = leaf.heap[0][0].job
        if self._victims:
            return Claim(branch.queue, None, [*leaf.popped, job])
        return Claim(branch.queue, job)

    def _before(self, a: Claim, b: Claim) -> bool:
        said = self._order(a, b)
        if not said:
            left, right = (a.queue.creation, a.queue.uid), (b.queue.creation, b.queue.uid)
            said = -1 if left < right else 1
        return said > 0 if self._victims else said < 0
