"""A scenario as the commands that play one open it: plugins, files, its end, configurations to play it under."""

from __future__ import annotations

from pathlib import Path

import typer

from pumice.cli import render
from pumice.cli.aside import put_aside
from pumice.config import SchedulerConf, load
from pumice.config.durations import SECOND, parse_duration
from pumice.errors import ConfigError, InvalidInput
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim import scenario as sim
from pumice.sim.scenario import BUILT_IN, SimScenario, load_conf_file
from pumice.sim.study.sweeping import grid, parse_vary


def open_scenario(path: Path, plugins_dir: Path | None, data: Path | None, horizon: str | None) -> SimScenario:
    """Read a scenario as the command line says; what it depends on is noted in it."""
    if data is not None and not data.is_dir():
        raise typer.BadParameter(f"{str(data)!r} is not a directory", param_hint="--data")
    put_aside()
    scenario = sim.open_scenario(path, plugins_dir=plugins_dir, data=data)
    for line in scenario.registry.passed_by:
        render.note(line)
    if horizon is None:
        return scenario
    try:
        return scenario.with_horizon(parse_duration(horizon, days=True) / SECOND)
    except InvalidInput as exc:
        raise typer.BadParameter(str(exc), param_hint="--horizon") from exc


def checked(scenario: SimScenario) -> SimScenario:
    """Return a scenario whose configurations can be used.

    :raises ConfigError: a plugin refuses its arguments; better now than in every run.
    """
    for conf in scenario.configurations.values():
        assemble(conf, scenario.registry)
    return scenario


MOST_CONFS = 200
"""Configurations of one study."""


def chosen_confs(scenario: SimScenario, given: list[str]) -> dict[str, SchedulerConf]:
    """Return the configurations of the command line, by name; those of the scenario if none is given.

    Each is a name in the scenario, a file, ``name=file``, ``default`` or ``helm``.
    """
    named = scenario.configurations
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
        chosen[name] = named[file] if of_scenario else _conf_of(file, scenario)
    return chosen


def _conf_of(file: str, scenario: SimScenario) -> SchedulerConf:
    """Return a configuration that the scenario does not name."""
    there = Path(file).exists()
    if file not in BUILT_IN and not there and not Path(file).suffix and "/" not in file:
        names = ", ".join(scenario.configurations)
        raise typer.BadParameter(f"{file!r} is not one of {names}, default, helm, and no file", param_hint="--conf")
    built_in = file in BUILT_IN and not there
    catalogue = catalogue_of(scenario.registry)
    loaded = load(BUILT_IN[file], catalogue, f"<{file}>") if built_in else load_conf_file(Path(file), catalogue)
    for problem in loaded.warnings:
        render.warning(str(problem))
    return loaded.conf


def chosen_conf(scenario: SimScenario, conf: str | None) -> tuple[str, SchedulerConf]:
    """Return one configuration with its name: the one that is given, else the first of the scenario."""
    return next(iter(chosen_confs(scenario, [] if conf is None else [conf]).items()))


def varied_confs(scenario: SimScenario, confs: dict[str, SchedulerConf], vary: list[str]) -> dict[str, SchedulerConf]:
    """Return the one configuration as it is, and with every combination of the values in *vary*."""
    if len(confs) > 1:
        raise typer.BadParameter("varies one configuration, so give one --conf", param_hint="--vary")
    try:
        made = grid(next(iter(confs.values())), [parse_vary(text) for text in vary], catalogue_of(scenario.registry))
        for conf in made.values():
            assemble(conf, scenario.registry)
    except (InvalidInput, ConfigError) as exc:
        raise typer.BadParameter(str(exc), param_hint="--vary") from exc
    if len(made) > MOST_CONFS:
        raise typer.BadParameter(f"gives {len(made):,} configurations, at most {MOST_CONFS}", param_hint="--vary")
    return made
