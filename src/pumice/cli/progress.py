"""The progress bar of a run: simulated time, speed-up and what is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from pumice.sim import run as sim
from pumice.sim.report import units
from pumice.sim.scenario import Scenario

SHOWN_AFTER_S = 1.0
REFRESHED_EVERY_S = 0.2


@contextmanager
def progress_bar(name: str, scenario: Scenario) -> Iterator[Callable[[sim.Progress], None]]:
    """A bar with simulated time, speed-up and ETA, for runs that take longer than a second."""
    console = Console(stderr=True)
    began = time.monotonic()
    horizon = scenario.setting.horizon_s
    total = sum(len(part.trace) for part in scenario.traces)
    bar: Progress | None = None
    shown = 0.0

    def tell(state: sim.Progress) -> None:
        nonlocal bar, shown
        passed = time.monotonic() - began
        if not console.is_terminal or passed < SHOWN_AFTER_S or passed - shown < REFRESHED_EVERY_S:
            return
        shown = passed
        if bar is None:
            bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[said]}"),
                console=console,
                transient=True,
            )
            bar.start()
            bar.add_task(name, total=1.0, said="")
        done = state.now / horizon if math.isfinite(horizon) else state.over / total if total else 0.0
        left = units.duration(passed / done - passed) if done > 0 else "?"
        said = (
            f"{units.duration(state.now)} simulated, {state.over:,} jobs done, {state.now / passed:,.0f}x, {left} left"
        )
        bar.update(bar.task_ids[0], completed=done, said=said)

    try:
        yield tell
    finally:
        if bar is not None:
            bar.stop()
