"""The deserved amounts of all queues: the cluster distributed by weight, round by round, until nothing is left or no
queue wants more.

Inputs are kept from session to session as matrices (a row per queue, a column per resource). They are updated only for
a changed queue, set of queues or cluster size. The distribution is computed when it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pumice import Queue, Resources, Verdict, quota

Matrix = npt.NDArray[np.float64]


def pour(total: Matrix, weight: Matrix, request: Matrix, limit: Matrix, guarantee: Matrix) -> Matrix:
    """The deserved part of *total* for each row: by weight, at most its limit and its request, at least its guarantee.

    The rest of a row is distributed again over the unsatisfied rows.
    """
    if len(weight) == 1:  # nobody to share with
        return np.maximum(np.minimum(np.minimum(total, limit), request), guarantee)
    return pour_in_rounds(total, weight, request, limit, guarantee)


def pour_in_rounds(total: Matrix, weight: Matrix, request: Matrix, limit: Matrix, guarantee: Matrix) -> Matrix:
    """As `pour`, for any number of rows."""
    deserved = np.zeros_like(request)
    remaining = total.copy()
    wanting = np.ones(len(weight), dtype=bool)
    counted = np.arange(len(total)) != quota.PODS
    while True:
        sum_of_weights = float(weight[wanting].sum())
        if sum_of_weights == 0:
            return deserved
        before = deserved[wanting]
        after = before + remaining * (weight[wanting] / sum_of_weights)[:, None]
        np.minimum(after, limit[wanting], out=after)
        np.minimum(after, request[wanting], out=after)
        np.maximum(after, guarantee[wanting], out=after)
        deserved[wanting] = after
        satisfied = (request[wanting] - after < quota.TOLERANCE).all(axis=1)
        stuck = (after == before).all(axis=1)  # not nearly: who got next to nothing may be light beside others
        change = after - before
        given, returned = np.maximum(change, 0).sum(axis=0), np.maximum(-change, 0).sum(axis=0)
        old, remaining = remaining, np.maximum(remaining + returned - given, 0)
        wanting[np.flatnonzero(wanting)[satisfied | stuck]] = False
        if (remaining[counted] < quota.TOLERANCE).all() or bool((remaining == old).all()):
            return deserved


class Filling:
    """The inputs of `pour` and its result, kept across sessions."""

    def __init__(self, *, guarantee_first: bool = False) -> None:
        """*guarantee_first*: a guarantee counts also where the capability is less."""
        self._guarantee_first = guarantee_first
        self._signature: object = None
        self._total: dict[int, quota.Number] = {}
        self._versions: list[int] = []
        self._queues: list[Queue] = []
        self._rows: dict[str, int] = {}
        self._weights = 0.0
        self._deserved: Matrix | None = None
        self._last: Matrix | None = None
        self._ledgers: dict[str, dict[int, quota.Number]] = {}
        self.limits: dict[str, dict[int, quota.Number]] = {}
        self.version = 0
        """Grows when limits or weights change."""
        self.guaranteed = Resources()
        """Guaranteed to all queues together."""
        self.problems: dict[str, str] = {}

    def refresh(self, queues: Mapping[str, Queue], queue_version: int, total: Mapping[int, quota.Number]) -> None:
        """Take in what changed since the last session. Cost: queues that changed, and one look at each other one."""
        active = [q for q in queues.values() if q.jobs]
        if (
            queue_version != self._signature
            or total != self._total
            or active != self._queues
            or self._width != quota.dim_count()
        ):
            self._signature, self._total = queue_version, dict(total)
            self._rebuild(queues, sorted(active, key=lambda q: q.name))
            self._queues = active
            return
        for row, queue in enumerate(self._ordered):
            if queue.version != self._versions[row]:
                self._versions[row] = queue.version
                fresh = _request(queue)
                if fresh != self._requests[row]:
                    self._requests[row] = fresh
                    self._deserved = None

    def _rebuild(self, queues: Mapping[str, Queue], active: list[Queue]) -> None:
        width = self._width = quota.dim_count()
        self.version += 1
        guaranteed = Resources()
        for queue in queues.values():
            guaranteed = guaranteed + queue.guarantee
        self.guaranteed = guaranteed
        spare = Resources(self._total).exceeding(guaranteed)
        self.problems, self.limits = {}, {}
        self._ordered = active
        self._rows = {q.name: row for row, q in enumerate(active)}
        self._last = None
        self._versions = [q.version for q in active]
        self._weight = np.array([max(q.weight, 1) for q in active], dtype=np.float64)
        self._weights = float(self._weight.sum())
        self._limit, self._guarantee = np.zeros((len(active), width)), np.zeros((len(active), width))
        self._requests = [_request(q) for q in active]
        for row, queue in enumerate(active):
            limit = real_capability(queue, spare)
            self.limits[queue.name] = limit
            for d, v in limit.items():
                self._limit[row, d] = v
            for d, v in queue.guarantee.items():
                self._guarantee[row, d] = v if self._guarantee_first else min(v, limit.get(d, v))
        for queue in queues.values():
            problem = guarantee_problem(queue)
            if problem:
                self.problems[queue.name] = problem
        self._deserved = None

    def _poured(self) -> Matrix:
        if self._deserved is None:
            total, request = np.zeros(self._width), np.zeros((len(self._requests), self._width))
            for d, v in self._total.items():
                total[d] = v
            for row, wanted in enumerate(self._requests):
                for d, v in wanted.items():
                    request[row, d] = v
            self._deserved = pour(total, self._weight, request, self._limit, self._guarantee)
            before, self._last = self._last, self._deserved
            if before is None or before.shape != self._last.shape:
                self._ledgers = {}
            else:  # the same rows: what a queue deserved is kept where that did not change
                for row in np.flatnonzero((before != self._last).any(axis=1)).tolist():
                    self._ledgers.pop(self._ordered[row].name, None)
        return self._deserved

    def deserved(self, queue: Queue) -> dict[int, quota.Number]:
        """The deserved amounts of a queue, in ledger units; none for a queue without jobs."""
        if len(self._rows) == 1:
            return self._alone() if queue.name in self._rows else {}
        poured = self._poured()
        known = self._ledgers.get(queue.name)
        if known is None:
            row = self._rows.get(queue.name)
            values = poured[row].tolist() if row is not None else []
            known = self._ledgers[queue.name] = {d: v for d, v in enumerate(values) if v}
        return known

    def _alone(self) -> dict[int, quota.Number]:
        """The deserved amounts of a single queue: as `pour`, without matrices."""
        (name,) = self._rows
        if self._deserved is None:
            wanted, limit, total = self._requests[0], self.limits[name], self._total
            guaranteed = {d: v for d, v in enumerate(self._guarantee[0].tolist()) if v}
            known: dict[int, quota.Number] = {}
            for d in sorted({*wanted, *guaranteed}):
                most = float(wanted[d]) if d in total and d in limit and d in wanted else 0.0
                if most:
                    most = min(most, float(total[d]), float(limit[d]))
                if d in guaranteed and guaranteed[d] > most:
                    most = guaranteed[d]
                if most:
                    known[d] = most
            self._ledgers = {name: known}
            self._deserved = self._guarantee
        return self._ledgers[name]

    def weight(self, queue: Queue) -> tuple[float, float]:
        """The weight of a queue with jobs, and that of all such queues together."""
        row = self._rows.get(queue.name)
        return (self._weight.item(row) if row is not None else 0.0), self._weights

    def request(self, queue: Queue) -> Mapping[int, quota.Number]:
        """The amounts that a queue held and waited for when the session opened."""
        row = self._rows.get(queue.name)
        return self._requests[row] if row is not None else {}

    @property
    def ordered(self) -> list[Queue]:
        """The queues with jobs, by name."""
        return self._ordered


def _request(queue: Queue) -> dict[int, quota.Number]:
    wanted = dict(queue.allocated.amounts)
    for d, v in queue.pending.amounts.items():
        wanted[d] = wanted[d] + v if d in wanted else v
    return wanted


def real_capability(queue: Queue, spare: Resources) -> dict[int, quota.Number]:
    """The most a queue may hold: what nobody else is guaranteed, and no more than its capability.

    *spare* is what the cluster has beyond all guarantees. A capability without cpu or memory, or with none of it, does
    not limit it.
    """
    most = spare + queue.guarantee
    written = dict(queue.capability.items())
    if not written:
        return dict(most.items())
    for d in (quota.CPU, quota.MEMORY):
        if written.get(d, 0) <= 0:
            written[d] = math.inf
    return {d: min(v, written.get(d, math.inf)) for d, v in most.items()}


def guarantee_problem(queue: Queue) -> str:
    """The problem of a queue's guarantee, or nothing."""
    for d, v in sorted(queue.guarantee.items()):
        most = queue.capability.get(d, math.inf)
        if v > most > 0:
            return f"queue {queue.name}: guarantee {queue.guarantee!r} must not exceed capability {queue.capability!r}"
    return ""


