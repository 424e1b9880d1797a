"""Options that several commands share, and what they turn into: a conf, a cluster, files, an address, a format."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO, TypeVar

import typer

from pumice.errors import BrokenPlugins, InvalidInput, PluginLoadError, read_text

if TYPE_CHECKING:
    from pumice.answers.queues import Source
    from pumice.answers.service import Answers
    from pumice.config import SchedulerConf
    from pumice.framework.registry import Registry
    from pumice.kube.api_client import AnswersClient


class WrongUsage(InvalidInput):
    """A value on the command line breaks a rule, whatever the files say."""


@contextmanager
def reading(option: str) -> Iterator[None]:
    """Around the reading of an option's value: a value that breaks a rule is wrong usage, and the option is named."""
    try:
        yield
    except InvalidInput as exc:
        raise WrongUsage(f"{option}: {exc}") from exc


def web_address(url: str | None) -> str | None:
    """The form of an option or argument that names an address to ask.

    :raises WrongUsage: it is not.
    """
    if url is not None and not url.startswith(("http://", "https://")):
        raise WrongUsage(f"URL {url!r}: must begin with https:// or http://")
    return url


class Aside:
    """Stands in for stdout: what is printed goes to stderr; `data` is where data goes."""

    def __init__(self, data: TextIO) -> None:
        self.data: Final = data

    def write(self, text: str) -> int:
        """Write to stderr."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """Flush both."""
        sys.stderr.flush()
        self.data.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


def put_aside() -> None:
    """Send all later output that is printed elsewhere to stderr."""
    if not isinstance(sys.stdout, Aside):
        sys.stdout = Aside(sys.stdout)


def take_back() -> None:
    """Print as ever: somebody else sees to it from now on."""
    sys.stdout = stdout()


def stdout() -> TextIO:
    """Where data goes."""
    return sys.stdout.data if isinstance(sys.stdout, Aside) else sys.stdout


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
    """The registry: built in, installed, and from the directory if one is given; skipped files there are noted."""
    from pumice.cli import render
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
    """The problems of plugins, a line for each mistake."""
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


def host_and_port(text: str | None) -> str | None:
    """The form of an option that names an address to listen on.

    :raises WrongUsage: it is not.
    """
    port = "0" if text is None else text.rpartition(":")[2]
    if text is not None and (":" not in text or not port.isdigit() or int(port) > 65535):
        raise WrongUsage(f"address {text!r}: must be HOST:PORT or :PORT")
    return text


Kubeconfig = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", help="The kubeconfig; else the pod's account, else ~/.kube/config."),
]
Context = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="The kubeconfig's context; else its current one.")
]
WatchedNames = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler-name", metavar="NAME", help="The scheduler of the pods (repeatable); else volcano and pumice."
    ),
]
WATCHED = ("volcano", "pumice")
"""The schedulers whose pods are looked at by commands beside a scheduler."""


def seconds(option: str, text: str, *, days: bool = False) -> float:
    """A duration above zero in seconds.

    :raises WrongUsage: it is none; names the option.
    """
    from pumice.config.durations import SECOND, parse_duration

    with reading(f"{option} {text!r}"):
        found = parse_duration(text, days=days) / SECOND
    if found <= 0:
        raise WrongUsage(f"{option} {text!r}: must be above zero")
    return found


T = TypeVar("T")
MaybePaths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[PATH...]", help="Manifests, or one saved cycle; without any, the running cluster."),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        callback=web_address,
        help="The scheduler's address, if no ConfigMap has it; SSL_CERT_FILE names its CA.",
    ),
]
PastOption = Annotated[
    Path | None,
    typer.Option("--past", metavar="DIR", help="Learn run times and evictions from a history that `run` wrote."),
]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace; else the kubeconfig's.")
]


@dataclass(frozen=True, slots=True)
class StatusPlace:
    """How files are read, and which cluster is asked."""

    conf: ConfOption = None
    plugins_dir: PluginsDirOption = None
    server: ServerOption = None
    kubeconfig: Kubeconfig = None
    context: Context = None

    def answers_of(self, paths: Sequence[Path]) -> Answers:
        """Return what answers questions about the files."""
        from pumice.answers.service import Answers
        from pumice.cli.target import cycle_of
        from pumice.saved import is_saved

        registry = registry_with(self.plugins_dir)
        conf = None if self.conf is None else load_conf(self.conf, registry)
        source: Source = "cycle" if any(map(is_saved, paths[:1])) else "manifests"
        made = Answers(cycle_of(paths, conf, registry), source=source)
        gc.freeze()  # what was read stays: a collection would look at all of it in the middle of an answer
        return made

    def client(self, *, own: tuple[str, ...] = ()) -> AnswersClient:
        """Return the client of the running scheduler.

        :raises WrongUsage: an option that says how files are read, and is none of the command's *own*; names it.
        """
        for name in ("conf", "plugins_dir", "past"):
            if name not in own and getattr(self, name, None) is not None:
                raise WrongUsage(f"--{name.replace('_', '-')}: only for files; a running scheduler has its own")
        from pumice.kube.api_client import AnswersClient
        from pumice.kube.credentials import Credentials

        return AnswersClient(Credentials(self.kubeconfig, self.context), self.server or "")

    def namespace(self, name: str, given: str | None) -> str:
        """Return the namespace on the cluster: that of ``namespace/name``, the given one, or the kubeconfig's."""
        from pumice.kube.credentials import Credentials

        within = name.rpartition("/")[0]
        if within and given and within != given:
            raise WrongUsage(f"job {name!r}: is not in namespace {given!r}")
        return within or given or Credentials(self.kubeconfig, self.context).namespace()


@dataclass(frozen=True, slots=True)
class AnswersPlace(StatusPlace):
    """The files of a question about jobs, and a history to learn from."""

    paths: MaybePaths = None
    past: PastOption = None

    def answers(self) -> Answers:
        """Return what answers questions about the files, with what the history says."""
        made = self.answers_of(self.paths or ())
        if self.past is not None:
            from pumice.answers.when.learned import learn

            made.learned = learn(self.past)
        return made


def run(asking: Coroutine[Any, Any, T]) -> T:
    """Return the answer."""
    return asyncio.run(asking)
