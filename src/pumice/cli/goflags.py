"""Flags as Go programs take them, for commands that stand in for one: ``--leader-elect=false``, ``-v=3``.

Each of Volcano's flags sets a value of the settings that ``--config`` reads from a file; the flag wins.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from pumice.cli.commands import LogLines, PumiceCommand
from pumice.cli.options import WrongUsage

if TYPE_CHECKING:
    from pumice.config.settings import AnySettings, LeaderElection
    from pumice.kube.lease import Election


def election(settings: LeaderElection, name: str) -> Election | None:
    """Return the lease (*name* if the settings name none), who we are, and how long; None: every replica works."""
    from pumice.config.settings import seconds
    from pumice.kube.lease import Election

    if not settings.leader_elect:
        return None
    times = map(seconds, (settings.lease_duration, settings.renew_deadline, settings.retry_period))
    return Election(settings.resource_name or name, namespace(settings), f"{host_name()}_{uuid.uuid4()}", *times)


def namespace(settings: LeaderElection) -> str:
    """Return the namespace that we belong to."""
    mounted = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
    if settings.resource_namespace is not None:
        return settings.resource_namespace
    try:
        return mounted.read_text(encoding="utf-8").strip()
    except OSError:
        return "pumice-system"


def host_name() -> str:
    """Return the name of this pod, or of this machine."""
    return os.environ.get("POD_NAME") or socket.gethostname()


def set_verbosity(verbosity: int) -> None:
    """Log as much as ``-v`` asks for, each line with its time: what runs for long is read afterwards."""
    level = logging.WARNING if verbosity <= 0 else logging.INFO if verbosity < 4 else logging.DEBUG
    logger = logging.getLogger("pumice")
    logger.setLevel(level)
    lines = LogLines("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    lines.converter = time.gmtime
    for handler in logger.handlers:
        handler.setFormatter(lines)


class Flag(NamedTuple):
    """A flag of Volcano's, and the setting that it sets."""

    name: str
    """With other spellings behind it, separated by blanks; a switch as ``--name/--no-name``."""
    path: str
    """Such as ``leaderElection.leaseDuration``."""
    help: str
    metavar: str = ""
    """Empty: a switch."""
    many: bool = False
    """It may be given several times."""

    @property
    def parameter(self) -> inspect.Parameter:
        """The parameter of a command."""
        kind: Any = bool if not self.metavar else list[str] if self.many else int if self.metavar == "N" else str
        option = typer.Option(*self.name.split(), metavar=self.metavar or None, help=self.help, show_default=False)
        name = self.path.replace(".", "_")
        annotation: Any = Annotated[kind | None, option]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


COMMON: Final = (
    Flag("--scheduler-name", "schedulerNames", "Pods with this schedulerName are ours (repeatable).", "NAME", True),
    Flag("--kubeconfig", "cluster.kubeconfig", "The kubeconfig; else the pod's account, else ~/.kube/config.", "FILE"),
    Flag("--master", "cluster.master", "The API server, if not the kubeconfig's.", "URL"),
    Flag("--leader-elect/--no-leader-elect", "leaderElection.leaderElect", "Only one replica at a time works."),
    Flag("--leader-elect-resource-name", "leaderElection.resourceName", "The name of the Lease.", "NAME"),
    Flag(
        "--leader-elect-resource-namespace --lock-object-namespace",
        "leaderElection.resourceNamespace",
        "Its namespace; else the pod's own, else pumice-system.",
        "NAMESPACE",
    ),
    Flag("--leader-elect-lease-duration", "leaderElection.leaseDuration", "How long the Lease holds.", "DURATION"),
    Flag(
        "--leader-elect-renew-deadline",
        "leaderElection.renewDeadline",
        "Stop deciding if the Lease could not be renewed for this long.",
        "DURATION",
    ),
    Flag("--leader-elect-retry-period", "leaderElection.retryPeriod", "Time between two tries.", "DURATION"),
    Flag("--enable-metrics/--no-enable-metrics", "metrics.enabled", "Serve /metrics."),
    Flag("--listen-address", "metrics.address", "Where metrics are served.", "HOST:PORT"),
    Flag("--enable-healthz/--no-enable-healthz", "health.enabled", "Serve /healthz, /livez and /readyz."),
    Flag("--healthz-address", "health.address", "Where health is served.", "HOST:PORT"),
    Flag("-v --v", "verbosity", "How much is logged: 0 warnings, 1 to 3 more, 4 all.", "N"),
)
"""Flags of Volcano's scheduler and of its controller manager."""


def takes(
    *flags: Flag,
) -> Callable[[Callable[[Path | None, Mapping[str, Any]], None]], Callable[..., None]]:
    """Return a decorator for a command with ``--config`` and flags: it is called with the file and values by flag."""

    def made(function: Callable[[Path | None, Mapping[str, Any]], None]) -> Callable[..., None]:
        by_name = {flag.parameter.name: flag for flag in flags}

        def called(config: Path | None = None, **given: Any) -> None:
            function(config, {by_name[name].path: value for name, value in given.items() if value is not None})

        option = typer.Option("--config", metavar="FILE", help="The settings (YAML); flags win over them.")
        config = inspect.Parameter(
            "config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, option]
        )
        parameters = [config, *(flag.parameter for flag in flags)]
        called.__doc__, called.__name__, called.__module__ = function.__doc__, function.__name__, function.__module__
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return made


