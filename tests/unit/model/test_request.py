"""From a pod to what it asks for: containers, init containers, sidecars, pod-level requests and overhead."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.errors import InvalidInput
from pumice.model.api import PodSpec, decode
from pumice.model.request import pod_request

MI = 2**20


def asks(**spec: Any) -> dict[str, float]:
    return dict(pod_request(spec_of(**spec)).requests.as_written())


def spec_of(**spec: Any) -> PodSpec:
    return decode("Pod", {"metadata": {"name": "p"}, "spec": spec}).spec  # type: ignore[attr-defined, no-any-return]


def box(always: bool = False, **requests: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": "c", "resources": {"requests": requests}}
    return {**made, "restartPolicy": "Always"} if always else made


def test_containers_are_added_up_with_one_pod_slot() -> None:
    assert asks(containers=[box(cpu="500m", memory="1Mi"), box(cpu=1)]) == {"cpu": 1.5, "memory": MI, "pods": 1}
    assert asks() == {"pods": 1}
    assert asks(containers=[{"name": "c"}]) == {"pods": 1}


def test_an_init_container_counts_where_it_asks_for_more_than_all_others_together() -> None:
    pod = {"containers": [box(cpu=1), box(cpu=1)], "initContainers": [box(cpu=1, memory=5), box(cpu=3)]}
    assert asks(**pod) == {"cpu": 3, "memory": 5, "pods": 1}


def test_a_sidecar_runs_beside_the_containers_and_beside_later_init_steps() -> None:
    sidecar, step = box(cpu=1, always=True), box(cpu=4)
    assert asks(containers=[box(cpu=2)], initContainers=[sidecar]) == {"cpu": 3, "pods": 1}
    assert asks(containers=[box(cpu=2)], initContainers=[sidecar, step]) == {"cpu": 5, "pods": 1}
    assert asks(containers=[box(cpu=2)], initContainers=[step, sidecar]) == {"cpu": 4, "pods": 1}


def test_requests_of_the_pod_itself_take_the_place_of_its_containers() -> None:
    boxes = [box(False, cpu=1, **{"nvidia.com/gpu": 1})]
    pod = {"containers": boxes, "resources": {"requests": {"cpu": 4, "x.y/z": 9}}}
    assert asks(**pod) == {"cpu": 4, "nvidia.com/gpu": 1, "pods": 1}


def test_overhead_comes_on_top() -> None:
    assert asks(containers=[box(cpu=1)], overhead={"cpu": "250m"}) == {"cpu": 1.25, "pods": 1}


def test_scores_assume_something_for_containers_that_ask_for_nothing() -> None:
    request = pod_request(spec_of(containers=[box(), box(cpu=1)]))
    assert request.nonzero_cpu == 1100
    assert request.nonzero_memory == 400 * MI
    assert request.requests.milli_cpu == 1000


def test_a_negative_request_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="request cpu: must not be negative, got -1000"):
        asks(containers=[box(cpu=-1)])
