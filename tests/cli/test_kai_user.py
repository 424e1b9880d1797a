"""The way of somebody who has KAI: every command that a cluster or a conf can be given to, over KAI's own objects.

The commands are those that the application has: a new one is tried here, or named as having nothing to do with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from cli_runs import ROOT, Pumice
from kai_cluster import JOBS, cluster, job, write
from test_every_command import COMMANDS, SERVERS, TALKING

EXAMPLE = ROOT / "examples" / "volcano-or-kai"
ANSWERS: Final[dict[str, tuple[str, ...]]] = {
    "conf check kai.conf": ("OK: 5 actions, 19 plugins in 1 tier",),
    "conf explain kai.conf": (
        "job_order\n  the first non-zero comparison decides\n  priority -> elastic",
        "reclaim_victim_filter",
    ),
    "cycle cluster.json --conf kai.conf --save saved.cycle": (
        *("team/part   product      1   0.5 gpu", "team/grown-3   n1     reclaim   team/serve"),
        *("team/serve      2   n1, n2", "queue 'nowhere' does not exist"),
        *("can never fit: huge-0 asks for 16 nvidia.com/gpu", "topology net, requirement rack couldn't be satisfied"),
    ),
    "why team/rack cluster.json --conf kai.conf --all": (
        "reason         TopologyNotMet",
        "position 1 of 3 in queue",
        "DESERVES",
    ),
    "why team/lost cluster.json --conf kai.conf": ("create queue 'nowhere'",),
    "why team/huge saved.cycle --conf kai.conf": ("reason         CanNeverFit", "a larger node, or a smaller request"),
    "what-if -f new.json cluster.json --conf kai.conf": ("team/new  queue product", "nothing was written"),
    "what-if cluster.json --conf kai.conf --more 2xn2": ("pods that it evicts               2          0",),
    "what-if cluster.json --conf kai.conf --set-queue product:deserved.nvidia.com/gpu=2": ("nvidia.com/gpu 8 → 2",),
    "status --from cluster.json": ("team/rack", "research"),
    "status job rack --from cluster.json": ("queue product, priority 50", "rack-1   -      Pending"),
    "status queue --from cluster.json -o wide": ("org", "research"),
    "status queue product --from cluster.json --conf kai.conf": ("Queue product", "DESERVES"),
    "cycle saved.cycle": ("Same as saved: 5 decisions",),
    "cycle saved.cycle --conf volcano.conf": ("team/serve-0   room is made on n2   waits",),
    "simulate day.yaml --conf kai": ("Jobs completed", "part of a GPU"),
    "simulate day.yaml --conf volcano.conf --conf kai.conf": ("volcano", "kai", "Mean wait by queue"),
    "simulate day.yaml --conf kai.conf --vary proportion.kValue=0.5,1 --seeds 1..2": ("proportion.kValue",),
    "plan day.yaml --group n2 --goal wait.p50<9h --between 1..2 --seeds 1": ("n2",),
    "shadow day.yaml --conf volcano.conf --running kai": ("Beside kai", "agrees"),
    "shadow saved.yaml --conf kai.conf --running volcano": ("Beside volcano", "evictions"),
}
"""A command -> what its answer says among other things."""
NOT_OF_A_CLUSTER: Final = {
    *("plugin",),  # Pumice itself
    *("trace", "report"),  # what has happened, whoever decided it
    *("tune",),  # a study of hours
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with confs, a cluster, a job, scenarios and a case."""
    home = tmp_path_factory.mktemp("kai")
    write(home / "cluster.json", cluster())
    write(home / "new.json", job("new", "product", 2, 1))
    (home / "kai.conf").write_text((EXAMPLE / "kai.conf").read_text())
    (home / "volcano.conf").write_text((EXAMPLE / "volcano.conf").read_text())
    for name, played in (("day", "cluster.json"), ("saved", "saved.cycle")):
        said = {"name": name, "seed": 1, "horizon": "12h", "cluster": {"manifests": [played]}}
        said["configurations"] = {"kai": "kai.conf", "volcano": "volcano.conf"}
        (home / f"{name}.yaml").write_text(json.dumps(said))
    return home


def test_every_command_is_tried_over_the_objects_of_kai_or_has_nothing_to_do_with_them() -> None:
    tried = {name for name in COMMANDS for line in ANSWERS if line.startswith(f"{name} ")}
    assert tried | NOT_OF_A_CLUSTER | SERVERS | TALKING == set(COMMANDS)
    assert not tried & NOT_OF_A_CLUSTER


@pytest.mark.parametrize("line", ANSWERS)
@pytest.mark.part(3)
def test_a_command_answers_over_the_objects_of_kai(
    pumice: Pumice, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    monkeypatch.chdir(home)
    if "saved" in line and not (home / "saved.cycle").exists():
        pumice("cycle", "cluster.json", "--conf", "kai.conf", "--save", "saved.cycle")
    out = pumice(*line.split(), code=None)
    assert [said for said in ANSWERS[line] if said not in out.out] == [], out.out + out.err
    assert [r.getMessage() for r in caplog.records if r.levelname in ("ERROR", "WARNING")] == []


def test_whoever_waits_is_told_why_in_one_cycle(pumice: Pumice, home: Path) -> None:
    """Every job that the cycle does not start is listed with a reason."""
    told = pumice("cycle", home / "cluster.json", "--conf", home / "kai.conf", "-o", "json").data
    waits = {each["job"] for each in told["waiting"]}
    assert waits == {f"team/{name}" for name in JOBS if name not in ("old", "grown", "part")}
