"""Rules at the door: the API server refuses what one object shows; references become conditions."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml
from kube_bed import ROOT, Bed, Refusal, until
from kube_world import GROUPS, World, all_bound

MANIFEST = ROOT / "deploy" / "manifests" / "admission.yaml"
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "none"}]}}
VERSIONS = {
    "PodGroup": "scheduling.volcano.sh/v1beta1",
    "Queue": "scheduling.volcano.sh/v1beta1",
    "Job": "batch.volcano.sh/v1alpha1",
    "HyperNode": "topology.volcano.sh/v1alpha1",
}
NODE = {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("PodGroup", {"minMember": -1}, "minMember"),
    ("PodGroup", {"minTaskMember": {"a": 1, "b": -2}}, "minTaskMember: must not be below 0, got -2"),
    ("PodGroup", {"subGroupPolicy": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}, "names of sub-groups must differ"),
    ("PodGroup", {"subGroupPolicy": [{"subGroupSize": 1}, {"subGroupSize": 2}]}, "names of sub-groups must differ"),
    ("PodGroup", {"subGroupPolicy": [{"name": "a", "subGroupSize": 0}]}, "subGroupSize must be above 0"),
    ("PodGroup", {"subGroupPolicy": [{"name": "a", "minSubGroups": -1}]}, "minSubGroups must not be below 0"),
    ("PodGroup", {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}}, "must not have both"),
    (
        "PodGroup",
        {"subGroupPolicy": [{"name": "a", "networkTopology": {"highestTierAllowed": 1, "highestTierName": "r"}}]},
        "must not have both",
    ),
    ("Queue", {"parent": "{name}"}, "its own parent"),
    ("Queue", {"capability": {"cpu": "-1"}}, "must not be below 0"),
    ("Queue", {"deserved": {"cpu": -1}}, "must not be below 0"),
    ("Queue", {"guarantee": {"resource": {"memory": "-1Gi"}}}, "must not be below 0"),
    ("Queue", {"guarantee": {"resource": {"cpu": "2"}}, "deserved": {"cpu": "1500m"}}, "at most spec.deserved"),
    ("Queue", {"guarantee": {"resource": {"cpu": "2"}}, "capability": {"cpu": 1}}, "at most spec.capability"),
    ("Queue", {"deserved": {"memory": "2Gi"}, "capability": {"memory": "2G"}}, "at most spec.capability"),
    ("Job", {}, "at least one"),
    ("Job", {"tasks": []}, "at least one"),
    ("Job", {"tasks": [{"name": "w", "template": TEMPLATE}] * 2}, "names of tasks must differ"),
    ("Job", {"tasks": [{"name": "w", "replicas": 1, "minAvailable": 2}]}, "from 0 to replicas"),
    ("Job", {"minAvailable": 4, "tasks": [{"name": "a", "replicas": 2}, {"name": "b"}]}, "number of pods"),
    ("Job", {"tasks": [{"name": "w", "dependsOn": {"name": ["w"]}}]}, "depend on itself"),
    ("HyperNode", {"tier": 1, "members": [{"type": "Node", "selector": {}}]}, "one of exactMatch"),
    (
        "HyperNode",
        {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "a"}, "regexMatch": {}}}]},
        "one of exactMatch",
    ),
    (
        "HyperNode",
        {"tier": 2, "members": [{"type": "HyperNode", "selector": {"exactMatch": {"name": "{name}"}}}]},
        "its own member",
    ),
]
FIRST = ("minTaskMember: must not be below 0, got -2", "its own parent", "depend on itself", "its own member")
"""One rule of each policy: once it refuses, the policy is at work."""
TAKEN: list[tuple[str, dict[str, Any]]] = [
    ("PodGroup", {}),
    ("PodGroup", {"minMember": 0, "minTaskMember": {"a": 0}}),
    (
        "PodGroup",
        {"minMember": 2, "subGroupPolicy": [{"name": "a", "subGroupSize": 1, "minSubGroups": 0}, {"name": "b"}]},
    ),
    (
        "PodGroup",
        {"subGroupPolicy": [{"networkTopology": {"highestTierName": "rack"}}], "networkTopology": {"mode": "soft"}},
    ),
    ("Queue", {}),
    ("Queue", {"weight": 65535, "priority": -1, "parent": "root", "type": "x", "dequeueStrategy": "fifo"}),
    (
        "Queue",
        {
            "guarantee": {"resource": {"cpu": 1, "nvidia.com/gpu": "1"}},
            "deserved": {"cpu": "1000m", "memory": "1Gi"},
            "capability": {"cpu": "1", "memory": "1.5Gi"},
        },
    ),
    ("Job", {"tasks": [{"template": TEMPLATE}, {"replicas": 3, "minAvailable": 3}], "minAvailable": 4}),
    ("Job", {"tasks": [{"name": "a"}, {"name": "b", "dependsOn": {"name": ["a"], "iteration": "some"}}]}),
    ("Job", {"tasks": [{"name": "a", "policies": [{"event": "PodFailed"}]}], "policies": [{"exitCode": 3}]}),
    ("HyperNode", {"tier": 1, "tierName": "rack", "members": [NODE, {"type": "Node", "selector": {"labelMatch": {}}}]}),
    ("HyperNode", {"tier": 0}),
]
"""What Volcano's CRDs and webhooks take as well."""


