"""Rules of KAI where its own cases do not meet: kinds of nodes, neighbours that leave, shares of GPUs in domains."""

from __future__ import annotations

from typing import Any

import pytest
from kai_cases import cluster, conf_with, decided, job, node, queue, seen

from pumice.config.kai import DEFAULT_PLUGINS

MIG = "nvidia.com/mig-1g.5gb"
NET = {"metadata": {"name": "net"}, "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "host"}]}}


def mig_node(name: str, *, enabled: str = "", strategy: str = "", instances: int = 2, gpu: int = 0) -> dict[str, Any]:
    made = node(name, gpu=gpu)
    if instances:
        made["status"]["allocatable"][MIG] = str(instances)
    labels = {"node-role.kubernetes.io/mig-enabled": enabled, "nvidia.com/mig.strategy": strategy}
    made["metadata"]["labels"].update({key: value for key, value in labels.items() if value})
    return made


def wanting(made: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A job whose pods have more in their specs."""
    for pod in made["pods"]:
        pod["spec"].update(spec)
    return made


def asking(made: dict[str, Any], **requests: str) -> dict[str, Any]:
    """A job whose pods ask for this."""
    for pod in made["pods"]:
        pod["spec"]["containers"][0]["resources"]["requests"] = requests
    return made


# -- kinds of nodes -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("strategy", ["", "none", "mixed"])
@pytest.mark.parametrize("enabled", ["", "true"])
def test_a_node_with_mig_instances_takes_who_asks_for_them_whatever_its_labels_leave_out(
    enabled: str, strategy: str
) -> None:
    asks = asking(job("slice", "q"), **{"cpu": "1", MIG: "1"})
    got = decided(cluster(mig_node("n1", enabled=enabled, strategy=strategy), queue("q"), asks, actions="allocate"))
    assert got["slice-0"] == "Binding n1"


def test_who_asks_for_an_instance_goes_to_no_node_that_is_said_to_be_without_mig() -> None:
    asks = asking(job("slice", "q"), **{"cpu": "1", MIG: "1"})
    got = decided(cluster(mig_node("n1", enabled="false", strategy="mixed"), queue("q"), asks, actions="allocate"))
    assert got["slice-0"] == "Pending"


@pytest.mark.parametrize("strategy", ["single", "mixed"])
@pytest.mark.parametrize("fraction", ["", "0.5"])
def test_a_strategy_means_nothing_on_a_node_without_mig(strategy: str, fraction: str) -> None:
    plain = mig_node("n1", enabled="false", strategy=strategy, instances=0, gpu=1)
    got = decided(cluster(plain, queue("q"), job("new", "q", fraction=fraction), actions="allocate"))
    assert got["new-0"] == "Binding n1"


def test_who_asks_for_an_instance_of_a_special_profile_asks_for_mig_though_it_counts_in_no_quota() -> None:
    special = f"{MIG}.me"

    def offering(made: dict[str, Any]) -> dict[str, Any]:
        made["status"]["allocatable"][special] = "1"
        return made

    nodes = (
        offering(mig_node("n1", enabled="false", instances=0)),
        offering(mig_node("n2", instances=0)),
        # fuller by cpu, which is not what such a task is packed by
        offering({**mig_node("n3", instances=0)}),
    )
    nodes[2]["status"]["allocatable"]["cpu"] = "8"
    wants = asking(job("wants", "q"), cpu="1", **{special: "1"})
    got = decided(cluster(*nodes, queue("q", quota=0, limit=0), wants, actions="allocate"))
    assert got["wants-0"] == "Binding n2"


def test_a_node_of_mig_instances_is_no_node_without_gpus() -> None:
    case = cluster(
        *(mig_node("n1", strategy="mixed"), node("n2"), queue("q"), job("plain", "q", gpu="0")), actions="allocate"
    )
    assert decided(case)["plain-0"] == "Binding n2"


def test_gpus_count_in_shares_only_where_nodes_for_gpus_are() -> None:
    """cpu and memory of the others count: GPU workers are not all that there is."""
    label = "node-role.kubernetes.io/{}-worker"
    case = cluster(
        *(node("n1", gpu=2, **{label.format("gpu"): ""}), node("n2", gpu=4, **{label.format("cpu"): ""})),
        *(node("n3", gpu=8, cpu="8"), queue("q"), job("wide", "q", pods=20, least=1)),
        actions="allocate",
        restrictSchedulingNodes=True,
    )
    assert seen(case).fair_share["q"]["gpu"] == 2


# -- what there is to share -----------------------------------------------------------------------------------------
def labelled(made: dict[str, Any], label: str, value: str = "") -> dict[str, Any]:
    made["metadata"]["labels"][label] = value
    return made


def told(made: dict[str, Any], conditions: dict[str, str], *, cordoned: bool = False) -> dict[str, Any]:
    """A node of which conditions say this."""
    made["status"]["conditions"] = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {**made, "spec": {"unschedulable": cordoned}}


def foreign(name: str, on: str, *, scheduler: str = "default-scheduler", gpu: int = 1, app: str = "") -> dict[str, Any]:
    """A pod of no job that runs."""
    requests = {"cpu": "1", "nvidia.com/gpu": str(gpu)}
    pod = {
        "metadata": {"name": name, "namespace": "others", "labels": {"app": app}},
        "spec": {
            "schedulerName": scheduler,
            "nodeName": on,
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running"},
    }
    return {"podGroups": [], "pods": [pod]}


def shared_gpus(*parts: dict[str, Any], **params: Any) -> float:
    """GPUs that a queue's share comes to which has more to do than there is room for."""
    wide = job("wide", "q", pods=20, least=1)
    return float(seen(cluster(*parts, queue("q"), wide, actions="allocate", **params)).fair_share["q"]["gpu"])


@pytest.mark.parametrize(
    ("conditions", "counts"),
    [
        ({"Ready": "True"}, True),
        ({"Ready": "True", "MemoryPressure": "False", "Strange": "True"}, True),
        ({"MemoryPressure": "False"}, True),
        ({"Ready": "False"}, False),
        ({"Ready": "Unknown"}, False),
        *(({"Ready": "True", kind: "True"}, False) for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")),
        ({"Ready": "True", "NetworkUnavailable": "Unknown"}, False),
    ],
)
def test_a_node_on_which_nothing_can_be_placed_is_nothing_to_share(conditions: dict[str, str], counts: bool) -> None:
    other = told(node("n2", gpu=4), conditions)
    assert shared_gpus(node("n1", gpu=2), other) == (6 if counts else 2)
    got = decided(cluster(other, queue("q"), job("j", "q"), actions="allocate"))
    assert got["j-0"] == ("Binding n2" if counts else "Pending")


def test_a_cordoned_node_is_nothing_to_share() -> None:
    assert shared_gpus(node("n1", gpu=2), told(node("n2", gpu=4), {"Ready": "True"}, cordoned=True)) == 2


def test_pods_of_others_take_from_what_there_is_to_share() -> None:
    assert shared_gpus(node("n1", gpu=2), node("n2", gpu=4), foreign("f", "n2")) == 5


def test_pods_of_others_take_nothing_where_there_is_nothing_to_share() -> None:
    assert shared_gpus(node("n1", gpu=2), told(node("n2", gpu=4), {"Ready": "False"}), foreign("f", "n2")) == 2


def test_pods_of_others_in_another_pool_of_nodes_take_nothing() -> None:
    elsewhere = labelled(node("n2", gpu=4), "kai.scheduler/node-pool", "blue")
    assert shared_gpus(node("n1", gpu=2), elsewhere, foreign("f", "n2"), nodePoolLabelValue="") == 2


def test_pods_of_kai_take_nothing_though_they_are_of_no_job_or_of_no_queue() -> None:
    own = foreign("f", "n1", scheduler="kai-scheduler")
    assert shared_gpus(node("n1", gpu=4), own, job("lost", "no-queue", on=("n1",))) == 4


@pytest.mark.parametrize("app", ["kai-resource-reservation", "scaling-pod"])
def test_the_helpers_of_kai_take_nothing(app: str) -> None:
    assert shared_gpus(node("n1", gpu=4), foreign("f", "n1", app=app)) == 4


def test_a_node_that_is_no_worker_is_nothing_to_share_where_only_workers_are_used() -> None:
    case = cluster(
        labelled(node("n1", gpu=2, cpu="8"), "node-role.kubernetes.io/gpu-worker"),
        labelled(node("n2", cpu="8"), "node-role.kubernetes.io/cpu-worker"),
        *(node("n3", cpu="8"), queue("q"), job("wide", "q", pods=40, least=1)),
        actions="allocate",
        restrictSchedulingNodes=True,
    )
    assert seen(case).fair_share["q"]["cpu"] == 16000


@pytest.mark.parametrize("leaves", [False, True])
def test_the_pod_that_stands_for_a_shared_gpu_holds_no_other(leaves: bool) -> None:
    half = job("half", "q", on=("n1",), fraction="0.5")
    half["pods"][0]["metadata"]["labels"] = {"runai-gpu-group": "g"}
    stands = foreign("stands", "n1", app="kai-resource-reservation")
    if leaves:
        stands["pods"][0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    case = cluster(
        *(node("n1", gpu=2), queue("q"), half, stands), job("whole", "q", pods=2, least=1, minute=1), actions="allocate"
    )
    got = decided(case)
    assert [got["whole-0"], got["whole-1"]] == ["Binding n1", "Pending"]


@pytest.mark.parametrize(
    ("devices", "plugins", "slots", "does"),
    [
        (1, (), 2, "Binding n1"),  # joins the one that is shared
        (2, (), 2, "Pending"),  # joins one and opens another
        (2, (), 3, "Binding n1"),
        (1, ("gpuspread",), 2, "Pending"),  # opens one rather than join another
        (1, ("gpuspread",), 3, "Binding n1"),
    ],
)
def test_who_opens_a_gpu_needs_a_slot_for_the_pod_that_stands_for_it(
    devices: int, plugins: tuple[str, ...], slots: int, does: str
) -> None:
    half, more = job("half", "q", on=("n1",), fraction="0.5"), job("more", "q", fraction="0.5", minute=1)
    more["pods"][0]["metadata"]["annotations"]["gpu-fraction-num-devices"] = str(devices)
    at = node("n1", gpu=2)
    at["status"]["allocatable"]["pods"] = str(slots)
    names = [*(n for n in DEFAULT_PLUGINS if not plugins or n != "gpupack"), *plugins]
    conf = {"tiers": [{"plugins": [{"name": name} for name in names]}]}
    assert decided(cluster(at, queue("q"), half, more, actions="allocate", conf=conf))["more-0"] == does


def test_a_pod_that_cannot_be_read_is_not_placed_as_if_it_asked_for_nothing() -> None:
    """Others of its job are, as far as they are enough."""
    grows = job("grows", "q", pods=3, least=1)
    grows["pods"][0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    whole = job("whole", "q", minute=1, gpu="0")
    whole["pods"][0]["metadata"]["annotations"]["gpu-fraction"] = "1.5"
    got = decided(cluster(node("n1", gpu=3), node("n2"), queue("q"), grows, whole))
    assert [got[f"grows-{n}"] for n in range(3)] == ["Gated", "Binding n1", "Binding n1"]
    assert got["whole-0"] == "Gated"


@pytest.mark.parametrize(("fraction", "many", "placed"), [("0.3333", 3, 3), ("0.1428", 7, 7), ("0.3339", 3, 2)])
def test_a_share_of_a_gpu_is_what_is_written_however_many_digits_that_has(
    fraction: str, many: int, placed: int
) -> None:
    shares = [job(f"j{n}", "q", fraction=fraction, minute=n) for n in range(many)]
    got = decided(cluster(node("n1", gpu=1), queue("q", limit=1), *shares, actions="allocate"))
    assert sum(does == "Binding n1" for does in got.values()) == placed


# -- neighbours -----------------------------------------------------------------------------------------------------
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "noisy"}}}
        ]
    }
}


