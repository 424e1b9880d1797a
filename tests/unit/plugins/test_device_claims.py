from __future__ import annotations

from typing import Any

import pytest

from pumice.errors import InvalidInput
from pumice.framework.plugin import Arguments
from pumice.framework.session import Session
from pumice.model import api
from pumice.model.events import Seen
from pumice.plugins.predicates import Predicates
from pumice.plugins.predicates.cel import Device, compile_selector
from pumice.state.cluster import ClusterState

Json = dict[str, Any]
DRIVER = "gpu.example.com"
NONE_FREE = "cannot allocate all claims"


def node(name: str) -> Json:
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": {"host": name}}, "spec": {}, "status": {"allocatable": amounts}}


def devices(on: str, *names: str, generation: int = 1, **attributes: Any) -> Json:
    told = {k: {"string" if isinstance(v, str) else "int": v} for k, v in attributes.items()}
    listed = [{"name": n, "attributes": told, "capacity": {"memory": {"value": "40Gi"}}} for n in names]
    pool = {"name": on, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": on, "devices": listed}
    return {"metadata": {"name": f"{on}-{generation}-{'-'.join(names)}"}, "spec": spec}


def device_class(*selectors: str) -> Json:
    lines = [{"cel": {"expression": s}} for s in (f"device.driver == '{DRIVER}'", *selectors)]
    return {"metadata": {"name": "gpu"}, "spec": {"selectors": lines}}


def claim(name: str, count: int = 1, allocated: Json | None = None, constraints: list[Json] | None = None) -> Json:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}
    wanted = {"requests": [request], "constraints": constraints or []}
    status = {"allocation": allocated} if allocated else {}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"devices": wanted}, "status": status}


def pod(name: str, *claims: str) -> Json:
    entries = [{"name": c, "resourceClaimName": c} for c in claims]
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"containers": [{"name": "c"}], "resourceClaims": entries},
        "status": {"phase": "Pending"},
    }


def opened(arguments: Json | None = None, **objects: list[Json]) -> Session:
    state = ClusterState()
    for kind, listed in {"Node": [node("n1"), node("n2")], **objects}.items():
        for data in listed:
            state.apply(Seen(api.decode(kind, data)))
    ssn = Session(state)
    ssn.open_plugin(Predicates(Arguments(arguments or {})))
    return ssn


def objections(ssn: Session, name: str) -> dict[str, str | None]:
    task = ssn.state.tasks[name]
    reasons = {n: ssn.predicate_reason(task, found) for n, found in sorted(ssn.nodes.items())}
    assert not ssn.errors
    return {n: r.text if r else None for n, r in reasons.items()}


def test_a_task_goes_where_enough_free_devices_are() -> None:
    slices = [devices("n1", "a"), devices("n2", "a", "b")]
    ssn = opened(DeviceClass=[device_class()], ResourceSlice=slices, ResourceClaim=[claim("c", 2)], Pod=[pod("p", "c")])
    assert objections(ssn, "p") == {"n1": NONE_FREE, "n2": None}


def test_device_claims_can_be_turned_off() -> None:
    off = {"predicate.DynamicResourceAllocationEnable": "false"}
    ssn = opened(off, DeviceClass=[device_class()], ResourceClaim=[claim("c")], Pod=[pod("p", "c")])
    assert objections(ssn, "p") == {"n1": None, "n2": None}


def test_devices_that_a_claim_holds_are_not_free() -> None:
    held = {"devices": {"results": [{"driver": DRIVER, "pool": "n1", "device": "a", "request": "r"}]}}
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=[devices("n1", "a"), devices("n2", "a")],
        ResourceClaim=[claim("c"), claim("other", allocated=held)],
        Pod=[pod("p", "c")],
    )
    assert objections(ssn, "p") == {"n1": NONE_FREE, "n2": None}


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    slices = [devices("n1", "a", "b", generation=1), devices("n1", "a", generation=2)]
    ssn = opened(DeviceClass=[device_class()], ResourceSlice=slices, ResourceClaim=[claim("c", 2)], Pod=[pod("p", "c")])
    assert objections(ssn, "p")["n1"] == NONE_FREE


def test_an_allocated_claim_keeps_the_task_where_it_can_be_used() -> None:
    line = {"key": "host", "operator": "In", "values": ["n2"]}
    allocated = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}
    ssn = opened(DeviceClass=[device_class()], ResourceClaim=[claim("c", allocated=allocated)], Pod=[pod("p", "c")])
    assert objections(ssn, "p") == {"n1": "resourceclaim not available on the node", "n2": None}


def test_a_claim_or_class_that_does_not_exist_is_named() -> None:
    ssn = opened(ResourceClaim=[claim("c")], Pod=[pod("p", "c"), pod("q", "lost")])
    assert set(objections(ssn, "p").values()) == {"request r: device class gpu does not exist"}
    assert set(objections(ssn, "q").values()) == {'resourceclaim "lost" not found'}


def test_a_device_is_promised_once_until_it_is_given_back() -> None:
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=[devices("n1", "a")],
        ResourceClaim=[claim("c"), claim("d")],
        Pod=[pod("p", "c"), pod("q", "d"), pod("same", "c")],
    )
    statement = ssn.statement()
    assert statement.allocate(ssn.state.tasks["p"], ssn.nodes["n1"]) == ""
    assert objections(ssn, "q")["n1"] == NONE_FREE
    assert objections(ssn, "same") == {"n1": None, "n2": "resourceclaim not available on the node"}
    statement.discard()
    assert objections(ssn, "q")["n1"] is None


def test_devices_of_one_request_share_an_attribute_where_the_claim_says_so() -> None:
    mixed = [devices("n1", "a", numa=0), devices("n1", "b", numa=1)]
    equal = [devices("n2", "a", numa=0), devices("n2", "b", numa=1), devices("n2", "c", numa=1)]
    together = [{"requests": ["r"], "matchAttribute": f"{DRIVER}/numa"}]
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=mixed + equal,
        ResourceClaim=[claim("c", 2, constraints=together)],
        Pod=[pod("p", "c")],
    )
    assert objections(ssn, "p") == {"n1": NONE_FREE, "n2": None}


A100 = Device(
    DRIVER, "n1", "a", {(DRIVER, "model"): "A100", (DRIVER, "mig"): False}, {(DRIVER, "memory"): 40 * 2**30 * 1000}
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f'device.driver == "{DRIVER}"', True),
        (f'device.attributes["{DRIVER}"].model == "H100"', False),
        (f'device.attributes["{DRIVER}"].model in ["A100", "H100"]', True),
        (f'device.attributes["{DRIVER}"].model.startsWith("A") && !device.attributes["{DRIVER}"].mig', True),
        (f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0', True),
        (f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("40Gi"))', False),
        (f'device.attributes["{DRIVER}"].lost == "x" || device.driver == "{DRIVER}"', True),
        (f'device.attributes["{DRIVER}"].lost == "x" || device.driver == "x"', False),
        (f'!(device.attributes["{DRIVER}"].lost == "x" && device.driver == "x")', True),
        (f'!(device.attributes["{DRIVER}"].lost == "x")', False),
        (f'has(device.attributes["{DRIVER}"].lost) || (device.driver != "x" && true)', True),
    ],
)
def test_a_selector_is_read_as_cel_reads_it(text: str, answer: bool) -> None:
    assert compile_selector(text)(A100) is answer


@pytest.mark.parametrize("text", ["", "device.", "device.driver ==", "device.driver ~ 'x'", "now()", "true true"])
def test_a_selector_that_is_not_understood_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(InvalidInput, match="device selector"):
        compile_selector(text)
