"""Under the chart's own conf: who preempts on a full cluster, and who goes first after a node was lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pumice.cli.app import app

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "pumice" / "files" / "scheduler.conf"


def vcjob(name: str, replicas: int, run: str, *, cpu: int = 1, least: int | None = None, kind: str = "") -> str:
    least = replicas if least is None else least
    priority = f"\n  priorityClassName: {kind}" if kind else ""
    return f"""\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}, annotations: {{sim.pumice.dev/run-time: {run}}}}}
spec:
  minAvailable: {least}{priority}
  tasks:
  - name: w
    replicas: {replicas}
    template:
      spec: {{priorityClassName: "{kind}", containers: [{{name: c, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
"""


def classes() -> str:
    kind = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n"
    return f"{kind}metadata: {{name: low}}\nvalue: 1\n---\n{kind}metadata: {{name: high}}\nvalue: 1000\n"


def told(
    folder: Path, nodes: str, jobs: dict[str, tuple[str, str]], compat: str = "", faults: str = ""
) -> dict[str, float]:
    """When each job first started and each pod was bound, in seconds: ``start NAME`` and ``bind POD``, the last one."""
    (folder / "classes.yaml").write_text(classes())
    (folder / "scheduler.conf").write_text(CHART.read_text() + (f"compat: {compat}\n" if compat else ""))
    for name, (_, text) in jobs.items():
        (folder / f"{name}.yaml").write_text(text)
    listed = "\n".join(f"  - {{file: {name}.yaml, at: {at}}}" for name, (at, _) in jobs.items())
    (folder / "scenario.yaml").write_text(
        f"cluster:\n  nodes: {nodes}\n  manifests: [classes.yaml]\nworkload:\n  manifests:\n{listed}\n"
        f"horizon: 6h\n{faults}configurations: {{chart: scheduler.conf}}\n"
    )
    log = folder / "log"
    done = CliRunner().invoke(app, ["simulate", str(folder / "scenario.yaml"), "--log", str(log), "-o", "json"])
    assert done.exit_code == 0, done.output
    found = re.findall(r"^([0-9.]+) (start|bind|evict) (\S+)", log.read_text(), re.MULTILINE)
    return {f"{what} {name.removeprefix('default/')}": float(time) for time, what, name in found}


@pytest.mark.parametrize(("compat", "preempts"), [("", True), ("volcano", False)])
def test_a_vcjob_of_high_priority_preempts_on_a_full_cluster(tmp_path: Path, compat: str, preempts: bool) -> None:
    """Low ones hold all CPUs until 5 h; in Volcano's way overcommit keeps the pods of the high one from being made."""
    lows = {f"low{n}": ("0s", vcjob(f"low{n}", 4, "5h", least=1, kind="low")) for n in range(3)}
    high = {"high": ("10m", vcjob("high", 2, "10m", kind="high"))}
    seen = told(tmp_path, "[{name: n, count: 2, cpu: 4, memory: 64Gi}]", {**lows, **high}, compat)
    assert seen["start high"] < 660 if preempts else seen["start high"] >= 5 * 3600


def test_a_gang_that_lost_a_node_goes_first_in_line_for_its_missing_pods(tmp_path: Path) -> None:
    """Others of its priority have waited for longer than its new pods; the node comes back."""
    gang = {"gang": ("0s", vcjob("gang", 4, "3h", cpu=2, kind="low"))}
    others = {f"other{n}": ("10m", vcjob(f"other{n}", 1, "3h", cpu=4, kind="low")) for n in range(3)}
    faults = "faults: {planned: [{at: 1h, fail: n-0, for: 30m}]}\n"
    seen = told(tmp_path, "[{name: n, count: 2, cpu: 4, memory: 64Gi}]", {**gang, **others}, faults=faults)
    came_back = [time for what, time in seen.items() if what.startswith("bind gang") and time >= 5400]
    assert len(came_back) == 2
    assert max(came_back) < 5400 + 60
    assert all(time >= 3 * 3600 for what, time in seen.items() if what.startswith("start other"))
