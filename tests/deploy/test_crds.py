"""The CRDs as text: each field has a description, and no rule is stricter than Volcano's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CRDS = Path(__file__).resolve().parents[2] / "deploy" / "crds"
DEFINITIONS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(CRDS.glob("*.yaml"))
}
RULES = ("required", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern")
_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
MODE = ["hard", "soft"]
VOLCANO: dict[tuple[str, str, str], Any] = {
    ("commands", "target", "required"): ["apiVersion", "kind", "name", "uid"],
    ("hypernodes", "spec.members[]", "required"): ["type"],
    ("hypernodes", "spec.members[].type", "enum"): ["Node", "HyperNode"],
    ("jobs", "spec.minAvailable", "minimum"): 0,
    ("jobs", "spec.minSuccess", "minimum"): 1,
    ("jobs", "spec.maxRetry", "minimum"): 0,
    ("jobs", "spec.ttlSecondsAfterFinished", "minimum"): 0,
    ("jobs", "spec.networkTopology.mode", "enum"): MODE,
    ("jobs", "spec.volumes[]", "required"): ["mountPath"],
    ("jobs", "spec.tasks[].replicas", "minimum"): 0,
    ("jobs", "spec.tasks[].minAvailable", "minimum"): 0,
    ("jobs", "spec.tasks[].topologyPolicy", "enum"): ["none", "best-effort", "restricted", "single-numa-node"],
    ("podgroups", "spec.minMember", "minimum"): 0,
    ("podgroups", "spec.minResources{}", "pattern"): QUANTITY,
    ("podgroups", "spec.networkTopology.mode", "enum"): MODE,
    ("podgroups", "spec.subGroupPolicy[].networkTopology.mode", "enum"): MODE,
    ("queues", "spec.weight", "minimum"): 1,
    ("queues", "spec.weight", "maximum"): 65535,
    ("queues", "spec.dequeueStrategy", "enum"): ["fifo", "traverse"],
    **{
        ("queues", f"{path}{{}}", "pattern"): QUANTITY
        for path in ("spec.capability", "spec.deserved", "spec.guarantee.resource", "status.allocated")
    },
}
"""Rules of Volcano's CRDs (the markers of its API types): (resource, path, keyword) -> value."""


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = DEFINITIONS[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def fields(part: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema below one, with its path; ``[]`` are the items of a list, ``{}`` the values of a map."""
    yield path, part
    for key, below in part.get("properties", {}).items():
        yield from fields(below, f"{path}.{key}" if path else key)
    if "items" in part:
        yield from fields(part["items"], f"{path}[]")
    if isinstance(part.get("additionalProperties"), dict):
        yield from fields(part["additionalProperties"], f"{path}{{}}")


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_field_has_a_description(name: str) -> None:
    bare = [
        path
        for path, part in fields(schema(name))
        if "description" not in part and path != "metadata" and not path.endswith(("[]", "{}"))
    ]
    assert bare == []


@pytest.mark.parametrize("name", DEFINITIONS)
def test_no_rule_is_stricter_than_volcanos(name: str) -> None:
    for path, part in fields(schema(name)):
        for keyword in RULES:
            if keyword not in part:
                continue
            theirs, ours = VOLCANO.get((name, path, keyword)), part[keyword]
            where = f"{name}: {path}: {keyword} {ours}"
            assert theirs is not None, f"{where}: Volcano has no such rule"
            if keyword == "required":
                assert set(ours) <= set(theirs), where
            else:
                assert ours == theirs, where
        assert "x-kubernetes-validations" not in part, f"{name}: {path}"


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("podgroups", ["STATUS", "minMember", "RUNNINGS", "AGE", "QUEUE"]),
        ("queues", ["PARENT"]),
        ("jobs", ["STATUS", "minAvailable", "RUNNINGS", "AGE", "QUEUE"]),
        ("hypernodes", ["Tier", "TierName", "NodeCount", "Age"]),
    ],
)
def test_the_columns_of_volcano_are_printed(name: str, columns: list[str]) -> None:
    printed = [column["name"] for column in DEFINITIONS[name]["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert printed[: len(columns)] == columns
