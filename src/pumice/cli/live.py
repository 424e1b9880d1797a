"""Commands that ask a running cluster: where it is, and for which namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pumice.cli.usage import WrongUsage, web_address

if TYPE_CHECKING:
    from pumice.kube.asking import Asker

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
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace; else the kubeconfig's.")
]


def asker_of(server: str | None, authority: Path | None, kubeconfig: str | None, context: str | None) -> Asker:
    """Whoever asks the running cluster."""
    from pumice.cli.options import read_text
    from pumice.kube.asking import Asker
    from pumice.kube.credentials import Credentials

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


def only_with_paths(**options: object) -> None:
    """Options that say how files are read mean nothing on a running cluster.

    :raises WrongUsage: one of them is given; names it.
    """
    for name, value in options.items():
        if value is not None:
            raise WrongUsage(f"--{name.replace('_', '-')}: only with PATH; a running scheduler has its own")
