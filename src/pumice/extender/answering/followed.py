"""A cluster that is followed: its own events tell of it, and questions only say which part is meant."""

from __future__ import annotations

from typing import Protocol

from pumice.clock import Clock
from pumice.errors import PumiceError
from pumice.extender.answering.told_state import ToldState
from pumice.extender.dialects.messages import Cluster, JobMessage, NodeMessage, QueueMessage
from pumice.extender.dialects.task_message import TaskMessage
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.ports import Binder, EventSource


class AnsweredCluster(EventSource, Binder, Protocol):
    """A cluster to answer questions about: its events, and a way to bind."""

    def trouble(self) -> str:
        """Why it cannot be spoken of, or nothing."""
        ...


class NotReady(PumiceError):
    """The cluster has not been read yet, or is out of reach for good."""

    retryable = True


class FollowedState(ToldState):
    """The cluster as it is, up to what the watch has not brought yet.

    What a question tells of an object is used only where the cluster has not shown that object, and forgotten with
    the next question.
    """

    followed = True

    def __init__(self, cluster: AnsweredCluster, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.cluster = cluster
        self.complete = True
        self._guests: dict[str, ClusterEvent] = {}
        """Pods that only the last question told of, and what makes them forgotten."""

    def load(self, cluster: Cluster) -> None:
        """A snapshot is not needed."""

    def renewed(self) -> bool:
        """Take in what happened; True if anything did.

        :raises NotReady: not everything was read yet.
        """
        trouble = self.cluster.trouble()
        if trouble:
            raise NotReady(trouble)
        state, changed = self.state, bool(self._guests)
        state.apply_all(self._guests.values())
        self._guests.clear()
        self._last.clear()
        for event in self.cluster.drain():
            state.apply(event)
            changed = True
        if changed:
            state.now = self._clock.now()
            state.end_session()
            state.changed_jobs.clear()
            state.backlog_changes.clear()
        return changed

    def node(self, told: NodeMessage) -> Node | None:
        """The node, if the cluster has shown it."""
        return self.state.table.by_name.get(told.node.metadata.name)

    def task(self, told: TaskMessage, *, moved: bool = False) -> Task:
        """The task as the cluster shows it; a placement that a caller tries out is not the cluster's."""
        key, meta = told.pod.key, told.pod.metadata
        known = self.state.task_by_key.get(key) if meta.name else self.state.tasks.get(meta.uid)
        if known is not None and (not meta.uid or known.uid == meta.uid):
            return known
        if not told.bare:
            self._guests.setdefault(key, Gone("Pod", key) if known is None else Seen(known.pod))
        return super().task(told)

    def job(self, told: JobMessage) -> Job:
        """The job as the cluster shows it, or as it is told."""
        known = self.state.jobs.get(told.group.key)
        return known if known is not None and known.group is not None else super().job(told)

    def queue(self, told: QueueMessage) -> Queue:
        """The queue as the cluster shows it, or as it is told."""
        known = self.state.queues.get(told.queue.metadata.name)
        return known if known is not None else super().queue(told)

    def bound(self, intent: Bind) -> None:
        """A bind was carried out: from now on the pod is there, though the watch has not shown it."""
        state = self.state
        task, node = state.tasks.get(intent.uid), state.table.by_name.get(intent.node)
        if task is not None and node is not None and task.status is TaskStatus.PENDING:
            state.move(task, TaskStatus.ALLOCATED, node)
            state.confirm(task)
