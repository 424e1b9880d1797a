"""All runs of a study, on any executor: they stream in, and what is done is kept whatever happens to the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from itertools import count

from pumice.sim.results.summary import Summary
from pumice.sim.run import INTERRUPTED
from pumice.sim.scenario import SimScenario
from pumice.sim.study.playing import Played, StudyRun, play
from pumice.sim.study.stopping import LOOKS, Sure

AHEAD = 64
"""Runs that are handed to an executor before their turn."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A run that gave no result, and why."""

    task: StudyRun
    why: str


@dataclass(slots=True)
class Runs:
    """The results of a study so far."""

    configurations: tuple[str, ...]
    played: dict[StudyRun, Played] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    interrupted: bool = False
    seeds_wanted: int | None = None
    """How many seeds were asked for; ``None`` where the figures decide."""

    def summaries(self) -> dict[str, dict[int, Summary]]:
        """Return the figures of the runs that went to their end, by configuration and seed."""
        found: dict[str, dict[int, Summary]] = {name: {} for name in self.configurations}
        for task in sorted(self.played, key=lambda task: task.seed):
            if not self.played[task].failure:
                found[task.configuration][task.seed] = self.played[task].summary
        return found

    def complete_seeds(self) -> list[int]:
        """Return the seeds that every configuration has a whole run of."""
        by_name = [set(runs) for runs in self.summaries().values()]
        return sorted(set.intersection(*by_name))


Watch = Callable[[Played | Lost], None]


def run_all(
    scenario: SimScenario,
    seeds: Iterable[int],
    *,
    executor: Executor | None = None,
    keep: Callable[[StudyRun], bool] = lambda task: False,
    watch: Watch = lambda done: None,
    enough: Sure | None = None,
    most: int | None = None,
) -> Runs:
    """Play every configuration of the scenario on every seed, and return what came of it.

    Seed by seed, so that whoever stops early has whole pairs. Ctrl-C ends the study and keeps what is done. A run that
    raises, or whose process dies, is lost and named; the others go on.

    :param executor: where runs are played; here, one after the other, if none is given. It stays open.
    :param keep: the runs whose whole record is wanted.
    :param watch: is told of every run as it ends.
    :param enough: asked at each of its looks, of all seeds up to it; the first that is sure is the last, whatever was
        played beyond it: so the answer does not depend on the number of cores.
    :param most: the greatest number of seeds, where *seeds* never ends.
    """
    runs = Runs(tuple(scenario.configurations))
    listed = list(seeds) if most is None else None
    runs.seeds_wanted = len(listed) if listed is not None and enough is None else None
    following = iter(listed if listed is not None else seeds)
    tasks = _tasks(following, runs.configurations, most)
    judge = _Prefix(runs, enough)
    try:
        if executor is None:
            for task in tasks:
                _note(runs, _here(scenario, task, keep(task)), watch)
                if runs.interrupted or judge.satisfied():
                    break
        else:
            _scatter(scenario, tasks, executor, keep, watch, runs, judge)
    except KeyboardInterrupt:
        runs.interrupted = True
    judge.cut()
    return runs


def seeds_from(first: int) -> Iterator[int]:
    """Return all seeds from the first on, for a study that ends when it knows enough."""
    return count(first)


def _tasks(seeds: Iterator[int], configurations: tuple[str, ...], most: int | None) -> Iterator[StudyRun]:
    for number, seed in enumerate(seeds):
        if most is not None and number >= most:
            return
        yield from (StudyRun(name, seed) for name in configurations)


def _here(scenario: SimScenario, task: StudyRun, keep: bool) -> Played | Lost:
    try:
        return play(scenario, task, keep=keep)
    except Exception as exc:
        return Lost(task, f"{type(exc).__name__}: {exc}")


def _scatter(
    scenario: SimScenario,
    tasks: Iterator[StudyRun],
    executor: Executor,
    keep: Callable[[StudyRun], bool],
    watch: Watch,
    runs: Runs,
    judge: _Prefix,
) -> None:
    packed = scenario.packed()
    pending: dict[Future[Played], StudyRun] = {}
    try:
        while True:
            while len(pending) < AHEAD and (task := next(tasks, None)) is not None:
                pending[executor.submit(play, packed, task, keep=keep(task))] = task
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda future: (pending[future].seed, pending[future].configuration)):
                _note(runs, _answer(future, pending.pop(future)), watch)
            if judge.satisfied():
                return
    finally:
        for future in pending:
            future.cancel()


def _answer(future: Future[Played], task: StudyRun) -> Played | Lost:
    try:
        return future.result()
    except CancelledError:
        return Lost(task, "it was cancelled")
    except Exception as exc:
        return Lost(task, str(exc) or type(exc).__name__)


def _note(runs: Runs, done: Played | Lost, watch: Watch) -> None:
    if isinstance(done, Lost):
        runs.lost.append(done)
    else:
        runs.played[done.task] = done
        runs.interrupted |= done.failure == INTERRUPTED
    watch(done)


class _Prefix:
    """Asks at each look, in order, whether the seeds up to it are enough."""

    def __init__(self, runs: Runs, enough: Sure | None) -> None:
        self._runs, self._enough = runs, enough
        self._asked = 0
        self._last: int | None = None

    def satisfied(self) -> bool:
        """Whether the study can end."""
        if self._enough is None or self._last is not None:
            return self._last is not None
        seeds = self._runs.complete_seeds()
        unknown = {task.seed for task in self._runs.played} - set(seeds)
        known = [seed for seed in seeds if not unknown or seed < min(unknown)]
        summaries = self._runs.summaries()
        for number in LOOKS:
            if not self._asked < number <= len(known):
                continue
            self._asked = number
            part = {name: {s: runs[s] for s in known[:number]} for name, runs in summaries.items()}
            if self._enough(part):
                self._last = known[number - 1]
                return True
        return False

    def cut(self) -> None:
        """Forget what was played beyond the seed that was enough."""
        if self._last is not None:
            last = self._last
            self._runs.played = {task: run for task, run in self._runs.played.items() if task.seed <= last}
