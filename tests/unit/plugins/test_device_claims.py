from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.engine.rows import NodeRows
from pumice.errors import InvalidInput
from pumice.framework.plugin import Arguments
from pumice.framework.session.session import Session
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.intents import Bind, DeviceChoice
from pumice.plugins.predicates import Predicates
from pumice.plugins.predicates.cel import compile_selector
from pumice.plugins.predicates.cel_values import version_key
from pumice.plugins.predicates.devices import Devices
from pumice.plugins.predicates.offered_device import Device
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
    reasons = {n: ssn.search.objection(task, found) for n, found in sorted(ssn.nodes.items())}
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
    DRIVER,
    "n1",
    "a",
    {(DRIVER, "model"): "A100", (DRIVER, "mig"): False, (DRIVER, "firmware"): version_key("1.10.0")},
    {(DRIVER, "memory"): 40 * 2**30 * 1000},
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f'device.driver == "{DRIVER}"', True),
        (f'device.attributes["{DRIVER}"].model == "H100"', False),
        (f'device.attributes["{DRIVER}"].model in ["A100", "H100"]', True),
        (f'device.attributes["{DRIVER}"].model.startsWith("A") && !device.attributes["{DRIVER}"].mig', True),
        (f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0', True),
        (f'device.attributes["{DRIVER}"].firmware.isGreaterThan(semver("1.9.2"))', True),
        (f'device.attributes["{DRIVER}"].firmware.compareTo(semver("1.10.0-rc.1")) == 1', True),
        (f'device.attributes["{DRIVER}"].firmware == semver("1.10.0+build.5")', True),
        (f'device.attributes["{DRIVER}"].firmware.isLessThan(semver("1.10.0"))', False),
        (f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("40Gi"))', False),
        (f'device.attributes["{DRIVER}"].lost == "x" || device.driver == "{DRIVER}"', True),
        (f'device.attributes["{DRIVER}"].lost == "x" || device.driver == "x"', False),
        (f'!(device.attributes["{DRIVER}"].lost == "x" && device.driver == "x")', True),
        (f'!(device.attributes["{DRIVER}"].lost == "x")', False),
        (f'has(device.attributes["{DRIVER}"].lost) || (device.driver != "x" && true)', True),
        (f'device.attributes["{DRIVER}"].mig ? device.driver == "x" : device.driver == "{DRIVER}"', True),
        (f'(device.attributes["{DRIVER}"].lost == "x" ? true : true) || false', False),
        (f'["H100", "A100"].exists(m, m == device.attributes["{DRIVER}"].model)', True),
        (f'["A1", "A10"].all(m, device.attributes["{DRIVER}"].model.startsWith(m))', True),
        (f'["A1", "H"].all(m, device.attributes["{DRIVER}"].model.startsWith(m))', False),
        (f'["A", "H"].exists_one(m, device.attributes["{DRIVER}"].model.startsWith(m))', True),
        ("[1, 2, 3].filter(n, n % 2 == 1).map(n, n * 10) == [10, 30]", True),
        ("[1, 2, 3].map(n, n > 1, n + 1) == [3, 4]", True),
        (f'size(device.attributes["{DRIVER}"].model) == 4 && "abc".size() == 3', True),
        (f'"model" in device.attributes["{DRIVER}"] && !("lost" in device.attributes["{DRIVER}"])', True),
        ('"model" in device.attributes["elsewhere"]', False),
        ('!("model" in device.attributes["elsewhere"])', True),
        ("2 + 3 * 4 - 6 / 2 == 11 && 7 % 3 == 1 && -7 / 2 == -3", True),
        ("1 / 0 == 0 || true", True),
        ("1 / 0 == 0", False),
        ("9223372036854775807 + 1 > 0", False),
        ('1 == 1.0 && 1 != "1" && true != 1', True),
        ('1 < "2"', False),
        (f'device.capacity["{DRIVER}"].memory.sub(quantity("10Gi")).compareTo(quantity("30Gi")) == 0', True),
        (f'device.capacity["{DRIVER}"].memory.asInteger() / 1024 / 1024 / 1024 == 40', True),
        (f'device.attributes["{DRIVER}"].firmware.minor() >= 10', True),
        ('isQuantity("8Gi") && !isQuantity("much") && isSemver("1.2.3")', True),
        (f'device.attributes["{DRIVER}"].model.matches("^A[0-9]+$")', True),
        (f'device.attributes["{DRIVER}"].model.lowerAscii() + "-x" == "a100-x"', True),
        (f'cel.bind(a, device.attributes["{DRIVER}"], a.model == "A100" && !a.mig)', True),
        ('{"A100": 1, "H100": 2}[device.attributes["' + DRIVER + '"].model] == 1', True),
        ("device.driver.split('.')[0] == '" + DRIVER.split(".")[0] + "'", True),
        ("'it\\'s' == \"it's\" && r'\\d' == '\\\\d'", True),
        ("device.driver", False),
    ],
)
def test_a_selector_is_read_as_cel_reads_it(text: str, answer: bool) -> None:
    assert compile_selector(text)(A100) is answer