@pytest.mark.parametrize("whose", ["the victim's", "the new one's"])
def test_who_is_evicted_for_a_task_is_no_neighbour_in_its_way(whose: str) -> None:
    low = job("low", "q", on=("n1",), priority="low", labels={0: {"app": "noisy"}})
    high = job("high", "q", minute=1, labels={0: {"app": "noisy"}})
    wanting(low if whose == "the victim's" else high, affinity=APART)
    got = decided(cluster(node("n1", gpu=1, host="n1"), queue("q", quota=1), low, high))
    assert got == {"low-0": "Releasing n1", "high-0": "Pipelined n1"}


def test_who_leaves_on_his_own_is_a_neighbour_until_he_is_gone() -> None:
    going = job("going", "q", on=("n1",), labels={0: {"app": "noisy"}})
    going["pods"][0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    case = cluster(node("n1", gpu=2, host="n1"), queue("q"), going, wanting(job("new", "q", minute=1), affinity=APART))
    assert decided(case)["new-0"] == "Pending"


def test_a_port_of_who_is_evicted_is_free() -> None:
    ports = [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}, "ports": [{"hostPort": 80}]}]
    case = cluster(
        *(node("n1", gpu=1), queue("q", quota=1)),
        wanting(job("low", "q", on=("n1",), priority="low"), containers=ports),
        wanting(job("high", "q", minute=1), containers=ports),
    )
    assert decided(case)["high-0"] == "Pipelined n1"


