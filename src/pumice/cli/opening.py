"""A scenario as the commands that play one open it: plugins, files, its end, configurations to play it under."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from pumice.cli import render
from pumice.cli.options import registry_with
from pumice.config import Catalogue, SchedulerConf, load
from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput
from pumice.framework.registry import Registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.scenario import BUILT_IN, SimScenario, load_conf_file, plugin_directory, read_scenario
from pumice.sim.study.playing import StudyWorld


@dataclass(frozen=True, slots=True)
class OpenedScenario:
    """A scenario that was read, and the plugins that it is played with."""

    scenario: SimScenario
    registry: Registry
    plugins: Path | None
    """The directory that they were read from, beside those built in and installed."""

    @property
    def catalogue(self) -> Catalogue:
        """What configurations may name."""
        return catalogue_of(self.registry)

    def world(self, confs: dict[str, SchedulerConf]) -> StudyWorld:
        """The scenario under these configurations, ready for a study.

        :raises ConfigError: a plugin refuses its arguments; better now than in every run.
        """
        for conf in confs.values():
            assemble(conf, self.registry)
        return StudyWorld(self.scenario.under(confs), self.plugins)


def open_scenario(path: Path, plugins_dir: Path | None, data: Path | None, horizon: str | None) -> OpenedScenario:
    """Read a scenario as the command line says; what it depends on is noted in it."""
    if data is not None and not data.is_dir():
        raise typer.BadParameter(f"{str(data)!r} is not a directory", param_hint="--data")
    plugins = plugins_dir or plugin_directory(path)
    registry = registry_with(plugins)
    scenario = read_scenario(path, catalogue_of(registry), data)
    if horizon is not None:
        try:
            scenario = scenario.with_horizon(parse_duration(horizon, days=True) / SECOND)
        except InvalidInput as exc:
            raise typer.BadParameter(str(exc), param_hint="--horizon") from exc
    if plugins is not None:
        scenario = scenario.with_input("plugins", plugins)
    return OpenedScenario(scenario, registry, plugins.resolve() if plugins else None)


def chosen_confs(given: list[str], catalogue: Catalogue) -> dict[str, SchedulerConf]:
    """The configurations of the command line, by name; ``mine.conf``, ``name=file`` and ``default`` are understood."""
    said = [(name, file) if eq else ("", text) for text in given for name, eq, file in [text.rpartition("=")]]
    stems = [Path(file).stem for _, file in said]
    chosen: dict[str, SchedulerConf] = {}
    for (name, file), stem in zip(said, stems, strict=True):
        name = name or (stem if stems.count(stem) == 1 else file.removesuffix(".conf"))
        if name in chosen:
            raise typer.BadParameter(f"{name!r} is there twice; say NAME=FILE", param_hint="CONF")
        built_in = file in BUILT_IN and not Path(file).exists()
        loaded = load(BUILT_IN[file], catalogue, f"<{file}>") if built_in else load_conf_file(Path(file), catalogue)
        for problem in loaded.warnings:
            render.warning(str(problem))
        chosen[name] = loaded.conf
    return chosen


def chosen_conf(opened: OpenedScenario, conf: str | None) -> tuple[str, SchedulerConf]:
    """One configuration with its name: that of the command line (of the scenario, or a file), else the first."""
    confs = opened.scenario.configurations
    if conf is None:
        return next(iter(confs.items()))
    return (conf, confs[conf]) if conf in confs else next(iter(chosen_confs([conf], opened.catalogue).items()))
