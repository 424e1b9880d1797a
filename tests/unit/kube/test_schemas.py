"""The comparison of served schemas with the fields that are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.kube.kinds import RESOURCES
from pumice.kube.schemas import missing_fields

CRDS = Path(__file__).resolve().parents[3] / "deploy" / "crds"
KINDS = [kind for kind, resource in RESOURCES.items() if ".volcano.sh/" in f"{resource.prefix}/"]


def schema_of(kind: str) -> dict[str, Any]:
    text = (CRDS / f"{RESOURCES[kind].plural}.yaml").read_text(encoding="utf-8")
    found = yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    copied: dict[str, Any] = json.loads(json.dumps(found))  # anchors share parts
    return copied


def fields(schema: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any], str]]:
    """Every field as its path, the properties that hold it, and its name there."""
    found = []
    for name, below in schema.get("properties", {}).items():
        at = f"{path}.{name}" if path else name
        found += [(at, schema["properties"], name), *fields(below, at), *fields(below.get("items", {}), f"{at}[]")]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_our_crds_keep_every_field_that_is_read(kind: str) -> None:
    assert missing_fields(kind, schema_of(kind)) == []


READ = {
    "PodGroup": {"spec.subGroupPolicy", "spec.networkTopology.highestTierName", "status.conditions[].reason"},
    "Queue": {"spec.parent", "spec.guarantee.resource", "spec.dequeueStrategy"},
    "HyperNode": {"spec.tierName", "spec.members[].selector.labelMatch"},
    "Numatopology": set(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_field_that_is_gone_is_missed_by_its_name_and_only_if_it_is_read(kind: str) -> None:
    missed = set()
    for path, _, _ in fields(schema_of(kind)):
        schema = schema_of(kind)
        holder, name = next((props, last) for at, props, last in fields(schema) if at == path)
        del holder[name]
        told = missing_fields(kind, schema)
        assert told in ([], [path])
        missed |= set(told)
    assert READ[kind] <= missed
    assert not {"metadata", "spec.type", "spec.extendClusters", "status.nodeCount"} & missed