@pytest.mark.parametrize(("address", "does"), [("10.0.0.2", "Binding n1"), ("", "Pending"), ("10.0.0.1", "Pending")])
def test_one_port_of_two_addresses_is_two(address: str, does: str) -> None:
    def using(made: dict[str, Any], at: str) -> dict[str, Any]:
        container = made["pods"][0]["spec"]["containers"][0]
        container["ports"] = [{"hostPort": 80, "protocol": "TCP", "hostIP": at}]
        return made

    case = cluster(
        *(node("n1", gpu=2), queue("q")),
        *(using(job("old", "q", on=("n1",)), "10.0.0.1"), using(job("new", "q", minute=1), address)),
    )
    assert decided(case)["new-0"] == does


@pytest.mark.parametrize(("selector", "does"), [({}, "Pending"), ({"matchLabels": {"team": "x"}}, "Binding n1")])
def test_neighbours_are_those_of_the_namespaces_that_a_term_selects(selector: Any, does: str) -> None:
    """Nobody knows labels of the namespace, so only a selector that wants none selects it."""
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "noisy"}}, "namespaceSelector": selector}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    case = cluster(
        *(node("n1", gpu=2, host="n1"), queue("q"), job("old", "q", on=("n1",), labels={0: {"app": "noisy"}})),
        wanting(job("new", "q", minute=1), affinity=apart),
    )
    assert decided(case)["new-0"] == does


