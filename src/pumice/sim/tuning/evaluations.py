"""Playing candidates: wherever there are cores, each only once, and written down so that a tuning can go on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final, Protocol

import msgspec

from pumice.errors import InvalidInput, PumiceError, decoder_words
from pumice.model.api import QueueObject
from pumice.sim.results.intervals import FEWEST, Interval, ratio_interval
from pumice.sim.results.metrics import Metric
from pumice.sim.results.records import SEED
from pumice.sim.results.summary import Summary
from pumice.sim.scenario import SimScenario
from pumice.sim.study.running import StudyRun, play, unpacked
from pumice.sim.tuning.knobs import Candidate

FEWEST_OCCASIONS: Final = FEWEST + 3
"""Two to search on, one to choose on, and enough for a verdict."""


Occasion = int
"""One day or week to be played, the same for every candidate: the seed, or the part of a trace counted from 1."""


@dataclass(frozen=True, slots=True)
class OccasionSplit:
    """The occasions, in their order: of a trace the later ones are held out."""

    search: tuple[Occasion, ...]
    choose: tuple[Occasion, ...]
    held_out: tuple[Occasion, ...]
    each: str
    """The name of an occasion: ``seed``, or ``part of 7 d``."""

    @classmethod
    def of(cls, occasions: Sequence[Occasion], each: str) -> OccasionSplit:
        """Half of them for the verdict, and no fewer than it needs; a third of the rest to choose on.

        :raises InvalidInput: there are too few.
        """
        count = len(occasions)
        if count < FEWEST_OCCASIONS:
            raise InvalidInput(f"{count} occasions ({each}) are too few; at least {FEWEST_OCCASIONS} are needed")
        held = max(FEWEST, count // 2)
        choose = max(1, (count - held) // 3)
        search = count - held - choose
        return cls(
            tuple(occasions[:search]), tuple(occasions[search : search + choose]), tuple(occasions[-held:]), each
        )


def by_seed(seeds: Sequence[int]) -> OccasionSplit:
    """Return occasions that are drawn, one for each seed."""
    return OccasionSplit.of(seeds, SEED)


def by_time(scenario: SimScenario, length_s: float) -> tuple[OccasionSplit, SimScenario]:
    """Return the parts of a scenario's traces as occasions, and the scenario that plays them.

    :raises InvalidInput: it has other work than traces, or too few parts.
    """
    cut = scenario.split_into(length_s)
    assert cut.split is not None
    try:
        return OccasionSplit.of(cut.split.numbers, cut.split.unit()), cut
    except InvalidInput as exc:
        longest = cut.split.numbers[-1] * length_s / FEWEST_OCCASIONS / 3600
        raise InvalidInput(f"--split: {exc}: say parts of at most {longest:.0f} h") from None


_LEAST_S: Final = 1.0
"""Times below a second count as one in the ratio of a single pair: it needs something to divide by."""
SHORT_S: Final = 60.0
"""Mean waits of a queue below a minute count as one: nobody loses by seconds."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """The figures to improve, the most important first, and what no queue may lose."""

    figures: tuple[Metric[Summary], ...]
    most_loss: float | None = 0.05
    """No queue's mean wait may grow by more than this part; ``None``: they may."""

    def steps(self, base: Summary, other: Summary) -> tuple[float, ...] | None:
        """Return by how much each figure is worse than under the base, below 0 if better; None if one has no value."""
        found = []
        for figure in self.figures:
            a, b = figure.of(base), figure.of(other)
            if a is None or b is None:
                return None
            found.append(self._step(figure, a, b))
        return tuple(found)

    def change(self, base: Sequence[Summary], other: Sequence[Summary]) -> tuple[float, ...]:
        """Return by how much the mean of each figure is worse than under the base, from runs that have all figures."""
        return tuple(self._step(figure, _mean(figure, base), _mean(figure, other)) for figure in self.figures)

    def _step(self, figure: Metric[Summary], before: float, after: float) -> float:
        step = math.log(max(after, _LEAST_S) / max(before, _LEAST_S)) if figure.as_ratio else after - before
        return step if figure.better == "lower" else -step


def _mean(figure: Metric[Summary], runs: Sequence[Summary]) -> float:
    values = [value for run in runs if (value := figure.of(run)) is not None]
    return math.fsum(values) / len(values)


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of a candidate on the occasions that it was played on, against the base on the same ones."""

    steps: tuple[float, ...]
    """The step of each figure's mean, of times its logarithm; below 0 is better."""
    by_occasion: tuple[tuple[float, ...], ...]
    excess: float
    """How far the worst queue surely lies above what it may lose; at most 0 if no queue loses."""

    @property
    def feasible(self) -> bool:
        """Whether no queue loses beyond chance."""
        return self.excess <= 0


