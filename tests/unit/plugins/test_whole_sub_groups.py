"""A sub-group counts when it is whole."""

from __future__ import annotations

import msgspec
import pytest

from pumice.model.api import AnyObject, PodGroup, SubGroupPolicy
from pumice.testing import Scenario, job, node, pod, queue

PAIRS = SubGroupPolicy(name="pairs", match_label_keys=("pair",), sub_group_size=2, min_sub_groups=1)


def paired(name: str, pairs: str, *, needs: int) -> list[AnyObject]:
    """A job whose pods belong to these pairs."""
    group = job(name, tasks=0, min_available=needs)[0]
    assert isinstance(group, PodGroup)
    group = msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, sub_group_policy=(PAIRS,)))
    return [group, *(pod(f"{name}-{n}", group=name, labels={"pair": pair}) for n, pair in enumerate(pairs))]


def test_a_job_whose_sub_groups_lack_pods_is_not_valid_and_stops_nobody_behind_it() -> None:
    scenario = Scenario(queue("default", dequeue_strategy="fifo"), node("n", cpu=8))
    scenario.add(*paired("half", "0", needs=0), job("behind", tasks=2))
    cycle = scenario.run(plugins=["priority", "gang", "predicates"])
    assert set(cycle.binds) == {"default/behind-0", "default/behind-1"}
    refusal = cycle.report.refusals["default/half"]
    assert (refusal.stage, refusal.text) == ("valid", "Not enough valid subGroups of each task for gang-scheduling")


def test_a_pair_that_is_there_is_enough_beside_one_that_is_not() -> None:
    scenario = Scenario(node("n", cpu=8), *paired("train", "001", needs=2))
    cycle = scenario.run(plugins=["gang", "predicates"])
    assert set(cycle.binds) == {"default/train-0", "default/train-1"}


@pytest.mark.parametrize(("compat", "victim"), [(None, "default/train-0"), ("volcano", "default/train-2")])
def test_a_sub_group_that_a_job_needs_loses_nobody(compat: str | None, victim: str) -> None:
    group, *pods = paired("train", "100", needs=1)
    placed = [pod(p.metadata.name, group="train", labels=p.metadata.labels, on="n") for p in pods]
    scenario = Scenario(node("n", cpu=3), group, *placed, *job("urgent", priority=5))
    cycle = scenario.run(actions=["allocate", "preempt"], plugins=["priority", "gang"], compat=compat)
    assert cycle.evictions == [victim]
