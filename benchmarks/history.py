"""What a history costs: CPU time per cycle and per job, bytes per job, and what that is for a million jobs a day.

The demo is played with and without a history in turn, so that the machine's noise falls on both.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from pumice.history.files import Folder
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.run import Simulation
from pumice.sim.scenario import plugin_directory, read_scenario, registry_of

DAY = Path(__file__).parents[1] / "examples" / "scenarios" / "three-teams.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", type=Path, default=DAY)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    registry = registry_of(plugin_directory(given.scenario))
    scenario = read_scenario(given.scenario, catalogue_of(registry))
    name, conf = next(iter(scenario.configurations.items()))

    def play(folder: Path | None) -> tuple[float, Simulation]:
        paper = None if folder is None else Folder(folder, "bench")
        run = Simulation(scenario.setting_of(name), assemble(conf, registry), history=paper)
        begun = time.process_time()
        run.run(scenario.workload())
        if paper is not None:
            paper.close()
        return time.process_time() - begun, run

    play(None)
    without, having, size, run = [], [], 0, None
    for _ in range(given.rounds):
        without.append(play(None)[0])
        with tempfile.TemporaryDirectory() as folder:
            took, run = play(Path(folder))
            having.append(took)
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
    assert run is not None
    more = median(b - a for a, b in zip(without, having, strict=True))
    jobs, cycles = run.controller.submitted, run.cycles
    print(f"{jobs:,} jobs, {cycles:,} cycles, {given.rounds} rounds")
    print(f"without a history {median(without):.2f} s of CPU, with one {median(having):.2f} s")
    print(f"a history costs {1e6 * more / cycles:.0f} µs a cycle, {1e6 * more / jobs:.0f} µs a job, packing included")
    print(f"{size / jobs:.0f} bytes a job, packed")
    print(f"a million jobs a day: {100 * more / jobs * 1e6 / 86_400:.2f} % of a core, {size / jobs:.0f} MB")


if __name__ == "__main__":
    main()