TERM = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "cache"}}}
PREFERS = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": TERM}]}
MUST = {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}


@pytest.mark.parametrize(
    ("mine", "theirs", "lands"),
    [
        ({}, {}, "n1"),
        ({"podAffinity": PREFERS}, {}, "n2"),
        ({}, {"podAffinity": PREFERS}, "n2"),
        ({}, {"podAffinity": MUST}, "n2"),
        ({"podAffinity": PREFERS}, {"podAntiAffinity": PREFERS}, "n1"),
        ({"podAffinity": PREFERS}, {"podAffinity": MUST, "podAntiAffinity": PREFERS}, "n2"),
        ({"podAntiAffinity": PREFERS}, {"podAffinity": MUST}, "n1"),
    ],
)
def test_company_is_preferred_by_the_sum_of_what_both_sides_say(mine: Any, theirs: Any, lands: str) -> None:
    """Equal sums leave it to the names of the nodes."""
    named = {0: {"app": "cache"}}
    case = cluster(
        *(node("n1", gpu=2, host="n1"), node("n2", gpu=2, host="n2"), queue("q"), job("fills", "q", on=("n1",))),
        wanting(job("old", "q", on=("n2",), labels=named), affinity=theirs),
        wanting(job("new", "q", minute=1, labels=named), affinity=mine),
        conf=conf_with("podaffinity"),
        actions="allocate",
    )
    assert decided(case)["new-0"] == f"Binding {lands}"


