from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.engine.rows import NodeRows
from pumice.framework.plugin import Arguments
from pumice.framework.session.session import Session
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.intents import Bind, VolumeChoice
from pumice.model.reason import Code
from pumice.model.task import Task
from pumice.plugins.predicates import Predicates
from pumice.plugins.predicates import task_claims as claims_module
from pumice.plugins.predicates.attachments import Attachments
from pumice.plugins.predicates.volumes import Volumes
from pumice.saved.cycle import pack_memory, unpack
from pumice.state.cluster import ClusterState

Json = dict[str, Any]


def node(name: str, **labels: str) -> Json:
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": amounts}}


def pod(name: str, *claims: str, on: str = "") -> Json:
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    where = {"nodeName": on} if on else {}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"containers": [{"name": "c"}], "volumes": volumes, **where},
        "status": {"phase": "Running" if on else "Pending"},
    }


def claim(name: str, volume: str = "", storage_class: str = "late", size: str = "1Gi") -> Json:
    spec: Json = {"storageClassName": storage_class, "resources": {"requests": {"storage": size}}}
    if volume:
        spec["volumeName"] = volume
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": {"phase": "Bound" if volume else ""}}


def volume(name: str, on: str = "", size: str = "1Gi", labels: Json | None = None, **spec: Any) -> Json:
    if on:
        line = {"key": "host", "operator": "In", "values": [on]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}
    spec = {"storageClassName": "late", "capacity": {"storage": size}, **spec}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": {"phase": "Available"}}


def storage(name: str = "late", mode: str = "WaitForFirstConsumer", provisioner: str = "", **more: Any) -> Json:
    return {"metadata": {"name": name}, "volumeBindingMode": mode, "provisioner": provisioner, **more}


def opened(**objects: list[Json]) -> Session:
    state = ClusterState()
    for kind, listed in objects.items():
        for data in listed:
            state.apply(Seen(api.decode(kind, data)))
    ssn = Session(state)
    ssn.open_plugin(Predicates(Arguments()))
    return ssn


def task(ssn: Session, name: str) -> Task:
    return ssn.state.tasks[name]


def objections(ssn: Session, name: str) -> dict[str, str | None]:
    reasons = {n: ssn.search.objection(task(ssn, name), found) for n, found in sorted(ssn.nodes.items())}
    assert all(r is None or r.code is not Code.ERROR for r in reasons.values())
    return {n: r.text if r else None for n, r in reasons.items()}


NODES = [node("n1", host="n1", zone="a"), node("n2", host="n2", zone="b")]
NOTHING = "node(s) didn't find available persistent volumes to bind"


def test_a_bound_volume_keeps_the_task_where_the_volume_can_be_used() -> None:
    ssn = opened(
        Node=NODES,
        PersistentVolume=[volume("v", on="n2")],
        PersistentVolumeClaim=[claim("data", "v")],
        Pod=[pod("p", "data")],
    )
    assert objections(ssn, "p") == {"n1": "node(s) had volume node affinity conflict", "n2": None}


def test_a_claim_that_does_not_exist_fits_nowhere_and_is_named() -> None:
    ssn = opened(Node=NODES, Pod=[pod("p", "data")])
    assert set(objections(ssn, "p").values()) == {'persistentvolumeclaim "data" not found'}


def test_an_unbound_claim_that_is_bound_at_once_must_be_waited_for() -> None:
    ssn = opened(
        Node=NODES,
        StorageClass=[storage(mode="Immediate", provisioner="x")],
        PersistentVolumeClaim=[claim("data")],
        Pod=[pod("p", "data")],
    )
    assert set(objections(ssn, "p").values()) == {"pod has unbound immediate PersistentVolumeClaims"}


def test_a_claim_that_waits_for_its_consumer_needs_a_volume_on_the_node() -> None:
    ssn = opened(
        Node=NODES,
        StorageClass=[storage(provisioner="kubernetes.io/no-provisioner")],
        PersistentVolume=[volume("small", on="n1", size="1Mi"), volume("v", on="n2")],
        PersistentVolumeClaim=[claim("data")],
        Pod=[pod("p", "data")],
    )
    assert objections(ssn, "p") == {"n1": NOTHING, "n2": None}


def test_two_claims_need_two_volumes() -> None:
    ssn = opened(
        Node=NODES,
        StorageClass=[storage()],
        PersistentVolume=[volume("a", on="n1"), volume("b", on="n2"), volume("c", on="n2", size="5Gi")],
        PersistentVolumeClaim=[claim("one"), claim("two", size="2Gi")],
        Pod=[pod("p", "one", "two")],
    )
    assert objections(ssn, "p") == {"n1": NOTHING, "n2": None}


