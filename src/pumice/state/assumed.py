"""Assumed binds and evictions: sent, and not yet seen back.

A task in `ClusterState.assumed` has the status and node of what was sent. It stays there until its pod shows it
(`pods.py`), the write fails (`bind_failed`, `evict_failed`), or its session is broken off (`take_back`). A write that
the cluster refused is remembered in `ClusterState.refused`, so that it is not sent again at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from pumice.model.codes import ReasonCode
from pumice.model.events import BindFailed, EvictFailed
from pumice.model.node import Node
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state import writing as w
from pumice.state.pods import pod_status

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

S = TaskStatus
WAITS: Final = (2.0, 60.0)
"""Seconds for which a refused write is not tried again: at first, and at most; they double."""
ASIDE: Final = (10.0, 300.0)
"""Seconds for which a job that a cycle failed at is left out: at first ten periods of a second; they double."""
JOB_KEY: Final = "job "
"""The prefix of the UID of a job that a cycle failed at, among the UIDs of pods."""
FORGOTTEN_AFTER: Final = 600.0
"""Seconds after which a refusal that nothing followed is forgotten."""


@dataclass(slots=True)
class RefusedWrite:
    """A bind or an eviction of a pod that did not happen, or a job that a cycle failed at."""

    pod: str
    node: str
    beneficiary: str
    """The job for whose good it was; of a bind, the pod's own."""
    message: str
    wait: float
    """For how long it is not tried again; 0 for one that was given up because of another."""
    until: float
    freed: bool = False
    """Whether its plan had freed room on the node before it was stopped."""
    fresh: bool = True
    """No session has looked at it yet."""
    bind: bool = False
    """Whether it is a bind: as long as it stands, its job is not placed."""
    failed: bool = False
    """Whether a cycle failed at the job: as long as it stands, no action looks at the job. It has no pod then."""


@dataclass(slots=True)
class Stopped:
    """The effect of valid refusals on a job."""

    text: str
    code: ReasonCode = ReasonCode.PLAN_REFUSED
    """Why nothing of it is placed for now: a bind was refused, or a cycle failed at it; else it may be placed."""

    @property
    def paused(self) -> bool:
        """Report whether nothing of the job is placed for now."""
        return self.code is not ReasonCode.PLAN_REFUSED


def next_wait(known: RefusedWrite | None, waits: tuple[float, float] = WAITS) -> float:
    """Return for how long what failed just now is not tried again; *known*: its last failure."""
    return min(known.wait * 2, waits[1]) if known is not None and known.wait else waits[0]


def bind_failed(state: ClusterState, event: BindFailed) -> None:
    """A bind did not happen: the task waits again, unless it was sent to another node since.

    If the cluster refused it, nothing of the job is placed for a while.
    """
    task = state.assumed.get(event.uid)
    if task is None or task.status != S.BINDING or event.node not in ("", task.node_name):
        return
    unassume(state, task)
    if event.refused:
        wait = next_wait(state.refused.get(event.uid))
        state.refused[event.uid] = RefusedWrite(
            event.pod, event.node, task.job_key, event.message, wait, state.now + wait, bind=True
        )


def evict_failed(state: ClusterState, event: EvictFailed) -> None:
    """An eviction was refused: the task runs on, and is no victim for a while."""
    task = state.assumed.get(event.uid)
    if task is None or task.status != S.RELEASING:
        return
    unassume(state, task)
    wait = next_wait(state.refused.get(event.uid)) if event.tried else 0.0
    state.refused[event.uid] = RefusedWrite(
        event.pod, event.node, event.beneficiary, event.message, wait, state.now + wait, event.freed
    )
    helped = state.jobs.get(event.beneficiary)
    if helped is not None:
        state.mark(helped)


def unassume(state: ClusterState, task: Task) -> None:
    """Go back to what the cluster last said of a task."""
    state.assumed.pop(task.uid, None)
    w.set_assumed_at(task, None)
    status = pod_status(task.pod)
    state.set_status(task, status, state.table.by_name.get(task.pod.spec.node_name))


Sent: TypeAlias = dict[str, tuple[TaskStatus, Node | None]]
"""The nodes of tasks with binds and evictions under way, by UID."""


def sent_of(state: ClusterState) -> Sent:
    """The writes under way before a session. Cost: that."""
    return {uid: (task.status, task.node) for uid, task in state.assumed.items()}


def refused_of(state: ClusterState) -> dict[str, tuple[RefusedWrite, bool]]:
    """The refusals before a session, and whether a session had looked at them. Cost: that."""
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
    state.revision += 1
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