# -- domains --------------------------------------------------------------------------------------------------------
def test_a_gpu_that_is_only_promised_has_room_left_for_who_needs_a_domain() -> None:
    going = job("going", "q", on=("n1",))
    going["pods"][0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    in_a_zone = {"topologyConstraint": {"topology": "net", "requiredTopologyLevel": "zone"}}
    case = cluster(
        *(node("n1", gpu=1, zone="a", host="n1"), node("n2", zone="a", host="n2"), NET, queue("q"), going),
        job("first", "q", minute=1, fraction="0.5"),
        job("second", "q", minute=2, fraction="0.5", spec=in_a_zone),
        actions="allocate",
    )
    got = seen(case).tasks
    assert [got[f"default/{name}-0"]["status"] for name in ("first", "second")] == ["Pipelined", "Pipelined"]
    assert got["default/first-0"]["gpuGroups"] == got["default/second-0"]["gpuGroups"]


def test_domains_of_two_levels_may_look_alike_when_their_names_are_joined() -> None:
    """Zone ``a.b`` is nearly empty; host ``b`` of zone ``a`` is the tightest that takes both pods."""
    near = {"topologyConstraint": {"topology": "net", "preferredTopologyLevel": "host"}}
    case = cluster(
        *(node("n1", gpu=2, zone="a", host="b"), node("n2", gpu=4, zone="a", host="c")),
        *(node("n3", gpu=20, zone="a.b", host="d"), NET, queue("q"), job("pair", "q", pods=2, spec=near)),
        actions="allocate",
    )
    assert set(decided(case).values()) == {"Binding n1"}


# -- volumes --------------------------------------------------------------------------------------------------------
LOCAL = {
    "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def volume(name: str, host: str, *, of: str = "local") -> dict[str, Any]:
    """A volume that only one node reaches."""
    terms = [{"matchExpressions": [{"key": "host", "operator": "In", "values": [host]}]}]
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of,
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
        "status": {"phase": "Available"},
    }


def claim(name: str, bound: str = "", *, of: str = "local") -> dict[str, Any]:
    spec = {"storageClassName": of, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, **({"volumeName": bound} if bound else {})},
        "status": {"phase": "Bound" if bound else "Pending"},
    }


def using(made: dict[str, Any], name: str) -> dict[str, Any]:
    return wanting(made, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}])


def with_volumes(
    *parts: dict[str, Any], volumes: list[Any], claims: list[Any], classes: list[Any], actions: str = "allocate"
) -> dict[str, str]:
    case = cluster(*parts, actions=actions)
    case.data["objects"] |= {
        "persistentVolumes": volumes,
        "persistentVolumeClaims": claims,
        "storageClasses": classes,
    }
    return decided(case)


HOSTS = (node("n1", gpu=2, host="n1"), node("n2", gpu=2, host="n2"), queue("q"))


def test_a_task_goes_where_its_volume_is_in_reach() -> None:
    got = with_volumes(
        *(*HOSTS, using(job("j", "q"), "data")),
        volumes=[volume("v", "n2")],
        claims=[claim("data", "v")],
        classes=[LOCAL],
    )
    assert got["j-0"] == "Binding n2"


def test_a_claim_that_waits_for_its_first_user_is_served_where_a_volume_is() -> None:
    got = with_volumes(
        *(*HOSTS, using(job("j", "q"), "data")), volumes=[volume("v", "n2")], claims=[claim("data")], classes=[LOCAL]
    )
    assert got["j-0"] == "Binding n2"


