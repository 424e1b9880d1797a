"""Does tuning recommend what does nothing? Real runs of a small scenario whose conf places at random.

    python benchmarks/null_tuning.py [--times 40] [--runs 24]

What is searched is the seed of the plugin `random`: every value gives other runs, and none is better. Each tuning has
days and a search of its own. One in forty may be fooled by chance on the days held out; at least 36 of 40 should be
silent.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from pumice.cli.app import app

SCENARIO = """\
name: nothing to find
cluster: {nodes: [{name: n, count: 4, cpu: 32, memory: 256Gi, gpu: 4}]}
queues: [{name: a}, {name: b}]
workload:
  generators:
  - {name: small, queue: a, arrivals: {every: 5m, count: 10}, duration: {uniform: [10m, 40m]},
     gpu: {choice: {1: 2, 2: 1}}}
  - {name: large, queue: b, arrivals: {every: 15m, count: 4}, duration: 30m, gpu: 4}
configurations:
  chance: {actions: allocate, tiers: [{plugins: [{name: gang}, {name: predicates}, {name: random}]}]}
"""
DAYS = 24


def main() -> None:
    """Print how many tunings were silent, and what the others said."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("times", 40), ("runs", 24)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    silent, runs, judged = 0, 0, 0
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "nothing.yaml"
        path.write_text(SCENARIO)
        for number in range(options.times):
            seeds = f"{1 + DAYS * number}..{DAYS * (number + 1)}"
            words = ["tune", str(path), "--over", "random.seed=1..1000", "--seeds", seeds, "--seed", str(number)]
            result = CliRunner().invoke(app, [*words, "--runs", str(options.runs), "--workers", "1", "-o", "json"])
            if result.exit_code:
                raise SystemExit(result.output)
            told = json.loads(result.stdout)
            silent += not told["recommended"]
            runs += told["runs"]
            judged += told["comparison"] is not None
            if told["recommended"]:
                print(f"seeds {seeds}: recommended {told['knobs']}")
    print(
        f"{silent} of {options.times} tunings were silent; {judged} came to a verdict on days held out; {runs:,} runs"
    )


if __name__ == "__main__":
    main()
