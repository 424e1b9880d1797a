"""A queue and its sums."""

from __future__ import annotations

from typing import Final

from pumice.errors import InvalidInput
from pumice.model.api import QueueObject, ResourceQuota
from pumice.model.job import JobMap
from pumice.model.mapping import ReadOnlyMap, labels_of
from pumice.model.resources import EMPTY, Number, Resources
from pumice.model.sealed import Sealed

MOST_WEIGHT: Final = 2**31 - 1
"""The greatest weight of a queue. Beside a heavier one the parts of others would be lost in rounding."""


class Queue(Sealed):
    """A queue as plugins see it. Read-only: everything is changed by the state alone."""

    __slots__ = (
        *("_allocated", "_elastic", "_held", "_in_vain", "_inqueue", "_jobs", "_pending", "allocated", "annotations"),
        *("capability", "creation", "deserved", "elastic", "guarantee", "held", "in_vain", "inqueue", "jobs", "labels"),
        *("name", "object", "pending", "problem", "version", "waiting"),
    )

    name: Final[str]
    annotations: Final[ReadOnlyMap[str, str]]
    labels: Final[ReadOnlyMap[str, str]]
    capability: Final[Resources]
    """The most it may ever hold; a name it lacks is unlimited."""
    deserved: Final[Resources]
    guarantee: Final[Resources]
    creation: Final[float]
    object: Final[QueueObject]
    jobs: Final[JobMap]
    waiting: Final[JobMap]
    """Those of its jobs that have pending tasks."""
    problem: Final[str]
    """The problem of the queue's object, or nothing."""
    version: Final[int]
    """Grows with every change."""
    allocated: Final[Resources]
    """Held by its tasks now."""
    held: Final[Resources]
    """Held by its tasks now, or promised to them in this session."""
    pending: Final[Resources]
    """Asked for by its waiting tasks."""
    inqueue: Final[Resources]
    """Still to come for jobs that were let in, as of the session's opening."""
    in_vain: Final[Resources]
    """The part of it that is for jobs which fit nowhere, by what the last cycle said of them."""
    elastic: Final[Resources]
    """Held by its jobs beyond their minimum, as of the session's opening."""

    def __init__(self, obj: QueueObject) -> None:
        """A queue without jobs.

        :raises InvalidInput: a quantity that is none, or a weight beyond all measure.
        """
        self._jobs = self.jobs = JobMap()
        self.waiting = JobMap()
        self._allocated: dict[int, Number] = {}
        self._held: dict[int, Number] = {}
        self._pending: dict[int, Number] = {}
        self._inqueue: dict[int, Number] = {}
        self._elastic: dict[int, Number] = {}
        self._in_vain: dict[int, Number] = {}
        self.allocated, self.held = Resources(self._allocated), Resources(self._held)
        self.pending = Resources(self._pending)
        self.inqueue, self.elastic = Resources(self._inqueue), Resources(self._elastic)
        self.in_vain = Resources(self._in_vain)
        self.problem = ""
        self.version = 0
        for weight in obj.spec.weights:
            if not -MOST_WEIGHT - 1 <= weight <= MOST_WEIGHT:
                raise InvalidInput(f"weight of queue {obj.metadata.name}: must be at most {MOST_WEIGHT}, got {weight}")
        self.capability = Resources.parse(obj.spec.capability)
        self.deserved = Resources.parse(obj.spec.deserved)
        self.guarantee = Resources.parse(obj.spec.guarantee.resource) if obj.spec.guarantee else EMPTY
        meta = obj.metadata
        self.object = obj
        self.name = meta.name
        self.annotations, self.labels = labels_of(meta.annotations), labels_of(meta.labels)
        self.creation = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0

    def _take_over(self, obj: QueueObject) -> None:
        """Be what a changed object says. For the state.

        :raises InvalidInput: a quantity that is none, or a weight beyond all measure; nothing was changed.
        """
        told = Queue(obj)
        for slot in ("object", "name", "annotations", "labels", "creation", "capability", "deserved", "guarantee"):
            setattr(self, slot, getattr(told, slot))

    @property
    def uid(self) -> str:
        """Its name."""
        return self.name

    @property
    def weight(self) -> int:
        """Its part of what is shared by weight."""
        return self.object.spec.weight

    @property
    def priority(self) -> int:
        """Higher goes first."""
        return self.object.spec.priority

    @property
    def parent(self) -> str:
        """The queue above; ``root`` when unset; root itself has none."""
        return "" if self.name == "root" else self.object.spec.parent or "root"

    @property
    def state(self) -> str:
        """``Open``, ``Closing``, ``Closed`` or ``Unknown``; nothing when no controller has set it."""
        return self.object.status.state

    @property
    def reclaimable(self) -> bool:
        """Report whether others may reclaim the amount beyond its share."""
        return self.object.spec.reclaimable is not False

    @property
    def dequeue_strategy(self) -> str:
        """``traverse`` or ``fifo``."""
        return self.object.spec.dequeue_strategy or "traverse"

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"


class QueueMap(ReadOnlyMap[str, Queue]):
    """Queues by name."""

    __slots__ = ()
    holds = Queue
    keyed_by = "name"


class Namespace(Sealed):
    """A namespace as plugins see it."""

    __slots__ = ("_allocated", "allocated", "name", "quotas")

    name: Final[str]
    allocated: Final[Resources]
    """Held by its tasks now."""
    quotas: Final[ReadOnlyMap[str, ResourceQuota]]

    def __init__(self, name: str) -> None:
        self.name = name
        self._allocated: dict[int, Number] = {}
        self.allocated = Resources(self._allocated)
        self.quotas = ReadOnlyMap()
