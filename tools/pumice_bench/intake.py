"""Runs a shape whose events are what counts. Knows only the state, so that it also runs on commits of the past."""

from __future__ import annotations

import gc
import time

from pumice.model.events import Seen
from pumice.state.cluster import ClusterState
from pumice_bench.measured import Measured, peak_mib
from pumice_bench.shape import Shape


def measure(shape: Shape) -> Measured:
    """Let a state take in what arrives, once, and check that it then knows every task."""
    state = ClusterState()
    state.now = 1_800_000_000.0
    for obj in shape.objects:
        state.apply(Seen(obj))
    state.refresh()
    events = [Seen(obj) for seen, _gone in shape.cycles for obj in seen]
    gc.collect()
    gc.freeze()
    begun, cpu = time.perf_counter(), time.process_time()
    state.apply_all(events)  # as the loop of the scheduler does
    state.refresh()
    wall, used = time.perf_counter() - begun, time.process_time() - cpu
    gc.unfreeze()
    wrong = [f"{kind} {key}: {text}" for (kind, key), text in list(state.problems.items())[:3]]
    if len(state.tasks) != shape.tasks:
        wrong.append(f"{len(state.tasks)} tasks are known, right is {shape.tasks}")
    return Measured(shape.name, shape.tasks, False, wall, used, wall, 0, peak_mib(), wrong=wrong)