@pytest.fixture(scope="module")
def policies(bed: Bed) -> Iterator[Bed]:
    """A server with the policies that we ship, at work."""
    documents = [d for d in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")) if d]
    paths = []
    for document in documents:
        bed.create(document)
        plural = (
            f"{document['kind'].lower()[:-1]}ies" if document["kind"].endswith("y") else f"{document['kind'].lower()}s"
        )
        paths.append(f"/apis/admissionregistration.k8s.io/v1/{plural}/{document['metadata']['name']}")
    try:
        for kind, spec in ((kind, spec) for kind, spec, words in REFUSED if words in FIRST):
            until(partial(attempt, bed, kind, spec, "warm"), 60, f"the policy of {kind} works")
        yield bed
    finally:
        for path in reversed(paths):
            bed.call("DELETE", path)


def attempt(bed: Bed, kind: str, spec: dict[str, Any], name: str) -> str:
    """Try to create an object; why it was refused, or nothing."""
    meta: dict[str, Any] = {"name": name} if kind in ("Queue", "HyperNode") else {"name": name, "namespace": "default"}
    text = yaml.safe_dump(spec).replace("'{name}'", name)
    version = VERSIONS[kind]
    where = "" if "namespace" not in meta else "/namespaces/default"
    path = f"/apis/{version}{where}/{kind.lower()}s?dryRun=All"
    body = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": yaml.safe_load(text)}
    try:
        bed.call("POST", path, body)
    except Refusal as no:
        return str(no)
    return ""


@pytest.mark.parametrize(("kind", "spec", "words"), REFUSED, ids=str)
def test_what_breaks_a_rule_within_itself_is_refused_by_name(
    policies: Bed, kind: str, spec: dict[str, Any], words: str
) -> None:
    assert words in attempt(policies, kind, spec, "odd")


@pytest.mark.parametrize(("kind", "spec"), TAKEN, ids=str)
def test_what_volcano_takes_is_taken(policies: Bed, kind: str, spec: dict[str, Any]) -> None:
    assert attempt(policies, kind, spec, "fine") == ""


def test_commands_without_fields_are_taken_as_by_volcano(bed: Bed) -> None:
    body = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "c", "namespace": "default"},
    }
    made = bed.call("POST", "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands?dryRun=All", body)
    assert made["kind"] == "Command"


def test_an_object_that_was_there_before_may_be_changed_but_for_its_spec(bed: Bed) -> None:
    """Its status, its labels and its finalizers; a spec that stays wrong is refused."""
    policy = next(d for d in yaml.safe_load_all(MANIFEST.read_text()) if d and d["spec"].get("matchConditions"))
    assert [c["name"] for c in policy["spec"]["matchConditions"]] == ["spec-changes"]


def test_an_old_object_that_breaks_a_rule_can_still_be_labelled_and_deleted(policies: Bed) -> None:
    name = "pumice-podgroups"
    path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/{name}"
    binding = policies.call("GET", path)
    where = f"{GROUPS}/namespaces/default/podgroups"
    bad = {"minTaskMember": {"a": -1}}
    policies.call("DELETE", path)
    try:
        until(lambda: not attempt(policies, "PodGroup", bad, "old"), 30, "the policy rests")
        body = {"apiVersion": VERSIONS["PodGroup"], "kind": "PodGroup", "metadata": {"name": "old"}, "spec": bad}
        policies.call("POST", where, body)
    finally:
        again = {key: copy.deepcopy(binding[key]) for key in ("apiVersion", "kind", "spec")}
        policies.create({**again, "metadata": {"name": name}})
    until(lambda: attempt(policies, "PodGroup", bad, "new"), 30, "the policy works again")
    label = {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/x"]}}
    assert policies.call("PATCH", f"{where}/old", label, patch="merge")["metadata"]["labels"] == {"a": "b"}
    with pytest.raises(Refusal, match="minTaskMember"):
        policies.call("PATCH", f"{where}/old", {"spec": {"minMember": 3}}, patch="merge")
    policies.call("DELETE", f"{where}/old")
    policies.call("PATCH", f"{where}/old", {"metadata": {"finalizers": None}}, patch="merge")
    with pytest.raises(Refusal, match="not found"):
        policies.call("GET", f"{where}/old")


CONF = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, PLUGIN]
"""


@pytest.mark.parametrize("plugin", ["{name: proportion}", "{name: capacity, enableHierarchy: true}"])
def test_a_queue_that_does_not_exist_and_parents_in_a_circle_become_conditions(world: World, plugin: str) -> None:
    conf = world.bed.folder / f"{world.namespace}.conf"
    conf.write_text(CONF.replace("PLUGIN", plugin))
    world.node("n1")
    queues = {"root": "", "one": "two", "two": "one"} if "capacity" in plugin else {}
    for name, parent in queues.items():
        spec = {"parent": parent}
        world.bed.create({"apiVersion": VERSIONS["Queue"], "kind": "Queue", "metadata": {"name": name}, "spec": spec})
    try:
        scheduler = world.scheduler("--leader-elect=false", f"--scheduler-conf={conf}", "--schedule-period=1s")
        world.gang("plain", 1)
        all_bound(world, "plain-0")
        groups = {"lost": "missing", **({"round": "one"} if queues else {})}
        for name, queue in groups.items():
            world.gang(name, 1, queue=queue)

        def told(name: str) -> str:
            conditions = world.group(name).get("status", {}).get("conditions", ())
            return next(
                (c["message"] for c in conditions if c["type"] == "Unschedulable" and c["status"] == "True"), ""
            )

        until(lambda: all(told(name) for name in groups), 5, "the conditions are written")
        assert "'missing' does not exist" in told("lost")
        if queues:
            assert "cycle" in told("round"), told("round")
        assert scheduler.stop() == 0
    finally:
        for name in queues:
            world.bed.call("DELETE", f"{GROUPS}/queues/{name}")