def settings_of(
    kind: type[AnySettings], config: Path | None, values: Mapping[str, Any], flags: Sequence[Flag]
) -> AnySettings:
    """Return the settings of a file, with the values of flags.

    :raises ConfigError: the file breaks a rule; names line and column.
    :raises WrongUsage: a flag does.
    """
    import msgspec

    from pumice.config import settings
    from pumice.errors import read_text

    data = settings.read(read_text(config), str(config), kind) if config is not None else {}
    try:
        return settings.from_plain(settings.with_values(data, values), kind)
    except msgspec.ValidationError as exc:
        path, words, _ = settings.refusal(exc, kind)
        path = re.sub(r"\[.*", "", path)
        flag = next((flag for flag in flags if flag.path == path and path in values), None)
        if flag is None:
            raise WrongUsage(f"{path}: {words}" if path else words) from exc
        given = values[path]
        shown = " ".join(given) if isinstance(given, list) else given
        name = re.split("[ /]", flag.name)[0]
        raise WrongUsage(f"{name} {words}" if words.startswith("'") else f"{name} {shown!r}: {words}") from exc


_TRUE, _FALSE = frozenset(("1", "t", "true")), frozenset(("0", "f", "false"))


def rewrite(
    args: Sequence[str], switches: frozenset[str], values: frozenset[str], idle: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """The arguments as our parser takes them, and warnings.

    *switches* and *values* are our options with their dashes; *idle* are flags that are accepted and change nothing,
    with the reason; they are left out with a warning, and so are their values.

    :raises WrongUsage: a flag that neither list has, or a switch with a value that is neither true nor false.
    """
    out: list[str] = []
    warnings: list[str] = []
    at = 0
    while at < len(args):
        arg = args[at]
        at += 1
        name, equals, value = arg.partition("=")
        if name.startswith("-"):
            name = name.replace("_", "-")  # klog's flags are written either way
        if len(name) > 2 and name[0] == "-" and name[1] != "-" and f"-{name}" in switches | values | set(idle):
            name = f"-{name}"  # Go takes long names with one dash too
        positive = name
        if name.startswith("--no-") and f"--{name[5:]}" in switches:
            positive = f"--{name[5:]}"
        if positive in switches:
            out.append(_switch(name, equals, value))
        elif name in values:
            out.append(name)
            if equals:
                out.append(value)
            elif at < len(args):
                out.append(args[at])
                at += 1
        elif name in ("-h", "--help") or not name.startswith("-"):
            out.append(arg)
        elif name in idle:
            if not equals and at < len(args) and not args[at].startswith("-"):
                at += 1
            warnings.append(f"{name}: {idle[name]}")
        else:
            from pumice.config.problems import nearest  # imports YAML, which parsing of flags does not need

            near = nearest(f"--{name.lstrip('-')}", switches | values | set(idle))
            raise WrongUsage(f"{name}: there is no such flag" + (f"; did you mean {near}?" if near else ""))
    return out, warnings


def _switch(name: str, equals: str, value: str) -> str:
    if not equals or value.lower() in _TRUE:
        return name
    if value.lower() in _FALSE and not name.startswith("--no-"):
        return f"--no-{name[2:]}"
    raise WrongUsage(f"{name}={value}: must be true or false")


_LOG: Final = "the log always goes to stderr"
KLOG: Final = {
    "--logtostderr": _LOG,
    "--alsologtostderr": _LOG,
    "--stderrthreshold": _LOG,
    "--log-dir": _LOG,
    "--log-file": _LOG,
    "--log-file-max-size": _LOG,
    "--one-output": _LOG,
    "--skip-log-headers": _LOG,
    "--skip-headers": "each line has time, level and logger",
    "--add-dir-header": "each line has time, level and logger",
    "--log-backtrace-at": "errors carry their traceback",
    "--vmodule": "-v is for all modules",
    "--leader-elect-resource-lock": "the lock is a Lease",
}
"""Flags that Go's components share, and that are accepted and change nothing."""


class GoFlags(PumiceCommand):
    """A command whose flags may be written as for a Go program."""

    idle: Mapping[str, str] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        switches: set[str] = set()
        values: set[str] = set()
        for parameter in self.params:
            names = [n for n in parameter.opts if n.startswith("-")]
            (switches if getattr(parameter, "is_flag", False) else values).update(names)
        rewritten, warnings = rewrite(args, frozenset(switches - {"--help", "-h"}), frozenset(values), self.idle)
        if warnings:
            from pumice.cli import render

            for text in warnings:
                render.warning(text)
        return super().parse_args(ctx, rewritten)
