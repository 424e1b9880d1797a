"""Runs a shape: events in, cycle, intents out to a sink that does nothing; invariants are checked after each cycle."""

from __future__ import annotations

import gc
import time
from typing import Any

from pumice.config import from_data
from pumice.errors import InvalidInput
from pumice.framework.registry import Registry, default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Gone, Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.state.invariants import over_committed
from pumice_bench.measured import Measured, peak_mib
from pumice_bench.shape import Shape


def conf_of(shape: Shape, registry: Registry) -> dict[str, Any]:
    """The configuration of a shape; plugins that are not there are left out only if nothing asks for them."""
    if shape.dialect == "kai":  # with KAI's own plugins; consolidation looks at every job
        given = {"maxNumberConsolidationPreemptees": -1}
        return {"dialect": "kai", "actions": shape.actions, "schedulerParams": given}
    tiers: list[dict[str, list[dict[str, Any]]]] = []
    for tier in shape.tiers:
        plugins: list[dict[str, Any]] = [{"name": name, **shape.flags.get(name, {})} for name in tier.split()]
        tiers.append({"plugins": plugins})
    if shape.policy is not None:
        tiers[-1]["plugins"].append({"name": shape.policy.name})
    missing = [p["name"] for t in tiers for p in t["plugins"] if registry.get(p["name"]) is None]
    if missing:
        raise InvalidInput(f"shape {shape.name}: plugins {', '.join(missing)} do not exist")
    return {"actions": shape.actions, "tiers": tiers}


def measure(shape: Shape, registry: Registry | None = None) -> Measured:
    """Run a shape once and check that its answer is right."""
    registry = (registry or default_registry()).copy()
    if shape.policy is not None:
        registry.register(shape.policy.name, shape.policy)
    assembly = assemble(from_data(conf_of(shape, registry), catalogue_of(registry)).conf, registry)
    state, runtime = ClusterState(), Runtime()
    state.now = 1_800_000_000.0
    state.apply_all(Seen(obj) for obj in shape.objects)
    state.refresh()
    gc.collect()
    gc.freeze()
    walls: list[float] = []
    cpus: list[float] = []
    result = Measured(shape.name, shape.tasks, shape.per_cycle, 0.0, 0.0, 0.0, 0, 0.0)
    for n, (seen, gone) in enumerate(shape.cycles):
        begun, cpu = time.perf_counter(), time.process_time()
        state.apply_all(Seen(obj) for obj in seen)
        for kind, key in gone:
            state.apply(Gone(kind, key))
        state.now += 1.0
        took = time.perf_counter() - begun
        events_cpu = time.process_time() - cpu
        middle, cpu = time.perf_counter(), time.process_time()
        report = run_cycle(state, assembly, runtime)
        wall, used = time.perf_counter() - middle, time.process_time() - cpu
        if shape.per_cycle and len(seen) < 1000:  # a cycle's own events are part of what it costs
            wall += took
            used += events_cpu
        if n < shape.warm:
            continue
        walls.append(wall)
        cpus.append(used)
        result.events += took
        for (kind, name), seconds in report.timings.items():
            key = f"{kind} {name}"
            result.timings[key] = result.timings.get(key, 0.0) + seconds
        bound, evicted = len(report.binds), len(report.evictions)
        waiting = sum(len(pods) for pods in report.pipelined.values())
        result.decided += bound + evicted
        for what, got, want in (
            ("binds", bound, shape.binds),
            ("evictions", evicted, shape.evictions),
            ("pipelined", waiting, shape.pipelined),
        ):
            if want is not None and got != want:
                result.wrong.append(f"cycle {n}: {got} {what}, right is {want}")
        result.wrong += report.errors[:3] + over_committed(state)[:3]
    gc.unfreeze()
    result.wall = sorted(walls)[len(walls) // 2] if shape.per_cycle else sum(walls)
    result.cpu = sorted(cpus)[len(cpus) // 2] if shape.per_cycle else sum(cpus)
    result.peak_mib = peak_mib()
    return result
