"""``pumice controllers``: jobs, PodGroups and queues in a cluster without Volcano."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import typer

from pumice.cli.goflags import COMMON, KLOG, Flag, GoFlags, election, namespace, set_verbosity, settings_of, takes
from pumice.sockets import listening

log = logging.getLogger("pumice.kube.controllers")

LAST = 20.0
"""Seconds from the decision to end until the process is ended by force."""
_WORKERS = "keys are looked at several at once, and the server says when it is busy"
IDLE = {
    "--worker-threads": _WORKERS,
    "--worker-threads-for-podgroup": _WORKERS,
    "--worker-threads-for-queue": _WORKERS,
    "--worker-threads-for-gc": _WORKERS,
    "--kube-api-qps": _WORKERS,
    "--kube-api-burst": _WORKERS,
    "--inherit-owner-annotations": "annotations of owners always go to the PodGroups of their pods",
    "--feature-gates": "there are none",
    "--max-requeue-num": "what fails is tried again until it succeeds",
    **KLOG,
}
"""Flags of Volcano's controller manager that are accepted and change nothing."""


class ControllersCommand(GoFlags):
    """Takes the command line of Volcano's controller manager."""

    idle = IDLE


FLAGS = (
    Flag("--controllers", "controllers", "Only these: job, podgroup, queue (repeatable).", "NAME", True),
    *COMMON,
)


@takes(*FLAGS)
def controllers(config: Path | None, flags: Mapping[str, Any]) -> None:
    """Run the controllers of jobs, PodGroups and queues in a cluster without Volcano, until stopped.

    Examples:
        pumice controllers
        pumice controllers --controllers podgroup --leader-elect=false
    """
    import asyncio
    from concurrent.futures import ThreadPoolExecutor, wait

    from pumice.config.settings import ControllersSettings
    from pumice.kube.controllers.running import Controllers, ControllerSettings
    from pumice.kube.credentials import Credentials
    from pumice.kube.health import Probes
    from pumice.kube.reflector import use_one_heap
    from pumice.kube.serving import health_routes, serve, serve_metrics, tls_of

    if chosen := flags.get("controllers"):
        flags = {**flags, "controllers": [name for text in chosen for name in text.split(",") if name]}
    settings = settings_of(ControllersSettings, config, flags, FLAGS)
    set_verbosity(settings.verbosity)
    access = Credentials(settings.cluster.kubeconfig, settings.cluster.context, settings.cluster.master)
    beside: list[Callable[[], Coroutine[Any, Any, None]]] = []
    use_one_heap()
    made = Controllers(
        access,
        ControllerSettings(
            schedulers=list(settings.scheduler_names),
            enabled=frozenset(settings.controllers),
            namespace=namespace(settings.leader_election),
            election=election(settings.leader_election, "pumice-controllers"),
        ),
        beside=beside,
    )
    answers = Probes(made.trouble, made.unready, made.metrics.text)
    metrics = settings.metrics
    if metrics.enabled:
        tls = tls_of(metrics.tls_cert_file, metrics.tls_private_key_file)
        beside.append(partial(serve_metrics, listening(metrics.address), answers, access, tls))
    if settings.health.enabled:
        beside.append(partial(serve, listening(settings.health.address), health_routes(answers)))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: made.stop())
    with ThreadPoolExecutor(1, "pumice-controllers") as thread:  # signals come to the main thread, whoever serves
        running = thread.submit(asyncio.run, made.run())
        while not wait([running], 0.25).done:
            if made.ending is not None and time.monotonic() - made.ending > LAST:
                log.error("something does not end within %g s; ending without it", LAST)
                os._exit(1)
        raise typer.Exit(running.result())
