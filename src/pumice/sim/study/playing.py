"""One run of a study, wherever it is played: everything it needs goes there, its record comes back."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from pumice.framework.registry import Registry, default_registry
from pumice.scheduler.assembly import assemble
from pumice.sim.results.records import RunRecord, decode, encode
from pumice.sim.results.summary import Summary, summarise
from pumice.sim.run import Simulation
from pumice.sim.scenario import SimScenario


@dataclass(frozen=True, slots=True)
class StudyWorld:
    """What all runs of a study share. It can be pickled; plugins are loaded where it is played."""

    scenario: SimScenario
    plugins: Path | None = None
    """The directory of plugins, which must be there on every machine that plays."""

    def packed(self) -> bytes:
        """Return the world as bytes, to be unpacked once by each process."""
        return pickle.dumps(self)


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

    def record(self) -> RunRecord:
        """Return the whole record, where it was kept.

        :raises InvalidInput: it was not.
        """
        return decode(self.packed_record)


def play(world: StudyWorld | bytes, task: StudyRun, *, keep: bool = False, log: TextIO | None = None) -> Played:
    """Play one run and return its figures; *keep* its record too. The same world and task give the same."""
    if isinstance(world, bytes):
        world = unpacked(world)
    scenario = world.scenario.drawn(task.seed)
    simulation = simulation_of(scenario, world.plugins, task, log=log)
    return played_of(simulation, task, simulation.run(scenario.workload()), keep=keep)


def simulation_of(scenario: SimScenario, plugins: Path | None, task: StudyRun, **options: object) -> Simulation:
    """Return the run of a scenario that is drawn already, ready to start."""
    conf = scenario.configurations[task.configuration]
    setting = scenario.setting_of(task.configuration)
    return Simulation(setting, assemble(conf, registry_of(plugins)), **options)  # type: ignore[arg-type]


def played_of(simulation: Simulation, task: StudyRun, record: RunRecord, *, keep: bool) -> Played:
    """Return what is told of a run that is over."""
    return Played(
        task,
        summarise(record),
        simulation.failure,
        tuple(simulation.never_fit_in_words()),
        encode(record) if keep else b"",
    )


@lru_cache(maxsize=2)
def unpacked(world: bytes) -> StudyWorld:
    """Return the world of these bytes; the last ones are remembered."""
    found = pickle.loads(world)
    assert isinstance(found, StudyWorld)
    return found


@lru_cache(maxsize=8)
def registry_of(plugins: Path | None) -> Registry:
    """Return what exists: built in, installed, and in the directory if one is given."""
    registry = default_registry()
    if plugins is None:
        return registry
    registry = registry.copy()
    registry.load_directory(plugins)
    return registry
