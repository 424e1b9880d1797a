"""A scenario: who would go so that a job, or a part of it, could be placed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pumice.kai.view.amounts import Amounts
from pumice.kai.view.jobs import JobView
from pumice.kai.view.stage import TaskStage
from pumice.kai.view.tasks import TaskView


@dataclass(slots=True)
class VictimScenario:
    """Victims and the job that they would go for, with what it asks for."""

    job: JobView
    tasks: Sequence[TaskView]
    """What of the job is to be placed."""
    request: Amounts
    pieces: Sequence[Sequence[TaskView]]
    """Victims as they go together."""
    victims: Sequence[TaskView] = field(init=False)
    """Every victim once."""

    def __post_init__(self) -> None:
        self.victims = distinct(t for piece in self.pieces for t in piece)

    def translated(self, real: Callable[[object], Any]) -> VictimScenario:
        """The same of the cluster's own jobs and tasks, for plugins of others."""
        pieces = [[real(task) for task in piece] for piece in self.pieces]
        return VictimScenario(real(self.job), [real(task) for task in self.tasks], self.request, pieces)

    def moved(self) -> list[Sequence[TaskView]]:
        """The pieces of which somebody goes or gets another place, as the simulation has it now."""
        last = {t.uid: n for n, piece in enumerate(self.pieces) for t in piece}
        found = {last[t.uid] for t in self.victims if t.stage in (TaskStage.RELEASING, TaskStage.PIPELINED)}
        return [self.pieces[n] for n in sorted(found)]

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
