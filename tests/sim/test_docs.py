"""The scenario in docs/simulator.md is a scenario, and names every key that there is."""

from __future__ import annotations

import re
from pathlib import Path

from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.scenario import read_scenario

PAGE = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: %s}\nspec: {template: {spec: {containers: [{name: c}]}}}\n"


def test_the_scenario_of_the_page_can_be_read(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    (tmp_path / "day.yaml").write_text(found[1])
    (tmp_path / "nodes.yaml").write_text("kind: Node\nmetadata: {name: extra}\nstatus: {allocatable: {cpu: 4}}\n")
    (tmp_path / "jobs.yaml").write_text(JOB % "now")
    (tmp_path / "more.yaml").write_text(JOB % "later")
    (tmp_path / "jobs.csv").write_text("job,submit_s,duration_s\na,1,2\n")
    (tmp_path / "mine.conf").write_text("actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n")
    scenario = read_scenario(tmp_path / "day.yaml", catalogue_of(default_registry()))
    assert list(scenario.configurations) == ["default", "mine"]
    jobs = {job.name: job for job in scenario.workload()}
    assert (jobs["later"].submit_s, jobs["later"].run_s, jobs["now"].run_s) == (7200, 1800, None)
    assert [node.metadata.name for node in scenario.setting.faults.joining] == ["late-0", "late-1"]
