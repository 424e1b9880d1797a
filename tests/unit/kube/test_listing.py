"""A list is read whole: an object of which a field is wrong is left out, the others are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pumice.kube.kinds import RESOURCES
from pumice.kube.reflector import read_list

PODS = RESOURCES["Pod"]


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec}


def test_an_object_of_which_a_field_is_wrong_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    items = [pod("a"), pod("wrong", nodeName=7), pod("b")]
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "42"}, "items": items}
    found = read_list(PODS, json.dumps(body).encode())
    assert [obj.metadata.name for obj in found.objects] == ["a", "b"]
    assert found.version == "42"
    assert "Pod team/wrong is left out" in caplog.text
