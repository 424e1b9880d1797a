"""The ledger of GPU devices, through whole cycles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model import api
from pumice.model.events import Gone, Seen
from pumice.model.gpu import DEVICE, GpuRequest
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.state.devices import DeviceTable
from pumice.state.invariants import violations


def node(name: str, gpus: int, **labels: str) -> Seen:
    listed = {"cpu": "32", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    data = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": listed, "capacity": listed}}
    return Seen(api.decode("Node", data))


def pod(name: str, *, node: str = "", whole: int = 0, **annotations: str) -> list[Seen]:
    requests: dict[str, str] = {"cpu": "1"}
    if whole:
        requests["nvidia.com/gpu"] = str(whole)
    notes = {key.replace("_", "-"): value for key, value in annotations.items()}
    data: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"u-{name}",
            "annotations": {"scheduling.k8s.io/group-name": name, **notes},
        },
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": "Running" if node else "Pending"},
    }
    group = {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minMember": 1, "queue": "q"},
        "status": {"phase": "Running" if node else "Inqueue"},
    }
    return [Seen(api.decode("PodGroup", group)), Seen(api.decode("Pod", data))]


def cluster(*events: Seen | list[Seen]) -> ClusterState:
    state = ClusterState()
    state.apply(Seen(api.decode("Queue", {"metadata": {"name": "q"}, "spec": {"weight": 1}})))
    for event in events:
        state.apply_all(event if isinstance(event, list) else [event])
    return state


def cycle(state: ClusterState, *plugins: str) -> CycleReport:
    registry = default_registry()
    conf = {"actions": "allocate", "tiers": [{"plugins": [{"name": p} for p in ("gang", *plugins)]}]}
    report = run_cycle(state, assemble(from_data(conf, catalogue_of(registry)).conf, registry), Runtime())
    assert violations(state) == []
    return report


def test_a_whole_device_is_not_given_where_a_share_is_held() -> None:
    state = cluster(node("n", 1), pod("a", node="n", gpu_fraction="0.5"), pod("b", whole=1))
    report = cycle(state)
    assert report.binds == {}
    assert report.refusals["ns/b"].text == "0/1 nodes are unavailable: 1 Insufficient free GPU devices."


def test_shares_of_one_device_add_up_to_a_whole_and_no_more() -> None:
    state = cluster(node("n", 1), *(pod(f"p{i}", gpu_fraction="0.4") for i in range(3)))
    assert len(cycle(state).binds) == 2


@pytest.mark.parametrize(("plugin", "device"), [("gpupack", 0), ("gpuspread", 1)])
def test_the_order_of_devices_is_the_plugins(plugin: str, device: int) -> None:
    state = cluster(node("n", 2), pod("a", node="n", gpu_fraction="0.5"), pod("b", gpu_fraction="0.25"))
    cycle(state, plugin)
    assert state.task_by_key["ns/b"].devices == (device,)


def test_memory_is_a_share_of_the_nodes_device() -> None:
    state = cluster(
        node("n", 1, **{"nvidia.com/gpu.memory": "8000"}), pod("a", gpu_memory="6000"), pod("b", gpu_memory="3000")
    )
    assert len(cycle(state).binds) == 1
    assert state.devices.held_on(0) == [750]


def test_memory_on_a_node_that_does_not_tell_its_memory_fits_nowhere() -> None:
    assert cycle(cluster(node("n", 1), pod("a", gpu_memory="100"))).binds == {}


def test_shares_on_several_devices_take_different_ones() -> None:
    state = cluster(node("n", 2), pod("a", gpu_fraction="0.5", gpu_fraction_num_devices="2"))
    cycle(state)
    assert sorted(state.task_by_key["ns/a"].devices) == [0, 1]


def test_a_device_is_free_again_when_its_task_goes() -> None:
    state = cluster(node("n", 1), pod("a", node="n", gpu_fraction="0.5"), pod("b", whole=1))
    state.apply(Gone("Pod", "ns/a"))
    assert cycle(state).binds == {"ns/b": "n"}


def test_a_bad_share_keeps_only_its_own_pod_from_being_placed() -> None:
    state = cluster(node("n", 1), pod("a", gpu_fraction="7"), pod("b", gpu_fraction="0.5"))
    assert cycle(state).binds == {"ns/b": "n"}
    assert "gpu-fraction" in state.problems["Pod", "ns/a"]


@given(
    held=st.lists(st.integers(0, 1000), min_size=1, max_size=8),
    milli=st.integers(1, 1000),
    devices=st.integers(1, 3),
    extra=st.integers(0, 6),
)
def test_imagined_rounds_agree_with_placing_one_by_one(held: list[int], milli: int, devices: int, extra: int) -> None:
    """Asking "after k more" is the same as placing k and asking, devices with most slots left first."""
    table = DeviceTable()
    table.count[0] = len(held)
    table.held[0, : len(held)] = np.array(held) * (DEVICE // 1000)
    request = GpuRequest(devices, milli)
    slots = [(1000 - h) // milli for h in held]
    possible = True
    for _ in range(extra + 1):
        best = sorted(range(len(slots)), key=lambda d: -slots[d])[:devices]
        possible = possible and len(best) == devices and all(slots[d] > 0 for d in best)
        for d in best:
            slots[d] -= 1
    assert bool(table.fits(np.array([0]), request, np.array([extra]))[0]) == possible


@given(
    rows=st.lists(st.lists(st.tuples(*[st.integers(0, 1000)] * 3), max_size=4), min_size=1, max_size=3),
    request=st.builds(GpuRequest, st.integers(1, 3), st.integers(1, 1000), st.sampled_from([0, 500]), st.just(0.0)),
    future=st.booleans(),
)
def test_one_row_is_told_as_one_of_many(
    rows: list[list[tuple[int, int, int]]], request: GpuRequest, future: bool
) -> None:
    table = DeviceTable()
    for row, devices in enumerate(rows):
        table.count[row], table.memory[row] = len(devices), 900 * row
        for device, (held, releasing, promised) in enumerate(devices):
            amounts = np.array([held, min(held, releasing), promised]) * (DEVICE // 1000)
            table.held[row, device], table.releasing[row, device], table.promised[row, device] = amounts
    index = np.array([*range(len(rows)), 0])
    told = table.fits(index, request, future=future)
    assert [table.fits(index[n : n + 1], request, future=future).tolist() for n in range(len(index))] == told[
        :, None
    ].tolist()
