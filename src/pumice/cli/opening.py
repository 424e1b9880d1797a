"""A scenario as the commands that play one open it: plugins, files, its end, configurations to play it under."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from pumice.cli import render
from pumice.cli.options import registry_with
from pumice.config import Catalogue, SchedulerConf, load
from pumice.config.durations import SECOND, parse_duration
from pumice.errors import ConfigError, InvalidInput
from pumice.framework.registry import Registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.scenario import BUILT_IN, SimScenario, load_conf_file, plugin_directory, read_scenario
from pumice.sim.study.playing import StudyWorld
from pumice.sim.study.sweeping import grid, parse_vary


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


MOST_CONFS = 200
"""Configurations of one study."""


def chosen_confs(opened: OpenedScenario, given: list[str]) -> dict[str, SchedulerConf]:
    """Return the configurations of the command line, by name; those of the scenario if none is given.

    Each is a name in the scenario, a file, ``name=file``, ``default`` or ``helm``.
    """
    named = opened.scenario.configurations
    if not given:
        return dict(named)
    said = [(name, file) if eq else ("", text) for text in given for name, eq, file in [text.rpartition("=")]]
    stems = [Path(file).stem for _, file in said]
    chosen: dict[str, SchedulerConf] = {}
    for (name, file), stem in zip(said, stems, strict=True):
        of_scenario = not name and file in named
        name = name or (file if of_scenario else stem if stems.count(stem) == 1 else file.removesuffix(".conf"))
        if name in chosen:
            raise typer.BadParameter(f"{name!r} is there twice; say NAME=FILE", param_hint="--conf")
        chosen[name] = named[file] if of_scenario else _conf_of(file, opened)
    return chosen


def _conf_of(file: str, opened: OpenedScenario) -> SchedulerConf:
    """Return a configuration that the scenario does not name."""
    there = Path(file).exists()
    if file not in BUILT_IN and not there and not Path(file).suffix and "/" not in file:
        names = ", ".join(opened.scenario.configurations)
        raise typer.BadParameter(f"{file!r} is not one of {names}, default, helm, and no file", param_hint="--conf")
    built_in = file in BUILT_IN and not there
    catalogue = opened.catalogue
    loaded = load(BUILT_IN[file], catalogue, f"<{file}>") if built_in else load_conf_file(Path(file), catalogue)
    for problem in loaded.warnings:
        render.warning(str(problem))
    return loaded.conf


def chosen_conf(opened: OpenedScenario, conf: str | None) -> tuple[str, SchedulerConf]:
    """Return one configuration with its name: the one that is given, else the first of the scenario."""
    return next(iter(chosen_confs(opened, [] if conf is None else [conf]).items()))


def varied_confs(opened: OpenedScenario, confs: dict[str, SchedulerConf], vary: list[str]) -> dict[str, SchedulerConf]:
    """Return the one configuration as it is, and with every combination of the values in *vary*."""
    if len(confs) > 1:
        raise typer.BadParameter("varies one configuration, so give one --conf", param_hint="--vary")
    try:
        made = grid(next(iter(confs.values())), [parse_vary(text) for text in vary], opened.catalogue)
        for conf in made.values():
            assemble(conf, opened.registry)
    except (InvalidInput, ConfigError) as exc:
        raise typer.BadParameter(str(exc), param_hint="--vary") from exc
    if len(made) > MOST_CONFS:
        raise typer.BadParameter(f"gives {len(made):,} configurations, at most {MOST_CONFS}", param_hint="--vary")
    return made
