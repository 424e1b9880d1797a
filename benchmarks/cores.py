"""What does a study lose by being played on several processes?

    python benchmarks/cores.py [--scenario examples/scenarios/three-teams.yaml] [--seeds 8] [--processes 2] [--rounds 3]

The same runs are played in one process and on several, by turns. Three figures come of it:

- *efficiency*: the time of one process, divided by the number of processes times their time. It needs a machine with so
  many idle cores. The last run always leaves somebody waiting, so a study of few runs has less of it.
- *CPU*: what one process uses, divided by what parent and workers use together. It holds on a busy machine too.
- *idle cores*: the efficiency that these runs would have on cores that do nothing else: the CPU time of one process,
  divided by the number of processes times what the last of them needs if each takes the next run as it gets free, all
  work of the parent before and after. It holds on a busy machine too, but for what the cores share (memory, caches).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from pumice.sim.scenario import SimScenario, open_scenario
from pumice.sim.study.running import run_all
from pumice.sim.study.workers import LocalExecutor

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Print both figures of each round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", type=Path, default=ROOT / "examples" / "scenarios" / "three-teams.yaml")
    for name, number in (("seeds", 8), ("processes", 2), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    scenario = open_scenario(options.scenario)
    seeds = range(1, options.seeds + 1)
    runs = len(scenario.configurations) * options.seeds
    run_all(scenario, [1])  # what is loaded at first use
    print(f"{runs} runs of {scenario.name}; load of the machine {os.getloadavg()[0]:.1f}")
    for number in range(1, options.rounds + 1):
        alone = _measured(scenario, seeds, 1)
        each: list[float] = []
        shared = _measured(scenario, seeds, options.processes, each)
        efficiency = alone[0] / (options.processes * shared[0])
        used = alone[1] / (shared[1] + shared[2])
        beside = max(0.0, shared[2] - sum(each)) / options.processes  # of each worker: start, messages, end
        idle = alone[1] / (options.processes * (shared[1] + beside + _last(each, options.processes)))
        print(
            f"round {number}: one process {alone[0]:.1f} s ({alone[1]:.1f} s of CPU); "
            f"{options.processes} processes {shared[0]:.1f} s "
            f"(parent {shared[1]:.2f}, workers {shared[2]:.1f} s of CPU); "
            f"efficiency {100 * efficiency:.0f} %, CPU {100 * used:.0f} %, on idle cores {100 * idle:.0f} %"
        )


class Timed(Executor):
    """Another executor, and the CPU time of every call in the order in which they were submitted."""

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.seconds: list[Future[tuple[Any, float]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit it, with a clock."""
        timed, answer = self.inner.submit(_timed, fn, *args, **kwargs), Future[Any]()
        self.seconds.append(timed)
        timed.add_done_callback(lambda done: answer.set_result(done.result()[0]))
        return answer


def _timed(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, float]:
    began = time.process_time()
    return fn(*args, **kwargs), time.process_time() - began


def _last(each: list[float], processes: int) -> float:
    """When the last process ends if each takes the next run as it gets free."""
    ends = [0.0] * processes
    for seconds in each:
        ends[ends.index(min(ends))] += seconds
    return max(ends)


def _measured(
    scenario: SimScenario, seeds: range, processes: int, each: list[float] | None = None
) -> tuple[float, float, float]:
    """Seconds that passed, of CPU here, of CPU in workers; *each* run's CPU time is noted."""
    began, before = time.perf_counter(), os.times()
    executor = Timed(LocalExecutor(processes)) if processes > 1 else None
    run_all(scenario, seeds, executor=executor)
    if executor is not None:
        executor.inner.shutdown()
        if each is not None:
            each += [done.result()[1] for done in executor.seconds]
    after = os.times()
    here = after.user + after.system - before.user - before.system
    workers = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, here, workers


if __name__ == "__main__":
    main()
