"""Where a command looks: at files, with what is needed to read them, or at the running cluster."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pumice.cli.cluster_options import Context, Kubeconfig
from pumice.cli.options import CompatOption, ConfOption, PluginsDirOption
from pumice.cli.usage import WrongUsage, web_address

if TYPE_CHECKING:
    from pumice.answers.desk import Desk
    from pumice.answers.why import Source
    from pumice.framework.registry import Registry
    from pumice.kube.asking import Asker
    from pumice.scheduler.recording import NextCycle
    from pumice.state.cluster import ClusterState

T = TypeVar("T")
MaybePaths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[PATH...]", help="Manifests, or one saved cycle; without any, the running cluster."),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", callback=web_address, help="Where the scheduler answers, if no ConfigMap says it."
    ),
]
AuthorityOption = Annotated[
    Path | None,
    typer.Option("--server-ca", metavar="FILE", help="The certificate authority of that address."),
]
PastOption = Annotated[
    Path | None,
    typer.Option("--history", metavar="DIR", help="Learn run times and errors from here: `pumice run --history`."),
]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace; else the kubeconfig's.")
]


@dataclass(frozen=True, slots=True)
class ObjectsPlace:
    """Where objects are read: from files, or from the API server."""

    paths: MaybePaths = None
    kubeconfig: Kubeconfig = None
    context: Context = None

    def cluster(self) -> ClusterState:
        """The cluster of the files."""
        from pumice.cli.sources import cluster_of

        return cluster_of(self.paths or ())

    def asker(self) -> Asker:
        """Whoever asks the running cluster."""
        return asker_of(None, None, self.kubeconfig, self.context)

    def namespace(self, name: str, given: str | None) -> str:
        """The namespace that is meant on the running cluster."""
        return namespace_of(name, given, self.kubeconfig, self.context)


@dataclass(frozen=True, slots=True)
class SchedulerPlace:
    """Which scheduler is looked at: one over files, or the one that runs."""

    paths: MaybePaths = None
    conf: ConfOption = None
    plugins_dir: PluginsDirOption = None
    compat: CompatOption = None
    server: ServerOption = None
    server_ca: AuthorityOption = None
    kubeconfig: Kubeconfig = None
    context: Context = None

    def cycle(self, registry: Registry) -> NextCycle:
        """The next cycle over the files, not run yet."""
        from pumice.cli.options import load_conf
        from pumice.cli.sources import cycle_of

        by_default = self.conf is None and self.compat is None
        return cycle_of(self.paths or (), None if by_default else load_conf(self.conf, registry, self.compat), registry)

    @property
    def saved(self) -> bool:
        """Whether the files are a saved cycle."""
        from pumice.saved import is_saved

        return any(map(is_saved, (self.paths or ())[:1]))

    def asker(self, *, own: tuple[str, ...] = ()) -> Asker:
        """Whoever asks the running scheduler.

        :raises WrongUsage: an option that says how files are read, and is none of the command's *own*; names it.
        """
        for name in ("conf", "plugins_dir", "compat", "history"):
            if name not in own and getattr(self, name, None) is not None:
                raise WrongUsage(f"--{name.replace('_', '-')}: only with PATH; a running scheduler has its own")
        return asker_of(self.server, self.server_ca, self.kubeconfig, self.context)

    def namespace(self, name: str, given: str | None) -> str:
        """The namespace that is meant on the running cluster."""
        return namespace_of(name, given, self.kubeconfig, self.context)


@dataclass(frozen=True, slots=True)
class AnswersPlace(SchedulerPlace):
    """The same for questions about jobs, to which the past has something to say."""

    history: PastOption = None

    def desk(self) -> Desk:
        """A desk over the files."""
        from pumice.answers.desk import Desk
        from pumice.cli.options import registry_with

        registry = registry_with(self.plugins_dir)
        source: Source = "cycle" if self.saved else "manifests"
        desk = Desk(self.cycle(registry), source=source)
        if self.history is not None:
            from pumice.answers.when.learned import learn

            desk.learned = learn(self.history)
        gc.freeze()  # what was read stays: a collection would look at all of it in the middle of an answer
        return desk


def asker_of(server: str | None, authority: Path | None, kubeconfig: str | None, context: str | None) -> Asker:
    """Whoever asks the running cluster."""
    from pumice.kube.asking import Asker
    from pumice.kube.credentials import Credentials
    from pumice.texts import read_text

    known = read_text(authority) if authority is not None else ""
    return Asker(Credentials(kubeconfig, context), server or "", known)


def namespace_of(name: str, given: str | None, kubeconfig: str | None, context: str | None) -> str:
    """The namespace that is meant: that of ``namespace/name``, the given one, or the kubeconfig's."""
    from pumice.kube.credentials import Credentials

    within = name.rpartition("/")[0]
    if within and given and within != given:
        raise WrongUsage(f"job {name!r}: is not in namespace {given!r}")
    return within or given or Credentials(kubeconfig, context).namespace()


def run(asking: Coroutine[Any, Any, T]) -> T:
    """The answer."""
    return asyncio.run(asking)
