"""Is the answer of `pumice plan` that of playing every size? The demo's three teams, several goals.

    python benchmarks/plan_exhaustive.py [--low 5] [--high 13] [--seeds 4] [--jobs 1]

The exhaustive answer is the smallest size from which on every larger one meets the goal.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

from pumice.sim.planning import Variant, VariantPlayer, parse_goal, size
from pumice.sim.scenario import open_scenario
from pumice.sim.study.workers import LocalExecutor

SCENARIO = Path(__file__).parents[1] / "examples" / "scenarios" / "three-teams.yaml"
GROUP = "a100"
GOALS = ("wait.mean < 3m", "wait.mean < 5m", "wait.mean < 10m", "wait.mean < 30m", "wait.p95 < 1m", "wait.p95 < 10m",
         "wait.p99 < 1h", "wait.p99 < 3h", "utilisation.gpu < 40%")  # fmt: skip


def main() -> None:
    """Print both answers to each goal, and how many sizes the search played."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("low", 5), ("high", 13), ("seeds", 4), ("jobs", 1)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    scenario = open_scenario(SCENARIO)
    name = next(iter(scenario.configurations))
    executor = LocalExecutor(options.jobs) if options.jobs > 1 else None
    player = VariantPlayer(scenario, name, range(1, options.seeds + 1), executor)
    counts = range(options.low, options.high + 1)
    summaries = {count: [done.summary for done in player(Variant(GROUP, count)).values()] for count in counts}
    for text in GOALS:
        goal = parse_goal(text)
        figures = {}
        for count, runs in summaries.items():
            values = [value for run in runs if (value := goal.gate.metric.of(run)) is not None]
            figures[count] = fmean(values)
        every = None
        for count in reversed(counts):
            if not goal.gate.holds(figures[count], figures[count]):
                break
            every = count
        found = size(player, Variant(), GROUP, goal, options.low, options.high)
        answer = found.found.answer
        apart = "" if answer is None or every is None else f", {abs(answer - every)} apart"
        print(f"{text:22} plan {answer}, exhaustive {every}{apart}; {len(found.tried)} of {len(counts)} sizes played")
    if executor is not None:
        executor.shutdown()


if __name__ == "__main__":
    main()
