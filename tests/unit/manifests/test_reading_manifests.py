"""One reader of manifests: what an API server fills in, Lists, JSON, places, and files that would be too much."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pumice import manifests
from pumice.cli.target import read_objects
from pumice.errors import InvalidInput
from pumice.model import api
from pumice.model.request import asked_by
from pumice.sim.job_manifests import read_manifests

SOURCE = Path(__file__).parents[3] / "src" / "pumice"
BOMB = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{b: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i}\n  <<: [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
TOO_MUCH = {
    "brackets": ("metadata: " + "[" * 50_000, "nested more than 100 levels deep"),
    "braces": ("metadata: " + "{a: " * 50_000, "nested more than 100 levels deep"),
    "dashes": ("- " * 50_000, "nested more than 100 levels deep"),
    "question marks": ("? " * 50_000, "nested more than 100 levels deep"),
    "indents": ("".join(f"{' ' * n}a:\n" for n in range(2_000)), "nested more than 100 levels deep"),
    "aliases": (BOMB, "its aliases make it grow without end"),
    "merges": (MERGES, "its aliases make it grow without end"),
    "itself": ("metadata: &m {labels: *m}", "its aliases make it grow without end"),
    "infinite": ("spec: {quota: .inf}", "a number must be finite, got '.inf'"),
    "no number": ("spec: {quota: .NaN}", "a number must be finite, got '.NaN'"),
    "great exponent": ("spec: {quota: 1e400}", "a number must be finite, got '1e400'"),
    "digits": ("spec: {replicas: " + "9" * 100_000 + "}", "a number must have at most 4000 digits"),
}


def file(tmp_path: Path, text: str, name: str = "a.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("what", TOO_MUCH)
def test_a_file_that_would_be_too_much_is_refused_with_its_line(tmp_path: Path, what: str) -> None:
    text, message = TOO_MUCH[what]
    path = file(tmp_path, f"kind: Node\n{text}\n" if text[0] not in "-?" else text)
    with pytest.raises(InvalidInput, match=message) as caught:
        manifests.read([path])
    assert re.match(rf"{path}:\d+:\d+: ", str(caught.value))


NO_NUMBERS = [f'{{"kind": "Node", "x": {text}}}' for text in ("9" * 10_000, "Infinity", "NaN", "-1e400")]


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, *NO_NUMBERS])
def test_json_that_would_be_too_much_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"a\.json: not JSON that can be read"):
        manifests.read([file(tmp_path, text, "a.json")])


def test_aliases_that_repeat_a_little_are_what_they_stand_for(tmp_path: Path) -> None:
    text = "kind: Pod\nmetadata: {name: a, labels: &l {app: x}}\nspec: {nodeSelector: *l}\n"
    [(pod, _)] = manifests.read([file(tmp_path, text)]).objects
    assert isinstance(pod, api.Pod)
    assert pod.spec.node_selector == {"app": "x"}


def test_only_one_module_loads_yaml() -> None:
    loads = re.compile(r"yaml\.(?:\w*_load|load|load_all|C?SafeLoader)\b|import CSafeLoader")
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if loads.search(path.read_text())}
    assert found == {"yamls.py"}


@pytest.mark.parametrize("kind", sorted(api.KINDS))
def test_a_kind_has_a_namespace_exactly_if_an_api_server_gives_it_one(tmp_path: Path, kind: str) -> None:
    namespaced = {
        *("Pod", "PodGroup", "ResourceQuota", "PodDisruptionBudget", "PersistentVolumeClaim"),
        *("CSIStorageCapacity", "ResourceClaim", "PodGroup.scheduling.k8s.io", "Workload.scheduling.k8s.io"),
    }
    for given in ("", "team"):
        text = f"kind: {kind}\nmetadata: {{name: a, namespace: '{given}'}}\n"
        [(obj, _)] = manifests.read([file(tmp_path, text)]).objects
        assert obj.metadata.namespace == ((given or "default") if kind in namespaced else "")


@pytest.mark.parametrize("kind", sorted(set(api.KINDS) - {"Pod", "PodGroup", "PodGroup.scheduling.k8s.io"}))
def test_commands_and_simulator_read_the_same_objects(tmp_path: Path, kind: str) -> None:
    path = file(tmp_path, f"kind: {kind}\nmetadata: {{name: a}}\n")
    assert read_objects([path])[0] == read_manifests(path).objects


def test_an_object_without_a_name_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"a\.yaml:2: Node: metadata.name must not be empty"):
        manifests.read([file(tmp_path, "\nkind: Node\n")])


def test_what_is_limited_and_not_requested_is_requested(tmp_path: Path) -> None:
    limits = "resources: {limits: {cpu: 2, nvidia.com/gpu: 1}, requests: {cpu: 1}}"
    pod = f"kind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{{{limits}}}], initContainers: [{{{limits}}}]}}\n"
    job = (
        "kind: Job\napiVersion: batch/v1\nmetadata: {name: j}\n"
        f"spec: {{template: {{spec: {{containers: [{{{limits}}}]}}}}}}\n"
    )
    path = file(tmp_path, f"{pod}---\n{job}")
    pods = [obj for obj in read_objects([path])[0] if isinstance(obj, api.Pod)]
    asked = [asked_by(p.spec).requests for p in pods]
    assert [(r.milli_cpu, r["nvidia.com/gpu"]) for r in asked] == [(1000, 1), (1000, 1)]


def test_a_node_gives_what_it_has_where_it_does_not_say_more(tmp_path: Path) -> None:
    [(node, _)] = manifests.read(
        [file(tmp_path, "kind: Node\nmetadata: {name: a}\nstatus: {capacity: {cpu: 4}}")]
    ).objects
    assert isinstance(node, api.NodeObject)
    assert node.status.allocatable == {"cpu": 4}


def test_a_quota_limits_what_it_says_where_no_controller_has_written_it(tmp_path: Path) -> None:
    quota = "kind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {cpu: 4}}\n"
    texts = {"alone": quota, "written": f"{quota}status: {{hard: {{cpu: 3}}, used: {{cpu: 1}}}}\n"}
    limits = {}
    for name, text in texts.items():
        [(found, _)] = manifests.read([file(tmp_path, text, f"{name}.yaml")]).objects
        assert isinstance(found, api.ResourceQuota)
        limits[name] = found.status.hard
    assert limits == {"alone": {"cpu": 4}, "written": {"cpu": 3}}


@pytest.mark.parametrize("text", ["metadata: {name: n}", "apiVersion: v1\nkind:\nmetadata: {name: n}"])
def test_an_object_that_forgot_its_kind_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"a\.yaml:4: an object must say its kind"):
        manifests.read([file(tmp_path, f"kind: Node\nmetadata: {{name: m}}\n---\n{text}")])


def test_lists_of_lists_and_json_are_taken_apart(tmp_path: Path) -> None:
    node = {"metadata": {"name": "a"}}
    data: dict[str, Any] = {"kind": "List", "items": [{"kind": "Node", **node}]}
    typed = {"kind": "NodeList", "items": [node]}
    file(tmp_path, json.dumps(data), "1.json")
    file(tmp_path, json.dumps(typed), "2.json")
    file(
        tmp_path,
        f"kind: List\nitems:\n- {json.dumps(data['items'][0])}\n- kind: Node\n  metadata: {{name: b}}\n",
        "3.yaml",
    )
    found = manifests.read([tmp_path]).objects
    assert [(p.object.kind_name, p.object.metadata.name, Path(p.place).name) for p in found] == [
        *[("Node", "a", "1.json"), ("Node", "a", "2.json")],
        *[("Node", "a", "3.yaml:3"), ("Node", "b", "3.yaml:4")],
    ]


@pytest.mark.parametrize("text", ["- 1", "text", "kind: List\nitems: [1]", "kind: NodeList\nitems: [[]]"])
def test_what_is_no_object_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"a\.yaml:\d: must be a Kubernetes object"):
        manifests.read([file(tmp_path, text)])


@pytest.mark.parametrize(
    ("written", "read"),
    [("10:00", "10:00"), ("2024-01-01", "2024-01-01"), ("'yes'", "yes"), ("'1'", "1"), ("1e3x", "1e3x")],
)
def test_texts_that_look_like_times_are_texts(tmp_path: Path, written: str, read: str) -> None:
    text = f"kind: Node\nmetadata: {{name: a, labels: {{x: {written}}}}}\n"
    [(node, _)] = manifests.read([file(tmp_path, text)]).objects
    assert node.metadata.labels == {"x": read}


def test_label_keys_of_affinity_terms_select_by_the_pods_own_values() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    terms = [term | {"matchLabelKeys": ["rev", "none"]}, term | {"mismatchLabelKeys": ["team"]}, term]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": terms[1]}]}
    meta = {"name": "p", "labels": {"rev": "1", "team": "a"}}
    affinity = {"podAffinity": required, "podAntiAffinity": preferred}
    pod = api.decode("Pod", {"metadata": meta, "spec": {"affinity": affinity}})
    once = manifests.completed(pod)
    assert manifests.completed(once) == once
    given = once.spec.affinity  # type: ignore[attr-defined]
    selectors = [one.label_selector for one in given.pod_affinity.required]
    selectors += [one.pod_affinity_term.label_selector for one in given.pod_anti_affinity.preferred]
    rules = [[(r.key, r.operator, r.values) for r in s.match_expressions or ()] for s in selectors]
    differs = [("team", "NotIn", ("a",))]
    assert rules == [[("rev", "In", ("1",))], differs, [], differs]


def test_ports_on_the_hosts_network_are_host_ports() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]
    for on_host, expected in ((True, [80, 81]), (False, [0, 81])):
        first, boxes = [{"name": "i"}], [{"name": "c", "ports": ports}]
        spec = {"hostNetwork": on_host, "containers": boxes, "initContainers": first}
        done = manifests.completed(api.decode("Pod", {"metadata": {"name": "p"}, "spec": spec}))
        assert [port.host_port for port in done.spec.containers[0].ports] == expected  # type: ignore[attr-defined]
