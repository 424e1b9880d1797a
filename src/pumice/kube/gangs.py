"""Gangs with an interrupted binding: incomplete ones give their room back in time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

from pumice.model.codes import ReasonCode
from pumice.model.intents import Evict, Intent, Note
from pumice.model.job import Job
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

log = logging.getLogger("pumice.kube")

HALF = 60.0
"""Seconds after which a gang that is bound in part is released, unless told otherwise."""
S = TaskStatus
_PLACED = (S.BOUND, S.RUNNING, S.SUCCEEDED)


class HalfGangs:
    """Finds gangs that were bound in part, and releases those that stay so for *grace* seconds; 0: never.

    A bind can fail after others of its gang succeeded; the rest is then tried again in every cycle. If other pods took
    the room, or the server refuses one pod, the bound ones would otherwise hold their room in vain for ever. A gang
    that was whole and lost a member later is not touched: that is its controller's matter.
    """

    def __init__(self, grace: float = HALF) -> None:
        self._grace = grace
        self._since: dict[str, float] = {}
        self._whole: set[str] = set()
        """Gangs that were seen whole while more of their pods waited: what they lose later is another matter."""
        self._next = float("-inf")

    def release(self, state: ClusterState) -> list[Intent]:
        """Evictions of everything that half gangs hold whose time is over; called between cycles. The state knows."""
        pause = min(self._grace / 10, 5.0)
        if not self._grace or state.now < self._next <= state.now + pause:  # further off: the clock was set back
            return []
        self._next = state.now + pause
        half = {job.uid: job for job in self._broken(state)}
        self._since = {uid: min(self._since.get(uid, state.now), state.now) for uid in half}
        intents: list[Intent] = []
        for uid, since in self._since.items():
            job = half[uid]
            if state.now - since >= self._grace and not job.with_status(S.BINDING):
                intents += _released(state, job, self._grace)
        return intents

    def _broken(self, state: ClusterState) -> list[Job]:
        """Gangs whose binding was broken off; only those with pods that wait are looked at."""
        found: list[Job] = []
        whole: set[str] = set()
        for queue in state.queues.values():
            for job in queue.waiting.values():
                placed = job.count(*_PLACED)
                if job.uid in self._whole or placed >= job.min_available:
                    whole.add(job.uid)
                elif placed and _broken_off(job):
                    found.append(job)
        self._whole = whole
        return found


def _broken_off(job: Job) -> bool:
    """Whether the gang was never whole: enough pods to make it so were there already when the last one was bound."""
    placed = [task for status in _PLACED for task in job.with_status(status).values()]
    last = max(filter(None, map(_bound_at, placed)), default=None)
    if last is None:
        return False
    waiting = (*job.with_status(S.PENDING).values(), *job.with_status(S.BINDING).values())
    made = (task.pod.metadata.creation_timestamp for task in waiting)
    return len(placed) + sum(at is not None and at <= last for at in made) >= job.min_available


def _bound_at(task: Task) -> datetime | None:
    for condition in task.pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "True":
            return condition.last_transition_time
    return None


def _released(state: ClusterState, job: Job, grace: float) -> Iterator[Intent]:
    holding = [task for status in (S.BOUND, S.RUNNING) for task in job.with_status(status).values()]
    text = (
        f"{len(holding)} of {job.min_available} members were bound, and the rest could not be within {grace:g} s: "
        "their room is given back"
    )
    log.warning("gang %s: %s", job.uid, text)
    yield Note(job.kind, job.uid, "Warning", ReasonCode.HALF_GANG_RELEASED, text)
    for task in holding:
        node = task.node
        state.set_status(task, S.RELEASING, node)
        state.assume(task)
        yield Evict(task.key, task.uid, node.name if node is not None else "", "half gang", job.uid)
