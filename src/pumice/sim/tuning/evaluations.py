"""Playing candidates: wherever there are cores, each only once, and written down so that a tuning can go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import IO, Final, Protocol

import msgspec

from pumice.errors import InvalidInput, PumiceError, decoder_words
from pumice.model.api import QueueObject
from pumice.sim.results.summary import Summary
from pumice.sim.scenario import SimScenario
from pumice.sim.study.playing import StudyRun, play, unpacked
from pumice.sim.tuning.knobs import Candidate
from pumice.sim.tuning.occasions import Occasion

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
