"""Options of the commands that work on a cluster until they are stopped: where it is, which replica works."""

from __future__ import annotations

import logging
import time
from typing import Annotated

import typer

from pumice.cli.usage import WrongUsage


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
Master = Annotated[str | None, typer.Option("--master", metavar="URL", help="The API server, if not the kubeconfig's.")]
LeaseNamespace = Annotated[
    str | None,
    typer.Option(
        "--leader-elect-resource-namespace",
        "--lock-object-namespace",
        metavar="NAMESPACE",
        help="The lease's namespace; else the pod's own, else pumice-system.",
    ),
]
LeaseDuration = Annotated[
    str, typer.Option("--leader-elect-lease-duration", metavar="DURATION", help="How long the lease holds.")
]
RenewDeadline = Annotated[
    str,
    typer.Option(
        "--leader-elect-renew-deadline",
        metavar="DURATION",
        help="Stop deciding if the lease could not be renewed for this long.",
    ),
]
RetryPeriod = Annotated[
    str,
    typer.Option(
        "--leader-elect-retry-period", metavar="DURATION", help="Time between two tries to take or renew the lease."
    ),
]
Healthz = Annotated[
    bool, typer.Option("--enable-healthz/--no-enable-healthz", help="Serve /healthz, /livez and /readyz.")
]
HealthzAddress = Annotated[
    str,
    typer.Option("--healthz-address", metavar="HOST:PORT", callback=host_and_port, help="Where health is served."),
]
Metrics = Annotated[
    bool, typer.Option("--enable-metrics/--no-enable-metrics", help="Serve /metrics on --listen-address.")
]
ListenAddress = Annotated[
    str, typer.Option("--listen-address", metavar="HOST:PORT", callback=host_and_port, help="Where metrics are served.")
]
Verbosity = Annotated[
    int, typer.Option("-v", "--v", metavar="N", help="How much is logged: 0 warnings, 1 to 3 more, 4 all.")
]


def set_verbosity(verbosity: int) -> None:
    """Log as much as ``-v`` asks for, each line with its time: what runs for long is read afterwards."""
    level = logging.WARNING if verbosity <= 0 else logging.INFO if verbosity < 4 else logging.DEBUG
    logger = logging.getLogger("pumice")
    logger.setLevel(level)
    lines = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    lines.converter = time.gmtime
    for handler in logger.handlers:
        handler.setFormatter(lines)
