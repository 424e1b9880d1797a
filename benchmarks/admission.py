"""What is let in and finds no room keeps nobody out: how much better is that than Volcano's rule?

    python benchmarks/admission.py [--seeds 30] [--shown 8] [--jobs 1]

The day of the three teams under the default conf, each seed played under both rules; nothing else differs. Prints each
figure under both with the change and its interval of 95 %, and for the seed that is shown how many GPUs were idle when
most jobs waited.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.results.intervals import mean_interval
from pumice.sim.results.records import RunRecord
from pumice.sim.results.summary import Summary, summarise
from pumice.sim.run import Simulation
from pumice.sim.scenario import plugin_directory, read_scenario, registry_of

SCENARIO = Path(__file__).parents[1] / "examples" / "scenarios" / "three-teams.yaml"
CONF = "default"
FIGURES: dict[str, tuple[Callable[[Summary], float | None], float, str]] = {
    "wait, mean": (lambda s: s.total.wait.mean if s.total.wait else None, 60, "min"),
    "wait, 95th percentile": (lambda s: s.total.wait.p95 if s.total.wait else None, 60, "min"),
    "bounded slowdown, mean": (lambda s: s.total.slowdown.mean if s.total.slowdown else None, 1, ""),
    "wait of the largest jobs": (lambda s: s.by_size[-1].wait.mean if s.by_size[-1].wait else None, 3600, "h"),
    "makespan": (lambda s: s.makespan_s, 3600, "h"),
    "unfinished": (lambda s: float(s.total.unfinished), 1, "jobs"),
}


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("seeds", 30), ("shown", 8), ("jobs", 1)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    seeds = range(1, options.seeds + 1)
    lasting: list[tuple[Summary, str]] = []
    ours: list[tuple[Summary, str]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed, (theirs, own) in zip(seeds, pool.map(both, seeds), strict=True):
            lasting.append(theirs)
            ours.append(own)
            waits = [FIGURES["wait, mean"][0](side[0]) or 0.0 for side in (theirs, own)]
            print(f"seed {seed}: mean wait {waits[0] / 60:.1f} -> {waits[1] / 60:.1f} min", file=sys.stderr, flush=True)
    for name, (figure, unit, said) in FIGURES.items():
        pairs = [
            (a / unit, b / unit)
            for left, right in zip(lasting, ours, strict=True)
            if (a := figure(left[0])) is not None and (b := figure(right[0])) is not None
        ]
        found = mean_interval([b - a for a, b in pairs])
        before, after = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
        limits = f" ({found.low:+.2f} to {found.high:+.2f})" if found.low is not None else ""
        less, more = sum(b < a for a, b in pairs), sum(b > a for a, b in pairs)
        change = f"{found.estimate:+.2f}{limits}, less in {less}, more in {more} of {len(pairs)}"
        print(f"{name:24} {before:8.2f} -> {after:8.2f} {said:4} {change}")
    if options.shown in seeds:
        for rule, played in (("Volcano's rule", lasting), ("this rule", ours)):
            print(f"seed {options.shown}, {rule}: {played[options.shown - 1][1]}")


def both(seed: int) -> tuple[tuple[Summary, str], tuple[Summary, str]]:
    """One day under Volcano's rule and under this one."""
    return play(seed, lasting=True), play(seed, lasting=False)


def play(seed: int, *, lasting: bool) -> tuple[Summary, str]:
    """One day under one of the two rules, and its worst moment."""
    plugins = plugin_directory(SCENARIO)
    registry = registry_of(plugins.resolve() if plugins else None)
    scenario = read_scenario(SCENARIO, catalogue_of(registry)).drawn(seed)
    assembly = assemble(scenario.configurations[CONF], registry)
    assembly.compat = replace(assembly.compat, lasting_admission=lasting)
    record = Simulation(scenario.setting_of(CONF), assembly).run(scenario.workload())
    return summarise(record), worst(record)


def worst(record: RunRecord) -> str:
    """How many GPUs were idle when most jobs waited."""
    jobs = [(job.submit, 1, 0) for job in record.jobs] + [(j.start, -1, 0) for j in record.jobs if j.start is not None]
    pods = [(pod.start, 0, pod.gpu_milli) for pod in record.pods]
    pods += [(pod.end, 0, -pod.gpu_milli) for pod in record.pods if pod.end is not None]
    waiting = used = most = 0
    said, total = "", sum(node.gpus for node in record.nodes)
    events = sorted([*jobs, *pods])
    for at, (time, more, gpus) in enumerate(events):
        waiting, used = waiting + more, used + gpus
        if waiting > most and (at + 1 == len(events) or events[at + 1][0] > time):
            most = waiting
            said = f"{total - used / 1000:g} of {total} GPUs idle behind {waiting} waiting jobs, {time / 3600:.1f} h"
    return said


if __name__ == "__main__":
    main()
