"""``pumice controllers``: jobs, PodGroups and queues in a cluster without Volcano."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any

import typer

from pumice.cli.cluster_options import (
    Healthz,
    HealthzAddress,
    ListenAddress,
    Metrics,
    MetricsTls,
    ReplicaOptions,
    ServerAccess,
    Verbosity,
    set_verbosity,
)
from pumice.cli.goflags import KLOG, GoFlags
from pumice.cli.run import SchedulerNames
from pumice.cli.usage import WrongUsage
from pumice.kube.controllers.names import NAMES

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


def controllers(
    *,
    scheduler_name: SchedulerNames = None,
    chosen: Annotated[
        list[str] | None,
        typer.Option("--controllers", metavar="NAME", help=f"Only these: {', '.join(NAMES)} (repeatable)."),
    ] = None,
    access: ServerAccess,
    replicas: ReplicaOptions,
    enable_metrics: Metrics = False,
    listen_address: ListenAddress = ":8081",
    metrics_tls: MetricsTls,
    enable_healthz: Healthz = False,
    healthz_address: HealthzAddress = ":11252",
    verbosity: Verbosity = 1,
) -> None:
    """Run the controllers of jobs, PodGroups and queues in a cluster without Volcano, until stopped.

    Examples:
        pumice controllers
        pumice controllers --controllers podgroup --leader-elect=false
    """
    import asyncio
    from concurrent.futures import ThreadPoolExecutor, wait

    from pumice.kube.allocator import use_one_heap
    from pumice.kube.controllers.running import Controllers, ControllerSettings
    from pumice.kube.probed import Answers
    from pumice.kube.serving import health_routes, listening, serve, serve_metrics

    set_verbosity(verbosity)
    enabled = frozenset(name for text in chosen or NAMES for name in text.split(",") if name)
    for name in sorted(enabled - set(NAMES)):
        raise WrongUsage(f"--controllers {name!r}: must be one of {', '.join(NAMES)}")
    election = replicas.election("pumice-controllers")
    beside: list[Callable[[], Coroutine[Any, Any, None]]] = []
    use_one_heap()
    made = Controllers(
        access.credentials(),
        ControllerSettings(
            schedulers=scheduler_name or ["pumice"], enabled=enabled, namespace=replicas.namespace, election=election
        ),
        beside=beside,
    )
    answers = Answers(made.trouble, made.unready, made.metrics.text)
    if enable_metrics:
        beside.append(
            partial(serve_metrics, listening(listen_address), answers, access.credentials(), metrics_tls.context())
        )
    if enable_healthz:
        beside.append(partial(serve, listening(healthz_address), health_routes(answers)))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: made.stop())
    with ThreadPoolExecutor(1, "pumice-controllers") as thread:  # signals come to the main thread, whoever serves
        running = thread.submit(asyncio.run, made.run())
        while not wait([running], 0.25).done:
            if made.ending is not None and time.monotonic() - made.ending > LAST:
                log.error("something does not end within %g s; ending without it", LAST)
                os._exit(1)
        raise typer.Exit(running.result())