def test_a_storage_class_makes_volumes_only_in_its_topologies() -> None:
    allowed = [{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]
    ssn = opened(
        Node=NODES,
        StorageClass=[storage(provisioner="csi.example", allowedTopologies=allowed)],
        PersistentVolumeClaim=[claim("data")],
        Pod=[pod("p", "data")],
    )
    assert objections(ssn, "p") == {"n1": NOTHING, "n2": None}


def test_a_volume_promised_to_one_task_is_not_promised_to_another_until_it_is_given_back() -> None:
    ssn = opened(
        Node=NODES,
        StorageClass=[storage()],
        PersistentVolume=[volume("v", on="n1")],
        PersistentVolumeClaim=[claim("one"), claim("two")],
        Pod=[pod("p", "one"), pod("q", "two")],
    )
    assert objections(ssn, "q")["n1"] is None
    statement = ssn.statement()
    assert statement.allocate(task(ssn, "p"), ssn.nodes["n1"]) == ""
    assert objections(ssn, "q")["n1"] == NOTHING
    assert "no volumes for the claims of ns/q" in statement.allocate(task(ssn, "q"), ssn.nodes["n1"])
    statement.discard()
    assert objections(ssn, "q")["n1"] is None


@pytest.mark.parametrize("key", ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"])
def test_a_zoned_volume_keeps_the_task_in_its_zones(key: str) -> None:
    new = "topology.kubernetes.io/zone"
    ssn = opened(
        Node=[node("a", **{new: "a"}), node("b", **{new: "b"}), node("c", **{new: "c"}), node("free")],
        PersistentVolume=[volume("v", labels={key: "a__b"})],
        PersistentVolumeClaim=[claim("data", "v")],
        Pod=[pod("p", "data")],
    )
    other = "node(s) had no available volume zone"
    assert objections(ssn, "p") == {"a": None, "b": None, "c": other, "free": None}


def test_a_node_takes_no_more_volumes_than_its_driver_can_attach() -> None:
    def csi(name: str) -> Json:
        return volume(name, csi={"driver": "d", "volumeHandle": name})

    limit = {"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 1}}]}}
    ssn = opened(
        Node=NODES,
        CSINode=[limit],
        PersistentVolume=[csi("v"), csi("w")],
        PersistentVolumeClaim=[claim("one", "v"), claim("two", "w")],
        Pod=[pod("r", "one", on="n1"), pod("p", "two"), pod("q", "one")],
    )
    assert objections(ssn, "p") == {"n1": "node(s) exceed max volume count", "n2": None}
    assert objections(ssn, "q") == {"n1": None, "n2": None}
    reason = ssn.search.objection(task(ssn, "p"), ssn.nodes["n1"])
    assert reason is not None
    assert reason.evictable


def bind_choices(ssn: Session, name: str, on: str) -> list[VolumeChoice]:
    statement = ssn.statement()
    assert statement.allocate(task(ssn, name), ssn.nodes[on]) == ""
    statement.commit()
    binds = [i for i in ssn.outcome.intents if isinstance(i, Bind)]
    return [c for c in binds[-1].prepare if isinstance(c, VolumeChoice)]


def test_a_bind_says_which_claims_wait_and_what_they_get() -> None:
    ssn = opened(
        Node=NODES,
        StorageClass=[storage(), storage("made", provisioner="csi.example")],
        PersistentVolume=[volume("v", on="n1"), volume("w")],
        PersistentVolumeClaim=[claim("one"), claim("two", storage_class="made"), claim("three", "w")],
        Pod=[pod("p", "one", "two", "three"), pod("q", "three")],
    )
    assert bind_choices(ssn, "p", "n1") == [VolumeChoice("ns/one", "", "v"), VolumeChoice("ns/two")]
    assert bind_choices(ssn, "q", "n1") == []


def test_pods_that_share_a_waiting_claim_all_wait_for_it() -> None:
    ssn = opened(
        Node=NODES,
        StorageClass=[storage(provisioner="csi.example")],
        PersistentVolumeClaim=[claim("shared")],
        Pod=[pod("p", "shared"), pod("q", "shared")],
    )
    assert bind_choices(ssn, "p", "n2") == [VolumeChoice("ns/shared")]
    assert objections(ssn, "q") == {"n1": NOTHING, "n2": None}
    assert bind_choices(ssn, "q", "n2") == [VolumeChoice("ns/shared")]


def test_pods_on_several_nodes_share_a_claim_that_allows_it() -> None:
    many = claim("shared")
    many["spec"]["accessModes"] = ["ReadWriteMany"]
    ssn = opened(
        Node=NODES,
        StorageClass=[storage(provisioner="csi.example")],
        PersistentVolumeClaim=[many],
        Pod=[pod("p", "shared"), pod("q", "shared")],
    )
    assert bind_choices(ssn, "p", "n2") == [VolumeChoice("ns/shared")]
    assert objections(ssn, "q") == {"n1": None, "n2": None}
    assert bind_choices(ssn, "q", "n1") == [VolumeChoice("ns/shared", node="n2")]


def test_an_ephemeral_volume_takes_only_the_claim_that_was_made_for_its_pod() -> None:
    def ephemeral(name: str) -> Json:
        made = pod(name)
        made["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]
        return made

    mine, other = claim("p-scratch", "v"), claim("q-scratch", "w")
    mine["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "p", "uid": "p"}]
    ssn = opened(
        Node=NODES,
        PersistentVolume=[volume("v"), volume("w")],
        PersistentVolumeClaim=[mine, other],
        Pod=[ephemeral("p"), ephemeral("q"), ephemeral("r")],
    )
    assert set(objections(ssn, "p").values()) == {None}
    assert set(objections(ssn, "q").values()) == {'persistentvolumeclaim "q-scratch" was not created for the pod'}
    assert set(objections(ssn, "r").values()) == {'persistentvolumeclaim "r-scratch" not found'}


def test_a_claim_whose_owner_named_a_volume_is_not_ours_to_bind() -> None:
    named = claim("one", "v")
    named["status"] = {"phase": "Pending"}
    ssn = opened(
        Node=NODES,
        StorageClass=[storage()],
        PersistentVolume=[volume("v")],
        PersistentVolumeClaim=[named],
        Pod=[pod("p", "one")],
    )
    assert set(objections(ssn, "p").values()) == {"pod has unbound immediate PersistentVolumeClaims"}


def test_a_volume_that_an_earlier_claim_of_the_name_left_is_not_taken() -> None:
    held = volume("v", claimRef={"namespace": "ns", "name": "one", "uid": "earlier"})
    ours = claim("one")
    ours["metadata"]["uid"] = "later"
    ssn = opened(
        Node=NODES,
        StorageClass=[storage()],
        PersistentVolume=[held],
        PersistentVolumeClaim=[ours],
        Pod=[pod("p", "one")],
    )
    assert set(objections(ssn, "p").values()) == {NOTHING}


def told_room(name: str, amount: str, on: str, most: str = "") -> Json:
    topology = {"matchLabels": {"host": on}}
    limit = {"maximumVolumeSize": most} if most else {}
    meta = {"name": name, "namespace": "csi"}
    return {"metadata": meta, "storageClassName": "late", "capacity": amount, "nodeTopology": topology, **limit}


def tracked(*told: Json, capacity: bool = True) -> Session:
    return opened(
        Node=NODES,
        StorageClass=[storage(provisioner="csi.example")],
        CSIDriver=[{"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": capacity}}],
        CSIStorageCapacity=list(told),
        PersistentVolumeClaim=[claim("one", size="6Gi"), claim("two", size="6Gi")],
        Pod=[pod("p", "one"), pod("q", "two"), pod("both", "one", "two")],
    )


def test_a_volume_is_made_where_the_driver_has_storage_left() -> None:
    assert objections(tracked(told_room("a", "10Gi", "n2"), told_room("b", "5Gi", "n1")), "p") == {
        "n1": NOTHING,
        "n2": None,
    }
    assert objections(tracked(told_room("a", "10Gi", "n2", most="5Gi")), "p")["n2"] == NOTHING
    assert objections(tracked(told_room("a", "10Gi", "n2"), capacity=False), "p") == {"n1": None, "n2": None}


def test_storage_that_was_promised_is_not_promised_again() -> None:
    ssn = tracked(told_room("a", "10Gi", "n2"))
    assert objections(ssn, "both")["n2"] == NOTHING
    assert objections(ssn, "q")["n2"] is None
    statement = ssn.statement()
    assert statement.allocate(task(ssn, "p"), ssn.nodes["n2"]) == ""
    assert objections(ssn, "q")["n2"] == NOTHING
    statement.discard()
    assert objections(ssn, "q")["n2"] is None


def test_what_was_promised_is_plain_data_that_a_saved_cycle_holds() -> None:
    ssn = tracked(told_room("a", "10Gi", "n2"))
    statement = ssn.statement()
    statement.allocate(task(ssn, "p"), ssn.nodes["n2"])
    statement.commit()
    packed, left_out = pack_memory(ssn.runtime.memory)
    assert left_out == []
    assert unpack(packed["predicates"]) == {"volumes": {"ns/one": ("", "n2", ("p",))}}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["n1", "n2", "back"])), max_size=12))
