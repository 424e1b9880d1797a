"""Options of commands that read a cluster, or listen: where the cluster is, an address, a time."""

from __future__ import annotations

from typing import Annotated

import typer

from pumice.cli.usage import WrongUsage, reading


def host_and_port(text: str | None) -> str | None:
    """What an option that says where to listen must be.

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
        "--scheduler-name", metavar="NAME", help="Whose pods are looked at (repeatable); else volcano and pumice."
    ),
]
WATCHED = ("volcano", "pumice")
"""Whose pods are looked at by who stands beside a scheduler."""


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
