"""A scenario: who would go so that a job, or a part of it, could be placed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pumice.kai.view.amounts import Amounts
from pumice.kai.view.jobs import JobView
from pumice.kai.view.tasks import TaskView


@dataclass(slots=True)
class Scenario:
    """Victims and the job that they would go for, with what it asks for."""

    job: JobView
    tasks: Sequence[TaskView]
    """What of the job is to be placed."""
    request: Amounts
    victims: Sequence[TaskView]

    def by_job(self) -> Iterator[tuple[JobView, list[TaskView]]]:
        """Victims job by job, in the order in which they were chosen."""
        found: dict[str, tuple[JobView, list[TaskView]]] = {}
        for task in self.victims:
            found.setdefault(task.job.job.uid, (task.job, []))[1].append(task)
        yield from found.values()

    @property
    def mark(self) -> tuple[frozenset[str], frozenset[str]]:
        """What tells it from another: its tasks and its victims."""
        return frozenset(t.uid for t in self.tasks), frozenset(t.uid for t in self.victims)


def distinct(tasks: Iterable[TaskView]) -> list[TaskView]:
    """Tasks without repetitions, in order."""
    return list({t.uid: t for t in tasks}.values())