def test_the_count_of_attached_volumes_is_what_a_fresh_look_finds(moves: list[tuple[int, str]]) -> None:
    def limit(name: str, most: int) -> Json:
        driver = {"name": "csi.example", "allocatable": {"count": most}}
        return {"metadata": {"name": name}, "spec": {"drivers": [driver]}}

    ssn = opened(
        Node=NODES,
        StorageClass=[storage(provisioner="csi.example")],
        CSINode=[limit("n1", 1), limit("n2", 2)],
        PersistentVolumeClaim=[claim(f"c{n}") for n in range(4)],
        Pod=[pod(f"p{n}", f"c{n}") for n in range(4)] + [pod("p4", "c0")],
    )
    kept = Volumes.kept(ssn.runtime.kept, ssn.state).attachments
    tasks = [task(ssn, f"p{n}") for n in range(5)]
    rows = NodeRows(ssn.state.table)
    statement = ssn.statement()
    for n, where in moves:
        if where == "back":
            statement.rollback(max(0, statement.checkpoint() - n))
        elif tasks[n].node is None:
            statement.allocate(tasks[n], ssn.nodes[where])
        for one in tasks:
            assert kept.filter(one, rows).tolist() == Attachments(ssn.state).filter(one, rows).tolist()


def test_a_node_is_full_when_a_volume_was_placed_there_and_not_when_that_was_undone() -> None:
    driver = {"name": "csi.example", "allocatable": {"count": 1}}
    ssn = opened(
        Node=NODES,
        StorageClass=[storage(provisioner="csi.example")],
        CSINode=[{"metadata": {"name": "n1"}, "spec": {"drivers": [driver]}}],
        PersistentVolumeClaim=[claim("one"), claim("two")],
        Pod=[pod("p", "one"), pod("q", "two")],
    )
    statement = ssn.statement()
    assert statement.allocate(task(ssn, "p"), ssn.nodes["n1"]) == ""
    assert objections(ssn, "q") == {"n1": "node(s) exceed max volume count", "n2": None}
    statement.discard()
    assert objections(ssn, "q") == {"n1": None, "n2": None}


