"""The progress bar of a run: simulated time, speed-up and what is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pumice.cli import render
from pumice.sim import run as sim
from pumice.sim.report import units
from pumice.sim.scenario import Scenario

SHOWN_AFTER_S = 1.0
REFRESHED_EVERY_S = 0.2


@contextmanager
def progress_bar(name: str, scenario: Scenario) -> Iterator[Callable[[sim.Progress], None]]:
    """A bar with simulated time, speed-up and ETA, for runs that take longer than a second."""
    bar = render.Bar(name)
    began = time.monotonic()
    horizon = scenario.setting.horizon_s
    total = sum(len(part.trace) for part in scenario.traces)
    shown = 0.0

    def tell(state: sim.Progress) -> None:
        nonlocal shown
        passed = time.monotonic() - began
        if not bar.visible or passed < SHOWN_AFTER_S or passed - shown < REFRESHED_EVERY_S:
            return
        shown = passed
        done = state.now / horizon if math.isfinite(horizon) else state.over / total if total else 0.0
        left = units.duration(passed / done - passed) if done > 0 else "?"
        said = (
            f"{units.duration(state.now)} simulated, {state.over:,} jobs done, {state.now / passed:,.0f}x, {left} left"
        )
        bar.update(done, said)

    try:
        yield tell
    finally:
        bar.close()
