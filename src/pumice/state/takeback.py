"""Taking back a session that was broken off: tasks are again where the cluster, and what was sent before, have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pumice.model.node import Node
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state import writing as w
from pumice.state.cluster import ClusterState
from pumice.state.pods import pod_status
from pumice.state.refused_writes import RefusedWrite

S = TaskStatus
Sent: TypeAlias = dict[str, tuple[TaskStatus, Node | None]]
"""Where the tasks are whose binds and evictions are under way, by UID."""


def sent_of(state: ClusterState) -> Sent:
    """What is under way before a session. Cost: that."""
    return {uid: (task.status, task.node) for uid, task in state.assumed.items()}


def refused_of(state: ClusterState) -> dict[str, tuple[RefusedWrite, bool]]:
    """What was refused before a session, and whether a session had looked at it. Cost: that."""
    return {uid: (no, no.fresh) for uid, no in state.refused.items()}


def put_back(state: ClusterState, refused: Mapping[str, tuple[RefusedWrite, bool]]) -> None:
    """Make what was refused as it was before a session."""
    state.refused = {uid: no for uid, (no, _) in refused.items()}
    for no, fresh in refused.values():
        no.fresh = fresh


def take_back(state: ClusterState, sent: Sent, among: Mapping[str, Task] | None = None) -> None:
    """Undo whatever a session did to tasks, committed or not; none of it was sent.

    Cost: a look at every task, or at those *among* which it did anything.
    """
    state.moment += 1
    state.release_rooms()
    for uid, task in list((state.tasks if among is None else among).items()):
        if uid in sent:
            where = sent[uid]
        elif uid in state.assumed:
            del state.assumed[uid]
            w.set_assumed_at(task, None)
            where = pod_status(task.pod), state.table.by_name.get(task.pod.spec.node_name)
        elif task.evicted or task.status in (S.ALLOCATED, S.PIPELINED, S.BINDING):
            where = pod_status(task.pod), state.table.by_name.get(task.pod.spec.node_name)
        else:
            continue
        if where != (task.status, task.node) or task.evicted:
            state.set_status(task, *where)
    state.end_session()
