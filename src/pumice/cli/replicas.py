"""What `pumice run` and `pumice controllers` share: the lease of the replica that works, and the log."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from pumice.cli.log_lines import LogLines

if TYPE_CHECKING:
    from pumice.config.settings import LeaderElection
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
