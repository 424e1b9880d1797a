"""The status of a PodGroup is written once for each change of the job, and not again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pumice.model.api import PodStatus
from pumice.model.intents import StatusUpdate
from pumice.testing import Scenario, cluster, job


def over(phase: str) -> list[Any]:
    """A job whose pod has ended."""
    group, pod = job("one", gpu=4, on="node-1")
    return [group, replace(pod, status=PodStatus(phase=phase))]


RUNNING = job("one", gpu=4, phase="Running", on="node-1")
LIVES: dict[str, tuple[list[list[Any]], str]] = {
    "waits to be let in": ([job("one", gpu=12, min_resources={"nvidia.com/gpu": "99"})], "Pending"),
    "is let in without a place": ([job("one", gpu=12)], ""),
    "was let in and has no place": ([job("one", gpu=12, phase="Inqueue")], ""),
    "is bound": ([job("one", gpu=4)], ""),
    "is bound in part": ([job("one", tasks=5, gpu=4, min_available=1)], ""),
    "starts": ([job("one", gpu=4, phase="Inqueue", on="node-1")], "Running"),
    "starts again": ([RUNNING, job("one", gpu=4, phase="Pending")], ""),
    "lacks pods": ([job("one", tasks=1, gpu=4, min_available=2)], ""),
    "ends": ([RUNNING, over("Succeeded")], "Completed"),
    "fails": ([RUNNING, over("Failed")], "Completed"),
}


@pytest.mark.parametrize("life", list(LIVES))
def test_a_status_is_written_once_for_each_change(life: str) -> None:
    scenario = Scenario(cluster("2x8gpu"), job("other", gpu=4, on="node-0"), job("wide", gpu=9, phase="Inqueue"))
    scenario.run(2)
    changes, last = LIVES[life]
    phases: list[str] = []
    for objects in changes:
        scenario.add(objects)
        phases += [i.status["phase"] for i in _of_one(scenario.run())]
        scenario.run(3)  # the bind is seen, the job is told to run
        assert _of_one(scenario.run()) == [], "nothing changed, so nothing is written"
    assert not last or scenario.job_of("one").phase == last, phases


def _of_one(cycle: Any) -> list[StatusUpdate]:
    return [i for i in cycle.updates if isinstance(i, StatusUpdate) and i.key == "default/one"]
