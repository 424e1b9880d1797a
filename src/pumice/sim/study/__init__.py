"""``study``: a scenario under several configurations on many seeds, as tables, comparisons and plots.

The command ``simulate`` is made of the same parts: ``playing`` (one run,
wherever), ``running`` (all runs, on any executor), ``workers`` (processes of this machine), ``stopping`` (which seeds,
and when they are enough), ``sweeping`` (confs from a grid of arguments), ``columns`` and ``plots`` (what comes of it).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pumice.config import Catalogue, SchedulerConf, from_data, load
from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.report import html_seeds
from pumice.sim.results.records import RunRecord, encode
from pumice.sim.results.seeds import SeedComparison, compare_seeds
from pumice.sim.scenario import BUILT_IN, SimScenario, load_conf_file, plugin_directory, read_scenario
from pumice.sim.study.columns import ColumnTable, effects_table, jobs_table, runs_table
from pumice.sim.study.playing import Played, StudyRun, StudyWorld, registry_of
from pumice.sim.study.plots import Plots
from pumice.sim.study.running import Lost, Runs, run_all
from pumice.sim.study.workers import LocalExecutor
from pumice.words import counted

Conf = str | Path | Mapping[str, Any] | SchedulerConf


@dataclass(repr=False)
class Study:
    """What came of a study. Figures are over the seeds that every configuration was played on to its end."""

    title: str
    results: Runs

    def __repr__(self) -> str:
        confs, played = self.results.configurations, self.results.played
        seeds = counted(len({task.seed for task in played}), "seed")
        return f"<Study {self.title!r}: {', '.join(confs)}; {seeds}, {counted(len(played), 'run')}>"

    @cached_property
    def comparison(self) -> SeedComparison:
        """Every figure of every configuration over all seeds, with verdicts against the first."""
        return compare_seeds(self.results.summaries())

    @property
    def lost(self) -> list[Lost]:
        """Runs that gave no result, each with the reason."""
        return self.results.lost

    @cached_property
    def runs(self) -> ColumnTable:
        """One row for each run: configuration, seed and every figure by its name."""
        return runs_table(done.summary for done in self._ordered())

    @cached_property
    def jobs(self) -> ColumnTable:
        """One row for each job of each run.

        :raises InvalidInput: the study kept no records.
        """
        return jobs_table(self.records())

    def records(self) -> list[RunRecord]:
        """Return the whole records of all runs.

        :raises InvalidInput: the study kept none.
        """
        if not all(done.packed_record for done in self._ordered()):
            raise InvalidInput("study: was played with keep_records=False, so only figures are there")
        return [done.record() for done in self._ordered()]

    def compare(self, *figures: str) -> ColumnTable:
        """Return what each configuration changes about the named figures (``wait.mean``, …), or about all of them.

        :raises InvalidInput: there is no such figure.
        """
        return effects_table(self.comparison, figures or [row.key for row in self.comparison.overall])

    @property
    def plot(self) -> Plots:
        """Plots of the study, with matplotlib (the extra ``plots``)."""
        return Plots(self)

    def to_html(self, path: Path | str) -> None:
        """Write the report as one page; the runs of the first seed are in it in full, where records were kept."""
        first = min((task.seed for task in self.results.played), default=0)
        kept = [done.record() for done in self._ordered() if done.task.seed == first and done.packed_record]
        Path(path).write_text(html_seeds(self.comparison, kept, title=self.title), encoding="utf-8")

    def to_records(self, path: Path | str) -> None:
        """Write the records of all runs, one JSON line each, for ``pumice report`` or another day."""
        Path(path).write_bytes(b"".join(encode(record) + b"\n" for record in self.records()))

    def _ordered(self) -> list[Played]:
        order = {name: at for at, name in enumerate(self.results.configurations)}
        tasks = sorted(self.results.played, key=lambda task: (task.seed, order[task.configuration]))
        return [self.results.played[task] for task in tasks if not self.results.played[task].failure]


def study(
    scenario: Path | str,
    confs: Sequence[str | Path] | Mapping[str, Conf] | None = None,
    seeds: Iterable[int] = range(1, 31),
    *,
    executor: Executor | None = None,
    processes: int | None = None,
    horizon: str | None = None,
    plugins_dir: Path | str | None = None,
    keep_records: bool = True,
) -> Study:
    """Play a scenario under several configurations on many seeds, and return what came of it.

    Configurations of one seed see the same jobs, faults and refused binds; traces are shaken by the seed. Ctrl-C ends
    the study and keeps what is done; a run that fails or whose process dies is lost and named in ``lost``.

    :param scenario: the scenario file; its plugins are loaded.
    :param confs: names of configurations of the scenario, ``default``, ``helm``, or files; or a mapping from names to
        those, to conf data or to confs. All configurations of the scenario where nothing is given. The first is the one
        that the others are compared with.
    :param executor: where runs are played: any ``concurrent.futures.Executor`` (Dask's ``client.get_executor()``, a
        pool of your own). It stays open.
    :param processes: else, on so many processes of this machine; one after the other in this one where nothing is said.
    :param horizon: another end than the scenario's: ``12h``.
    :param plugins_dir: plugins from here, in the place of the scenario's ``pluginsDir``.
    :param keep_records: keep every job of every run, for ``jobs`` and plots; without, figures only.
    :raises InvalidInput: the scenario or a configuration breaks a rule.
    """
    path = Path(scenario)
    plugins = Path(plugins_dir) if plugins_dir is not None else plugin_directory(path)
    catalogue = catalogue_of(registry_of(plugins.resolve() if plugins else None))
    read = read_scenario(path, catalogue)
    if confs is not None:
        read = read.under(confs_of(confs, read, catalogue))
    if horizon is not None:
        read = read.with_horizon(parse_duration(horizon, days=True) / SECOND)
    if plugins is not None:
        read = read.with_input("plugins", plugins)
    world = StudyWorld(read, plugins.resolve() if plugins else None)
    own = LocalExecutor(processes) if executor is None and processes is not None and processes > 1 else None
    try:
        runs = run_all(world, seeds, executor=executor or own, keep=lambda task: keep_records)
    finally:
        if own is not None:
            own.shutdown(cancel_futures=True)
    return Study(read.name, runs)


def confs_of(
    given: Sequence[str | Path] | Mapping[str, Conf], scenario: SimScenario, catalogue: Catalogue
) -> dict[str, SchedulerConf]:
    """Return configurations by name, whatever they were given as.

    :raises InvalidInput: one of them is neither a name, nor a file, nor a conf; or two have one name.
    """
    if not isinstance(given, Mapping):
        named = [
            (str(conf) if str(conf) in {*scenario.configurations, *BUILT_IN} else Path(conf).stem) for conf in given
        ]
        if len(set(named)) < len(named):
            raise InvalidInput(f"confs: every one needs a name of its own, got {', '.join(named)}; give a mapping")
        given = dict(zip(named, given, strict=True))
    return {name: _conf(conf, scenario, catalogue) for name, conf in given.items()}


def _conf(conf: Conf, scenario: SimScenario, catalogue: Catalogue) -> SchedulerConf:
    if isinstance(conf, SchedulerConf):
        return conf
    if isinstance(conf, Mapping):
        return from_data(dict(conf), catalogue).conf
    name = str(conf)
    if name in scenario.configurations:
        return scenario.configurations[name]
    if name in BUILT_IN and not Path(conf).exists():
        return load(BUILT_IN[name], catalogue, f"<{name}>").conf
    return load_conf_file(Path(conf), catalogue).conf


__all__ = ["ColumnTable", "Conf", "LocalExecutor", "Played", "Study", "StudyRun", "StudyWorld", "confs_of", "study"]