def score(base: Sequence[Summary], other: Sequence[Summary], wanted: Objectives) -> Score:
    """Return what a candidate did, from runs in pairs.

    :raises InvalidInput: no pair has the figures.
    """
    pairs = [(a, b, step) for a, b in zip(base, other, strict=True) if (step := wanted.steps(a, b)) is not None]
    if not pairs:
        names = ", ".join(figure.key for figure in wanted.figures)
        raise InvalidInput(f"figures {names}: no run has a value of all of them")
    worst = max((_surely(found) for found in _queue_waits(base, other).values()), default=-1.0)
    return Score(
        wanted.change([a for a, _, _ in pairs], [b for _, b, _ in pairs]),
        tuple(step for *_, step in pairs),
        worst - wanted.most_loss if wanted.most_loss is not None else -1.0,
    )


@dataclass(frozen=True, slots=True)
class QueueLoss:
    """The change of a queue's mean wait: the part by which it grew, and the 95 % interval."""

    grew: Interval

    def above(self, most: float) -> bool:
        """Whether it grew by more than that, and by more than chance: one of a dozen queues always waits longer."""
        return self.grew.estimate > most and self.grew.excludes(0.0)


def queue_losses(base: Sequence[Summary], other: Sequence[Summary]) -> dict[str, QueueLoss]:
    """Return by which part the mean wait of each queue grew: the ratio of the means over the pairs, less one."""
    found = {}
    for name, waits in _queue_waits(base, other).items():
        grew = ratio_interval([a for a, _ in waits], [b for _, b in waits])
        assert grew is not None, "no wait is below SHORT_S"
        found[name] = QueueLoss(grew.shifted(-1.0))
    return found


def _surely(waits: Sequence[tuple[float, float]]) -> float:
    """The part by which a wait grew at least, from few pairs: two standard errors below the mean of their logarithms.

    The search goes by it, no verdict does.
    """
    steps = [math.log(after / before) for before, after in waits]
    mean = sum(steps) / len(steps)
    spread = math.sqrt(sum((step - mean) ** 2 for step in steps) / (len(steps) - 1)) if len(steps) > 1 else 0.0
    return math.expm1(mean - 2 * spread / math.sqrt(len(steps)))


def _queue_waits(base: Sequence[Summary], other: Sequence[Summary]) -> dict[str, list[tuple[float, float]]]:
    """Return the mean waits of each queue, a pair of runs each; at least `SHORT_S`."""
    waits: dict[str, list[tuple[float, float]]] = {}
    for a, b in zip(base, other, strict=True):
        before = {figures.name: figures.wait for figures in a.by_queue}
        for figures in b.by_queue:
            wait = before.get(figures.name)
            if wait is not None and figures.wait is not None:
                waits.setdefault(figures.name, []).append((max(wait.mean, SHORT_S), max(figures.wait.mean, SHORT_S)))
    return dict(sorted(waits.items()))


_NAME: Final = "tuned"
Wish = tuple[Candidate, Occasion]


class Evaluate(Protocol):
    """A source of candidates' results."""

    def __call__(self, wishes: Iterable[Wish]) -> dict[tuple[str, int], Summary]:
        """Return the figures by the candidate's key and the occasion's number."""


def weighted(scenario: SimScenario, weights: Mapping[str, int]) -> SimScenario:
    """Return the scenario with other weights of queues."""
    if not weights:
        return scenario
    objects = tuple(
        msgspec.structs.replace(o, spec=msgspec.structs.replace(o.spec, weight=weights[o.metadata.name]))
        if isinstance(o, QueueObject) and o.metadata.name in weights
        else o
        for o in scenario.setting.objects
    )
    return replace(scenario, setting=replace(scenario.setting, objects=objects))


def play_candidate(
    scenario: SimScenario | bytes, candidate: Candidate, occasion: Occasion, name: str = _NAME
) -> Summary:
    """Play a candidate once.

    :raises PumiceError: the run was stopped.
    """
    played = weighted(unpacked(scenario), dict(candidate.weights)).under({name: candidate.conf})
    done = play(played, StudyRun(name, occasion))
    if done.failure:
        raise PumiceError(f"{name} on {occasion}: {done.failure}")
    return done.summary


