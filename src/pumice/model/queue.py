"""A queue and its sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pumice.model.api import QueueObject
from pumice.model.resources import EMPTY, Number, Resources
from pumice.model.task import reader

if TYPE_CHECKING:
    from pumice.model.job import Job


class Queue:
    """A queue as plugins see it. Read-only: everything is changed by the state alone."""

    __slots__ = (
        *("_allocated", "_annotations", "_capability", "_creation", "_deserved", "_elastic", "_guarantee", "_held"),
        *("_inqueue", "_jobs", "_labels", "_name", "_object", "_pending", "_problem", "_waiting", "version"),
    )

    name: str = reader("_name")
    uid: str = reader("_name")
    annotations: Mapping[str, str] = reader("_annotations")
    labels: Mapping[str, str] = reader("_labels")
    capability: Resources = reader("_capability")
    """The most it may ever hold; a name it lacks is unlimited."""
    deserved: Resources = reader("_deserved")
    guarantee: Resources = reader("_guarantee")
    creation: float = reader("_creation")
    object: QueueObject = reader("_object")
    jobs: Mapping[str, Job] = reader("_jobs")
    problem: str = reader("_problem")
    """What is wrong with the queue's object, or nothing."""

    def __init__(self, obj: QueueObject) -> None:
        self._jobs: dict[str, Job] = {}
        self._waiting: dict[str, Job] = {}
        self._allocated: dict[int, Number] = {}
        self._held: dict[int, Number] = {}
        self._pending: dict[int, Number] = {}
        self._inqueue: dict[int, Number] = {}
        self._elastic: dict[int, Number] = {}
        self._problem = ""
        self.version = 0
        self.update(obj)

    def update(self, obj: QueueObject) -> None:
        """Take over a changed object.

        :raises InvalidInput: a quantity that is none.
        """
        capability = Resources.parse(obj.spec.capability)
        deserved = Resources.parse(obj.spec.deserved)
        guarantee = Resources.parse(obj.spec.guarantee.resource) if obj.spec.guarantee else EMPTY
        meta = obj.metadata
        self._object = obj
        self._name = meta.name
        self._annotations = meta.annotations or {}
        self._labels = meta.labels or {}
        self._creation = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
        self._capability, self._deserved, self._guarantee = capability, deserved, guarantee

    @property
    def weight(self) -> int:
        """Its part of what is shared by weight."""
        return self._object.spec.weight

    @property
    def priority(self) -> int:
        """Higher goes first."""
        return self._object.spec.priority

    @property
    def parent(self) -> str:
        """The queue above; ``root`` when unset; root itself has none."""
        return "" if self._name == "root" else self._object.spec.parent or "root"

    @property
    def state(self) -> str:
        """``Open``, ``Closing``, ``Closed`` or ``Unknown``; nothing when no controller has set it."""
        return self._object.status.state

    @property
    def reclaimable(self) -> bool:
        """May others reclaim what it holds beyond its share?"""
        return self._object.spec.reclaimable is not False

    @property
    def dequeue_strategy(self) -> str:
        """``traverse`` or ``fifo``."""
        return self._object.spec.dequeue_strategy or "traverse"

    @property
    def allocated(self) -> Resources:
        """Held by its tasks now."""
        return Resources(self._allocated)

    @property
    def held(self) -> Resources:
        """Held by its tasks now, or promised to them in this session."""
        return Resources(self._held)

    @property
    def pending(self) -> Resources:
        """Asked for by its waiting tasks."""
        return Resources(self._pending)

    @property
    def inqueue(self) -> Resources:
        """Still to come for jobs that were let in, as of the session's opening."""
        return Resources(self._inqueue)

    @property
    def elastic(self) -> Resources:
        """Held by its jobs beyond their minimum, as of the session's opening."""
        return Resources(self._elastic)

    def __repr__(self) -> str:
        return f"<Queue {self._name}>"
