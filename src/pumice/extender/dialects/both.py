"""Both forms at once: every object has the documented fields first and Volcano's after them.

A service written for either understands it. Go matches names without regard to case, so a later field overwrites an
earlier one of the same name; that is why Volcano's come last, and no documented field has the name of one of
Volcano's with another type. One service does not understand it: one written in Go that reads a node's documented
``allocatable``, ``idle`` or ``used`` into a map of numbers. Ask that one in the documented dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pumice.extender.answers import Answer, Json
from pumice.extender.dialects.dialect import Dialect, Written
from pumice.extender.dialects.documented import Documented
from pumice.extender.dialects.volcano import Volcano
from pumice.extender.protocol import PartKind
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

_DOCUMENTED: Final = Documented()
_VOLCANO: Final = Volcano()


class Both(Dialect):
    """Read as Volcano's, with the queue of a task and the amounts of a queue, which only the documentation has."""

    name: ClassVar[str] = "both"
    shapes: ClassVar[dict[PartKind, Any]] = Volcano.shapes

    def task(self, task: Task) -> Json:
        return {**_DOCUMENTED.task(task), **_VOLCANO.task(task)}

    def named_task(self, uid: str, namespace: str, name: str, job: str = "", node: str = "", status: int = 1) -> Json:
        names = (uid, namespace, name, job, node, status)
        return {**_DOCUMENTED.named_task(*names), **_VOLCANO.named_task(*names)}

    def node_form(self, node: Node) -> Json:
        return {**_DOCUMENTED.node_form(node), "idle": None, "used": None, **_VOLCANO.node_form(node)}

    def node(self, node: Node, written: Written, form: Mapping[str, Any]) -> Json:
        return _VOLCANO.node(node, written, _DOCUMENTED.node(node, written, form))

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