@pytest.mark.parametrize(
    "text", ["", "device.", "device.driver ==", "device.driver ~ 'x'", "now()", "true true", "[1].exists(n)", "x == 1"]
)
def test_a_selector_that_is_not_understood_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(InvalidInput, match="device selector"):
        compile_selector(text)


def test_an_expression_that_costs_too_much_or_is_too_deep_is_bounded() -> None:
    many = "[" + ",".join("1" * 1 for _ in range(200)) + "]"
    assert compile_selector(f"{many}.all(a, {many}.all(b, {many}.all(c, a + b + c > 0)))")(A100) is False
    for text in ("(" * 3000 + "true" + ")" * 3000, "true || " * 3000 + "true", 'device.driver.matches("(")'):
        with pytest.raises(InvalidInput):
            compile_selector(text)


def slices(on: str, listed: list[Json], **more: Any) -> Json:
    spec = {"driver": DRIVER, "pool": {"name": on, "generation": 1}, "nodeName": on, "devices": listed, **more}
    return {"metadata": {"name": f"{on}-{len(listed)}-{len(more)}"}, "spec": spec}


def asking(name: str, *requests: Json, **devices: Any) -> Json:
    spec = {"devices": {"requests": list(requests), **devices}}
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}, "spec": spec}


def exactly(name: str = "r", **more: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **more}}


def model(name: str) -> list[Json]:
    return [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{name}"'}}]


def chosen(ssn: Session, name: str, on: str) -> Json:
    """What is to be written into the only claim of a pod when it goes to a node."""
    statement = ssn.statement()
    assert statement.allocate(ssn.state.tasks[name], ssn.nodes[on]) == ""
    statement.commit()
    (bind,) = [i for i in ssn.outcome.intents if isinstance(i, Bind)]
    (choice,) = bind.prepare
    assert isinstance(choice, DeviceChoice)
    assert choice.allocation is not None
    assert choice.claim == "ns/c"
    return choice.allocation


def test_the_first_alternative_that_the_node_can_serve_is_taken() -> None:
    wanted = {
        "name": "r",
        "firstAvailable": [
            {"name": "big", "deviceClassName": "gpu", "selectors": model("H100")},
            {"name": "small", "deviceClassName": "gpu", "selectors": model("A100"), "count": 2},
        ],
    }
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=[devices("n1", "a", "b", model="A100"), devices("n2", "a", model="A100")],
        ResourceClaim=[asking("c", wanted)],
        Pod=[pod("p", "c")],
    )
    assert objections(ssn, "p") == {"n1": None, "n2": NONE_FREE}
    results = chosen(ssn, "p", "n1")["devices"]["results"]
    assert [(r["request"], r["device"]) for r in results] == [("r/small", "a"), ("r/small", "b")]


def test_an_allocation_names_devices_and_node_and_passes_configuration_on() -> None:
    told = {**device_class(), "spec": {**device_class()["spec"], "config": [{"opaque": {"driver": DRIVER}}]}}
    mine = {"requests": ["r"], "opaque": {"driver": DRIVER, "parameters": {"mode": "fast"}}}
    other = {"requests": ["x"], "opaque": {"driver": DRIVER}}
    ssn = opened(
        DeviceClass=[told],
        ResourceSlice=[devices("n1", "a")],
        ResourceClaim=[asking("c", exactly(), config=[mine, other])],
        Pod=[pod("p", "c")],
    )
    assert chosen(ssn, "p", "n1") == {
        "devices": {
            "results": [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "a"}],
            "config": [
                {"source": "FromClass", "requests": ["r"], "opaque": {"driver": DRIVER}},
                {"source": "FromClaim", **mine},
            ],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        },
    }


