"""All runs of a study, on any executor: they stream in, and what is done is kept whatever happens to the rest."""

from __future__ import annotations

import math
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Final, TextIO

from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput
from pumice.scheduler.assembly import assemble
from pumice.sim.bundle import result_digest
from pumice.sim.results.intervals import ALPHA, FEWEST, Effect, Interval, Scale
from pumice.sim.results.metrics import Metric, metric
from pumice.sim.results.records import RunRecord, decode, encode
from pumice.sim.results.seeds import PRIMARY, SeedRow, seed_row
from pumice.sim.results.summary import Summary, summarise
from pumice.sim.run import INTERRUPTED, Simulation
from pumice.sim.scenario import SimScenario


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One run to be played: a configuration and a seed, or the number of a part of a trace."""

    configuration: str
    seed: int

    def __str__(self) -> str:
        return f"{self.configuration}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Played:
    """One run that was played to its end, or stopped: then `failure` says why."""

    task: StudyRun
    summary: Summary
    failure: str = ""
    never_fit: tuple[str, ...] = ()
    packed_record: bytes = b""
    digest: str = ""
    """The digest of the events: see `bundle.result_digest`."""

    def record(self) -> RunRecord:
        """Return the whole record, where it was kept.

        :raises InvalidInput: it was not.
        """
        return decode(self.packed_record)


def play(scenario: SimScenario | bytes, task: StudyRun, *, keep: bool = False, log: TextIO | None = None) -> Played:
    """Play one run and return its figures; *keep* its record too. The same scenario and task give the same."""
    drawn = unpacked(scenario).drawn(task.seed)
    conf, setting = drawn.configurations[task.configuration], drawn.setting_of(task.configuration)
    simulation = Simulation(setting, assemble(conf, drawn.registry), log=log)
    record = simulation.run(drawn.workload())
    never_fit = tuple(simulation.never_fit_in_words())
    packed = encode(record) if keep else b""
    return Played(task, summarise(record), simulation.failure, never_fit, packed, result_digest(record))


def unpacked(scenario: SimScenario | bytes) -> SimScenario:
    """Return the scenario, unpacked if it is packed; the last ones are remembered."""
    return _unpacked(scenario) if isinstance(scenario, bytes) else scenario


@lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> SimScenario:
    found = pickle.loads(packed)
    assert isinstance(found, SimScenario)
    return found


MOST_LISTED: Final = 100_000
"""Seeds that may be asked for."""
LOOKS: Final = (20, 40, 80)
"""Seeds after which a study that stops by its figures looks at them. Each look has a third of the error of 5 %."""
LOOK_ALPHA: Final = ALPHA / len(LOOKS)
MOST_SEEDS: Final = LOOKS[-1]
"""If the figures decide, no more seeds than these are played."""
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_SURE = re.compile(r"(?:([a-z0-9_.]+)\s+)?([0-9.]+)\s*%")


def parse_seeds(text: str) -> list[int]:
    """Return the seeds that ``1..30``, ``30`` (the same) or ``1,4,9`` stand for.

    :raises InvalidInput: it stands for none.
    """
    found = _RANGE.fullmatch(text.strip())
    try:
        if found is None and "," in text:
            seeds = [int(part) for part in text.split(",")]
        else:
            low, high = (int(found[1]), int(found[2])) if found is not None else (1, int(text))
            if high - low >= MOST_LISTED:
                raise InvalidInput(f"must be at most {MOST_LISTED:,} seeds, got {text!r}")
            seeds = list(range(low, high + 1))
    except ValueError:
        raise InvalidInput(f"must be 1..30, 30 or 1,4,9, got {text!r}") from None
    if not seeds or len(set(seeds)) != len(seeds):
        raise InvalidInput(f"must be at least one seed and each once, got {text!r}")
    return seeds


def parse_length(text: str) -> float:
    """Return the seconds that a part of a trace has: ``7d``, ``12h``.

    :raises InvalidInput: it is no duration, or none above 0.
    """
    seconds = parse_duration(text, days=True) / SECOND
    if seconds <= 0:
        raise InvalidInput(f"must be above 0, got {text!r}")
    return seconds


@dataclass(frozen=True, slots=True)
class Look:
    """The knowledge of a figure after some seeds: the change, or the value if there is one configuration."""

    seeds: int
    sure: bool
    found: Interval | None = None
    """At 98.3 %; of the configuration that is known least."""
    scale: Scale | None = None
    """The interval of a change; ``None`` for a value."""
    half: float = math.inf
    """Half of the interval, as a part of the change's base."""


@dataclass(frozen=True, slots=True)
class Sure:
    """Enough is known when a figure's interval is narrow: half of it at most a *part* of the figure.

    Equal values are no knowledge: fewer than `FEWEST` seeds that differ never end a study.
    """

    metric: Metric[Summary]
    part: float

    def __call__(self, summaries: dict[str, dict[int, Summary]]) -> bool:
        return self.look(summaries).sure

    def look(self, summaries: dict[str, dict[int, Summary]]) -> Look:
        """Return what these runs say. Asked after a number of seeds that is not among `LOOKS`, it is never sure."""
        seeds = len(set.intersection(*(set(runs) for runs in summaries.values())))
        row = seed_row(summaries, self.metric, LOOK_ALPHA)
        if row is None:
            return Look(seeds, False)
        looks = [self._value(row, seeds)] if len(row.effects) == 1 else [
            self._change(row, effect, seeds) for effect in row.effects[1:]
        ]  # fmt: skip
        return next((look for look in looks if not look.sure), max(looks, key=lambda look: look.half))

    def _value(self, row: SeedRow, seeds: int) -> Look:
        value, known = row.values[0], [one for one in row.by_seed[0] if one is not None]
        if value is None:
            return Look(seeds, False)
        half, differ = _half(value, abs(value.estimate)), len(known) - max(Counter(known).values())
        return Look(seeds, seeds in LOOKS and differ >= FEWEST and half <= self.part, value, None, half)

    def _change(self, row: SeedRow, effect: Effect | None, seeds: int) -> Look:
        first = row.values[0]
        if effect is None or first is None:
            return Look(seeds, False)
        half = _half(effect.change, 1.0 if effect.scale == "ratio" else abs(first.estimate))
        sure = seeds in LOOKS and effect.differ >= FEWEST and half <= self.part
        return Look(seeds, sure, effect.change, effect.scale, half)


def _half(found: Interval, of: float) -> float:
    if found.low is None or found.high is None or not of:
        return math.inf
    return (found.high - found.low) / 2 / of


def parse_sure(text: str, primary: str = PRIMARY) -> Sure:
    """Return when ``5%`` or ``wait.p95 5%`` is reached; the primary figure is meant if none is named.

    :raises InvalidInput: it is no such thing.
    """
    found = _SURE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(
            f"must be a percentage, with a figure before it if not the primary one is meant, got {text!r}"
        )
    part = float(found[2]) / 100
    if part <= 0:
        raise InvalidInput(f"must be above 0 %, got {text!r}")
    return Sure(metric(found[1] or primary), part)


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
