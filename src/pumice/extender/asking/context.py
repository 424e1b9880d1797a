"""What every hook needs of its extender, and which tasks it is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pumice.extender.asking.calls import SessionCalls
from pumice.extender.asking.settings import Settings
from pumice.extender.asking.writer import Writer
from pumice.extender.protocol import Outcome, Verb
from pumice.model.job import Job
from pumice.model.selectors import label_selector_matches
from pumice.model.task import Task, TaskClass


class TaskFilter:
    """Managed resources and the bypass selector of one extender: which tasks it is asked about."""

    def __init__(self, settings: Settings) -> None:
        self._managed, self._bypass = settings.managed, settings.bypass

    def manages(self, task: Task) -> bool:
        """Does a container (or init container) name a managed resource in requests or limits?

        With no managed resources every task counts.
        """
        if not self._managed:
            return True
        memo = task.klass.memo
        known: bool | None = memo.get(("extender", self._managed))
        if known is None:
            known = memo["extender", self._managed] = self._named(task.klass)
        return known

    def concerns(self, task: Task) -> bool:
        """Is the extender asked about the task?"""
        if self._bypass is not None and label_selector_matches(self._bypass, task.labels):
            return False
        return self.manages(task)

    def bypasses(self, job: Job) -> bool:
        """Does the bypass selector match every task of the job?"""
        if self._bypass is None or not job.tasks:
            return False
        return all(label_selector_matches(self._bypass, task.labels) for task in job.tasks.values())

    def holds(self, job: Job) -> bool:
        """Is any task of the job the extender's business?"""
        return any(self.concerns(task) for task in job.tasks.values())

    def _named(self, klass: TaskClass) -> bool:
        containers = [*(klass.spec.containers or ()), *(klass.spec.init_containers or ())]
        return any(
            name in self._managed
            for container in containers
            if container.resources is not None
            for named in (container.resources.requests, container.resources.limits)
            for name in named or ()
        )


@dataclass(slots=True)
class ExtenderContext:
    """One extender during one session."""

    name: str
    settings: Settings
    volcano: bool
    """Answers and failures mean what they mean to Volcano (``compat: volcano``)."""
    tasks: TaskFilter
    calls: SessionCalls
    writer: Writer
    memory: dict[str, Any]
    """Kept between sessions."""
    closed: bool = False
    """The service was told that the session is over; what is undone after that is not told."""

    def outcome(self, verb: Verb[Any]) -> Outcome:
        """What a failed call of *verb* is taken for."""
        return verb.outcome(ignored=self.settings.ignores(verb.name), volcano=self.volcano)

    def has(self, verb: Verb[Any]) -> bool:
        """Is the verb configured?"""
        return verb.name in self.settings.verbs
