"""How fast a simulation runs: 100,000 pods on 1,000 nodes through arrival, run and completion.

    python benchmarks/simulate.py [--nodes 1000] [--pods 100000] [--conf FILE]

Jobs of one to eight pods arrive so often that nine tenths of the cluster are busy on average; each runs for minutes
to hours. Prints seconds, the cost of a job in each quarter of the run (it must not grow) and the peak of memory.
Prints, never fails: the machine may be noisy.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from itertools import pairwise
from pathlib import Path

from pumice.config import DEFAULT_CONF, load
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.draws import Lognormal, WeightedChoice
from pumice.sim.parts import node
from pumice.sim.run import Progress, Setting, Simulation, default_queue
from pumice.sim.workload import Arrivals, Generator, TraceJobs

PODS_PER_JOB = {1: 5.0, 2: 2.0, 4: 2.0, 8: 1.0}
GPUS_PER_POD = {1: 6.0, 2: 2.0, 4: 1.0, 8: 1.0}
LOAD = 0.9
MEDIAN_S, P90_S = 1800.0, 7200.0


def generator(nodes: int, pods: int) -> Generator:
    """A stream of jobs that fills so many nodes of 8 GPUs to `LOAD`."""
    per_job = _mean(PODS_PER_JOB)
    gpu_seconds = per_job * _mean(GPUS_PER_POD) * _lognormal_mean()
    return Generator(
        name="job",
        arrivals=Arrivals(every_s=gpu_seconds / (nodes * 8 * LOAD), count=round(pods / per_job)),
        duration=Lognormal(MEDIAN_S, P90_S),
        pods=WeightedChoice(tuple(PODS_PER_JOB), tuple(PODS_PER_JOB.values())),
        gpu=WeightedChoice(tuple(GPUS_PER_POD), tuple(GPUS_PER_POD.values())),
        cpu_milli_per_gpu=8000,
        memory_bytes_per_gpu=32 << 30,
    )


def _mean(weights: dict[int, float]) -> float:
    return sum(v * w for v, w in weights.items()) / sum(weights.values())


def _lognormal_mean() -> float:
    sigma = math.log(P90_S / MEDIAN_S) / 1.2815515655446004
    return MEDIAN_S * math.exp(sigma**2 / 2)


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--conf", type=Path)
    given = parser.parse_args()
    registry = default_registry()
    catalogue = catalogue_of(registry)
    conf = load(given.conf.read_text() if given.conf else DEFAULT_CONF, catalogue).conf
    objects = [default_queue(), *(node(f"node-{n:04d}", "96", "1Ti", 8) for n in range(given.nodes))]
    stream = generator(given.nodes, given.pods)
    jobs = list(stream.jobs(seed=1))
    pods = sum(p.count for j in jobs for p in j.pods)
    marks: list[tuple[int, float]] = []

    def look(progress: Progress) -> None:
        marks.append((progress.over, time.process_time()))

    run = Simulation(Setting(name="simulate", objects=objects), assemble(conf, registry), progress=look)
    began, wall = time.process_time(), time.perf_counter()
    record = run.run(TraceJobs(queue="default").jobs(jobs))
    cpu, wall = time.process_time() - began, time.perf_counter() - wall
    print(f"{pods:,} pods of {len(jobs):,} jobs on {given.nodes:,} nodes, {run.cycles:,} cycles" + run.failure)
    print(f"{wall:.1f} s ({cpu:.1f} s of CPU), {record.horizon / wall:,.0f} times as fast as the real thing")
    print("milliseconds per job, quarter by quarter:", ", ".join(f"{q:.2f}" for q in _quarters(marks, len(jobs))))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


def _quarters(marks: list[tuple[int, float]], jobs: int) -> list[float]:
    """CPU per finished job in each quarter of the jobs."""
    edges = [min(marks, key=lambda m: abs(m[0] - jobs * q / 4)) for q in range(5)]
    return [1e3 * (b[1] - a[1]) / max(b[0] - a[0], 1) for a, b in pairwise(edges)]


if __name__ == "__main__":
    main()