def test_the_claims_of_a_pod_are_looked_at_once_for_all_of_its_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod whose claims wait for their volumes cost the square of their number in every cycle."""
    names = [f"c{n}" for n in range(60)]
    claims = [claim(name, volume="v" if name == "c7" else "") for name in names]
    ssn = opened(Node=[node("n0")], PersistentVolumeClaim=claims, Pod=[pod("p", *names, on="n0")])
    volumes, looked = Volumes(ssn.state), list[str]()
    volumes.promised = {f"ns/{name}": ("", "n0", ("p",)) for name in [*names, "gone"]}
    claims_of = claims_module.claims_of

    def counting(state: ClusterState, about: Task) -> Any:
        looked.append(about.key)
        return claims_of(state, about)

    monkeypatch.setattr(claims_module, "claims_of", counting)
    volumes.forget_settled()
    assert looked == ["ns/p"]
    assert set(volumes.promised) == {f"ns/{name}" for name in names} - {"ns/c7"}


def test_a_promised_volume_stands_until_the_last_bind_of_its_claim_is_over() -> None:
    """Two pods share a claim. If the bind of the first fails, a third must not have its volume made elsewhere."""
    ssn = opened(
        Node=[node("n0"), node("n1")],
        StorageClass=[storage(provisioner="x")],
        PersistentVolumeClaim=[claim("c")],
        Pod=[pod("a", "c"), pod("b", "c"), pod("d", "c")],
    )
    statements = [ssn.statement(), ssn.statement()]
    for name, statement in zip(("a", "b"), statements, strict=True):
        assert statement.allocate(task(ssn, name), ssn.nodes["n1"]) == ""
    for statement in statements:
        assert objections(ssn, "d")["n0"] is not None
        assert objections(ssn, "d")["n1"] is None
        statement.discard()
    assert objections(ssn, "d")["n0"] is None
