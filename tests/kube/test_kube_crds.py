"""The scheduler with CRDs as Volcano ships them: its PodGroups have no status subresource."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kube_bed import Bed, Refusal, until
from kube_world import GROUPS, World, all_bound

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.scheduling.volcano.sh"


def _subresources(bed: Bed, plural: str, value: dict[str, Any]) -> None:
    """Give a kind these subresources, and wait until the server has them."""
    path = CRD.format(plural)
    version = bed.call("GET", path)["spec"]["versions"][0]
    bed.call("PATCH", path, {"spec": {"versions": [{**version, "subresources": value}]}}, patch="merge")
    wanted = f"{plural}/status"
    until(lambda: (wanted in _served(bed)) is bool(value), 30, f"{wanted} is served: {bool(value)}")


def _served(bed: Bed) -> set[str]:
    try:
        return {r["name"] for r in bed.call("GET", GROUPS)["resources"]}
    except Refusal:
        return set()


@pytest.fixture(params=["podgroups", "queues"])
def without_status(bed: Bed, request: pytest.FixtureRequest) -> Iterator[str]:
    """A kind that has no status subresource for the time of a test."""
    _subresources(bed, request.param, {})
    try:
        yield request.param
    finally:
        _subresources(bed, request.param, {"status": {}})


@pytest.mark.smoke
def test_statuses_are_written_where_a_kind_has_no_status_subresource(world: World, without_status: str) -> None:
    # the shipped role may not write whole queues: Volcano's CRD of those has the subresource
    run = world.scheduler(account="admin" if without_status == "queues" else "scheduler")
    size = {"podgroups": 2, "queues": 3}[without_status]
    world.node("n1", cpu="4")
    world.gang("fits", size)
    world.gang("big", 2, cpu="3")
    all_bound(world, *(f"fits-{i}" for i in range(size)))
    world.kubelet()
    until(lambda: world.group("fits").get("status", {}).get("phase") == "Running", 20, "the gang runs")
    until(lambda: bool(world.group("big").get("status", {}).get("conditions")), 20, "the other says why it waits")
    assert world.group("fits")["spec"]["minMember"] == size
    until(lambda: _held(world) == str(size), 20, "the queue says what it holds")
    assert run.stop() == 0
    told = [line for line in run.log.splitlines() if "has no status subresource" in line]
    assert len(told) == 1
    assert f"{without_status} has" in told[0]


def _held(world: World) -> str | None:
    status = world.bed.call("GET", f"{GROUPS}/queues/default").get("status") or {}
    held: str | None = (status.get("allocated") or {}).get("cpu")
    return held
