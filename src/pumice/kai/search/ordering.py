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
    """A queue that has work, with the branches below it or its jobs."""

    __slots__ = ("branches", "gone", "gone_held", "heap", "queue")

    def __init__(self, queue: QueueView) -> None:
        self.queue = queue
        self.branches: dict[str, _Branch] = {}
        self.heap: list[tuple[Any, int, JobView]] = []
        self.gone: list[JobView] = []
        self.gone_held: Amounts = NOTHING

    def copy(self) -> _Branch:
        """The same, to be changed on its own."""
        other = _Branch(self.queue)
        other.branches = {name: branch.copy() for name, branch in self.branches.items()}
        other.heap, other.gone, other.gone_held = list(self.heap), list(self.gone), self.gone_held
        return other


class WorkOrder:
    """Jobs in the order in which they are served; *victims*: in which they would go, the worst first."""

    def __init__(
        self, world: KaiWorld, jobs: Iterable[JobView], *, victims: bool = False, depth: int | None = None
    ) -> None:
        self._world, self._victims = world, victims
        self._order = cast(Callable[[QueueClaim, QueueClaim], int], world.ssn.queue_claim_order)
        self._top: dict[str, _Branch] = {}
        self._number = count()
        per_leaf: dict[str, list[JobView]] = {}
        for job in jobs:
            if job.queue.is_leaf:
                per_leaf.setdefault(job.queue.name, []).append(job)
        for listed in per_leaf.values():
            ranked = world.sort_jobs(listed)
            key = self._rank()
            chosen = ranked[::-1] if victims else ranked
            leaf = self._leaf(listed[0].queue)
            leaf.heap = [(key(job), next(self._number), job) for job in chosen[:depth]]

    def _rank(self) -> Callable[[JobView], Any]:
        key = self._world.job_key()
        return (lambda job: _Last(key(job))) if self._victims else key

    def copy(self) -> WorkOrder:
        """The same order, to be walked on its own; right as long as the world is as it was."""
        other = WorkOrder(self._world, (), victims=self._victims)
        other._top = {name: branch.copy() for name, branch in self._top.items()}
        other._number = count(sum(len(branch.heap) for branch in _leaves(self._top)) + 1)
        return other

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
        heapq.heappush(self._leaf(job.queue).heap, (self._rank()(job), next(self._number), job))

    def __bool__(self) -> bool:
        return bool(self._top)

    def pop(self) -> JobView:
        """The next job, taken out."""
        path: list[tuple[dict[str, _Branch], _Branch]] = []
        branches = self._top
        while branches:
            best = self._best(branches)
            path.append((branches, best))
            branches = best.branches
        leaf = path[-1][1]
        job = heapq.heappop(leaf.heap)[2]
        if self._victims:
            leaf.gone.append(job)
            leaf.gone_held = plus(leaf.gone_held, held_by(job))
        for above, branch in reversed(path):
            if branch.heap or branch.branches:
                break
            del above[branch.queue.name]
        return job

    def __iter__(self) -> Iterator[JobView]:
        while self:
            yield self.pop()

    def _best(self, branches: dict[str, _Branch]) -> _Branch:
        found: _Branch | None = None
        claim: QueueClaim | None = None
        for branch in branches.values():
            if len(branches) == 1:
                return branch
            own = self._claim(branch)
            if found is None or claim is None or self._before(own, claim):
                found, claim = branch, own
        assert found is not None
        return found

    def _claim(self, branch: _Branch) -> QueueClaim:
        leaf = branch
        while leaf.branches:
            leaf = self._best(leaf.branches)
        job = leaf.heap[0][2]
        if self._victims:
            return QueueClaim(branch.queue, None, job, leaf.gone, leaf.gone_held)
        return QueueClaim(branch.queue, job)

    def _before(self, a: QueueClaim, b: QueueClaim) -> bool:
        said = self._order(a, b)
        if not said:
            left, right = (a.queue.creation, a.queue.uid), (b.queue.creation, b.queue.uid)
            said = -1 if left < right else 1
        return said > 0 if self._victims else said < 0


def _leaves(branches: dict[str, _Branch]) -> Iterator[_Branch]:
    for branch in branches.values():
        yield branch
        yield from _leaves(branch.branches)
