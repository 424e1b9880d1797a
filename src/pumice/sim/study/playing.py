"""One run of a study, wherever it is played: the scenario goes there, its record comes back."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache
from typing import TextIO

from pumice.scheduler.assembly import assemble
from pumice.sim.bundle import result_digest
from pumice.sim.results.records import RunRecord, decode, encode
from pumice.sim.results.summary import Summary, summarise
from pumice.sim.run import Simulation
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
