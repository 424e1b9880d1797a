"""A shadow beside a cluster that runs."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Sequence

from pumice.clock import SystemClock
from pumice.errors import PumiceError
from pumice.kube.watching import Watching
from pumice.scheduler.assembly import Assembly
from pumice.shadow.beside import Shadow
from pumice.shadow.ledger import DAY
from pumice.shadow.report import Difference, Report
from pumice.state.cluster import ClusterState


def follow(
    watching: Watching,
    candidate: Assembly,
    state: ClusterState,
    *,
    beside: str,
    stop: threading.Event,
    period: float = 1.0,
    ends: float | None = None,
    ready: Callable[[ClusterState], None],
    tell: Callable[[Sequence[Difference]], None],
    daily: Callable[[Report], None],
) -> Report:
    """Follow a cluster until stopped, or for *ends* seconds; returns the report.

    *ready* is told when everything was taken in, *tell* of differences as they are
    found; *daily* gets the report after every day.
    :raises PumiceError: the cluster cannot be read.
    """
    clock = SystemClock()
    watching.start()
    try:
        while not watching.inbox.synced.is_set() and not stop.is_set():
            if not watching.alive:
                raise PumiceError(f"the cluster cannot be read: {watching.failure}")
            stop.wait(0.1)
        begun = clock.now()
        shadow = Shadow(candidate, beside=beside, now=begun, state=state)
        gc.disable()  # what is made here stays
        shadow.begin(watching.drain(), begun)
        gc.freeze()
        gc.enable()
        ready(state)
        until = time.monotonic() + ends if ends is not None else None
        due, days = time.monotonic() + period, 1
        while not stop.is_set() and (until is None or time.monotonic() < until):
            stop.wait(max(due - time.monotonic(), 0.0))
            due = max(due + period, time.monotonic())
            if not watching.alive:
                raise PumiceError(f"the cluster cannot be read any more: {watching.failure}")
            tell(shadow.step(watching.drain(), clock.now()))
            if clock.now() >= begun + days * DAY:
                days += 1
                daily(shadow.report())
        return shadow.report()
    finally:
        watching.stop()
