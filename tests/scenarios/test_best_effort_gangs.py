"""backfill binds a gang of tasks without requests whole or not at all, whichever minimum makes it a gang."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.model.api import decode
from pumice.testing import Scenario, node, pod

_PARTS: dict[str, Any] = {"name": "part", "matchLabelKeys": ["part"], "minSubGroups": 2}
MINIMUMS: dict[str, dict[str, Any]] = {
    "members": {"minMember": 4},
    "roles": {"minMember": 4, "minTaskMember": {"part-0": 2, "part-1": 2}},
    "sub-groups": {"minMember": 0, "subGroupPolicy": [{**_PARTS, "subGroupSize": 2}]},
    "sub-groups and members": {"minMember": 2, "subGroupPolicy": [{**_PARTS, "subGroupSize": 2}]},
}


@pytest.mark.parametrize("actions", [["enqueue", "allocate", "backfill"], ["enqueue", "backfill"]])
@pytest.mark.parametrize("slots", range(1, 5))
@pytest.mark.parametrize("minimum", MINIMUMS)
def test_a_gang_without_requests_is_bound_whole_or_not_at_all(minimum: str, slots: int, actions: list[str]) -> None:
    scenario = Scenario(node("n0", cpu=4, pods=slots))
    meta = {"name": "g", "namespace": "default"}
    scenario.add(decode("PodGroup", {"metadata": meta, "spec": {"queue": "default", **MINIMUMS[minimum]}}))
    for n in range(4):
        part = f"part-{n // 2}"
        scenario.add(pod(f"g-{n}", group="g", cpu=0, role=part, labels={"part": part}))
    for _ in range(2):
        assert len(scenario.run(actions=actions, plugins=[["gang"], ["predicates"]]).binds) == (4 if slots == 4 else 0)
        if slots == 4:
            break
