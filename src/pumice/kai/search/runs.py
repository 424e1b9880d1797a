"""Jobs of every queue in order, kept while an action goes on: who changed takes his new place, all others stay.

Neighbours that ask for the same stand in one run: as long as nothing is placed, they are served one after the other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from pumice.framework.points import table as t
from pumice.kai.view.amounts import Amounts
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.world import KaiWorld

_key_of: Final = itemgetter(0)


class Last:
    """A sort key turned round."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: Last) -> bool:
        return bool(other.key < self.key)


@dataclass(slots=True, eq=False)
class JobRun:
    """Jobs of one queue in order."""

    queue: QueueView
    entries: list[tuple[Any, JobView]]
    """(sort key, job), best first."""
    request: Amounts | None = None
    """What the next piece of each asks for; None: they may differ."""

    def first(self) -> Any:
        """The key of the first."""
        return self.entries[0][0]


def rank(world: KaiWorld, *, victims: bool) -> Callable[[JobView], Any]:
    """A sort key of jobs; *victims*: the worst first."""
    key = world.orders.job_key()
    return (lambda job: Last(key(job))) if victims else key


def sorted_out(
    world: KaiWorld, jobs: Iterable[JobView], *, victims: bool, depth: int | None = None
) -> Iterator[list[JobRun]]:
    """The jobs of each queue that has some in one run; *depth*: so many at most."""
    listed: dict[str, list[JobView]] = {}
    for job in jobs:
        if job.queue.is_leaf:
            listed.setdefault(job.queue.name, []).append(job)
    for found in listed.values():
        ordered = world.orders.ranked(found)
        chosen = (ordered[::-1] if victims else ordered)[:depth]
        if chosen:
            entries = [(Last(key), job) for key, job in chosen] if victims else chosen
            yield [JobRun(found[0].queue, entries)]


class RankedJobs:
    """All jobs that belong somewhere (*belongs*), in order. Right as long as it is told who changed (`learn`)."""

    def __init__(self, world: KaiWorld, belongs: Callable[[JobView], bool], *, victims: bool) -> None:
        self._world, self._belongs, self._victims = world, belongs, victims
        self._lasts = world.only_kai(t.JOB_ORDER)  # they look at the job's own tasks
        self._splits = not victims and world.only_kai(t.QUEUE_CLAIM_ORDER)  # of a job it looks at the amounts
        self._keys: dict[str, Any] = {}
        self._runs: dict[str, list[JobRun]] = {}
        self._begun = False
        """Was it asked yet? Until then nothing is put in order."""
        self._key: Callable[[JobView], Any] = rank(world, victims=victims)

    def runs(self) -> dict[str, list[JobRun]]:
        """Queue -> its jobs."""
        if not self._begun or not self._lasts:  # a plugin's order may depend on more than the job
            self._begun = True
            self._build()
        return self._runs

    def _build(self) -> None:
        self._runs = {name: [] for name, queue in self._world.queues.items() if queue.is_leaf}
        self._keys = {}
        jobs = [job for job in self._world.jobs.values() if self._belongs(job)]
        for (run,) in sorted_out(self._world, jobs, victims=self._victims):
            self._keys.update((job.job.uid, key) for key, job in run.entries)
            self._runs[run.queue.name] = list(self._split(run)) if self._splits else [run]

    def _split(self, run: JobRun) -> Iterator[JobRun]:
        part: JobRun | None = None
        for key, job in run.entries:
            request = self._world.next_request(job)
            if part is not None and part.request == request:
                part.entries.append((key, job))
                continue
            if part is not None:
                yield part
            part = JobRun(run.queue, [(key, job)], request)
        if part is not None:
            yield part

    def learn(self, jobs: Iterable[JobView]) -> None:
        """These changed: each takes its new place, or none."""
        if not self._begun or not self._lasts:
            return
        key = self._key
        for job in jobs:
            self._remove(job)
            if job.queue.is_leaf and self._belongs(job):
                self._keys[job.job.uid] = made = key(job)
                self._insert(made, job)

    def _remove(self, job: JobView) -> None:
        key = self._keys.pop(job.job.uid, None)
        if key is None:
            return
        runs = self._runs[job.queue.name]
        at = bisect_right(runs, key, key=JobRun.first) - 1
        entries = runs[at].entries
        del entries[bisect_left(entries, key, key=_key_of)]
        if not entries:
            del runs[at]

    def _insert(self, key: Any, job: JobView) -> None:
        runs = self._runs[job.queue.name]
        request = self._world.next_request(job) if self._splits else None
        at = bisect_right(runs, key, key=JobRun.first) - 1
        if at >= 0 and runs[at].request == request:
            insort(runs[at].entries, (key, job), key=_key_of)
            return
        if at >= 0:
            run = runs[at]
            cut = bisect_left(run.entries, key, key=_key_of)
            if cut < len(run.entries):
                runs.insert(at + 1, JobRun(run.queue, run.entries[cut:], run.request))
                del run.entries[cut:]
        if at + 1 < len(runs) and runs[at + 1].request == request:
            runs[at + 1].entries.insert(0, (key, job))
        else:
            runs.insert(at + 1, JobRun(job.queue, [(key, job)], request))