# resource.k8s.io/v1: DeviceRequestAllocationResult. Each field is copied, or is of a feature that limits.md names.
RESULT_FIELDS = {
    "request": "r",
    "driver": DRIVER,
    "pool": "n1",
    "device": "a",
    "adminAccess": True,
    "tolerations": [{"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}],
}
NOT_SERVED = {"bindingConditions", "bindingFailureConditions", "consumedCapacity", "shareID"}


@pytest.mark.parametrize("first_available", [False, True])
def test_a_result_says_all_of_its_request_that_others_decide_by(first_available: bool) -> None:
    """The cluster evicts for a device's taint by the tolerations of the results alone."""
    said: Json = {"adminAccess": True, "tolerations": RESULT_FIELDS["tolerations"]}
    request = exactly(**said)
    if first_available:
        said.pop("adminAccess")  # of which alternatives have none
        request = {"name": "r", "firstAvailable": [{"name": "w", "deviceClassName": "gpu", **said}]}
    taints = [{"key": "bad", "effect": "NoExecute"}]
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=[slices("n1", [{"name": "a", "taints": taints}])],
        ResourceClaim=[asking("c", request)],
        Pod=[pod("p", "c")],
    )
    (result,) = chosen(ssn, "p", "n1")["devices"]["results"]
    expected = {k: v for k, v in RESULT_FIELDS.items() if k != "adminAccess" or not first_available}
    assert result == {**expected, "request": "r/w" if first_available else "r"}
    assert not NOT_SERVED & set(result)


def test_devices_that_several_nodes_reach_keep_their_selector() -> None:
    line = {"key": "host", "operator": "In", "values": ["n1", "n2"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [line]}]}
    pool = {"driver": DRIVER, "pool": {"name": "fabric", "generation": 1}}
    near = {"metadata": {"name": "near"}, "spec": {**pool, "nodeSelector": terms, "devices": [{"name": "a"}]}}
    everywhere = {"metadata": {"name": "all"}, "spec": {**pool, "allNodes": True, "devices": [{"name": "b"}]}}
    ssn = opened(
        Node=[node("n1"), node("n3")],
        DeviceClass=[device_class()],
        ResourceSlice=[near, everywhere],
        ResourceClaim=[asking("c", exactly(count=2))],
        Pod=[pod("p", "c")],
    )
    assert objections(ssn, "p") == {"n1": None, "n3": NONE_FREE}
    assert chosen(ssn, "p", "n1")["nodeSelector"] == terms


def test_a_tainted_device_serves_only_who_tolerates_it() -> None:
    sick = {"name": "a", "taints": [{"key": "sick", "value": "yes", "effect": "NoSchedule"}]}
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=[slices("n1", [sick])],
        ResourceClaim=[
            asking("c", exactly()),
            asking("d", exactly(tolerations=[{"key": "sick", "operator": "Exists"}])),
        ],
        Pod=[pod("p", "c"), pod("q", "d")],
    )
    assert objections(ssn, "p")["n1"] == NONE_FREE
    assert objections(ssn, "q")["n1"] is None


def test_administrators_use_devices_beside_their_owners() -> None:
    held = {"devices": {"results": [{"driver": DRIVER, "pool": "n1", "device": "a", "request": "r"}]}}
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=[devices("n1", "a")],
        ResourceClaim=[asking("c", exactly(adminAccess=True)), claim("owner", allocated=held)],
        Pod=[pod("p", "c")],
    )
    assert objections(ssn, "p")["n1"] is None
    assert chosen(ssn, "p", "n1")["devices"]["results"][0]["adminAccess"] is True


def test_partitions_of_one_device_share_its_counters() -> None:
    def part(name: str, memory: str) -> Json:
        uses = [{"counterSet": "card", "counters": {"memory": {"value": memory}}}]
        return {"name": name, "consumesCounters": uses}

    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    held = {"devices": {"results": [{"driver": DRIVER, "pool": "n1", "device": "half", "request": "r"}]}}
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=[
            slices("n1", [part("whole", "40Gi"), part("half", "20Gi"), part("rest", "20Gi")]),
            slices("n1", [], sharedCounters=counters),
        ],
        ResourceClaim=[asking("c", exactly()), asking("d", exactly(count=2)), claim("owner", allocated=held)],
        Pod=[pod("p", "c"), pod("q", "d")],
    )
    assert objections(ssn, "p")["n1"] is None
    assert objections(ssn, "q")["n1"] == NONE_FREE
    assert [r["device"] for r in chosen(ssn, "p", "n1")["devices"]["results"]] == ["rest"]


def test_a_device_must_have_the_capacity_that_is_asked_for() -> None:
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=[devices("n1", "a")],
        ResourceClaim=[
            asking("c", exactly(capacity={"requests": {"memory": "41Gi"}})),
            asking("d", exactly(capacity={"requests": {f"{DRIVER}/memory": "40Gi"}})),
        ],
        Pod=[pod("p", "c"), pod("q", "d")],
    )
    assert objections(ssn, "p")["n1"] == NONE_FREE
    assert objections(ssn, "q")["n1"] is None


