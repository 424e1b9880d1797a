"""From a pod to what it asks for: containers, init containers, sidecars, pod-level requests and overhead."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from pumice.errors import InvalidInput
from pumice.model.api import Pod, PodSpec, decode
from pumice.model.request import asked_by

MI = 2**20


def asks(**spec: Any) -> dict[str, float]:
    return dict(asked_by(spec_of(**spec)).requests.as_written())


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
    request = asked_by(spec_of(containers=[box(), box(cpu=1)]))
    assert request.nonzero_cpu == 1100
    assert request.nonzero_memory == 400 * MI
    assert request.requests.milli_cpu == 1000


def test_a_negative_request_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="request cpu: must not be negative, got -1000"):
        asks(containers=[box(cpu=-1)])


# -- bound pods --------------------------------------------------------------------------------------------------------
def sized(amount: int | None) -> dict[str, Any]:
    return {"resources": {} if amount is None else {"requests": {"cpu": amount}}}


def told(allocated: int | None, actual: int | None, **more: Any) -> dict[str, Any]:
    """The sizes that a kubelet tells of a container or a pod."""
    gives = {} if allocated is None else {"allocatedResources": {"cpu": f"{allocated * 1000}m"}}
    return {**more, **sized(actual), **gives}


def bound(where: str, asked: int | None, allocated: int | None, actual: int | None, resize: str, node: str) -> Pod:
    """A pod that is being resized in its container, its sidecar or as a whole; beside it runs a container of 1 CPU."""
    other = {"name": "other", "resources": {"requests": {"cpu": "1"}}}
    spec: dict[str, Any] = {"containers": [other], "nodeName": node}
    status: dict[str, Any] = {"containerStatuses": [told(1, 1, name="other")]}
    if where == "container":
        spec["containers"].append({"name": "c", **sized(asked)})
        status["containerStatuses"].append(told(allocated, actual, name="c"))
    elif where == "sidecar":
        spec["initContainers"] = [{"name": "c", "restartPolicy": "Always", **sized(asked)}]
        status["initContainerStatuses"] = [told(allocated, actual, name="c")]
    else:
        spec |= sized(asked)
        status |= told(allocated, actual)
    if resize:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": resize}]
    return decode("Pod", {"metadata": {"name": "p"}, "spec": spec, "status": status})  # type: ignore[return-value]


SIZES = (None, 1, 2, 3)


@pytest.mark.parametrize("resize", ["", "Deferred", "Infeasible"])
@pytest.mark.parametrize("where", ["container", "sidecar", "pod"])
def test_a_bound_pod_holds_the_largest_of_spec_allocated_and_actual(where: str, resize: str) -> None:
    """As kube-scheduler counts them, for each permutation."""
    for asked, allocated, actual in product(SIZES, repeat=3):
        facts = [allocated or 0, actual or 0]
        largest = max(facts) if resize == "Infeasible" else max(asked or 0, *facts)
        beside = 0 if where == "pod" else 1
        if where == "pod" and asked is None:
            largest, beside = 0, 1  # the requests of its containers count
        elif where == "pod" and largest == 0:
            largest = asked or 0
        got = asked_by(bound(where, asked, allocated, actual, resize, "n").spec).requests.milli_cpu
        assert got == 1000 * (largest + beside), (asked, allocated, actual)


def test_what_a_kubelet_tells_counts_for_bound_pods_only() -> None:
    waits = bound("container", 1, 3, 3, "", node="")
    assert asked_by(waits.spec).requests.milli_cpu == 2000


def test_a_finished_init_container_holds_what_its_spec_asks_for() -> None:
    spec = {"nodeName": "n", "containers": [box(cpu=1)], "initContainers": [{**box(cpu=2), "name": "i"}]}
    status = {"initContainerStatuses": [told(4, 4, name="i")]}
    pod = decode("Pod", {"metadata": {"name": "p"}, "spec": spec, "status": status})
    assert asked_by(pod.spec).requests.milli_cpu == 2000  # type: ignore[attr-defined]


@pytest.mark.parametrize("said", ["", "much", "9" * 5000, "1e999999999"])
def test_a_size_that_is_no_quantity_does_not_count(said: str) -> None:
    spec = {"nodeName": "n", "containers": [box(cpu=1)]}
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": said}}}]}
    pod = decode("Pod", {"metadata": {"name": "p"}, "spec": spec, "status": status})
    assert asked_by(pod.spec).requests.milli_cpu == 1000  # type: ignore[attr-defined]
