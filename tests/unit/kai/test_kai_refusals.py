"""Why a job waits is told in KAI's dialect too, by the stage at which it stopped."""

from __future__ import annotations

from typing import Any

import pytest
from kai_cases import cluster, job, node, queue
from pumice_conformance.kai_rounds import prepare, state_of

from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.task import Task
from pumice.scheduler.cycle import run_cycle

NEAR = {"topologyConstraint": {"topology": "none", "requiredTopologyLevel": "rack"}}
ODD = {"topologyConstraint": {"topology": "net", "requiredTopologyLevel": "floor"}}
NET = {"metadata": {"name": "net"}, "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}}
SUB_GROUP = "kai.scheduler/subgroup-name"
OF_A = {SUB_GROUP: "a"}
PART_A = {"name": "a", "minMember": 1}
PARTS = {"subGroups": [PART_A, {"name": "b", "minMember": 1}]}
LATER = {"preemptionDelay": "24h"}


@pytest.mark.parametrize(
    ("parts", "stage", "text"),
    [
        (
            [queue("q", limit=1), job("gang", "q", pods=2)],
            "queue",
            "q quota has reached the allowable limit of GPUs. Limit is 1 GPUs, currently 0 GPUs allocated",
        ),
        (
            [queue("q", quota=9), job("gang", "q", pods=3)],
            "nodes",
            "Resources were found for 2 pods while 3 are required for gang scheduling. Additional pods cannot be "
            "scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs",
        ),
        ([queue("q", quota=9), job("gang", "q", spec=NEAR)], "topology", "topology none does not exist"),
        (
            [queue("q", quota=9), NET, job("gang", "q", spec=ODD)],
            "topology",
            "topology net has no level floor; its levels are zone, rack",
        ),
        (
            [queue("q", quota=9), job("gang", "q", least=4)],
            "valid",
            "1 of the 4 pods that it needs together exist",
        ),
        (
            [queue("q", quota=9), job("gang", "q", fraction="half")],
            "valid",
            "pod gang-0 cannot be used: annotation gpu-fraction: must be a decimal between 0 and 1 such as 0.5",
        ),
        (
            [queue("q", quota=9), job("gang", "q", pods=2, spec=PARTS, labels={0: OF_A, 1: {SUB_GROUP: "c"}})],
            "valid",
            "sub-group b: 0 of the 1 pods that it needs together exist; "
            "pod gang-1 is of the sub-group c, which does not exist",
        ),
        (
            [
                queue("q", quota=9),
                job("gang", "q", spec={**PARTS, "minSubGroup": 3, "subGroups": [PART_A]}, labels={0: OF_A}),
            ],
            "valid",
            "1 of the 3 sub-groups that it needs together exist",
        ),
    ],
)
def test_a_job_that_is_not_served_says_where_it_stopped(parts: list[Any], stage: str, text: str) -> None:
    case = cluster(node("n1", gpu=2), *parts)
    found: list[Any] = []
    run_cycle(
        state_of(case, case.data["objects"]),
        prepare(case, default_registry()),
        Runtime(),
        inspect=lambda ssn: found.extend(ssn.outcome.refusal_of(j) for j in ssn.jobs.values()),
    )
    (said,) = found
    assert said is not None
    assert (str(said.stage), text in said.text) == (stage, True), said


def test_the_orders_of_kai_rank_what_the_cluster_has_and_what_a_session_sees() -> None:
    case = cluster(node("n1", gpu=2), queue("q"), job("one", "q"))
    looked = []

    def look(ssn: Any) -> None:
        for task in ssn.state.tasks.values():
            assert isinstance(task, Task)
            looked.append((ssn.task_order(task, task), ssn.job_order(task.job, task.job)))

    report = run_cycle(state_of(case, case.data["objects"]), prepare(case, default_registry()), Runtime(), inspect=look)
    assert (looked, report.errors) == ([(0, 0)], [])