def test_a_claim_that_a_failed_bind_left_behind_may_move() -> None:
    held = {
        "devices": {"results": [{"driver": DRIVER, "pool": "n2", "device": "a", "request": "r"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]
        },
    }
    left = claim("c", allocated=held)
    left["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "p"}]
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=[devices("n1", "a"), devices("n2", "a")],
        ResourceClaim=[left],
        Pod=[pod("p", "c"), pod("q", "c")],
    )
    assert objections(ssn, "p") == {"n1": None, "n2": None}
    assert objections(ssn, "q") == {"n1": "resourceclaim not available on the node", "n2": None}
    assert chosen(ssn, "p", "n1")["devices"]["results"][0]["pool"] == "n1"


def test_an_allocated_claim_is_only_to_be_reserved() -> None:
    held = {"devices": {"results": [{"driver": DRIVER, "pool": "n1", "device": "a", "request": "r"}]}}
    ssn = opened(DeviceClass=[device_class()], ResourceClaim=[claim("c", allocated=held)], Pod=[pod("p", "c")])
    statement = ssn.statement()
    assert statement.allocate(ssn.state.tasks["p"], ssn.nodes["n1"]) == ""
    statement.commit()
    assert [i.prepare for i in ssn.outcome.intents if isinstance(i, Bind)] == [(DeviceChoice("ns/c"),)]


def test_a_claim_made_for_another_pod_or_about_to_go_serves_nobody() -> None:
    made = asking("made", exactly())
    made["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "other", "uid": "other"}]
    going = asking("going", exactly())
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    full = asking("full", exactly())
    full["status"] = {"allocation": {"devices": {}}, "reservedFor": [{"uid": f"u{i}"} for i in range(256)]}
    templated = pod("p")
    templated["spec"]["resourceClaims"] = [{"name": "x", "resourceClaimTemplateName": "t"}]
    templated["status"]["resourceClaimStatuses"] = [{"name": "x", "resourceClaimName": "made"}]
    ssn = opened(ResourceClaim=[made, going, full], Pod=[templated, pod("q", "going"), pod("r", "full")])
    assert objections(ssn, "p")["n1"] == 'resourceclaim "made" was not created for the pod'
    assert objections(ssn, "q")["n1"] == 'resourceclaim "going" is being deleted'
    assert objections(ssn, "r")["n1"] == 'resourceclaim "full" has 256 users, and at most 256 are possible'


def test_a_claim_leaves_another_of_the_same_pod_what_only_that_can_use() -> None:
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=[devices("n1", "a", model="A100"), devices("n1", "b", model="H100")],
        ResourceClaim=[asking("any", exactly()), asking("one", exactly(selectors=model("A100")))],
        Pod=[pod("p", "any", "one")],
    )
    assert objections(ssn, "p")["n1"] is None


@pytest.mark.slow
def test_a_search_that_leads_nowhere_ends() -> None:
    """Of 40 devices no 21 are alike; trying them all would take for ever."""
    half = [devices("n1", *(f"{side}{n}" for n in range(20)), numa=side) for side in (0, 1)]
    together = [{"matchAttribute": f"{DRIVER}/numa"}]
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=half,
        ResourceClaim=[claim("c", 21, constraints=together), claim("d", 20, constraints=together)],
        Pod=[pod("p", "c"), pod("q", "d")],
    )
    assert objections(ssn, "p")["n1"] == NONE_FREE
    assert objections(ssn, "q")["n1"] is None


MOVES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["n1", "n2", "back"])), max_size=12)


@settings(max_examples=examples(60), deadline=None)
@given(MOVES, st.lists(st.integers(1, 2), min_size=6, max_size=6))
def test_what_is_known_of_free_devices_is_what_a_fresh_look_finds(
    moves: list[tuple[int, str]], counts: list[int]
) -> None:
    shared = {"driver": DRIVER, "pool": {"name": "net", "generation": 1}, "allNodes": True, "devices": [{"name": "s"}]}
    ssn = opened(
        DeviceClass=[device_class()],
        ResourceSlice=[
            devices("n1", "a", "b"),
            devices("n2", "a", "b", "c"),
            {"metadata": {"name": "net"}, "spec": shared},
        ],
        ResourceClaim=[claim(f"c{n}", count) for n, count in enumerate(counts)],
        Pod=[pod(f"p{n}", f"c{n}") for n in range(6)],
    )
    kept = Devices.kept(ssn.runtime.kept, ssn.state)
    tasks = [ssn.state.tasks[f"p{n}"] for n in range(6)]
    statement = ssn.statement()
    for n, where in moves:
        if where == "back":
            statement.rollback(max(0, statement.checkpoint() - n))
        elif tasks[n].node is None:
            statement.allocate(tasks[n], ssn.nodes[where])
        fresh = Devices(ssn.state)
        fresh.promised = kept.promised
        rows = NodeRows(ssn.state.table)
        for task in tasks:
            assert kept.filter(task, rows).tolist() == fresh.filter(task, rows).tolist()
