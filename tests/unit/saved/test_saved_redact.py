"""Redaction: no names, the same structure, the same order."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pumice.saved.cycle import SavedCycle, SavedRefusal
from pumice.saved.redact import KEPT, ranked, redacted

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,6}[a-z0-9])?", fullmatch=True)
SOME = st.lists(NAMES | st.sampled_from(sorted(KEPT)), max_size=12)


def kept(name: str) -> bool:
    return name in KEPT


@given(SOME)
def test_new_names_stand_in_the_order_of_the_old_ones(names: list[str]) -> None:
    new = ranked(names, "queue", kept)
    assert sorted(new, key=lambda old: new[old]) == sorted(new)
    assert len(set(new.values())) == len(new)


@given(SOME, SOME)
def test_keys_made_of_namespace_and_name_stand_in_the_old_order(namespaces: list[str], names: list[str]) -> None:
    spaces, jobs = ranked(filter(None, namespaces), "ns", kept, gap="x"), ranked(filter(None, names), "job", kept)
    old = [f"{space}/{job}" for space in spaces for job in jobs]
    new = {f"{space}/{job}": f"{spaces[space]}/{jobs[job]}" for space in spaces for job in jobs}
    assert sorted(old, key=lambda key: new[key]) == sorted(old)


@given(SOME)
def test_names_that_mean_something_stay_and_all_others_go(names: list[str]) -> None:
    for old, new in ranked(names, "job", kept).items():
        assert (old == new) == (old in KEPT)


def cycle(**more: Any) -> SavedCycle:
    pod = {
        "metadata": {
            "name": "secret-worker-7",
            "namespace": "acme",
            "labels": {"owner": "alice", "kubernetes.io/os": "linux", "rank": "7"},
            "annotations": {
                "scheduling.k8s.io/group-name": "secret",
                "kubectl.kubernetes.io/last-applied-configuration": "secret alice",
                "note": "for alice",
            },
            "ownerReferences": [{"kind": "Job", "name": "secret"}, {"kind": "Job", "name": "acme-owner"}],
        },
        "spec": {
            "nodeName": "n1",
            "priorityClassName": "acme-urgent",
            "nodeSelector": {"pool": "acme-pool"},
            "tolerations": [{"key": "team", "value": "acme-team", "effect": "NoSchedule"}],
            "containers": [{"name": "acme-main", "image": "acme/image:1"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "acme-data"}}],
            "affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "zone",
                            "namespaces": ["acme"],
                            "labelSelector": {
                                "matchExpressions": [{"key": "owner", "operator": "In", "values": ["alice"]}]
                            },
                        }
                    ]
                }
            },
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "message": "acme says hello"}]},
    }
    group = {
        "metadata": {"name": "secret", "namespace": "acme"},
        "spec": {"queue": "acme-queue", "priorityClassName": "acme-urgent", "minMember": 1},
        "status": {"phase": "Running", "conditions": [{"type": "Scheduled", "message": "secret"}]},
    }
    node = {
        "metadata": {"name": "n1", "labels": {"pool": "acme-pool"}},
        "status": {"images": [{"names": ["acme/image:1", "acme/image@sha256:77"], "sizeBytes": 5}]},
        "spec": {"taints": [{"key": "team", "value": "acme-team", "effect": "NoSchedule"}]},
    }
    budget = {
        "metadata": {"name": "acme-budget", "namespace": "acme"},
        "status": {
            "disruptedPods": {"secret-worker-7": "2026-01-01T00:00:00Z", "secret-worker-8": "2026-01-01T00:00:00Z"}
        },
    }
    refusal = SavedRefusal(
        pod="acme/secret-worker-7", node="n1", beneficiary="acme/secret", message="not alice", wait=2, until=3
    )
    return SavedCycle(
        now=1.0,
        objects={
            "Node": [node],
            "Queue": [{"metadata": {"name": "acme-queue"}, "spec": {"parent": "root"}}],
            "PodGroup": [group],
            "Pod": [pod],
            "PriorityClass": [{"metadata": {"name": "acme-urgent"}, "value": 5}],
            "PersistentVolumeClaim": [{"metadata": {"name": "acme-data", "namespace": "acme"}}],
            "PodDisruptionBudget": [budget],
        },
        refused={"acme/secret-worker-7": refusal},
        conf={"actions": "allocate", "tiers": []},
        conf_source="acme.conf",
        phases={"acme/secret": "Running"},
        decisions=[{"do": "bind", "pod": "acme/secret-worker-7", "uid": "acme/secret-worker-7", "job": "acme/secret"}],
        exchanges=[{"pod": "acme/secret"}],
        **more,
    )


def test_nothing_that_names_people_or_projects_is_left() -> None:
    text = msgspec.json.encode(redacted(cycle())).decode()
    for word in ("acme", "secret", "alice"):
        assert word not in text


def test_what_belonged_together_still_does() -> None:
    out = redacted(cycle())
    [pod], [group], [queue] = out.objects["Pod"], out.objects["PodGroup"], out.objects["Queue"]
    [node], [claim], [urgent] = (out.objects[k] for k in ("Node", "PersistentVolumeClaim", "PriorityClass"))
    meta, spec = pod["metadata"], pod["spec"]
    assert meta["annotations"]["scheduling.k8s.io/group-name"] == group["metadata"]["name"]
    assert meta["namespace"] == group["metadata"]["namespace"] == claim["metadata"]["namespace"]
    assert group["spec"]["queue"] == queue["metadata"]["name"]
    assert spec["nodeSelector"] == node["metadata"]["labels"]
    assert spec["tolerations"][0]["value"] == node["spec"]["taints"][0]["value"]
    assert spec["containers"][0]["image"] == node["status"]["images"][0]["names"][0] == "image-1:1"
    assert node["status"]["images"][0]["names"][1] == "image-1@sha256:77"
    assert spec["priorityClassName"] == group["spec"]["priorityClassName"] == urgent["metadata"]["name"]
    assert spec["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    [term] = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["namespaces"] == [meta["namespace"]]
    assert term["labelSelector"]["matchExpressions"][0]["values"] == [meta["labels"]["owner"]]
    key = f"{group['metadata']['namespace']}/{group['metadata']['name']}"
    assert out.phases == {key: "Running"}
    assert out.decisions[0]["job"] == key
    [(refused, no)] = out.refused.items()
    assert (refused, no.beneficiary) == (f"{meta['namespace']}/{meta['name']}", key)
    assert no.pod == refused
    assert meta["name"] in out.objects["PodDisruptionBudget"][0]["status"]["disruptedPods"]
    assert out.decisions[0]["uid"] == out.decisions[0]["pod"] == f"{meta['namespace']}/{meta['name']}"


def test_what_a_scheduler_understands_stays() -> None:
    [pod] = redacted(cycle()).objects["Pod"]
    assert pod["metadata"]["labels"]["kubernetes.io/os"] == "linux"
    assert pod["metadata"]["labels"]["rank"] == "7"
    assert pod["metadata"]["name"].endswith("-7")
    assert pod["spec"]["nodeName"] == "n1"


def test_memory_keeps_what_tells_nothing_and_follows_renamed_keys() -> None:
    memory = {"p": {"seen": {"acme/secret": 3}, "rounds": 2, "log": "acme/secret was first"}}
    out = redacted(cycle(memory=memory))
    [key] = out.phases
    assert out.memory == {"p": {"seen": {key: 3}, "rounds": 2}}
    assert out.left_out == ["p: an entry with names in it"]


def test_the_original_is_not_changed() -> None:
    original = cycle()
    redacted(original)
    assert original == cycle()
