"""Scenarios: which victims would go so that a job, or a part of it, could be placed, and how sets of victims grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pumice.kai.search.work_order import WorkOrder
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import Amounts, total
from pumice.kai.view.tasks import ACTIVE, TaskStage, TaskView
from pumice.kai.view.world import KaiWorld


@dataclass(slots=True)
class VictimScenario:
    """Victims and the job that they would go for, with what it asks for."""

    job: JobView
    tasks: Sequence[TaskView]
    """The tasks of the job to place."""
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
        """The pieces with an evicted or moved pod, as the simulation has it now."""
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
        """Its identity: its tasks and its victims."""
        return frozenset(t.uid for t in self.tasks), frozenset(t.uid for t in self.victims)


def distinct(tasks: Iterable[TaskView]) -> list[TaskView]:
    """Tasks without repetitions, in order."""
    return list({t.uid: t for t in tasks}.values())


Bools = npt.NDArray[np.bool_]
Accept = Callable[["Accumulated"], bool]


@dataclass(slots=True)
class SearchContext:
    """The input of a generator of scenarios: a job with tasks to place, and the possible victims."""

    world: KaiWorld
    job: JobView
    tasks: Sequence[TaskView]
    recorded: Sequence[Sequence[TaskView]]
    """Victims that were found to be needed for less, as they go together."""
    feasible: Bools
    """Nodes that may take the tasks, victims' nodes aside."""
    victims: Callable[[], WorkOrder]
    """A fresh order of victims."""
    accepts: Accept
    """Could it be enough? Asked before a set of victims is tried."""
    might: Callable[[Iterable[Sequence[TaskView]]], bool]
    """Would these, beside the recorded ones, leave room enough by count? Otherwise, no scenario need be made."""
    node_might: Callable[[], bool]
    """Report whether the victims of one more node, with the recorded ones, can be enough by count."""
    taken: dict[str, tuple[list[TaskView], bool]]
    """Job -> what goes of it first, kept while nobody goes in earnest."""

    def scenario(self, pieces: Iterable[Sequence[TaskView]]) -> VictimScenario:
        """The scenario in which these go beside the recorded ones."""
        world = self.world
        request = total(world.asked(t.request) for t in self.tasks)
        return VictimScenario(self.job, self.tasks, request, [*self.recorded, *pieces])


@dataclass(slots=True)
class Accumulated:
    """Victims so far, in the pieces in which they were taken."""

    batches: list[list[TaskView]] = field(default_factory=list)
    last: JobView | None = None
    """The job of the last piece."""

    def tasks(self) -> Iterator[TaskView]:
        """Every victim."""
        for batch in self.batches:
            yield from batch


def accumulate(context: SearchContext) -> Iterator[Accumulated]:
    """Growing sets of victims, worst first, those that could be enough."""
    world = context.world
    so_far = Accumulated()
    recorded = {t.uid for piece in context.recorded for t in piece}
    if context.accepts(so_far):
        yield so_far
    order = context.victims()
    for victim in order:
        only = victim.only
        if only is not None and victim.whole is victim:
            if only.stage in ACTIVE and only.uid not in recorded:
                so_far.batches.append([only])
                so_far.last = victim
                if context.accepts(so_far):
                    yield so_far
            continue
        whole = victim.whole is victim
        known_piece = context.taken.get(victim.job.uid) if whole else None
        tasks, more = known_piece if known_piece is not None else world.to_evict(victim)
        if whole:
            context.taken[victim.job.uid] = (tasks, more)
        if not tasks:
            continue
        if recorded and not recorded.isdisjoint([t.uid for t in tasks]):
            rest = {u for u in victim.tasks if u not in recorded}
            if rest and (left := victim.part(rest)).active:
                order.push(left)
            continue
        if more:
            gone = {t.uid for t in tasks}
            order.push(victim.part({u for u in victim.tasks if u not in gone}))
        so_far.batches.append(tasks)
        so_far.last = victim
        if context.accepts(so_far):
            yield so_far
