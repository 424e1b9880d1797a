"""capacity and device claims: a queue's limit on devices of a class."""

from __future__ import annotations

from typing import Any, cast

import pytest
from queue_worlds import opened, queue

from pumice.framework.plugin import Arguments
from pumice.framework.session.session import Session
from pumice.model import api
from pumice.model.api import AnyObject
from pumice.plugins.capacity import Capacity
from pumice.testing.builders import node
from pumice.testing.world import task_of


def _claim(name: str, count: int = 1, **capacity: str) -> AnyObject:
    exactly: dict[str, Any] = {"deviceClassName": "gpu.com", "count": count}
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return api.decode("ResourceClaim", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def _group(name: str, *claims: str, on: str = "", queue_name: str = "a") -> list[AnyObject]:
    """A job with one pod for each named claim."""
    meta = {"name": name, "namespace": "default"}
    phase = "Running" if on else "Pending"
    spec = {"queue": queue_name, "minMember": len(claims), "minResources": {"cpu": 1}}
    out = [api.decode("PodGroup", {"metadata": meta, "spec": spec, "status": {"phase": phase}})]
    for n, claim in enumerate(claims):
        pod = {
            "metadata": {**meta, "name": f"{name}-{n}", "annotations": {"scheduling.k8s.io/group-name": name}},
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}],
                "resourceClaims": [{"name": "device", "resourceClaimName": claim}],
                "nodeName": on,
            },
            "status": {"phase": phase},
        }
        out.append(api.decode("Pod", pod))
    return out


def _world(*objects: Any, hierarchy: bool = False, **arguments: Any) -> Session:
    return opened(Capacity(Arguments(arguments)), node("n"), *objects, hierarchy=hierarchy)


LIMITED = {"deviceclass/gpu.com": 2}


def test_a_queue_takes_no_more_devices_than_its_limit() -> None:
    ssn = _world(queue("a", capability=LIMITED), _claim("c1"), _claim("c2"), _claim("big", 2),
                 _group("run", "c1", on="n"), _group("x", "c2", "big"))  # fmt: skip
    own = ssn.queues["a"]
    assert ssn.allocatable(own, task_of(ssn, "x-0"))
    assert ssn.allocatable(own, task_of(ssn, "x-1")).text == "device quota of queue a insufficient"


def test_placements_count_and_are_forgotten_when_undone() -> None:
    claims = [_claim(f"c{n}") for n in range(3)]
    ssn = _world(queue("a", capability=LIMITED), *claims, _group("x", "c0", "c1", "c2"))
    own, statement = ssn.queues["a"], ssn.statement()
    for n in range(2):
        assert ssn.allocatable(own, task_of(ssn, f"x-{n}"))
        statement.allocate(task_of(ssn, f"x-{n}"), ssn.nodes["n"])
    assert not ssn.allocatable(own, task_of(ssn, "x-2"))
    statement.discard()
    assert ssn.allocatable(own, task_of(ssn, "x-2"))


def test_a_claim_that_tasks_share_counts_once() -> None:
    ssn = _world(queue("a", capability=LIMITED), _claim("both", 2), _group("run", "both", on="n"), _group("x", "both"))
    assert ssn.allocatable(ssn.queues["a"], task_of(ssn, "x-0"))


def test_the_limit_of_a_parent_counts_for_all_below_it() -> None:
    queues = [queue("root"), queue("top", capability=LIMITED), queue("a", parent="top"), queue("b", parent="top")]
    ssn = _world(*queues, _claim("c1", 2), _claim("c2"), _group("run", "c1", on="n"),
                 _group("x", "c2", queue_name="b"), hierarchy=True)  # fmt: skip
    assert ssn.allocatable(ssn.queues["b"], task_of(ssn, "x-0")).text == "device quota of queue top insufficient"


def test_jobs_are_let_in_only_while_their_devices_fit() -> None:
    ssn = _world(queue("a", capability=LIMITED), *(_claim(f"c{n}") for n in range(3)),
                 _group("x", "c0", "c1"), _group("y", "c2"))  # fmt: skip
    first, second = ssn.jobs["default/x"], ssn.jobs["default/y"]
    assert ssn.job_enqueueable(first)
    ssn.job_enqueued(first)
    assert ssn.job_enqueueable(second).text == "queue resource quota insufficient: insufficient dra-resource-exceeded"


def test_a_class_without_a_limit_is_not_limited() -> None:
    ssn = _world(queue("a", capability={"deviceclass/other.com": 1}), _claim("c", 5), _group("x", "c"))
    assert ssn.allocatable(ssn.queues["a"], task_of(ssn, "x-0"))


@pytest.mark.parametrize(("written", "allowed"), [("false", True), ("true", False)])
def test_devices_are_counted_only_when_wanted(written: str, allowed: bool) -> None:
    ssn = _world(queue("a", capability=LIMITED), _claim("c", 3), _group("x", "c"),
                 **cast("Any", {"capacity.DynamicResourceAllocationEnable": written}))  # fmt: skip
    assert bool(ssn.allocatable(ssn.queues["a"], task_of(ssn, "x-0"))) is allowed


@pytest.mark.parametrize(("written", "allowed"), [(False, True), (True, False)])
def test_what_devices_offer_is_counted_only_when_wanted(written: bool, allowed: bool) -> None:
    limits = {**LIMITED, "memory.deviceclass/gpu.com": "10Gi"}
    ssn = _world(queue("a", capability=limits), _claim("c", memory="16Gi"), _group("x", "c"),
                 **{"capacity.DRAConsumableCapacityEnable": written})  # fmt: skip
    assert bool(ssn.allocatable(ssn.queues["a"], task_of(ssn, "x-0"))) is allowed
