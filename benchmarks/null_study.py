"""Do verdicts over seeds say "different" where nothing differs? Real runs of a small scenario, the same configuration.

    python benchmarks/null_study.py [--runs 600] [--comparisons 400] [--pairs 30] [--jobs 2]

Plays one configuration on many seeds, then compares thirty of the runs with thirty others, again and again: only chance
differs. About one comparison in twenty should be called different, for the mean wait and for its 95th percentile.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import pumice
from pumice.sim.results.pairs import effect

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
"""


def main() -> None:
    """Print how often chance was taken for a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("runs", 600), ("comparisons", 400), ("pairs", 30), ("jobs", 2)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "null.yaml"
        path.write_text(SCENARIO)
        seeds = range(1, options.runs + 1)
        runs = pumice.study(path, seeds=seeds, processes=options.jobs, keep_records=False).runs
    rng = np.random.default_rng(0)
    for figure in ("wait.mean", "wait.p95"):
        values = runs[figure]
        found = 0
        for _ in range(options.comparisons):
            chosen = values[rng.choice(values.size, 2 * options.pairs, replace=False)]
            arms = chosen[: options.pairs].tolist(), chosen[options.pairs :].tolist()
            found += effect(*arms, scale="ratio", lower_is_better=True).verdict in ("better", "worse")
        part = 100 * found / options.comparisons
        spread = f"values from {values.min():.0f} to {values.max():.0f} s"
        print(f"{figure}: {found} of {options.comparisons} called different ({part:.1f} %); {spread}")


if __name__ == "__main__":
    main()
