"""Options of the commands that work on a cluster until they are stopped: where it is, which replica works."""

from __future__ import annotations

import logging
import time
from typing import Annotated

import typer

Kubeconfig = Annotated[
    str | None, typer.Option("--kubeconfig", metavar="FILE", help="Else the pod's account, else the default file.")
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Of the kubeconfig.")]
Master = Annotated[str | None, typer.Option("--master", metavar="URL", help="The API server, if not the kubeconfig's.")]
LeaseNamespace = Annotated[
    str | None,
    typer.Option(
        "--leader-elect-resource-namespace",
        "--lock-object-namespace",
        metavar="NAMESPACE",
        help="Else the pod's own, else pumice-system.",
    ),
]
LeaseDuration = Annotated[
    str, typer.Option("--leader-elect-lease-duration", metavar="DURATION", help="Others wait so long.")
]
RenewDeadline = Annotated[
    str, typer.Option("--leader-elect-renew-deadline", metavar="DURATION", help="We stop after so long.")
]
RetryPeriod = Annotated[str, typer.Option("--leader-elect-retry-period", metavar="DURATION", help="Between two tries.")]
Healthz = Annotated[
    bool, typer.Option("--enable-healthz/--no-enable-healthz", help="Serve /healthz, /livez and /readyz.")
]
HealthzAddress = Annotated[str, typer.Option("--healthz-address", metavar="HOST:PORT")]
Verbosity = Annotated[int, typer.Option("-v", "--v", metavar="N", help="0 warnings, 1 to 3 more, 4 all.")]


def set_verbosity(verbosity: int) -> None:
    """Log as much as ``-v`` asks for, each line with its time: what runs for long is read afterwards."""
    level = logging.WARNING if verbosity <= 0 else logging.INFO if verbosity < 4 else logging.DEBUG
    logger = logging.getLogger("pumice")
    logger.setLevel(level)
    lines = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    lines.converter = time.gmtime
    for handler in logger.handlers:
        handler.setFormatter(lines)
