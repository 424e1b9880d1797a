"""Are verdicts over seeds right? They must not see what is not there, and must see what is.

    python benchmarks/null_study.py [--runs 2400] [--comparisons 400] [--pairs 30] [--jobs 2]

*Nothing differs.* One configuration of a small scenario is played on many seeds. The runs are shuffled and dealt out in
comparisons of thirty with thirty others, and shuffled again when they are used up: both arms are the same configuration
on different seeds, so that only chance differs. About one comparison in twenty should be called different.

*Something differs.* A hundred times forty runs are compared with themselves after a planted change of the waits: a log
ratio of -0.105 (10 % less) with a spread of 0.2 between seeds. At least eighty should be called better.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import pumice
from pumice.sim.results.pairs import effect
from pumice.sim.results.seeds import compare_seeds
from pumice.sim.results.summary import Summary

SCENARIO = """\
name: null
cluster: {nodes: [{name: n, count: 2, cpu: 64, memory: 512Gi, gpu: 8}]}
workload:
  generators:
  - name: job
    arrivals: {every: 15m, count: 40}
    duration: {lognormal: {median: 15m, p90: 2h}}
    pods: {choice: {1: 3, 2: 1}}
    gpu: {choice: {1: 4, 4: 2, 8: 1}}
configurations:
  small: {actions: "enqueue, allocate", tiers: [{plugins: [{name: gang}, {name: predicates}, {name: binpack}]}]}
"""
PLANTED, SPREAD = -0.105, 0.2


def main() -> None:
    """Print how often chance was taken for a difference, and how often a difference was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("runs", 2400), ("comparisons", 400), ("pairs", 30), ("jobs", 2)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    if options.runs < 2 * options.pairs:
        parser.error(f"--runs: a comparison of {options.pairs} pairs needs {2 * options.pairs}, got {options.runs}")
    study = played(options.runs, options.jobs)
    runs = list(study.results.summaries()["small"].values())
    print(f"{len(runs)} runs; their mean waits: {_spread(study.runs['wait.mean'])}")

    verdicts: dict[str, Counter[str]] = {}
    for _, (first, second) in zip(range(options.comparisons), _dealt(runs, options.pairs), strict=False):
        for row in compare_seeds({"one": dict(enumerate(first)), "other": dict(enumerate(second))}).overall:
            found = row.effects[1]
            if found is not None:
                verdicts.setdefault(row.key, Counter())[found.verdict] += 1
    print(f"\nnothing differs: {options.comparisons} comparisons of {options.pairs} pairs")
    for figure, told in verdicts.items():
        if set(told) != {"no change"}:
            different = told["better"] + told["worse"]
            share = 100 * different / told.total()
            print(f"  {figure:20} called different in {different:3} ({share:.1f} %): {told['better']} better")

    print("\na planted change of -10 %: 100 trials of 40 pairs")
    rng = np.random.default_rng(1)
    for figure in ("wait.mean", "wait.p95"):
        values = study.runs[figure]
        found_ = 0
        for _ in range(100):
            before = rng.choice(values[values > 1], 40, replace=False)  # a wait of nothing cannot become less
            after = before * np.exp(rng.normal(PLANTED, SPREAD, 40))
            told_ = effect(before.tolist(), after.tolist(), scale="ratio", lower_is_better=True)
            found_ += told_.verdict == "better"
        print(f"  {figure:20} found in {found_}")


def played(runs: int, jobs: int) -> pumice.Study:
    """Play the one configuration on so many seeds."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "null.yaml"
        path.write_text(SCENARIO)
        return pumice.study(path, seeds=range(1, runs + 1), processes=jobs, keep_records=False)


def _dealt(runs: list[Summary], pairs: int) -> Iterator[tuple[list[Summary], list[Summary]]]:
    """Two arms at a time, no run twice before all were used."""
    rng = np.random.default_rng(0)
    while True:
        order = rng.permutation(len(runs))
        for at in range(0, len(runs) - 2 * pairs + 1, 2 * pairs):
            chosen = [runs[number] for number in order[at : at + 2 * pairs]]
            yield chosen[:pairs], chosen[pairs:]


def _spread(values: np.ndarray) -> str:
    low, middle, high = np.percentile(values, [5, 50, 95])
    return f"{middle:.0f} s in the middle, nine in ten between {low:.0f} and {high:.0f} s"


if __name__ == "__main__":
    main()
