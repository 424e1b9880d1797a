"""How far a run is: by time where it has an end, else by jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.cli.studies import part_done
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.run import Progress
from pumice.sim.scenario import read_scenario

NODES = "cluster: {nodes: [{name: n, cpu: 8, memory: 64Gi}]}\n"
ARRIVALS = "workload: {generators: [{name: a, arrivals: {%s}, duration: 5m, cpu: 1}]}\n"


@pytest.mark.parametrize(
    ("text", "done"),
    [
        (NODES + "horizon: 2h\n" + ARRIVALS % "every: 1m, count: 100", 0.5),
        (NODES + ARRIVALS % "every: 1m, count: 100", 0.2),
        (NODES + ARRIVALS % "every: 1m, from: 1h, until: 3h", 20 / 120),
        (NODES + ARRIVALS % "every: 1m, batch: 2, until: 1h", 20 / 120),
        (NODES + ARRIVALS % "every: 1m, count: 10", 1.0),
    ],
)
def test_a_run_knows_how_far_it_is(tmp_path: Path, text: str, done: float) -> None:
    (tmp_path / "s.yaml").write_text(text)
    scenario = read_scenario(tmp_path / "s.yaml", catalogue_of(default_registry()))
    assert part_done(scenario, Progress(now=3600.0, submitted=30, over=20, cycles=100)) == pytest.approx(done)
