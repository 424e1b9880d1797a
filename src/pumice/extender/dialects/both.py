"""Both forms at once: every object has the documented fields first and Volcano's after them.

A service written for either understands it. Go matches names without regard to case, so a later field overwrites an
earlier one of the same name; that is why Volcano's come last, and no documented field has the name of one of
Volcano's with another type. One service does not understand it: one written in Go that reads a node's documented
``allocatable``, ``idle`` or ``used`` into a map of numbers. Ask that one in the documented dialect.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec
from msgspec.structs import replace

from pumice.extender.answers import Answer, Json
from pumice.extender.dialects.dialect import Dialect, Written
from pumice.extender.dialects.documented import DocNumbers, DocQueue, Documented, quantities
from pumice.extender.dialects.told import ToldQueue, ToldSnapshot
from pumice.extender.dialects.volcano import GoQueue, GoSnapshot, Volcano
from pumice.extender.protocol import PartKind
from pumice.model import api
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

_DOCUMENTED: Final = Documented()
_VOLCANO: Final = Volcano()


class BothQueue(GoQueue, kw_only=True):
    """What is read of a queue: Volcano's fields, and the documented amounts, which are those of this moment."""

    capability: DocNumbers | None = None
    deserved: DocNumbers | None = None
    guarantee: DocNumbers | None = None
    allocated: DocNumbers | None = None

    def told(self) -> ToldQueue:
        return _with_amounts(
            super().told(), DocQueue(self.Name, 0, self.capability, self.deserved, self.guarantee, self.allocated)
        )


class _Queues(msgspec.Struct):
    queues: list[DocQueue] | None = None


class BothSnapshot(GoSnapshot, kw_only=True):
    """What is read of a cluster: Volcano's fields, and the documented queues."""

    snapshot: _Queues = msgspec.field(default_factory=_Queues)

    def told(self) -> ToldSnapshot:
        cluster = super().told()
        amounts = {queue.name: queue for queue in self.snapshot.queues or ()}
        queues = (
            _with_amounts(told, amounts[told.queue.metadata.name]) if told.queue.metadata.name in amounts else told
            for told in cluster.queues
        )
        return cluster._replace(queues=tuple(queues))


def _with_amounts(told: ToldQueue, queue: DocQueue) -> ToldQueue:
    """The queue, with the amounts that the documented form says."""
    spec = replace(
        told.queue.spec,
        capability=quantities(queue.capability),
        deserved=quantities(queue.deserved),
        guarantee=api.Guarantee(resource=quantities(queue.guarantee)),
    )
    return ToldQueue(replace(told.queue, spec=spec), queue.told().allocated)


class Both(Dialect):
    """Read as Volcano's, with the queue of a task and the amounts of a queue, which only the documentation has."""

    name: ClassVar[str] = "both"
    shapes: ClassVar[dict[PartKind, Any]] = {
        **Volcano.shapes,
        PartKind.QUEUE: BothQueue,
        PartKind.SNAPSHOT: BothSnapshot,
    }

    def task(self, task: Task) -> Json:
        return {**_DOCUMENTED.task(task), **_VOLCANO.task(task)}

    def named_task(self, uid: str, namespace: str, name: str, job: str = "", node: str = "", status: int = 1) -> Json:
        names = (uid, namespace, name, job, node, status)
        return {**_DOCUMENTED.named_task(*names), **_VOLCANO.named_task(*names)}

    def node(self, node: Node, written: Written) -> Json:
        return {**_DOCUMENTED.node(node, written), **_VOLCANO.node(node, written)}

    def named_node(self, name: str) -> Json:
        return {"name": name, "Name": name}

    def job(self, job: Job, written: Written, *, named: bool = False) -> Json:
        return {**_DOCUMENTED.job(job, written, named=named), **_VOLCANO.job(job, written, named=named)}

    def queue(self, queue: Queue) -> Json:
        return {**_DOCUMENTED.queue(queue), **_VOLCANO.queue(queue)}

    def snapshot(self, state: ClusterState, written: Written) -> Json:
        return {**_DOCUMENTED.snapshot(state, written), **_VOLCANO.snapshot(state, written)}

    def _said(self, answer: Answer) -> object:
        return {**answer.said(), **answer.in_go()}
