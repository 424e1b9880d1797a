"""The cluster that a command reads: files with a conf, or the running cluster."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pumice.cli.cluster_options import Context, Kubeconfig
from pumice.cli.options import ConfOption, PluginsDirOption
from pumice.cli.usage import WrongUsage, web_address

if TYPE_CHECKING:
    from pumice.answers.queues import Source
    from pumice.answers.service import Answers
    from pumice.kube.api_client import AnswersClient

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
        help="Where the scheduler answers, if no ConfigMap says it; SSL_CERT_FILE names its CA.",
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
        from pumice.cli.options import load_conf, registry_with
        from pumice.cli.sources import cycle_of
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