class StandsNow:
    """Refusals that are worded from it are those of its moment, whenever that is done."""

    __slots__ = ("_capability", "_deserved", "_guarantee", "_guaranteed", "_held", "_most", "_name", "_weight")

    def __init__(self, queue: Queue, filling: Filling, held: quota.Ledger) -> None:
        """*held*: what the queue holds; a copy, where words are to be made later."""
        self._name, self._capability, self._guarantee = queue.name, queue.capability, queue.guarantee
        self._deserved, self._held = filling.deserved(queue), held
        self._most = filling.limits.get(queue.name, {})
        self._guaranteed, self._weight = filling.guaranteed, filling.weight(queue)

    def insufficient(self, request: quota.Items, own: quota.Ledger) -> Verdict:
        """The refusal of a request beyond the queue's share; *own* was just placed for the asking task."""
        of = f"queue {self._name}"
        return quota.insufficient(quota.lacking(of, self._deserved, self._held, request, self.bound, own=own))

    def all_deserved(self) -> tuple[quota.Limit, ...]:
        """The amounts that the queue holds of its deserved resources."""
        held = self._held
        return tuple(
            quota.limit(f"queue {self._name}", d, (held.get(d, 0), v, 0), *self.bound(d))
            for d, v in self._deserved.items()
            if d != quota.PODS
        )

    def bound(self, d: int) -> tuple[quota.Bound, str]:
        """The bound that keeps the queue from deserving more of a resource."""
        if self._deserved.get(d, 0) < self._most.get(d, 0) - quota.TOLERANCE:
            weight, of_all = self._weight
            return quota.Bound.SHARE, f"weight {weight:g} of {of_all:g}"
        return self.most(d)

    def most(self, d: int) -> tuple[quota.Bound, str]:
        """The bound that keeps the queue from ever holding more of a resource."""
        if self._capability.get(d, -1) == self._most.get(d, 0):
            return quota.Bound.CAPABILITY, ""
        return (quota.Bound.GUARANTEES if self._guaranteed.get(d) > self._guarantee.get(d) else quota.Bound.CLUSTER), ""
