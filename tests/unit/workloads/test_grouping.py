"""PodGroups: what they need at least, and what they take from pods and owners."""

from __future__ import annotations

import pytest

from pumice.errors import InvalidInput
from pumice.model.resources import Resources
from pumice.workloads.grouping import (
    EqualPods,
    group_annotations,
    group_labels,
    group_topology,
    least_members,
    least_resources,
    pod_queue,
)


def part(replicas: int, minimum: int, cpu: str, priority: int = 0) -> EqualPods:
    return EqualPods(replicas, minimum, Resources.parse({"cpu": cpu}), priority)


@pytest.mark.parametrize(
    ("least", "parts", "milli"),
    [
        (3, [part(2, 2, "50m"), part(1, 1, "100m")], 200),
        (2, [part(2, 1, "50m"), part(2, 1, "100m")], 150),  # each must have one
        (3, [part(2, 1, "50m"), part(2, 1, "100m")], 200),  # and the first gets the third
        (2, [part(2, 2, "50m"), part(2, 2, "100m")], 100),  # too few for everybody: in order
        (2, [part(2, 2, "50m", 1), part(2, 2, "100m", 9)], 200),  # the important first
        (9, [part(2, 2, "50m")], 100),
        (0, [part(2, 0, "50m")], 0),
    ],
)
def test_the_least_resources_are_those_of_the_pods_that_must_run(
    least: int, parts: list[EqualPods], milli: int
) -> None:
    assert least_resources(parts, least).milli_cpu == milli


def test_one_pod_is_enough_unless_the_owner_asks_for_more() -> None:
    assert least_members({}) == 1
    assert least_members({"scheduling.volcano.sh/group-min-member": "4"}) == 4
    with pytest.raises(InvalidInput, match="must be a whole number, got '-1'"):
        least_members({"scheduling.volcano.sh/group-min-member": "-1"})


def test_the_queue_is_the_pods_else_its_owners_else_its_namespaces() -> None:
    key = "scheduling.volcano.sh/queue-name"
    assert pod_queue({key: "a"}, {key: "b"}, {key: "c"}) == "a"
    assert pod_queue({}, {key: "b"}, {key: "c"}) == "b"
    assert pod_queue(None, {}, {key: "c"}) == "c"
    assert pod_queue({}, {}, {}) == ""


def test_a_group_takes_the_words_of_the_owner_and_above_them_those_of_the_pod() -> None:
    owner = {"volcano.sh/preemptable": "true", "volcano.sh/sla-waiting-time": "1h", "else": "x"}
    pod = {"volcano.sh/preemptable": "false", "mine": "y"}
    assert group_annotations(pod, owner) == {"volcano.sh/preemptable": "false", "volcano.sh/sla-waiting-time": "1h"}
    assert group_labels({"volcano.sh/preemptable": "true", "app": "x"}) == {"volcano.sh/preemptable": "true"}


def test_the_topology_comes_from_annotations() -> None:
    tier = "volcano.sh/network-topology-highest-tier"
    assert group_topology({}) is None
    found = group_topology({"volcano.sh/network-topology-mode": "soft", tier: "2"})
    assert found is not None
    assert (found.mode, found.highest_tier_allowed) == ("soft", 2)
    with pytest.raises(InvalidInput, match="must be a whole number, got 'high'"):
        group_topology({tier: "high"})
