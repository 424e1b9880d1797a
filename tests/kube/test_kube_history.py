"""A run on a real API server, written down, is played again in the simulator to the same starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from kube_bed import until
from kube_world import World

from pumice.clock import SystemClock
from pumice.framework.registry import default_registry
from pumice.history.stories import read_history
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.run import Simulation
from pumice.sim.scenario import read_scenario
from pumice.sim.traces.from_history import recorded, scenario_path, scenario_text, write_trace

CLOSE = 2.0
"""Seconds: a scheduler's period, a gathering of changes and the way through the server, on a machine that does other
things too. Pods run for 3 to 5 s: a job that was played in another one's place would differ by more."""


@pytest.mark.usefixtures("kubelets")
def test_a_recorded_run_replays_to_the_same_starts(world: World, tmp_path: Path) -> None:
    folder, registry = tmp_path / "history", default_registry()
    for name in ("n1", "n2", "n3"):
        world.node(name, cpu="4")
    scheduler = world.scheduler("--no-leader-elect", f"--history={folder}")
    until(lambda: folder.is_dir() and any(folder.iterdir()), 40, "the history begins")
    sizes = {"first": 8, "second": 4, "third": 6, "fourth": 2, "fifth": 4, "sixth": 6}
    for number, (name, pods) in enumerate(sizes.items()):
        world.gang(name, pods, resources=True, run_for=f"{3 + number % 3}s")
        now = int(SystemClock().now())  # jobs of one second come in the order of their UIDs, which is chance
        until(lambda now=now: int(SystemClock().now()) > now, 5, "the next second")  # type: ignore[misc]

    def placed() -> int:
        return sum(story.placed is not None for story in read_history(folder).jobs)

    until(lambda: placed() >= 3, 60, "three jobs have their places")
    world.delete_node("n3")
    until(lambda: sum(s.how == "completed" for s in read_history(folder).jobs) >= 5, 90, "jobs are done")
    assert scheduler.stop() == 0
    assert all(file.suffix == ".gz" for file in folder.iterdir())

    found = recorded(read_history(folder))
    trace = tmp_path / "again.csv.gz"
    write_trace(found.jobs, trace)
    scenario_path(trace).write_text(scenario_text(found, trace.name, "again"))
    scenario = read_scenario(scenario_path(trace), catalogue_of(registry))
    (name,) = scenario.configurations
    run = Simulation(scenario.setting_of(name), assemble(scenario.configurations[name], registry))
    again = {job.name: job.start for job in run.run(scenario.workload()).jobs if job.start is not None}
    assert not run.failure
    assert [fault for fault in found.planned if "n3" in fault.get("cordon", ())], "its pods went on without its object"
    assert len(found.starts) >= 5
    late = {job: (at, again.get(job)) for job, at in found.starts.items() if abs(again.get(job, 1e9) - at) > CLOSE}
    assert not late