def test_a_volume_is_promised_once() -> None:
    got = with_volumes(
        *(*HOSTS, using(job("one", "q"), "first"), using(job("two", "q", minute=1), "second")),
        volumes=[volume("v", "n2")],
        claims=[claim("first"), claim("second")],
        classes=[LOCAL],
    )
    assert (got["one-0"], got["two-0"]) == ("Binding n2", "Pending")


@pytest.mark.parametrize("of", ["local", "at-once"])
def test_nobody_is_evicted_for_a_claim_that_nothing_binds(of: str) -> None:
    """Neither on the other node nor, where the claim is never bound by its user, on any."""
    at_once = {"metadata": {"name": "at-once"}, "provisioner": "p", "volumeBindingMode": "Immediate"}
    got = with_volumes(
        *(node("n1", gpu=1, host="n1"), node("n2", host="n2"), queue("q", quota=1)),
        *(job("low", "q", on=("n1",), priority="low"), using(job("high", "q", minute=1), "data")),
        volumes=[volume("v", "n2", of=of)],
        claims=[claim("data", of=of)],
        classes=[LOCAL, at_once],
        actions="allocate, preempt",
    )
    assert got == {"low-0": "Running n1", "high-0": "Pending"}


def test_what_is_imagined_takes_no_volume() -> None:
    """The gang is tried first and does not fit, so that its volume is free for the one behind it."""
    got = with_volumes(
        *(*HOSTS, using(job("gang", "q", pods=5), "first"), using(job("next", "q", minute=1), "second")),
        volumes=[volume("v", "n2")],
        claims=[claim("first"), claim("second")],
        classes=[LOCAL],
        actions="allocate, consolidation, reclaim, preempt",
    )
    assert got["next-0"] == "Binding n2"


@pytest.mark.parametrize(
    ("pinned", "moved"),
    [(("n1",), {"of-n2-0": "Pipelined n1"}), (("n2",), {"of-n1-0": "Pipelined n2"}), (("n1", "n2"), {})],
)
def test_nobody_is_moved_away_from_his_volume(pinned: tuple[str, ...], moved: dict[str, str]) -> None:
    jobs = {host: job(f"of-{host}", "q", on=(host,)) for host in ("n1", "n2")}
    got = with_volumes(
        *(*HOSTS[:2], queue("q", quota=4), *(using(j, h) if h in pinned else j for h, j in jobs.items())),
        job("wide", "q", gpu="2", minute=3),
        volumes=[volume(host, host) for host in pinned],
        claims=[claim(host, host) for host in pinned],
        classes=[LOCAL],
        actions="consolidation",
    )
    assert {name: does for name, does in got.items() if name != "wide-0" and "Pipelined" in does} == moved
    assert got["wide-0"].startswith("Pipelined" if moved else "Pending")


# -- work that has just begun ---------------------------------------------------------------------------------------
YOUNG = {"kai.scheduler/last-start-timestamp": "2025-12-31T23:59:30Z"}


@pytest.mark.parametrize(("seconds", "does"), [("10s", "Pipelined n2"), ("10m", "Running n1")])
def test_what_a_job_needs_at_least_is_not_moved_while_it_is_protected(seconds: str, does: str) -> None:
    """It would begin anew; so does it where a job that is no longer than its minimum is left alone."""
    case = cluster(
        *(node("n1", gpu=2), node("n2", gpu=1), queue("a", reclaimMinRuntime=seconds), queue("b", quota=2)),
        job("grows", "a", on=("n1",), pods=2, least=1, notes=YOUNG),
        job("claims", "b", gpu="2", minute=3),
        actions="reclaim",
    )
    assert decided(case)["grows-0"] == does


def test_what_a_sub_group_has_beyond_its_minimum_goes_though_another_lacks_some() -> None:
    groups = [{"name": "full", "minMember": 1}, {"name": "short", "minMember": 2}]
    labels = {n: {"kai.scheduler/subgroup-name": "short" if n == 2 else "full"} for n in range(3)}
    case = cluster(
        *(node("n1", gpu=3), queue("a", reclaimMinRuntime="10m"), queue("b", quota=1)),
        job("grows", "a", on=("n1", "n1", "n1"), pods=3, spec={"subGroups": groups}, notes=YOUNG, labels=labels),
        job("claims", "b", minute=3),
        actions="reclaim",
    )
    assert decided(case) == {
        **{f"grows-{n}": "Running n1" for n in (0, 2)},
        "grows-1": "Releasing n1",
        "claims-0": "Pipelined n1",
    }


