"""The scenarios: what each scheduler is given. Each is a function of a `Side`; what it returns is compared as well.

A scenario leaves no choice between equal nodes, so that both schedulers must place each pod on the same node.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from compare_side import Side, container

Scenario = Callable[[Side], Any]
SCENARIOS: dict[str, Scenario] = {}


def scenario(made: Scenario) -> Scenario:
    """Take a scenario into the table, under the name of its function."""
    SCENARIOS[made.__name__] = made
    return made


def required(*expressions: dict[str, Any]) -> dict[str, Any]:
    """A node affinity that must hold: one term of these expressions."""
    term = {"matchExpressions": list(expressions)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def pods_affinity(kind: str, key: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    """A pod affinity (*kind*: podAffinity or podAntiAffinity) that must hold."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(key: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    """A spread constraint that must hold."""
    selector = {"labelSelector": {"matchLabels": labels}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **selector, **more}


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> dict[str, Any]:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def port(number: int, ip: str = "", protocol: str = "TCP") -> dict[str, Any]:
    """A container with a port of the host."""
    one = {"containerPort": number, "hostPort": number, "protocol": protocol, **({"hostIP": ip} if ip else {})}
    return container("100m", ports=[one])


def asks(**amounts: str) -> list[dict[str, Any]]:
    """One container with these requests and limits."""
    return [container(resources={"requests": amounts, "limits": amounts})]


# -- requests ----------------------------------------------------------------------------------------------------------
@scenario
def requests_fill_a_node(w: Side) -> None:
    w.node("a", "4")
    for i in range(5):
        w.placed(f"p{i}", "900m")


@scenario
def requests_of_the_pod_stand_above_those_of_its_containers(w: Side) -> None:
    w.node("small", "2")
    w.node("big", "8")
    w.placed("large", containers=[container()], resources={"requests": {"cpu": "4"}, "limits": {"cpu": "4"}})
    w.placed("also", containers=[container("1")], resources={"requests": {"cpu": "4"}})
    w.placed("rest", "2")


@scenario
def requests_of_sidecars_add_up(w: Side) -> None:
    w.node("a", "4")
    init = [container("1", "side", restartPolicy="Always"), container("2", "init")]
    w.placed("main", containers=[container("1")], initContainers=init)
    w.placed("fits", "1")
    w.placed("not", "100m")


@scenario
def requests_of_init_containers_are_a_maximum(w: Side) -> None:
    w.node("a", "4")
    w.placed("main", containers=[container("1")], initContainers=[container("3", "i1"), container("2", "i2")])
    w.placed("fits", "1")
    w.placed("not", "100m")


@scenario
def overhead_of_a_runtime_class_counts_and_its_selector_holds(w: Side) -> None:
    more: dict[str, Any] = {
        "handler": "x",
        "overhead": {"podFixed": {"cpu": "2"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}},
    }
    w.create("RuntimeClass", w.full("kata"), "node.k8s.io/v1", **more)
    w.node("a", "4", labels={"kata": "yes"})
    w.node("b", "64")
    w.placed("one", "1", runtimeClassName=w.full("kata"))
    w.placed("two", "1", runtimeClassName=w.full("kata"))


@scenario
def pods_without_requests_count_as_pods(w: Side) -> None:
    w.node("a", "1", room={"pods": "2"})
    for i in range(3):
        w.placed(f"p{i}", "")


@scenario
def extended_resources(w: Side) -> None:
    w.node("a", room={"example.com/foo": "2"})
    for i in range(3):
        w.placed(f"p{i}", containers=asks(**{"cpu": "100m", "example.com/foo": "1"}))


@scenario
def huge_pages(w: Side) -> None:
    w.node("a", room={"hugepages-2Mi": "4Mi"})
    for i in range(3):
        w.placed(f"p{i}", containers=asks(**{"cpu": "100m", "memory": "1Mi", "hugepages-2Mi": "2Mi"}))


@scenario
def ephemeral_storage(w: Side) -> None:
    w.node("a")
    for i in range(2):
        w.placed(f"p{i}", containers=asks(**{"ephemeral-storage": "60Gi"}))


@scenario
def a_resource_that_no_node_has(w: Side) -> None:
    w.node("a")
    w.placed("p", containers=asks(**{"example.com/missing": "1"}))


@scenario
def none_of_a_resource_that_no_node_has(w: Side) -> None:
    w.node("a")
    w.placed("p", containers=asks(**{"cpu": "1", "example.com/missing": "0"}))


@scenario
def limits_are_requests_if_there_are_none(w: Side) -> None:
    w.node("a")
    w.placed("one", containers=[container(resources={"limits": {"cpu": "3"}})])
    w.placed("two", "2")


@scenario
def defaults_of_a_limit_range(w: Side) -> None:
    limit = {"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"cpu": "2"}}
    w.create("LimitRange", "l", "v1", space=True, spec={"limits": [limit]})
    w.node("a")
    for i in range(3):
        w.placed(f"p{i}", "")


@scenario
def memory_in_decimal_and_binary_units(w: Side) -> None:
    w.node("a", room={"memory": "1Gi"})
    w.placed("decimal", containers=asks(memory="1G"))
    w.placed("rest", containers=asks(memory="73741824"))
    w.placed("not", containers=asks(memory="1"))


@scenario
def a_pod_larger_than_every_node(w: Side) -> None:
    w.node("a", "4")
    w.placed("huge", "5")
    w.placed("small", "1")


# -- resizing ----------------------------------------------------------------------------------------------------------
@scenario
def a_pod_that_grows_holds_what_it_asks_for(w: Side) -> None:
    w.node("a")
    w.placed("r", "1")
    w.run("r", "1")
    w.resize("r", "3")
    time.sleep(1)
    w.placed("later", "2")


@scenario
def a_pod_that_shrinks_holds_what_its_kubelet_gives_it(w: Side) -> None:
    w.node("a")
    w.placed("r", "3")
    w.run("r", "3")
    w.resize("r", "1")
    time.sleep(1)
    w.placed("later", "2")


@scenario
def a_pod_that_has_shrunk_gives_its_room_back(w: Side) -> None:
    w.node("a")
    w.placed("r", "3")
    w.resize("r", "1")
    w.run("r", "1")
    time.sleep(1)
    w.placed("later", "2")


# -- the state of nodes and pods ---------------------------------------------------------------------------------------
@scenario
def a_cordoned_node(w: Side) -> None:
    w.node("a", unschedulable=True)
    w.placed("p")
    tolerated = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    w.placed("tolerates", tolerations=[tolerated])


@scenario
def a_node_that_is_not_ready_but_has_no_taint(w: Side) -> None:
    w.node("a", ready="Unknown")
    w.placed("p")


@scenario
def a_finished_pod_frees_its_room(w: Side) -> None:
    w.node("a", "2")
    w.placed("done", "2")
    w.patch("done", {"status": {"phase": "Succeeded"}}, "status")
    w.placed("next", "2")


@scenario
def a_terminating_pod_keeps_its_room(w: Side) -> None:
    w.node("a", "2")
    w.placed("first", "2")
    w.patch("first", {"metadata": {"finalizers": ["example.com/keep"]}})
    w.run("first")
    w.delete("first", grace=30)
    w.placed("second", "1")


@scenario
def a_gated_pod_is_left_alone_until_its_gate_is_removed(w: Side) -> str:
    w.node("a")
    w.pod("g", schedulingGates=[{"name": "x/y"}])
    time.sleep(1.5)
    before: str = w.where()["g"]
    w.patch("g", {"spec": {"schedulingGates": []}}, patch="merge")
    time.sleep(2)
    return before


@scenario
def a_node_that_comes_later(w: Side) -> None:
    w.placed("p")
    w.node("a")
    time.sleep(3)


# -- taints ------------------------------------------------------------------------------------------------------------
@scenario
def a_taint_without_toleration(w: Side) -> None:
    w.node("a", taints=[taint("x")])
    w.node("b", "1")
    w.placed("one", "1")
    w.placed("two", "1")


@scenario
def a_taint_that_evicts(w: Side) -> None:
    w.node("a", taints=[taint("x", "NoExecute", "y")])
    w.placed("no")
    seconds = {"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    w.placed("yes", tolerations=[seconds])


@scenario
def a_taint_that_is_only_avoided(w: Side) -> None:
    w.node("a", taints=[taint("x", "PreferNoSchedule")])
    w.placed("p")


@scenario
def a_toleration_of_everything(w: Side) -> None:
    w.node("a", taints=[taint("x"), taint("y", "NoExecute", "v")])
    w.placed("p", tolerations=[{"operator": "Exists"}])


@scenario
def a_toleration_of_another_effect(w: Side) -> None:
    w.node("a", taints=[taint("x", "NoExecute")])
    w.placed("p", tolerations=[{"key": "x", "operator": "Exists", "effect": "NoSchedule"}])


@scenario
def a_toleration_of_one_value(w: Side) -> None:
    w.node("a", taints=[taint("x", value="1")])
    w.placed("other", tolerations=[{"key": "x", "operator": "Equal", "value": "2"}])
    w.placed("same", tolerations=[{"key": "x", "value": "1"}])


@scenario
def a_toleration_of_one_of_two_taints(w: Side) -> None:
    w.node("a", taints=[taint("x"), taint("y")])
    w.placed("one", tolerations=[{"key": "x", "operator": "Exists"}])
    w.placed("both", tolerations=[{"key": "x", "operator": "Exists"}, {"key": "y", "operator": "Exists"}])


# -- selectors of nodes ------------------------------------------------------------------------------------------------
@scenario
def a_node_selector(w: Side) -> None:
    w.node("a", labels={"disk": "hdd"})
    w.node("b", labels={"disk": "ssd"})
    w.placed("ssd", nodeSelector={"disk": "ssd"})
    w.placed("none", nodeSelector={"disk": "tape"})


@scenario
def affinity_in_and_not_in(w: Side) -> None:
    w.node("a", labels={"zone": "a"})
    w.node("b", "2")
    w.placed("in", affinity=required(expression("zone", "In", "a", "c")))
    w.placed("not-in", affinity=required(expression("zone", "NotIn", "a")))
    w.placed("none", affinity=required(expression("zone", "In", "x")))


@scenario
def affinity_exists_and_does_not(w: Side) -> None:
    w.node("a", labels={"gpu": ""})
    w.node("b")
    w.placed("with", affinity=required(expression("gpu", "Exists")))
    w.placed("without", affinity=required(expression("gpu", "DoesNotExist")))


@scenario
def affinity_greater_and_less(w: Side) -> None:
    w.node("a", labels={"n": "3"})
    w.node("b", labels={"n": "10"})
    w.node("c", labels={"n": "many"})
    w.placed("gt", affinity=required(expression("n", "Gt", "5")))
    w.placed("lt", affinity=required(expression("n", "Lt", "5")))
    w.placed("none", affinity=required(expression("n", "Gt", "10")))


@scenario
def affinity_by_the_name_of_the_node(w: Side) -> None:
    w.node("a")
    w.node("b")
    terms = [{"matchFields": [expression("metadata.name", "In", w.full("b"))]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    w.placed("p", affinity=affinity)


@scenario
def affinity_of_one_of_two_terms(w: Side) -> None:
    w.node("a", labels={"x": "1"})
    w.node("b", labels={"y": "1"}, taints=[taint("t")])
    terms = [{"matchExpressions": [expression("y", "Exists")]}, {"matchExpressions": [expression("x", "Exists")]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    w.placed("p", affinity=affinity)


@scenario
def affinity_with_two_expressions_and_a_selector(w: Side) -> None:
    w.node("a", labels={"x": "1", "y": "1"})
    w.node("b", labels={"x": "1", "y": "1", "z": "1"})
    both = required(expression("x", "Exists"), expression("y", "In", "1"))
    w.placed("p", affinity=both, nodeSelector={"z": "1"})


# -- affinity of pods --------------------------------------------------------------------------------------------------
def zones(w: Side, cpu: str = "8") -> None:
    for zone in "ab":
        w.node(zone, cpu, labels={"zone": zone})


@scenario
def pods_go_where_others_are(w: Side) -> None:
    zones(w)
    w.placed("db", labels={"app": "db"}, nodeSelector={"zone": "b"})
    w.placed("web", affinity=pods_affinity("podAffinity", "zone", {"app": "db"}))
    w.placed("none", affinity=pods_affinity("podAffinity", "zone", {"app": "cache"}))


@scenario
def the_first_pod_may_be_its_own_companion(w: Side) -> None:
    w.node("a", labels={"zone": "a"})
    together = pods_affinity("podAffinity", "zone", {"app": "x"})
    w.placed("one", labels={"app": "x"}, affinity=together)
    w.placed("two", labels={"app": "x"}, affinity=together)


@scenario
def a_companion_on_a_node_without_the_label_is_none(w: Side) -> None:
    w.node("a")
    w.placed("db", labels={"app": "db"})
    w.placed("web", affinity=pods_affinity("podAffinity", "zone", {"app": "db"}))


@scenario
def pods_keep_apart_by_host(w: Side) -> None:
    w.node("a")
    apart = pods_affinity("podAntiAffinity", "kubernetes.io/hostname", {"app": "x"})
    w.placed("one", labels={"app": "x"}, affinity=apart)
    w.placed("two", labels={"app": "x"}, affinity=apart)


@scenario
def pods_that_are_there_keep_others_away(w: Side) -> None:
    zones(w)
    away = pods_affinity("podAntiAffinity", "zone", {"app": "y"})
    w.placed("one", labels={"app": "x"}, affinity=away, nodeSelector={"zone": "a"})
    w.placed("two", labels={"app": "y"}, nodeSelector={"zone": "a"})
    w.placed("three", labels={"app": "y"})


@scenario
def affinity_looks_into_its_own_namespace(w: Side) -> None:
    zones(w)
    w.placed("db", labels={"app": "db"}, nodeSelector={"zone": "a"})
    w.placed("other", affinity=pods_affinity("podAffinity", "zone", {"app": "db"}, namespaces=["default"]))
    w.placed("own", affinity=pods_affinity("podAffinity", "zone", {"app": "db"}, namespaces=[w.namespace]))
    w.placed("all", affinity=pods_affinity("podAffinity", "zone", {"app": "db"}, namespaceSelector={}))


@scenario
def affinity_looks_into_namespaces_by_label(w: Side) -> None:
    zones(w)
    w.placed("db", labels={"app": "db"}, nodeSelector={"zone": "a"})
    ours = {"matchLabels": {"kubernetes.io/metadata.name": w.namespace}}
    none = {"matchLabels": {"team": "nobody"}}
    w.placed("ours", affinity=pods_affinity("podAffinity", "zone", {"app": "db"}, namespaceSelector=ours))
    w.placed("none", affinity=pods_affinity("podAffinity", "zone", {"app": "db"}, namespaceSelector=none))


@scenario
def anti_affinity_within_one_revision(w: Side) -> None:
    zones(w)
    w.placed("old", labels={"app": "x", "rev": "1"}, nodeSelector={"zone": "a"})
    apart = pods_affinity("podAntiAffinity", "zone", {"app": "x"}, matchLabelKeys=["rev"])
    for name in ("new1", "new2"):
        w.placed(name, labels={"app": "x", "rev": "2"}, affinity=apart, nodeSelector={"zone": "a"})


@scenario
def anti_affinity_against_other_tenants(w: Side) -> None:
    zones(w)
    w.placed("theirs", labels={"app": "x", "tenant": "1"}, nodeSelector={"zone": "a"})
    apart = pods_affinity("podAntiAffinity", "zone", {"app": "x"}, mismatchLabelKeys=["tenant"])
    w.placed("ours", labels={"app": "x", "tenant": "2"}, affinity=apart)
    w.placed("same", labels={"app": "x", "tenant": "1"}, affinity=apart, nodeSelector={"zone": "a"})


@scenario
def two_terms_of_affinity_must_both_hold(w: Side) -> None:
    zones(w)
    w.placed("db", labels={"app": "db"}, nodeSelector={"zone": "a"})
    w.placed("cache", labels={"app": "cache"}, nodeSelector={"zone": "b"})
    terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}} for app in ("db", "cache")]
    w.placed("p", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


# -- spreading ---------------------------------------------------------------------------------------------------------
X = {"app": "x"}


@scenario
def spread_over_zones(w: Side) -> None:
    zones(w)
    w.placed("one", labels=X, nodeSelector={"zone": "a"})
    w.placed("two", labels=X, topologySpreadConstraints=[spread("zone", X)])
    w.placed("three", labels=X, topologySpreadConstraints=[spread("zone", X)], nodeSelector={"zone": "a"})
    w.placed("four", labels=X, topologySpreadConstraints=[spread("zone", X)], nodeSelector={"zone": "a"})


@scenario
def spread_with_a_larger_skew(w: Side) -> None:
    zones(w)
    for i in range(4):
        wide = spread("zone", X, maxSkew=2)
        w.placed(f"p{i}", labels=X, topologySpreadConstraints=[wide], affinity=required(expression("zone", "In", "a")))


@scenario
def spread_over_a_minimum_of_domains(w: Side) -> None:
    w.node("a", "8", labels={"zone": "a"})
    for i in range(3):
        w.placed(f"p{i}", labels=X, topologySpreadConstraints=[spread("zone", X, minDomains=2)])


@scenario
def spread_within_one_revision(w: Side) -> None:
    zones(w)
    for i in range(2):
        w.placed(f"old{i}", labels={**X, "rev": "1"}, nodeSelector={"zone": "a"})
    within = spread("zone", X, matchLabelKeys=["rev"])
    for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        w.placed(name, labels={**X, "rev": "2"}, topologySpreadConstraints=[within], nodeSelector={"zone": zone})


@scenario
def spread_ignores_the_pods_own_node_affinity(w: Side) -> None:
    zones(w)
    for i in range(2):
        ignoring = spread("zone", X, nodeAffinityPolicy="Ignore")
        w.placed(f"p{i}", labels=X, topologySpreadConstraints=[ignoring], nodeSelector={"zone": "a"})


@scenario
def spread_counts_tainted_nodes_unless_told(w: Side) -> None:
    w.node("a", "8", labels={"zone": "a"})
    w.node("b", "8", labels={"zone": "b"}, taints=[taint("x")])
    for i in range(2):
        w.placed(f"counts{i}", labels=X, topologySpreadConstraints=[spread("zone", X)])
    for i in range(2):
        honors = spread("zone", {"app": "y"}, nodeTaintsPolicy="Honor")
        w.placed(f"honors{i}", labels={"app": "y"}, topologySpreadConstraints=[honors])


@scenario
def spread_over_nodes_without_the_label(w: Side) -> None:
    w.node("a")
    w.placed("p", labels=X, topologySpreadConstraints=[spread("zone", X)])


@scenario
def spread_that_is_only_wished(w: Side) -> None:
    w.node("a", labels={"zone": "a"})
    wish = spread("zone", X, whenUnsatisfiable="ScheduleAnyway")
    for i in range(3):
        w.placed(f"p{i}", labels=X, topologySpreadConstraints=[wish])


@scenario
def spread_by_two_constraints(w: Side) -> None:
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        w.node(name, labels={"zone": zone})
    w.placed("one", labels=X, nodeSelector={"kubernetes.io/hostname": w.full("a1")})
    w.placed("two", labels=X, nodeSelector={"kubernetes.io/hostname": w.full("b1")})
    both = [spread("zone", X), spread("kubernetes.io/hostname", X)]
    w.placed("three", labels=X, topologySpreadConstraints=both)


# -- ports -------------------------------------------------------------------------------------------------------------
@scenario
def ports_of_the_host(w: Side) -> None:
    w.node("a")
    w.placed("one", containers=[port(80)])
    w.placed("same", containers=[port(80)])
    w.placed("other", containers=[port(81)])
    w.placed("udp", containers=[port(80, protocol="UDP")])


@scenario
def ports_of_addresses_of_the_host(w: Side) -> None:
    w.node("a")
    w.placed("one", containers=[port(80, "127.0.0.1")])
    w.placed("two", containers=[port(80, "127.0.0.2")])
    w.placed("all", containers=[port(80)])
    w.placed("zero", containers=[port(80, "0.0.0.0")])


@scenario
def ports_of_sidecars(w: Side) -> None:
    w.node("a")
    side = [{**port(90), "name": "s", "restartPolicy": "Always"}]
    w.placed("one", initContainers=side)
    w.placed("two", containers=[port(90)])


# -- volumes -----------------------------------------------------------------------------------------------------------
def mounts(claim: str) -> list[dict[str, Any]]:
    return [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]


@scenario
def a_claim_that_does_not_exist(w: Side) -> None:
    w.node("a")
    w.placed("p", volumes=mounts("missing"))


@scenario
def a_claim_that_is_not_bound_and_does_not_wait(w: Side) -> None:
    w.node("a")
    w.claim("c", w.storage_class("now", "Immediate"))
    w.placed("p", volumes=mounts("c"))


@scenario
def a_claim_of_a_class_that_does_not_exist(w: Side) -> None:
    w.node("a")
    w.claim("c", w.full("missing"))
    w.placed("p", volumes=mounts("c"))


@scenario
def a_bound_volume_ties_the_pod_to_its_node(w: Side) -> None:
    w.node("a")
    w.node("b")
    storage = w.storage_class("local", provisioner="kubernetes.io/no-provisioner")
    w.claim("c", storage)
    w.volume("v", storage, node="b", claim="c")
    w.bind_claim("c", "v")
    w.placed("p", volumes=mounts("c"))
    w.placed("no", volumes=mounts("c"), nodeSelector={"kubernetes.io/hostname": w.full("a")})


@scenario
def a_volume_that_no_provisioner_makes(w: Side) -> None:
    w.node("a")
    w.claim("c", w.storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    w.placed("p", volumes=mounts("c"))


@scenario
def topologies_that_a_class_does_not_allow(w: Side) -> None:
    w.node("a", labels={"zone": "a"})
    allowed = [{"matchLabelExpressions": [{"key": "zone", "values": ["z"]}]}]
    w.claim("c", w.storage_class("zonal", allowedTopologies=allowed))
    w.placed("p", volumes=mounts("c"))


@scenario
def a_volume_for_one_pod_only(w: Side) -> None:
    w.node("a")
    w.node("b")
    storage = w.storage_class("once", "Immediate")
    w.claim("c", storage, mode="ReadWriteOncePod")
    w.volume("v", storage, claim="c", accessModes=["ReadWriteOncePod"], csi={"driver": "x.csi", "volumeHandle": "h"})
    w.bind_claim("c", "v")
    w.placed("one", volumes=mounts("c"), nodeSelector={"kubernetes.io/hostname": w.full("a")})
    w.placed("two", volumes=mounts("c"))


@scenario
def an_ephemeral_claim_that_nobody_made(w: Side) -> None:
    w.node("a")
    spec = {"storageClassName": w.storage_class("e"), "accessModes": ["ReadWriteOnce"]}
    template = {"spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}}}
    w.placed("p", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}])


# -- devices -----------------------------------------------------------------------------------------------------------
def exactly(name: str, device_class: str, **more: Any) -> dict[str, Any]:
    """A request of devices of a class."""
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


@scenario
def a_device_of_a_class(w: Side) -> Any:
    device_class = w.device_class()
    w.node("a")
    w.node("b")
    w.devices("b", {"name": "d0"})
    w.device_claim("c", exactly("r", device_class))
    w.device_pod("p", "c")
    return w.allocation("c")


@scenario
def a_claim_of_two_pods(w: Side) -> Any:
    device_class = w.device_class()
    w.node("a")
    w.node("b")
    w.devices("b", {"name": "d0"}, {"name": "d1"})
    w.device_claim("c", exactly("r", device_class))
    w.device_pod("p", "c")
    w.device_pod("q", "c")
    return sorted(user["name"] for user in w.allocation("c")["reservedFor"])


@scenario
def more_devices_than_there_are(w: Side) -> None:
    device_class = w.device_class()
    w.node("a")
    w.devices("a", {"name": "d0"})
    for i in range(2):
        w.device_claim(f"c{i}", exactly("r", device_class))
        w.device_pod(f"p{i}", f"c{i}")


@scenario
def devices_by_attribute(w: Side) -> Any:
    device_class = w.device_class()
    w.node("a")
    w.devices("a", *({"name": f"d{i}", "attributes": {"model": {"string": m}}} for i, m in enumerate("xyz")))
    of_model = {"cel": {"expression": f'device.attributes["{w.driver}"].model == "y"'}}
    w.device_claim("c", exactly("r", device_class, selectors=[of_model]))
    w.device_pod("p", "c")
    return w.allocation("c")


@scenario
def the_first_request_that_can_be_had(w: Side) -> Any:
    device_class = w.device_class()
    none = w.device_class("none", selectors=[{"cel": {"expression": "false"}}])
    w.node("a")
    w.devices("a", {"name": "d0"}, {"name": "d1"})
    wishes = [{"name": "big", "deviceClassName": none}, {"name": "two", "deviceClassName": device_class, "count": 2}]
    w.device_claim("c", {"name": "r", "firstAvailable": wishes})
    w.device_pod("p", "c")
    return w.allocation("c")


@scenario
def all_devices_of_a_node(w: Side) -> Any:
    device_class = w.device_class()
    w.node("a")
    w.devices("a", {"name": "d0"}, {"name": "d1"})
    w.device_claim("c", exactly("r", device_class, allocationMode="All"))
    w.device_pod("p", "c")
    return w.allocation("c")


@scenario
def a_tainted_device(w: Side) -> Any:
    device_class = w.device_class()
    w.node("a")
    w.devices("a", {"name": "d0", "taints": [{"key": "bad", "effect": "NoExecute"}]})
    w.device_claim("no", exactly("r", device_class))
    w.device_pod("no", "no")
    tolerated = [{"key": "bad", "operator": "Exists", "effect": "NoExecute"}]
    w.device_claim("yes", exactly("r", device_class, tolerations=tolerated))
    w.device_pod("yes", "yes")
    return w.allocation("yes")


@scenario
def a_device_of_the_network(w: Side) -> Any:
    device_class = w.device_class()
    w.node("a", labels={"net": w.letter})
    w.node("b")
    terms = [{"matchExpressions": [expression("net", "In", w.letter)]}]
    w.devices("", {"name": "n0"}, nodeSelector={"nodeSelectorTerms": terms})
    w.device_claim("c", exactly("r", device_class))
    w.device_pod("p", "c")
    return sorted(w.allocation("c"))


@scenario
def a_claim_of_devices_that_does_not_exist(w: Side) -> None:
    w.node("a")
    w.device_pod("p", "missing")


@scenario
def a_device_for_an_init_container(w: Side) -> Any:
    device_class = w.device_class()
    w.node("a")
    w.devices("a", {"name": "d0"})
    w.device_claim("c", exactly("r", device_class))
    init = container(name="i", resources={"claims": [{"name": "c"}]})
    w.placed("p", initContainers=[init], resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    return w.allocation("c")


@scenario
def a_device_with_too_little_capacity(w: Side) -> None:
    device_class = w.device_class()
    w.node("a")
    w.devices("a", {"name": "d0", "capacity": {"mem": {"value": "10Gi"}}})
    w.device_claim("c", exactly("r", device_class, capacity={"requests": {"mem": "40Gi"}}))
    w.device_pod("p", "c")


@scenario
def parameters_of_class_and_claim(w: Side) -> Any:
    def parameters(source: str) -> list[dict[str, Any]]:
        return [{"opaque": {"driver": w.driver, "parameters": {"from": source}}}]

    device_class = w.device_class(config=parameters("class"))
    w.node("a")
    w.devices("a", {"name": "d0"})
    w.device_claim("c", exactly("r", device_class), config=parameters("claim"))
    w.device_pod("p", "c")
    return w.allocation("c")


@scenario
def partitions_of_a_device(w: Side) -> None:
    device_class = w.device_class()
    w.node("a")
    pool = {"name": w.full("a"), "generation": 1, "resourceSliceCount": 2}
    base = {"driver": w.driver, "nodeName": w.full("a"), "pool": pool}
    counters = [{"name": "mem", "counters": {"m": {"value": "10"}}}]
    w.create("ResourceSlice", w.full("s1"), "resource.k8s.io/v1", spec={**base, "sharedCounters": counters})
    used = [{"counterSet": "mem", "counters": {"m": {"value": "6"}}}]
    devices = [{"name": f"d{i}", "consumesCounters": used} for i in range(2)]
    w.create("ResourceSlice", w.full("s2"), "resource.k8s.io/v1", spec={**base, "devices": devices})
    for i in range(2):
        w.device_claim(f"c{i}", exactly("r", device_class))
        w.device_pod(f"p{i}", f"c{i}")


@scenario
def shares_of_one_device(w: Side) -> None:
    device_class = w.device_class()
    w.node("a")
    w.devices("a", {"name": "d0", "allowMultipleAllocations": True, "capacity": {"mem": {"value": "10Gi"}}})
    for i in range(3):
        w.device_claim(f"c{i}", exactly("r", device_class, capacity={"requests": {"mem": "4Gi"}}))
        w.device_pod(f"p{i}", f"c{i}")


@scenario
def a_device_asked_for_as_an_extended_resource(w: Side) -> Any:
    w.device_class(extendedResourceName=f"example.com/{w.full('gpu')}")
    w.node("a")
    w.devices("a", {"name": "d0"})
    amounts = {"cpu": "1", f"example.com/{w.full('gpu')}": "1"}
    w.placed("p", containers=[container(resources={"requests": amounts, "limits": amounts})])
    return w.extended("p")


@scenario
def containers_that_share_devices_as_extended_resources(w: Side) -> Any:
    w.device_class(extendedResourceName=f"example.com/{w.full('gpu')}")
    w.node("a")
    w.devices("a", {"name": "d0"}, {"name": "d1"}, {"name": "d2"})

    def asks(name: str, count: int, **more: Any) -> dict[str, Any]:
        amounts = {"cpu": "1", f"example.com/{w.full('gpu')}": str(count)}
        return container(resources={"requests": amounts, "limits": amounts}, **more) | {"name": name}

    first = [asks("side", 1, restartPolicy="Always"), asks("large", 2), asks("small", 1)]
    w.placed("p", containers=[asks("main", 1)], initContainers=first)
    return w.extended("p")


@scenario
def a_device_that_must_be_prepared_first(w: Side) -> None:
    device_class = w.device_class()
    w.node("a")
    w.devices(
        "a", {"name": "d0", "bindsToNode": True, "bindingConditions": ["ready"], "bindingFailureConditions": ["no"]}
    )
    w.device_claim("c", exactly("r", device_class))
    w.device_pod("p", "c")
