"""Parameters that several commands share, and what they turn into."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pumice.errors import BrokenPlugins, PluginLoadError, read_text

if TYPE_CHECKING:
    from pumice.config import SchedulerConf
    from pumice.framework.registry import Registry


class Output(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"


class StudyOutput(StrEnum):
    """How a study is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class StatusOutput(StrEnum):
    """How a list or an object is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


OutputOption = Annotated[Output, typer.Option("-o", "--output", metavar="FORMAT", help="Print a table or json.")]
PathsArgument = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Manifests (files or directories), or one saved cycle.")
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="namespace/name, or the name where it is unique.")]
ConfOption = Annotated[
    Path | None,
    typer.Option("--conf", metavar="CONF", help="The scheduler conf; else the saved cycle's, or the default one."),
]
PluginsDirOption = Annotated[
    Path | None, typer.Option("--plugins-dir", metavar="DIR", help="Also load every plugin module of this directory.")
]


def registry_with(plugins_dir: Path | None) -> Registry:
    """What exists: built in, installed, and in the directory if one is given; what is passed by there is noted."""
    from pumice.cli import render
    from pumice.cli.aside import put_aside
    from pumice.framework.registry import default_registry

    put_aside()
    registry = default_registry()
    if plugins_dir is None:
        return registry
    registry = registry.copy()
    registry.load_directory(plugins_dir)
    for line in registry.passed_by:
        render.note(line)
    return registry


def lines_of(exc: PluginLoadError) -> Sequence[str]:
    """What is wrong with plugins, a line for each mistake."""
    return exc.problems if isinstance(exc, BrokenPlugins) else [str(exc)]


def load_conf(path: Path | None, registry: Registry, compat: str | None = None) -> SchedulerConf:
    """The conf of a file, or the default one; what it says in vain goes to stderr as warnings."""
    from pumice.cli import render
    from pumice.config import DEFAULT_CONF, load
    from pumice.scheduler.assembly import catalogue_of

    text, source = (DEFAULT_CONF, "<default>") if path is None else (read_text(path), str(path))
    loaded = load(text, catalogue_of(registry), source)
    for problem in loaded.warnings:
        render.warning(str(problem))
    return loaded.conf.with_compat(compat) if compat else loaded.conf
