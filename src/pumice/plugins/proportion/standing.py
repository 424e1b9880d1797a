"""How a queue stands at one moment: what it holds, what it deserves, and by which rule it has no more."""

from __future__ import annotations

from pumice.framework import quota
from pumice.model.limit import Bound, Limit, limit
from pumice.model.queue import Queue
from pumice.model.reason import Verdict
from pumice.model.resources import PODS, TOLERANCE
from pumice.plugins.proportion.filling import Filling


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
        """The refusal of what is too much beside what the queue holds; *own* was just placed for the one who asks."""
        of = f"queue {self._name}"
        return quota.insufficient(quota.lacking(of, self._deserved, self._held, request, self.bound, own=own))

    def all_deserved(self) -> tuple[Limit, ...]:
        """What the queue holds of all that it deserves."""
        held = self._held
        return tuple(
            limit(f"queue {self._name}", d, (held.get(d, 0), v, 0), *self.bound(d))
            for d, v in self._deserved.items()
            if d != PODS
        )

    def bound(self, d: int) -> tuple[Bound, str]:
        """What keeps the queue from deserving more of a resource."""
        if self._deserved.get(d, 0) < self._most.get(d, 0) - TOLERANCE:
            weight, of_all = self._weight
            return Bound.SHARE, f"weight {weight:g} of {of_all:g}"
        return self.most(d)

    def most(self, d: int) -> tuple[Bound, str]:
        """What keeps the queue from ever holding more of a resource."""
        if self._capability.get(d, -1) == self._most.get(d, 0):
            return Bound.CAPABILITY, ""
        return (Bound.GUARANTEES if self._guaranteed.get(d) > self._guarantee.get(d) else Bound.CLUSTER), ""
