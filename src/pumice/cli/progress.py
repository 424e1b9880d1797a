"""How far a run or a study is, and what ends it early."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pumice.cli import render
from pumice.sim import run as sim
from pumice.sim.report import units
from pumice.sim.scenario import SimScenario

SHOWN_AFTER_S = 1.0
REFRESHED_EVERY_S = 0.2


def part_done(scenario: SimScenario, state: sim.Progress) -> float:
    """How much of a run is over, from 0 to 1: by time where it has a horizon, else by jobs."""
    horizon = scenario.setting.horizon_s
    if math.isfinite(horizon):
        return min(1.0, state.now / horizon)
    jobs = scenario.expected_jobs
    return min(1.0, state.over / jobs) if jobs else 0.0


@contextmanager
def progress_bar(name: str, scenario: SimScenario) -> Iterator[Callable[[sim.Progress], None]]:
    """A bar with simulated time, speed-up and ETA, for runs that take longer than a second."""
    names = list(scenario.configurations)
    bar = render.Bar(f"{name} ({names.index(name) + 1} of {len(names)})" if len(names) > 1 else name)
    began = time.monotonic()
    shown = 0.0

    def tell(state: sim.Progress) -> None:
        nonlocal shown
        passed = time.monotonic() - began
        if not bar.visible or passed < SHOWN_AFTER_S or passed - shown < REFRESHED_EVERY_S:
            return
        shown = passed
        done = part_done(scenario, state)
        left = units.duration(passed / done - passed) if done > 0 else "?"
        speed = f"{state.now / passed:,.0f} × real time"
        bar.update(done, f"{units.duration(state.now)} simulated, {state.over:,} jobs done, {speed}, {left} left")

    try:
        yield tell
    finally:
        bar.close()


@contextmanager
def study_bar(runs: int | None) -> Iterator[Callable[[], None]]:
    """A bar over the runs of a study, of which each is told as it ends; *runs* is unknown where figures decide."""
    bar = render.Bar("study")
    began = time.monotonic()
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        passed = time.monotonic() - began
        if not bar.visible or passed < SHOWN_AFTER_S:
            return
        if runs is None:
            bar.update(0.0, f"{done:,} runs done")
        else:
            left = units.duration(passed / done * (runs - done))
            bar.update(done / runs, f"{done:,} of {runs:,} runs done, {left} left")

    try:
        yield tell
    finally:
        bar.close()


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end what runs as Ctrl-C does, so that what is done is kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