def test_a_pod_that_failed_makes_no_job_one_that_could_give_some() -> None:
    """It is protected as a whole, and those beside it go."""
    young = job("young", "a", on=("n1", "n1"), pods=2, least=1, notes=YOUNG, minute=5)
    young["pods"][1]["status"]["phase"] = "Failed"
    case = cluster(
        *(node("n1", gpu=2), queue("a", reclaimMinRuntime="10m"), queue("b", quota=1)),
        *(job("old", "a", on=("n1",)), young, job("claims", "b", minute=9)),
        actions="reclaim",
    )
    got = decided(case)
    assert (got["old-0"], got["young-0"], got["claims-0"]) == ("Releasing n1", "Running n1", "Pipelined n1")


# -- queues side by side --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("full", "does"), [(True, "Pending"), (False, "Binding n1")])
def test_where_only_queues_with_work_count_nothing_above_them_does(full: bool, does: str) -> None:
    """Neither the limit of the queue on top, nor that it is missing, nor that another queue stands below."""
    parts = (node("n1", gpu=3), queue("top", limit=0), queue("mid", parent="top"), queue("low", parent="mid"))
    works = (job("of-mid", "mid"), job("of-low", "low", minute=1), job("of-lost", "lost", minute=2))
    got = decided(
        cluster(*(*parts, queue("lost", parent="no-queue"), *works), actions="allocate", fullHierarchyFairness=full)
    )
    assert {got.get(f"{name}-0", "Pending") for name in ("of-mid", "of-low", "of-lost")} == {does}


@pytest.mark.parametrize(("resource", "does"), [("memory", "Binding n1"), ("cpu", "Pending"), ("gpu", "Pending")])
def test_of_memory_any_amount_below_nothing_is_without_limit(resource: str, does: str) -> None:
    narrow = queue("q")
    narrow["spec"]["resources"][resource] = {"quota": -2, "limit": -2, "overQuotaWeight": 1}
    assert decided(cluster(node("n1", gpu=1), narrow, job("j", "q"), actions="allocate"))["j-0"] == does


# -- orders ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "placed"),
    [
        ("7", ["j-1", "j-2"]),
        ("1_0", ["j-2", "j-1"]),
        ("x", ["j-2", "j-1"]),
        ("-1", ["j-2", "j-1"]),
        ("", ["j-2", "j-1"]),
    ],
)
def test_a_priority_of_a_task_is_a_plain_number(text: str, placed: list[str]) -> None:
    """A label that is none comes after those that are, and before tasks without a label."""
    named = {1: {"kai.scheduler/task-priority": text}, 2: {"kai.scheduler/task-priority": "0"}}
    for gpus in (1, 2):
        got = decided(cluster(node("n1", gpu=gpus), queue("q"), job("j", "q", pods=3, least=1, labels=named)))
        assert {name for name, does in got.items() if does == "Binding n1"} == set(placed[:gpus])


@pytest.mark.parametrize(("narrow", "wide"), [("a", "b"), ("b", "a")])
def test_of_queues_that_stand_alike_the_one_that_may_hold_less_goes_first_whatever_its_name(
    narrow: str, wide: str
) -> None:
    """No limit is more than any."""
    small = queue(narrow, quota=1, weight=0)
    small["spec"]["resources"]["memory"] = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    case = cluster(
        *(node("n1", gpu=2), small, queue(wide, quota=1, weight=0)),
        *(job("of-narrow", narrow, gpu="2"), job("of-wide", wide, gpu="2")),
        actions="allocate",
    )
    assert decided(case) == {"of-narrow-0": "Binding n1", "of-wide-0": "Pending"}
