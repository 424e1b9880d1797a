"""What a gang of equal tasks costs under plugins whose answers change with every placement, beside a plain conf.

    python benchmarks/gangs.py [CONF ...]

Prints CPU milliseconds a task of a gang of 100 on 1,000 nodes, the least, the median and the most of seven runs with
the confs in turn: of the first gang, for which every node is looked at, and of the next. Prints, never fails.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import AnyObject, decode
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState

NODES, TASKS, RUNS = 1_000, 100, 7
RACK = 20
ASKED = {"cpu": "2", "memory": "4Gi"}
CARD = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4000"}
CARDS = {"volcano.sh/vgpu-number": "40", "volcano.sh/vgpu-memory": "64000", "volcano.sh/vgpu-cores": "400"}
SHARING = {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": "binpack", "deviceshare.ScheduleWeight": 10}


class Way(NamedTuple):
    """A conf, what the cluster has for it, and what the gang asks."""

    plugin: dict[str, Any] | None = None
    beside: Callable[[], Iterator[AnyObject]] = lambda: iter(())
    offers: dict[str, str] = {}
    asks: dict[str, str] = {}
    notes: dict[str, str] = {}
    topology: dict[str, Any] | None = None


def name_of(n: int) -> str:
    return f"n{n:04}"


def numa_topologies() -> Iterator[AnyObject]:
    detail = {str(cpu): {"numa": cpu // 8, "socket": cpu // 8, "core": cpu} for cpu in range(16)}
    policies = {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"}
    offered = {"cpu": {"allocatable": "0-15", "capacity": 16}}
    for n in range(NODES):
        spec = {"policies": policies, "numares": offered, "resReserved": {"cpu": "0"}, "cpuDetail": detail}
        yield decode("Numatopology", {"metadata": {"name": name_of(n)}, "spec": spec})


def racks() -> Iterator[AnyObject]:
    for first in range(0, NODES, RACK):
        names = map(name_of, range(first, first + RACK))
        members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]
        yield decode("HyperNode", {"metadata": {"name": f"r{first}"}, "spec": {"tier": 1, "members": members}})


TOPOLOGY = {"name": "network-topology-aware"}
WAYS = {
    "plain": Way(),
    "deviceshare": Way({"name": "deviceshare", "arguments": SHARING}, offers=CARDS, asks=CARD),
    "numa-aware": Way(
        {"name": "numa-aware"}, numa_topologies, notes={"volcano.sh/numa-topology-policy": "single-numa-node"}
    ),
    "soft topology": Way(TOPOLOGY, racks, topology={"mode": "soft"}),
    "hard topology": Way(TOPOLOGY, racks, topology={"mode": "hard", "highestTierAllowed": 1}),
    "usage": Way({"name": "usage"}),
}


def nodes(way: Way) -> Iterator[AnyObject]:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", **way.offers}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    for n in range(NODES):
        cards = ":".join(f"GPU-{n}-{card},10,16000,NVIDIA-X,true,hami-core" for card in range(4))
        notes = {"volcano.sh/node-vgpu-register": cards} if way.offers else {}
        yield decode("Node", {"metadata": {"name": name_of(n), "annotations": notes}, "status": status})


def gang(name: str, way: Way) -> Iterator[AnyObject]:
    spec: dict[str, Any] = {"minMember": TASKS, "queue": "default"}
    if way.topology is not None:
        spec["networkTopology"] = way.topology
    meta = {"name": name, "namespace": "default", "uid": name}
    yield decode("PodGroup", {"metadata": meta, "spec": spec, "status": {"phase": "Inqueue"}})
    amounts = {**ASKED, **way.asks}
    body = {
        "schedulerName": "pumice",
        "containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}],
    }
    for n in range(TASKS):
        notes = {"scheduling.k8s.io/group-name": name, **way.notes}
        own = {"name": f"{name}-{n}", "namespace": "default", "uid": f"{name}-{n}", "annotations": notes}
        yield decode("Pod", {"metadata": own, "spec": body, "status": {"phase": "Pending"}})


def once(way: Way) -> tuple[float, float]:
    """CPU seconds of the cycles that place the first gang and the next."""
    registry = default_registry()
    lower = [{"name": "predicates"}, {"name": "nodeorder"}, *([way.plugin] if way.plugin else [])]
    tiers = [{"plugins": [{"name": "priority"}, {"name": "gang"}]}, {"plugins": lower}]
    assembly = assemble(from_data({"actions": "allocate", "tiers": tiers}, catalogue_of(registry)).conf, registry)
    state, runtime = ClusterState(), Runtime()
    state.now = 1_700_000_000.0
    state.apply(Seen(decode("Queue", {"metadata": {"name": "default"}, "spec": {"weight": 1}})))
    for obj in (*nodes(way), *way.beside()):
        state.apply(Seen(obj))
    run_cycle(state, assembly, runtime)
    took = []
    for name in ("first", "next"):
        for obj in gang(name, way):
            state.apply(Seen(obj))
        began = time.process_time()
        report = run_cycle(state, assembly, runtime)
        took.append(time.process_time() - began)
        assert len(report.binds) == TASKS, report.errors
    return took[0], took[1]


def main(names: Sequence[str]) -> None:
    """Measure and print."""
    chosen = names or list(WAYS)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
    for _ in range(RUNS):
        for name in chosen:
            found[name].append(once(WAYS[name]))
    print(f"{'CPU ms a task':16}{'first gang':>22}{'next gang':>22}")
    for name, runs in found.items():
        row = ""
        for which in (0, 1):
            each = [run[which] * 1e3 / TASKS for run in runs]
            row += f"{min(each):8.3f}{statistics.median(each):7.3f}{max(each):7.3f}"
        print(f"{name:16}{row}")


if __name__ == "__main__":
    main(sys.argv[1:])
