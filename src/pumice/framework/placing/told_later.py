"""Whom a queue refuses for how it stands at one moment: nothing is put together for them until somebody reads it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from typing import Final

from pumice.engine.fit_error import FitError
from pumice.framework.placing.grounds import Ground, InVain, Known, Place
from pumice.framework.placing.queue_refusals import Refusing
from pumice.framework.placing.waiting_tasks import QueueDenied
from pumice.framework.session.refusals import Refusal, Stage
from pumice.model.task import Task

_MOST_LEAST: Final = 16
"""Where more than so many ask for the least, each in another way, everybody is asked about."""


class ToldLater(Mapping[Hashable, Known]):
    """The groups of a queue: those whom it may not take are told how it stood, the others what they were told."""

    __slots__ = ("_at", "_base", "_made", "_nodes", "_queue", "_refusing")

    def __init__(self, before: Mapping[Hashable, Known], queue: str, refusing: Refusing, nodes: int, at: int) -> None:
        """*before*: the groups as they were known, which do not change any more; *nodes*: how many there are.

        *at*: where the log of touched rows stands.
        """
        self._base: Mapping[Hashable, Known] = before._base if isinstance(before, ToldLater) else before
        self._queue, self._refusing, self._nodes, self._at = queue, refusing, nodes, at
        self._made: dict[Hashable, tuple[Known, dict[str, FitError]]] = {}

    def __getitem__(self, group: Hashable) -> Known:
        known = self._base[group]
        return self._told(group, known)[0] if known.why.ground is Ground.QUEUE else known

    def _told(self, group: Hashable, known: Known) -> tuple[Known, dict[str, FitError]]:
        made = self._made.get(group)
        if made is None:
            task = known.why.task
            refusal = self._refusing(task) or Refusal(Stage.QUEUE, f"queue {self._queue} may not take it")
            error = QueueDenied(refusal, self._nodes)
            error.at = self._at
            why = InVain(refusal, Ground.QUEUE, task, alone=True)
            made = self._made[group] = Known(why, known.entries, known.klass), {task.uid: error}
        return made

    def error_of(self, group: Hashable) -> dict[str, FitError]:
        """Why the first job of a group that the queue may not take waits, by task."""
        return self._told(group, self._base[group])[1]

    def errors(self) -> dict[str, dict[str, FitError]]:
        """The same of all such groups, by first job."""
        return {
            known.first.uid: self._told(group, known)[1]
            for group, known in self._base.items()
            if known.why.ground is Ground.QUEUE
        }

    def __contains__(self, group: object) -> bool:
        return group in self._base

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._base)

    def __len__(self) -> int:
        return len(self._base)


class LaterErrors(Mapping[str, dict[str, FitError]]):
    """Job -> task -> why it fits nowhere, of the first job of each group."""

    __slots__ = ("_errors", "_firsts", "_fresh", "_queues")

    def __init__(
        self,
        errors: Mapping[str, dict[str, FitError]],
        firsts: Mapping[str, Place],
        queues: Mapping[str, Mapping[Hashable, Known]],
        fresh: Set[str],
    ) -> None:
        """*errors*: those that are there; *firsts*: the jobs whose errors may be found in *queues*.

        *fresh*: the queues that were asked in this session.
        """
        self._errors, self._firsts, self._queues, self._fresh = errors, firsts, queues, fresh

    def found_now(self, uid: str) -> bool:
        """Is what is known of a job something that this session found out?"""
        place = self._firsts.get(uid)
        return place is not None and place[0] in self._fresh

    def __getitem__(self, uid: str) -> dict[str, FitError]:
        known = self._errors.get(uid)
        if known is not None:
            return known
        queue, group = self._firsts[uid]
        part = self._queues[queue]
        if not isinstance(part, ToldLater):
            raise KeyError(uid)
        return part.error_of(group)

    def __iter__(self) -> Iterator[str]:
        yield from self._errors
        for uid, (queue, _) in self._firsts.items():
            if uid not in self._errors and isinstance(self._queues[queue], ToldLater):
                yield uid

    def __len__(self) -> int:
        return sum(1 for _ in self)


def least_asking(tasks: Sequence[Task]) -> list[Task]:
    """Some of the tasks, such that each of the others asks for no less of anything than one of them."""
    least: list[tuple[dict[int, int], Task]] = []
    for task in sorted(tasks, key=lambda t: sum(v for _, v in t.klass.items)):
        asks = dict(task.klass.items)
        if not any(all(asks.get(d, 0) >= v for d, v in less.items()) for less, _ in least):
            least.append((asks, task))
            if len(least) > _MOST_LEAST:
                return list(tasks)
    return [task for _, task in least]