class Evaluations:
    """Plays candidates on occasions and remembers what came of it.

    :param executor: where runs are played; here if none is given.
    :param path: a file that remembers; what it knows is not played again.
    :param watch: is told after every run.
    :raises InvalidInput: the file is of another tuning.
    """

    def __init__(
        self,
        scenario: SimScenario,
        *,
        executor: Executor | None = None,
        path: Path | None = None,
        stamp: str = "",
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        self._scenario, self._executor, self._watch = scenario, executor, watch
        self.known: dict[tuple[str, int], Summary] = {}
        self.played = 0
        """Runs that were really played, and not known already."""
        self._judged: dict[tuple[Occasion, ...], list[str]] = {}
        """Days held out -> what was judged on them, each once."""
        self._file: IO[bytes] | None = None
        if path is not None:
            self._resume(path, stamp)

    def __call__(self, wishes: Iterable[Wish]) -> dict[tuple[str, int], Summary]:
        wanted = {(candidate.key, occasion): (candidate, occasion) for candidate, occasion in wishes}
        missing = {key: wish for key, wish in wanted.items() if key not in self.known}
        if self._executor is None:
            for key, (candidate, occasion) in missing.items():
                self._note(key, play_candidate(self._scenario, candidate, occasion))
        elif missing:
            packed = self._scenario.packed()
            asked = {
                self._executor.submit(play_candidate, packed, candidate, occasion): key
                for key, (candidate, occasion) in missing.items()
            }
            try:
                for future in as_completed(asked):  # what is done is kept, whatever becomes of the others
                    self._note(asked[future], future.result())
            finally:
                for future in asked:
                    future.cancel()
        return {key: self.known[key] for key in wanted}

    def look(self, days: Sequence[Occasion], question: str) -> int:
        """Return how often these days, or some of them, have judged a tuning, this one included. Only a file counts.

        The same question on the same days is one look.
        """
        known = self._judged.setdefault(tuple(days), [])
        if question not in known:
            known.append(question)
            self._write({"held_out": list(days), "judged": question})
        return len({asked for held, listed in self._judged.items() if set(held) & set(days) for asked in listed})

    def _write(self, line: Mapping[str, object]) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()

    def _note(self, key: tuple[str, int], summary: Summary) -> None:
        self.known[key] = summary
        self.played += 1
        self._write({"candidate": key[0], "on": key[1], "summary": summary})
        self._watch()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # -- the file that remembers ------------------------------------------------------------------------------------
    def _resume(self, path: Path, stamp: str) -> None:
        try:
            lines = path.read_bytes().split(b"\n") if path.exists() else []
        except OSError as exc:
            raise InvalidInput(f"--study {str(path)!r}: {exc.strerror}") from exc
        whole = lines[:-1]  # a last line without an end was being written when the machine stopped
        if whole:
            _check_stamp(path, whole[0], stamp)
            for number, line in enumerate(whole[1:], 2):
                try:
                    read = _decoded(line)
                except msgspec.DecodeError as exc:
                    raise InvalidInput(f"{path}:{number}: is no run of a tuning: {decoder_words(exc)}") from exc
                if isinstance(read, _Judgement):
                    self._judged.setdefault(tuple(read.held_out), []).append(read.judged)
                else:
                    self.known[read.candidate, read.on] = read.summary
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
            self._file.truncate(sum(len(line) + 1 for line in whole))
        except OSError as exc:
            raise InvalidInput(f"--study {str(path)!r}: {exc.strerror}") from exc
        if not whole:
            self._write({"tuning": stamp})


def _decoded(line: bytes) -> _Line | _Judgement:
    if line.startswith(b'{"held_out"'):
        return msgspec.json.decode(line, type=_Judgement)
    return msgspec.json.decode(line, type=_Line)


class _Line(msgspec.Struct):
    candidate: str
    on: int
    summary: Summary


class _Judgement(msgspec.Struct):
    held_out: list[int]
    judged: str


def _check_stamp(path: Path, line: bytes, stamp: str) -> None:
    try:
        found = msgspec.json.decode(line, type=dict[str, str]).get("tuning")
    except msgspec.DecodeError:
        found = None
    if found is None:
        raise InvalidInput(f"--study {str(path)!r}: is not a file of `pumice tune`")
    if found != stamp:
        raise InvalidInput(
            f"--study {str(path)!r}: was made with another scenario, other plugins or another version; "
            "take another file"
        )
