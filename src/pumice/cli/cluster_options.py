"""Options of the commands that work on a cluster until they are stopped: where it is, which replica works."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pumice.cli.log_lines import LogLines
from pumice.cli.usage import WrongUsage, reading, web_address

if TYPE_CHECKING:
    import ssl

    from pumice.kube.credentials import Credentials
    from pumice.kube.lease import Election


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
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", callback=web_address, help="The API server, if not the kubeconfig's."),
]
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


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """Which API server, and who asks."""

    kubeconfig: Kubeconfig = None
    context: Context = None
    master: Master = None

    def credentials(self) -> Credentials:
        """Those of one client."""
        from pumice.kube.credentials import Credentials

        return Credentials(self.kubeconfig, self.context, self.master)


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    """Which of several replicas works."""

    leader_elect: Annotated[
        bool, typer.Option("--leader-elect/--no-leader-elect", help="Only one replica at a time works.")
    ] = True
    lease_name: Annotated[
        str | None,
        typer.Option(
            "--leader-elect-resource-name",
            metavar="NAME",
            help="The lease's name; else the scheduler's, or pumice-controllers.",
        ),
    ] = None
    lease_namespace: LeaseNamespace = None
    lease_duration: LeaseDuration = "15s"
    renew_deadline: RenewDeadline = "10s"
    retry_period: RetryPeriod = "2s"

    @property
    def namespace(self) -> str:
        """The namespace that we belong to."""
        return self.lease_namespace or _own_namespace()

    def election(self, name: str) -> Election | None:
        """The lease (*name* if none is given), who we are, and how long; None where every replica works.

        :raises WrongUsage: times that do not go together; names the options.
        """
        from pumice.kube.lease import Election

        if not self.leader_elect:
            return None
        times = (self.lease_duration, self.renew_deadline, self.retry_period)
        lease, renew, retry = (
            seconds(f"--leader-elect-{option}", text)
            for option, text in zip(("lease-duration", "renew-deadline", "retry-period"), times, strict=True)
        )
        if not lease > renew > retry:
            raise WrongUsage(
                f"--leader-elect-lease-duration {times[0]}: must be longer than --leader-elect-renew-deadline "
                f"{times[1]}, and that longer than --leader-elect-retry-period {times[2]}"
            )
        identity = f"{host_name()}_{uuid.uuid4()}"
        return Election(self.lease_name or name, self.namespace, identity, lease, renew, retry)


@dataclass(frozen=True, slots=True)
class MetricsTls:
    """How metrics are protected."""

    certificate: Annotated[
        str | None,
        typer.Option(
            "--metrics-tls-cert-file",
            metavar="FILE",
            help="Serve metrics over TLS, for tokens whose owner may get the path /metrics; this is the certificate.",
        ),
    ] = None
    key: Annotated[str | None, typer.Option("--metrics-tls-private-key-file", metavar="FILE", help="Its key.")] = None

    def context(self) -> ssl.SSLContext | None:
        """The certificate to serve with; None for plain HTTP.

        :raises WrongUsage: only one of the two files is given.
        """
        if bool(self.certificate) != bool(self.key):
            raise WrongUsage("--metrics-tls-cert-file and --metrics-tls-private-key-file: both must be given, or none")
        if not self.certificate or not self.key:
            return None
        from pumice.kube.serving import tls_of

        return tls_of(self.certificate, self.key)


def host_name() -> str:
    """The name of this pod, or of this machine."""
    return os.environ.get("POD_NAME") or socket.gethostname()


def _own_namespace() -> str:
    mounted = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
    try:
        return mounted.read_text(encoding="utf-8").strip()
    except OSError:
        return "pumice-system"


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


def set_verbosity(verbosity: int) -> None:
    """Log as much as ``-v`` asks for, each line with its time: what runs for long is read afterwards."""
    level = logging.WARNING if verbosity <= 0 else logging.INFO if verbosity < 4 else logging.DEBUG
    logger = logging.getLogger("pumice")
    logger.setLevel(level)
    lines = LogLines("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    lines.converter = time.gmtime
    for handler in logger.handlers:
        handler.setFormatter(lines)
